// hold brings the colours of triangles near those that they had in the frame before, as far as they may be from the
// frame's own.
//
// A group of lanes takes a triangle after the other, as in shade.cu; then blocks take those of more than 32 rows or
// SHADE_TASK_PIXELS, a warp the rows of a task. What it counts changes in one place, which is at first also where a
// thread that finds something wrong with the input says so: counts are below it.
//
// Bytes moved: those of the picture before, and of what changes in the one that is made. Complexity: as shade.cu.
//
// Source: driver.Hold.

#include "abi/hold.cuh"
#include "shade.cuh"

#define BAD 0x80000000u // more pixels than there can be

extern "C" __global__ void __launch_bounds__(SHADE_THREADS) hold_check(Shading v, u32 *changed, u32 limit, u32 jump) {
    after_prior();
    const u32 step = gridDim.x * SHADE_THREADS, from = blockIdx.x * SHADE_THREADS + threadIdx.x;
    const u32 count = *v.count;
    if (count > v.max) {
        if (from == 0) *changed = BAD, report(v.fault, FAULT_HOLD_COUNT, count);
        return;
    }
    for (u32 i = from; i < v.n; i += step) {
        const int2 p = v.points[i];
        if (p.x < 0 || p.x > v.width || p.y < 0 || p.y > v.height) *changed = BAD, report(v.fault, FAULT_HOLD_POINT, i);
    }
    for (u32 i = from; i < count; i += step) {
        const u32 *at = v.triangles + 3 * (u64)i;
        if (at[0] >= v.n || at[1] >= v.n || at[2] >= v.n) *changed = BAD, report(v.fault, FAULT_HOLD_TRIANGLE, i);
    }
}

// Makes the colour of triangle i from what the picture before has there. It returns whether that is another one than Shade's,
// repeated in color, and whether its pixels count as changed. Lanes of a group without a triangle have no pixels.
template <int WIDTH>
__device__ __forceinline__ bool hold_color(const Shading &v, const ShadeTotals &all, u32 i, int limit, int jump,
                                           u64 &color, bool &jumped) {
    const u32 lane = lane_id() & (WIDTH - 1), group = lane_id() & ~(WIDTH - 1);
    const bool wide = v.kind == 16;
    int m = 0, now = 0;
    bool far = false;
    if (all.pixels && lane < channels(v)) {
        unsigned char *p = v.colors + (u64)i * v.pixel_bytes + lane;
        m = wide ? p[0] | p[1] << 8 : p[0];
        u64 sum = lane == 0 ? all.sums[0] : lane == 1 ? all.sums[1] : lane == 2 ? all.sums[2] : all.sums[3];
        sum += all.pixels / 2;
        const int b = sum >> 32 ? (int)(sum / all.pixels) : (int)((u32)sum / (u32)all.pixels);
        far = b > m + jump || b < m - jump;
        now = far ? m : min(max(b, m - limit), m + limit);
        if (now != m) {
            p[0] = (unsigned char)now;
            if (wide) p[1] = (unsigned char)(now >> 8);
        }
    }
    u32 word = 0;
#pragma unroll
    for (u32 c = 0; c < 4; c++) word |= (u32)__shfl_sync(~0u, now, c, WIDTH) << 8 * c;
    color = repeat(word, v.pixel_bytes);
    const u32 lanes = WIDTH == 32 ? ~0u : ((1u << WIDTH) - 1) << group;
    jumped = (__ballot_sync(~0u, far) & lanes) != 0;
    return (__ballot_sync(~0u, now != m) & lanes) != 0;
}

__device__ __forceinline__ bool is_large(const Corners &t) { return t.c.y - t.a.y > task_rows(t); }

template <int KIND> __device__ __forceinline__ u32 hold_small(const Shading &v, u32 count, int limit, int jump) {
    const u32 warp = (blockIdx.x * SHADE_THREADS + threadIdx.x) >> 5, warps = gridDim.x * WARPS;
    u32 changed = 0;
    for (u32 base = warp * 4; base < count; base += warps * 4) {
        const u32 i = base + lane_id() / 8;
        Corners t = {{0, 0}, {0, 0}, {0, 0}};
        if (i < count) {
            const Corners own = corners(v, i);
            if (!is_large(own)) t = own;
        }
        ShadeTotals all = {0, {0, 0, 0, 0}};
        sum_rows<8, KIND>(v, t, t.a.y, t.c.y, 0, v.width, all);
        u64 color;
        bool jumped;
        const bool other = hold_color<8>(v, all, i, limit, jump, color, jumped);
        if (jumped && (lane_id() & 7) == 0) changed += (u32)all.pixels;
        paint_rows<8>(v, t, t.a.y, other ? t.c.y : t.a.y, 0, v.width, color);
    }
    return changed;
}

// What a block shares of the large triangles among those that it looks for.
struct Large {
    u32 list[SHADE_THREADS], n;
    ShadeTotals sums;
    u64 color;
    bool other;
};

template <int KIND> __device__ __forceinline__ u32 hold_large(const Shading &v, u32 count, int limit, int jump, Large &s) {
    const u32 lane = lane_id(), warp = threadIdx.x >> 5;
    u32 changed = 0;
    // Neighbours, which are as large, go to different blocks.
    for (u64 base = blockIdx.x; base < count; base += (u64)gridDim.x * SHADE_THREADS) {
        const u64 own = base + (u64)threadIdx.x * gridDim.x;
        if (threadIdx.x == 0) s.n = 0;
        __syncthreads();
        if (own < count && is_large(corners(v, (u32)own))) s.list[atomicAdd(&s.n, 1)] = (u32)own;
        __syncthreads();
        for (u32 k = 0; k < s.n; k++) {
            const u32 i = s.list[k];
            const Corners t = corners(v, i);
            const int rows = task_rows(t);
            if (threadIdx.x < 5) (&s.sums.pixels)[threadIdx.x] = 0;
            __syncthreads();
            ShadeTotals all = {0, {0, 0, 0, 0}};
            for (int y = t.a.y + (int)warp * rows; y < t.c.y; y += WARPS * rows)
                sum_rows<32, KIND>(v, t, y, min(y + rows, t.c.y), 0, v.width, all);
            const u64 part = lane == 0 ? all.pixels : lane == 1 ? all.sums[0] : lane == 2 ? all.sums[1] : lane == 3 ? all.sums[2] : all.sums[3];
            if (lane < 5 && part) atomicAdd(&s.sums.pixels + lane, part);
            __syncthreads();
            if (warp == 0) {
                u64 color;
                bool jumped;
                all = s.sums;
                const bool other = hold_color<32>(v, all, i, limit, jump, color, jumped);
                if (jumped && lane == 0) changed += (u32)all.pixels;
                if (lane == 0) s.color = color, s.other = other;
            }
            __syncthreads();
            if (s.other)
                for (int y = t.a.y + (int)warp * rows; y < t.c.y; y += WARPS * rows)
                    paint_rows<32>(v, t, y, min(y + rows, t.c.y), 0, v.width, s.color);
        }
        __syncthreads();
    }
    return changed;
}

template <int KIND> __device__ __forceinline__ void hold(const Shading &v, u32 *to, int limit, int jump, Large &s) {
    const u32 count = *v.count;
    u32 changed = hold_small<KIND>(v, count, limit, jump);
    changed += hold_large<KIND>(v, count, limit, jump, s);
    changed = warp_sum(changed);
    if (lane_id() == 0 && changed) atomicAdd(to, changed);
}

extern "C" __global__ void __launch_bounds__(SHADE_THREADS, 3)
    hold_triangles(Shading v, u32 *changed, u32 limit, u32 jump) {
    __shared__ Large s;
    after_prior();
    if (*(volatile u32 *)changed >= BAD) return;
    switch (v.kind) {
    case 1: return hold<1>(v, changed, limit, jump, s);
    case 2: return hold<2>(v, changed, limit, jump, s);
    case 3: return hold<3>(v, changed, limit, jump, s);
    case 4: return hold<4>(v, changed, limit, jump, s);
    default: return hold<16>(v, changed, limit, jump, s);
    }
}
