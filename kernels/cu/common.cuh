// Device functions that the mask kernels share, and what all kernels do.
#pragma once

#include "abi/mask.cuh"

// An item is a run of at most ITEM_PIXELS pixels of one row: x in bits 0..19, y in 20..39, length in 40..51.
__device__ __forceinline__ Item make_item(int x, int y, int n) {
    return (u64)(u32)x | ((u64)(u32)y << 20) | ((u64)(u32)n << 40);
}
__device__ __forceinline__ int item_x(Item i) { return (int)(i & 0xfffff); }
__device__ __forceinline__ int item_y(Item i) { return (int)(i >> 20 & 0xfffff); }
__device__ __forceinline__ int item_n(Item i) { return (int)(i >> 40); }

__device__ __forceinline__ bool inside(int winding, u32 fill) {
    return fill ? (winding & 1) != 0 : winding != 0;
}

// Does the edge count for the row whose centre is yc? Horizontal edges never do.
__device__ __forceinline__ bool crosses(const Edge &e, int yc) { return (e.y0 <= yc) != (e.y1 <= yc); }

__device__ __forceinline__ int sign_of(const Edge &e) { return e.y1 > e.y0 ? 1 : -1; }

// The edge from its upper end to its lower one.
__device__ __forceinline__ Edge downward(const Edge &e) {
    if (e.y0 < e.y1) return e;
    Edge d;
    d.x0 = e.x1, d.y0 = e.y1, d.x1 = e.x0, d.y1 = e.y0;
    return d;
}

// First column that is not left of the edge's crossing with row centre yc: ceil((X - 128) / 256), clamped to
// [0, width]. The double estimate is off by one at most, because |X| < 2^31 leaves 21 bits of fraction; the exact
// remainder in int64 decides (each product stays below 2^63, as DESIGN's bound on coordinates provides).
__device__ __forceinline__ int crossing(const Edge &e, int yc, int width) {
    const Edge a = downward(e);
    i64 d = (i64)a.y1 - a.y0;
    i64 num = ((i64)a.x0 - 128) * d + ((i64)yc - a.y0) * ((i64)a.x1 - a.x0);
    i64 den = d << 8;
    i64 k = (i64)ceil((double)num / (double)den);
    i64 rest = num - k * den; // wanted: -den < rest <= 0
    if (rest > 0) k++;
    if (rest <= -den) k--;
    return (int)(k < 0 ? 0 : k > width ? width : k);
}

// A kernel may begin while the one before it in the stream ends (the host launches it so where the machine can do that,
// from compute capability 9.0 on). after_prior waits until that has ended and all it wrote can be read; each kernel
// has to call it before it reads or writes what any other does. before_next lets the next kernel begin: it then waits
// for the end of this one, but need not for what came before.
__device__ __forceinline__ void after_prior() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void before_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }
