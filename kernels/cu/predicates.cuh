// Exact predicates of points in the plane, for all kernels that make triangles.
#pragma once

#include "common.cuh"

// Points are relative to one that is (0, 0); coordinates are below 2^30, and of differences of points
// at most 2^29, so that crosses and squares are below 2^60 and their products below 2^120.

__device__ __forceinline__ i64 cross(int2 a, int2 b) { return (i64)a.x * b.y - (i64)a.y * b.x; }
__device__ __forceinline__ i64 dot(int2 a, int2 b) { return (i64)a.x * b.x + (i64)a.y * b.y; }
__device__ __forceinline__ int2 minus(int2 a, int2 b) { return make_int2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ bool before(int2 a, int2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }

// The sign of the sum of three products.
__device__ __forceinline__ int sign_of_sum(i64 a1, i64 b1, i64 a2, i64 b2, i64 a3, i64 b3) {
    u64 lo = (u64)a1 * (u64)b1, more = (u64)a2 * (u64)b2;
    i64 hi = __mul64hi(a1, b1) + __mul64hi(a2, b2);
    lo += more, hi += lo < more;
    more = (u64)a3 * (u64)b3;
    hi += __mul64hi(a3, b3);
    lo += more, hi += lo < more;
    return hi < 0 ? -1 : (hi | lo) != 0;
}

// Is r inside the circle through (0, 0), a and b, where a x b > 0? On the circle it is as if the first of the four in
// lexicographic order lay inside a little: that one's height on the paraboloid sinks, and the sign is that of its cofactor.
__device__ __noinline__ bool inside(int2 a, int2 b, int2 r) {
    const i64 al = dot(a, a), bl = dot(b, b), rl = dot(r, r);
    const i64 br = cross(b, r), ra = cross(r, a), ab = cross(a, b);
    int s;
    if ((al | bl | rl) < 1 << 30) { // so are the crosses, and the sum is below 2^62
        const i64 d = al * br + bl * ra + rl * ab;
        s = d < 0 ? -1 : d > 0;
    } else {
        s = sign_of_sum(al, br, bl, ra, rl, ab);
    }
    if (s) return s < 0;
    int2 first = make_int2(0, 0);
    bool in = br + ra + ab < 0;
    if (before(a, first)) first = a, in = br > 0;
    if (before(b, first)) first = b, in = ra > 0;
    if (before(r, first)) in = true;
    return in;
}
