// diffusion_box solves diffusion without barriers by black box multigrid: coarse operators of nine points by Galerkin's rule, and
// interpolation made of the operators themselves (Dendy, Black box multigrid, Journal of Computational Physics 48, 1982). It is
// the twin of kernels/cpu/diffusion_box.go: the same steps in the same order, with other rounding.
//
// A cycle is: the residual of the image, restricted; a V-cycle on the levels from there; its result, interpolated, added to the image;
// five half sweeps over the image, in the colours of a chequerboard. The first of them is of colour 1 and forgets what those pixels were,
// so that only those of colour 0 need the correction. What all this changes is made longer by a step of Chebyshev's (box_step).
//
//   diffusion_box_check    counts fixed pixels, and checks the flags
//   diffusion_box_coarsen  makes the interpolation from a level and the operator of that level: of flags, or of an operator
//   diffusion_box_invert   inverts the coarsest operator, of up to 8x8 points
//   diffusion_box_begin    checks set-up and state, and sums the fixed pixels
//   diffusion_box_start    fills in the image, and computes the first restricted residual
//   diffusion_box_down     smooths a level from 0, and restricts its residual
//   diffusion_box_bottom   does levels of up to 32x32 points, and all below them, in a block a channel
//   diffusion_box_up       adds the correction of the level below, and smooths
//   diffusion_box_fine     the same for the image, and at once the restricted residual for the next cycle
//   diffusion_box_end      writes the status, and puts the image where it belongs
//
// All work on tiles with a margin as wide as the steps that a kernel does at once reach: the margin is computed by several blocks,
// and what has been read once is written once. The image goes back and forth between two places, as neighbours need what was there
// before. A cycle moves the image three times, and of each level 7 numbers a point and channel and 24 of the operator: 1024x1024 in colour
// stays in the L2 cache of large machines. Tiles that have nothing to solve for end as soon as they know: of the image they stay as they
// began, of a level they are 0. Complexity: grows with the pixels.
//
// Kernels that are enqueued ahead do nothing once State says that the solve has ended. Those of a cycle let the next begin at once
// (before_next), when the one before them has ended. So what is older than that one may be read before after_prior: the set-up, and
// of a cycle what was there before the last kernel. That is most of what the small levels wait for.

#include "abi/diffusion_box.cuh"
#include "collective.cuh"
#include "diffusion.cuh"

#define DEAD_POINT 1e-6f // the largest sum of couplings that is none: what rounding leaves of couplings of about 1
#define LEAST_RATIO 0.15f // assumed at least: the reduction varies from cycle to cycle

__device__ __forceinline__ bool within(const BoxLevel &l, int x, int y) { return (u32)x < (u32)l.width && (u32)y < (u32)l.height; }

__device__ __forceinline__ float4 couplings(const BoxLevel &l, int x, int y) {
    return within(l, x, y) ? l.couplings[(size_t)y * l.stride + x] : make_float4(0, 0, 0, 0);
}

// Of a float4 of couplings.
#define E(c) (c).x
#define S(c) (c).y
#define SE(c) (c).z
#define SW(c) (c).w

// ---- set-up

// Marks a set-up of flags that mean nothing: the pad of the header is one more than where.
#define FLAWED 0x5e7d1ffb

// Counts, 16 flags at a time. The header has been cleared.
extern "C" __global__ void __launch_bounds__(BOX_CHECK_THREADS)
    diffusion_box_check(const u8 *flags, u64 n, DiffusionHeader *head, u32 *counts, u64 *fault) {
    __shared__ u32 sums[BOX_CHECK_THREADS / 32];
    after_prior();
    u32 fixed = 0;
    const u64 step = (u64)gridDim.x * BOX_CHECK_THREADS * 16;
    for (u64 at = ((u64)blockIdx.x * BOX_CHECK_THREADS + threadIdx.x) * 16; at < n; at += step) {
        u32 v[4] = {0, 0, 0, 0};
        if (at + 16 <= n) {
            const uint4 q = *(const uint4 *)(flags + at);
            v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
        } else
            for (u64 i = at; i < n; i++) v[(i - at) >> 2] |= (u32)flags[i] << 8 * ((i - at) & 3);
        for (int i = 0; i < 4; i++) {
            fixed += __popc(v[i] & 0x01010101);
            if (v[i] & 0xfefefefe) {
                u64 first = at + 4 * i;
                for (u32 m = v[i] & 0xfefefefe; !(m & 0xff); m >>= 8) first++;
                report(fault, FAULT_DIFFUSION_SETUP_FLAGS, first);
                atomicMax(&head->pad, (u32)first + 1);
            }
        }
    }
    fixed = warp_sum(fixed);
    if (lane_id() == 0) sums[threadIdx.x >> 5] = fixed;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < BOX_CHECK_THREADS / 32; i++) fixed += sums[i];
    if (fixed) atomicAdd(&head->fixed, fixed);
    __threadfence();
    if (atomicAdd(&head->magic, 1) != gridDim.x - 1) return;
    head->magic = 0;
    const u32 all = atomicAdd(&head->fixed, 0);
    head->void_pixels = all ? 0 : (u32)n;
    counts[0] = all;
    counts[1] = head->void_pixels;
}

#define COARSEN_POINTS (BOX_COARSEN_WIDTH * BOX_COARSEN_HEIGHT)
#define COARSEN_FLAGS_THREADS COARSEN_POINTS // more blocks wait at the same time
static_assert(BOX_COARSEN_THREADS >= (BOX_COARSEN_WIDTH + 3) * (BOX_COARSEN_HEIGHT + 3) &&
                  BOX_COARSEN_THREADS % 32 == 0,
              "cells of a block");
// Points of the level above that a block looks at: cells from -2 to the width, and what is around them.
#define AROUND_W (2 * (BOX_COARSEN_WIDTH + 3) + 2)
#define AROUND_H (2 * (BOX_COARSEN_HEIGHT + 3) + 2)

// The operator of an image, whose pixels are coupled by 1 where both are free. Flags of what is around a block's points are in shared
// memory, with 2 outside of the image; (x0, y0) is the first.
struct FlagsOperator {
    const u8 *around;
    int x0, y0;
    __device__ u32 at(int x, int y) const { return around[(y - y0) * AROUND_W + x - x0]; }
    __device__ void inverse(int, int, float) const {}
    __device__ float4 couplings(int x, int y) const {
        const u32 f = at(x, y);
        return make_float4((f | at(x + 1, y)) == 0, (f | at(x, y + 1)) == 0, 0, 0);
    }
    __device__ float sink(int x, int y) const {
        return at(x, y) == 0 ? (float)((at(x + 1, y) & 1) + (at(x - 1, y) & 1) + (at(x, y + 1) & 1) + (at(x, y - 1) & 1)) : 0;
    }
};

// That of a level.
struct LevelOperator {
    BoxLevel l;
    __device__ float4 couplings(int x, int y) const { return ::couplings(l, x, y); }
    __device__ float sink(int x, int y) const { return within(l, x, y) ? l.sinks[(size_t)y * l.stride + x].x : 0; }
};

// The same with the couplings in shared memory: a plane for each, in rows of the points at even places and then those at odd ones, as threads
// look at every other. (x0, y0) is the first.
struct NearOperator {
    BoxLevel l;
    const float *around;
    int x0, y0;
    __device__ static int place(int x, int y) { return y * AROUND_W + (x & 1) * (AROUND_W / 2) + (x >> 1); }
    // Notes the sum of what a point has, which takes the couplings of others.
    __device__ void inverse(int x, int y, float all) const {
        if (within(l, x, y)) l.sinks[(size_t)y * l.stride + x].y = all > DEAD_POINT ? 1 / all : 0;
    }
    __device__ float4 couplings(int x, int y) const {
        const float *at = around + place(x - x0, y - y0);
        return make_float4(at[0], at[AROUND_H * AROUND_W], at[2 * AROUND_H * AROUND_W], at[3 * AROUND_H * AROUND_W]);
    }
    __device__ float sink(int x, int y) const { return within(l, x, y) ? l.sinks[(size_t)y * l.stride + x].x : 0; }
};

// The couplings of a point, and its sink.
struct Star {
    float e, w, s, n, se, sw, ne, nw, sink;
    __device__ float all() const { return e + w + s + n + se + sw + ne + nw + sink; }
};

template <class Operator> __device__ __forceinline__ Star star_at(const Operator &a, int x, int y) {
    const float4 o = a.couplings(x, y), l = a.couplings(x - 1, y), u = a.couplings(x, y - 1);
    Star r;
    r.e = E(o), r.s = S(o), r.se = SE(o), r.sw = SW(o);
    r.w = E(l), r.n = S(u);
    r.nw = SE(a.couplings(x - 1, y - 1)), r.ne = SW(a.couplings(x + 1, y - 1));
    r.sink = a.sink(x, y);
    return r;
}

// In shared memory for a cell of 2x2 points of the level above: the weights, and what the cell contributes to others than the point
// that it is of.
struct CoarsenShared {
    float4 sides[BOX_COARSEN_HEIGHT + 3][BOX_COARSEN_WIDTH + 3], centres[BOX_COARSEN_HEIGHT + 3][BOX_COARSEN_WIDTH + 3];
    float right_s[BOX_COARSEN_HEIGHT + 1][BOX_COARSEN_WIDTH + 1],
        right_sw[BOX_COARSEN_HEIGHT + 1][BOX_COARSEN_WIDTH + 1],
        right_sink[BOX_COARSEN_HEIGHT + 1][BOX_COARSEN_WIDTH + 1];
    float below_e[BOX_COARSEN_HEIGHT + 1][BOX_COARSEN_WIDTH + 1],
        below_sink[BOX_COARSEN_HEIGHT + 1][BOX_COARSEN_WIDTH + 1],
        diagonal_sink[BOX_COARSEN_HEIGHT + 1][BOX_COARSEN_WIDTH + 1];
};

__device__ __forceinline__ float sum(const float4 &v) { return (v.x + v.y) + (v.z + v.w); }

// Of the block's place among those that cover a level.
__device__ __forceinline__ void coarsen_place(const BoxLevel &to, int &x, int &y) {
    const u32 blocks_x = (to.width + BOX_COARSEN_WIDTH - 1) / BOX_COARSEN_WIDTH;
    x = (int)(blockIdx.x % blocks_x) * BOX_COARSEN_WIDTH, y = (int)(blockIdx.x / blocks_x) * BOX_COARSEN_HEIGHT;
}

// Writes a block's points, all alike; beyond the width, but not the stride, they are 0.
__device__ __forceinline__ void coarsen_alike(const BoxLevel &to, int X, int Y, float e_s, float se_sw, float side, float centre) {
    const int x = X + threadIdx.x % BOX_COARSEN_WIDTH, y = Y + threadIdx.x / BOX_COARSEN_WIDTH;
    if (threadIdx.x >= COARSEN_POINTS || x >= to.stride || y >= to.height) return;
    const size_t i = (size_t)y * to.stride + x;
    if (x >= to.width) e_s = se_sw = 0;
    to.couplings[i] = make_float4(e_s, e_s, se_sw, se_sw);
    to.sinks[i] = make_float2(0, 0);
    if (to.sides) {
        to.sides[i] = make_float4(side, side, side, side);
        to.centres[i] = make_float4(centre, centre, centre, centre);
    }
}

// Of the block whose first point is (X, Y).
template <int THREADS, class Operator> __device__ __forceinline__ void coarsen(const Operator &a, const BoxLevel &to, int X, int Y) {
    __shared__ CoarsenShared s;
    // Points between two: the equation at the point, with what lies across taken for as large as the point, and what lies beside a
    // coarse point for as large as that. Cells from -2 on.
    for (int i = threadIdx.x; i < (BOX_COARSEN_WIDTH + 3) * (BOX_COARSEN_HEIGHT + 3); i += THREADS) {
        const int cx = i % (BOX_COARSEN_WIDTH + 3), cy = i / (BOX_COARSEN_WIDTH + 3), x = 2 * (X + cx - 2),
                  y = 2 * (Y + cy - 2);
        float4 v = make_float4(0, 0, 0, 0);
        const Star h = star_at(a, x + 1, y);
        const float west = h.w + h.nw + h.sw, east = h.e + h.ne + h.se, all = west + east + h.sink;
        if (all > DEAD_POINT) v.x = west / all, v.y = east / all;
        const Star d = star_at(a, x, y + 1);
        const float north = d.n + d.nw + d.ne, south = d.s + d.sw + d.se, sum = north + south + d.sink;
        if (sum > DEAD_POINT) v.z = north / sum, v.w = south / sum;
        s.sides[cy][cx] = v;
    }
    __syncthreads();
    // Points between four: the equation at the point, with the points between two as they were interpolated.
    for (int i = threadIdx.x; i < (BOX_COARSEN_WIDTH + 2) * (BOX_COARSEN_HEIGHT + 2); i += THREADS) {
        const int cx = i % (BOX_COARSEN_WIDTH + 2), cy = i / (BOX_COARSEN_WIDTH + 2), x = 2 * (X + cx - 2) + 1,
                  y = 2 * (Y + cy - 2) + 1;
        const Star c = star_at(a, x, y);
        const float4 o = s.sides[cy][cx], below = s.sides[cy + 1][cx], right = s.sides[cy][cx + 1];
        float4 v = make_float4(0, 0, 0, 0);
        const float all = c.all();
        if (all > DEAD_POINT) {
            const float inv = 1 / all;
            v.x = inv * (c.nw + c.n * o.x + c.w * o.z);
            v.y = inv * (c.ne + c.n * o.y + c.e * right.z);
            v.z = inv * (c.sw + c.s * below.x + c.w * o.w);
            v.w = inv * (c.se + c.s * below.y + c.e * right.w);
        }
        s.centres[cy][cx] = v;
    }
    __syncthreads();
    // What the four points of a cell contribute to the coarse operator: those of the cells from -1 on. The sinks are summed as
    // differences from 1, of which little is lost by rounding where there are few constraints.
    float4 own = make_float4(0, 0, 0, 0);
    float own_sink = 0;
    for (int i = threadIdx.x; i < (BOX_COARSEN_WIDTH + 1) * (BOX_COARSEN_HEIGHT + 1); i += THREADS) {
        // The block's own points come first, so that each thread keeps its own.
        const bool mine = i < COARSEN_POINTS;
        int cx, cy;
        if (mine)
            cx = i % BOX_COARSEN_WIDTH + 1, cy = i / BOX_COARSEN_WIDTH + 1;
        else if (i < COARSEN_POINTS + BOX_COARSEN_WIDTH + 1)
            cx = i - COARSEN_POINTS, cy = 0;
        else
            cx = 0, cy = i - COARSEN_POINTS - BOX_COARSEN_WIDTH;
        const int x = 2 * (X + cx - 1), y = 2 * (Y + cy - 1);
        const float4 sd = s.sides[cy + 1][cx + 1], ct = s.centres[cy + 1][cx + 1];
        const float4 up = s.sides[cy][cx + 1], left = s.sides[cy + 1][cx], right = s.sides[cy + 1][cx + 2], below = s.sides[cy + 2][cx + 1];
        const float4 c_up = s.centres[cy][cx + 1], c_left = s.centres[cy + 1][cx];
        const float h0 = sd.x, h1 = sd.y, v0 = sd.z, v1 = sd.w, c0 = ct.x, c1 = ct.y, c2 = ct.z, c3 = ct.w;
        const float uNW = sum(s.centres[cy][cx]), uN = up.z + up.w, uNE = sum(c_up), uN2 = s.sides[cy][cx + 2].z + s.sides[cy][cx + 2].w;
        const float uW = left.x + left.y, uSW = sum(c_left), uE2 = right.z + right.w, uS2 = below.x + below.y;
        const float uSW2 = s.sides[cy + 2][cx].x + s.sides[cy + 2][cx].y;
        const float uH = h0 + h1, uV = v0 + v1, uC = sum(ct);

        // The coarse point itself.
        Star p = star_at(a, x, y);
        if (mine) a.inverse(x, y, p.all());
        float ue = p.e * h1 + p.se * c1 + p.ne * c_up.w;
        float us = p.s * v1 + p.se * c2 + p.sw * c_left.w;
        float use = p.se * c3;
        float usw = p.sw * c_left.z;
        float sink = p.sink + p.e * (1 - uH) + p.w * (1 - uW) + p.s * (1 - uV) + p.n * (1 - uN) + p.se * (1 - uC) + p.sw * (1 - uSW) + p.ne * (1 - uNE) + p.nw * (1 - uNW);

        // The point at its right.
        p = star_at(a, x + 1, y);
        float d = p.all();
        if (mine) a.inverse(x + 1, y, d);
        const float tR = p.e - d * h1 + p.n * c_up.w + p.s * c1 + p.ne * s.sides[cy][cx + 2].w + p.se * right.z;
        float t01 = p.s * c2 + p.sw * v1, t11 = p.s * c3 + p.se * right.w;
        float v = p.sink * uH + (p.e + p.w) * (uH - 1) + p.s * (uH - uC) + p.n * (uH - uNE) + p.se * (uH - uE2) + p.sw * (uH - uV) + p.ne * (uH - uN2) + p.nw * (uH - uN);
        ue += h0 * tR, us += h0 * t01, use += h0 * t11, sink += h0 * v;
        s.right_s[cy][cx] = h1 * t11;
        s.right_sw[cy][cx] = h1 * t01;
        float right_sink = h1 * v;

        // The centre.
        p = star_at(a, x + 1, y + 1);
        d = p.all();
        if (mine) a.inverse(x + 1, y + 1, d);
        float t10 = p.ne - d * c1 + p.n * h1 + p.e * right.z;
        t01 = p.sw - d * c2 + p.w * v1 + p.s * below.x;
        t11 = p.se - d * c3 + p.e * right.w + p.s * below.y;
        v = p.sink * uC + (p.se + p.sw + p.ne + p.nw) * (uC - 1) + p.e * (uC - uE2) + p.w * (uC - uV) + p.n * (uC - uH) + p.s * (uC - uS2);
        ue += c0 * t10, us += c0 * t01, use += c0 * t11, sink += c0 * v;
        s.right_s[cy][cx] += c1 * t11;
        s.right_sw[cy][cx] += c1 * t01;
        right_sink += c1 * v;
        float below_e = c2 * t11, below_sink = c2 * v;
        s.diagonal_sink[cy][cx] = c3 * v;

        // The point below.
        p = star_at(a, x, y + 1);
        d = p.all();
        if (mine) a.inverse(x, y + 1, d);
        t10 = p.e * c1 + p.ne * h1;
        const float tD = p.s - d * v1 + p.e * c2 + p.w * c_left.w + p.se * below.x + p.sw * s.sides[cy + 2][cx].y;
        t11 = p.e * c3 + p.se * below.y;
        const float tL = p.w * c_left.z + p.sw * s.sides[cy + 2][cx].x;
        v = p.sink * uV + (p.s + p.n) * (uV - 1) + p.e * (uV - uC) + p.w * (uV - uSW) + p.se * (uV - uS2) + p.sw * (uV - uSW2) + p.ne * (uV - uH) + p.nw * (uV - uW);
        ue += v0 * t10, us += v0 * tD, use += v0 * t11, usw += v0 * tL, sink += v0 * v;
        s.right_sink[cy][cx] = right_sink;
        s.below_e[cy][cx] = below_e + v1 * t11;
        s.below_sink[cy][cx] = below_sink + v1 * v;
        if (mine) own = make_float4(ue, us, use, usw), own_sink = sink;
    }
    __syncthreads();
    const int cx = threadIdx.x % BOX_COARSEN_WIDTH + 1, cy = threadIdx.x / BOX_COARSEN_WIDTH + 1, x = X + cx - 1,
              y = Y + cy - 1;
    if (threadIdx.x >= COARSEN_POINTS || x >= to.stride || y >= to.height) return;
    const size_t at = (size_t)y * to.stride + x;
    const bool in = x < to.width; // beyond, it is 0
    own.x += s.below_e[cy - 1][cx];
    own.y += s.right_s[cy][cx - 1];
    own.w += s.right_sw[cy][cx - 1];
    own_sink += s.right_sink[cy][cx - 1] + s.below_sink[cy - 1][cx] + s.diagonal_sink[cy - 1][cx - 1];
    to.couplings[at] = in ? own : make_float4(0, 0, 0, 0);
    to.sinks[at] = make_float2(in ? own_sink : 0, 0); // the inverse comes with the next level
    if (to.sides) {
        to.sides[at] = s.sides[cy + 1][cx + 1];
        to.centres[at] = s.centres[cy + 1][cx + 1];
    }
}

// The first level. Where all that a block looks at is given, or all is free, its points are alike.
extern "C" __global__ void __launch_bounds__(COARSEN_FLAGS_THREADS) diffusion_box_coarsen_flags(const u8 *flags, int width, int height, BoxLevel to) {
    __shared__ u8 around[AROUND_H * AROUND_W];
    after_prior();
    FlagsOperator a;
    int X, Y;
    coarsen_place(to, X, Y);
    a.around = around, a.x0 = 2 * X - 5, a.y0 = 2 * Y - 5;
    u32 some = 0;
    bool all = true;
#pragma unroll
    for (int k = 0; k < (AROUND_W * AROUND_H + COARSEN_FLAGS_THREADS - 1) / COARSEN_FLAGS_THREADS; k++) {
        const int i = k * COARSEN_FLAGS_THREADS + threadIdx.x;
        const int x = a.x0 + i % AROUND_W, y = a.y0 + i / AROUND_W;
        u32 f = 2;
        if (i < AROUND_W * AROUND_H && (u32)x < (u32)width && (u32)y < (u32)height)
            f = flags[(size_t)y * width + x] & DIFFUSION_FIXED;
        if (i < AROUND_W * AROUND_H) around[i] = f, some |= f, all = all && f;
    }
    if (__syncthreads_and(all)) return coarsen_alike(to, X, Y, 0, 0, 0, 0);
    if (!__syncthreads_or(some)) return coarsen_alike(to, X, Y, 0.5f, 0.25f, 0.5f, 0.25f);
    coarsen<COARSEN_FLAGS_THREADS>(a, to, X, Y);
}

// The others.
extern "C" __global__ void __launch_bounds__(BOX_COARSEN_THREADS, 2) diffusion_box_coarsen(BoxLevel from, BoxLevel to) {
    __shared__ float around[4 * AROUND_H * AROUND_W];
    after_prior();
    int X, Y;
    coarsen_place(to, X, Y);
    NearOperator a = {from, around, 2 * X - 5, 2 * Y - 5};
    bool some = false;
#pragma unroll
    for (int k = 0; k < (AROUND_W * AROUND_H + BOX_COARSEN_THREADS - 1) / BOX_COARSEN_THREADS; k++) {
        const int i = k * BOX_COARSEN_THREADS + threadIdx.x, x = i % AROUND_W, y = i / AROUND_W;
        if (i >= AROUND_W * AROUND_H) break;
        const float4 c = couplings(from, a.x0 + x, a.y0 + y);
        some = some || E(c) != 0 || S(c) != 0 || SE(c) != 0 || SW(c) != 0 || a.sink(a.x0 + x, a.y0 + y) != 0;
        float *at = around + NearOperator::place(x, y);
        at[0] = E(c), at[AROUND_H * AROUND_W] = S(c), at[2 * AROUND_H * AROUND_W] = SE(c), at[3 * AROUND_H * AROUND_W] = SW(c);
    }
    if (!__syncthreads_or(some)) return coarsen_alike(to, X, Y, 0, 0, 0, 0);
    coarsen<BOX_COARSEN_THREADS>(a, to, X, Y);
}

#define COARSEST_POINTS (BOX_COARSEST * BOX_COARSEST)

// Inverts the coarsest operator by Gauss and Jordan, without pivots: it is symmetric and positive definite. A thread has 16 entries of a
// row. At last it says that the set-up is whole.
extern "C" __global__ void __launch_bounds__(BOX_INVERT_THREADS)
    diffusion_box_invert(BoxLevel l, float *inverse, DiffusionHeader *head, u32 width, u32 height) {
    __shared__ __align__(16) float matrix[COARSEST_POINTS][COARSEST_POINTS], rows[2][COARSEST_POINTS], columns[2][COARSEST_POINTS];
    __shared__ bool live[COARSEST_POINTS];
    after_prior();
    // Rows without an equation are 0 but for their own 1.
    const int t = threadIdx.x, points = l.width * l.height, x = t % max(l.width, 1), y = t / max(l.width, 1);
    for (int q = t; q < COARSEST_POINTS * COARSEST_POINTS; q += BOX_INVERT_THREADS)
        matrix[q / COARSEST_POINTS][q % COARSEST_POINTS] = q / COARSEST_POINTS == q % COARSEST_POINTS;
    const Star c = star_at(LevelOperator{l}, x, y);
    const bool has_equation = t < points && c.all() > DEAD_POINT;
    if (t < COARSEST_POINTS) live[t] = has_equation;
    __syncthreads();
    if (has_equation) {
        const float of[3][3] = {{c.nw, c.n, c.ne}, {c.w, -c.all(), c.e}, {c.sw, c.s, c.se}};
#pragma unroll
        for (int q = 0; q < 9; q++) {
            const int dx = q % 3 - 1, dy = q / 3 - 1, to = t + dy * l.width + dx;
            if (within(l, x + dx, y + dy) && live[to]) matrix[t][to] = -of[q / 3][q % 3];
        }
    }
    __syncthreads();
    // Where nothing is fixed there is no inverse, and the solution is 0.
    const int n = head->fixed ? points : 0, i = t / 4, j = t % 4 * 16;
    float m[16];
#pragma unroll
    for (int q = 0; q < 16; q++) m[q] = matrix[i][j + q];
#pragma unroll 1
    for (int k0 = 0; k0 < n; k0 += 16) {
#pragma unroll
        for (int q0 = 0; q0 < 16; q0++) {
            const int k = k0 + q0;
            float *row = rows[q0 & 1], *column = columns[q0 & 1];
            if (i == k)
#pragma unroll
                for (int q = 0; q < 16; q++) row[j + q] = m[q];
            if (j == k0) column[i] = m[q0];
            __syncthreads();
            const float inv = __fdividef(1, row[k]), f = i == k ? -inv : column[i] * inv;
#pragma unroll
            for (int q = 0; q < 16; q++) {
                const bool at = j + q == k;
                m[q] = (at || i == k ? 0 : m[q]) - f * (at ? 1 : row[j + q]);
            }
        }
    }
    if (i < points)
        for (int q = 0; q < 16; q++)
            if (j + q < points) inverse[i * points + j + q] = n > 0 ? m[q] : 0;
    if (threadIdx.x == 0) {
        head->width = width, head->height = height, head->barriers = 0, head->method = 0;
        head->magic = head->pad ? FLAWED : DIFFUSION_MAGIC;
    }
}

// ---- solve

#define FROM_MEAN 0
#define CONTINUE 2

#define STATE_MAGIC 0x5e7d1ff6

// Looks whether set-up and state are what they have to be, and sums the fixed pixels where the mean is wanted: then it
// has BOX_MEAN_BLOCKS blocks, and else one. Each block that fills in the image adds up the sums of these, in order: the
// mean is the same each time and everywhere, and nobody waits for the last of them.
extern "C" __global__ void __launch_bounds__(BOX_MEAN_THREADS) diffusion_box_begin(BoxSolve p) {
    __shared__ double part[BOX_MEAN_THREADS / 32][4];
    after_prior();
    before_next();
    BoxState *st = p.state;
    const bool whole = p.head->magic == DIFFUSION_MAGIC && p.head->width == (u32)p.width && p.head->height == (u32)p.height &&
                       p.head->barriers == 0 && p.head->method == 0;
    if (!whole || (p.start == CONTINUE && (st->magic != STATE_MAGIC || st->channels != (u32)p.channels))) {
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            if (p.head->magic == FLAWED) // the last report stays
                report(p.fault, FAULT_DIFFUSION_SETUP_FLAGS, p.head->pad - 1);
            else if (!whole)
                report(p.fault, FAULT_DIFFUSION_SOLVE_SETUP, p.head->magic);
            else
                report(p.fault, FAULT_DIFFUSION_SOLVE_START, st->magic);
            st->magic = 0;
            st->stop = 1;
        }
        return;
    }
    if (p.start == CONTINUE) {
        if (threadIdx.x == 0) st->stop = st->side = 0; // the op before left the image in X
        return;
    }
    double sum[4] = {0, 0, 0, 0};
    const u64 n = (u64)p.width * p.height;
    if (p.start == FROM_MEAN) {
        const u64 step = (u64)BOX_MEAN_BLOCKS * BOX_MEAN_THREADS * 16;
        for (u64 at = ((u64)blockIdx.x * BOX_MEAN_THREADS + threadIdx.x) * 16; at < n; at += step) {
            u32 f[4] = {0, 0, 0, 0};
            if (at + 16 <= n) {
                const uint4 q = *(const uint4 *)(p.flags + at);
                f[0] = q.x, f[1] = q.y, f[2] = q.z, f[3] = q.w;
            } else
                for (u64 i = at; i < n; i++) f[(i - at) >> 2] |= (u32)p.flags[i] << 8 * ((i - at) & 3);
            if (!((f[0] | f[1] | f[2] | f[3]) & 0x01010101)) continue;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                if (c >= p.channels) break;
                const float *plane = p.colours + c * n + at;
                float v = 0;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if ((n & 3) == 0) {
                        float4 q = make_float4(0, 0, 0, 0);
                        if (f[i] & 0x01010101) q = ((const float4 *)plane)[i];
                        v += ((f[i] & DIFFUSION_FIXED ? q.x : 0) + (f[i] >> 8 & DIFFUSION_FIXED ? q.y : 0)) +
                             ((f[i] >> 16 & DIFFUSION_FIXED ? q.z : 0) + (f[i] >> 24 & DIFFUSION_FIXED ? q.w : 0));
                    } else
                        for (int k = 0; k < 4; k++)
                            if (f[i] >> 8 * k & DIFFUSION_FIXED) v += plane[4 * i + k];
                }
                sum[c] += v;
            }
        }
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        sum[c] = warp_sum(sum[c]);
        if (lane_id() == 0) part[threadIdx.x >> 5][c] = sum[c];
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        double all = 0;
        for (int i = 0; i < BOX_MEAN_THREADS / 32; i++) all += part[i][threadIdx.x];
        p.sums[threadIdx.x * BOX_MEAN_BLOCKS + blockIdx.x] = all;
    }
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    const BoxState state = {STATE_MAGIC, (u32)p.channels};
    *st = state;
}

// Tiles of the image: a warp has 128 pixels of ROWS rows, a lane 4 of each. BOX_FINE_MARGIN pixels all around are of
// other blocks, but for those at the sides of the image: five half sweeps, the residual and its restriction reach 7
// far, and tiles begin at even places.
#define FINE_WARPS 16
#define ROWS 4
#define ALL_FREE ((u32)((1ull << 4 * ROWS) - 1))
static_assert(BOX_FINE_THREADS == FINE_WARPS * 32 && BOX_FINE_WIDTH == 128 - 2 * BOX_FINE_MARGIN &&
                  BOX_FINE_HEIGHT == FINE_WARPS * ROWS - 2 * BOX_FINE_MARGIN,
              "tiles of the image");

struct FineShared {
    float4 rows[2][2][FINE_WARPS][32]; // first and last row of each warp, twice
    float4 hand[FINE_WARPS][32];
    u32 free[FINE_WARPS][32];
    float most[2][FINE_WARPS];
    float mean;
};

// Masks of a thread's pixels, two in a word: bit 4*r + j of a mask stands for pixel j of row r.
enum Mask {
    FREE,                                       // pixels with an equation
    BELOW,                                      // those who have a neighbour there
    FREE_LEFT, FREE_RIGHT, FREE_UP, FREE_DOWN,  // those whose neighbour has an equation
    HALF, THIRD,                                // of pixels between two, those whose side_part that is
    QUARTER, RIGHT, FOUR, THREE, TWO, NO_MASK,  // at an edge: the same, those who have a neighbour there, and those who have so many
    MASKS
};
static_assert(4 * ROWS == 16, "masks of 16 bits");

// A thread's part of a tile.
struct Fine {
    float x[ROWS][4];
    float4 up, down; // rows before and behind
    u32 masks[MASKS / 2];
    bool first_column, first_row; // of the image
    int warp, lane, turn;
    __device__ __forceinline__ void set(Mask even, u32 first, u32 second) { masks[even / 2] = first | second << 16; }
};

__device__ __forceinline__ bool bit(const Fine &t, Mask m, int r, int j) { return (t.masks[m / 2] & 1u << (m % 2 * 16 + 4 * r + j)) != 0; }

// What a tile may have: all its pixels within the image and free, all within the image, or anything.
enum { PLAIN, INNER, EDGE };

// Whether a mask of free pixels has one.
template <int KIND> __device__ __forceinline__ bool has(const Fine &t, Mask m, int r, int j) { return KIND == PLAIN || bit(t, m, r, j); }

// A value where a mask of free pixels has the pixel, and else 0: without a branch, which takes longer than what it would save.
template <int KIND> __device__ __forceinline__ float only(const Fine &t, Mask m, int r, int j, float v) {
    if (KIND == PLAIN) return v;
    asm("{ .reg .pred p; setp.ne.u32 p, %1, 0; selp.f32 %0, %0, 0f00000000, p; }" : "+f"(v) : "r"(t.masks[m / 2] & 1u << (m % 2 * 16 + 4 * r + j)));
    return v;
}

// Keeps the compiler from holding bits of masks in registers, one each, from one step to the next.
template <int KIND> __device__ __forceinline__ void forget(Fine &t) {
#pragma unroll
    for (int i = 0; i < (KIND == PLAIN ? 0 : KIND == INNER ? QUARTER / 2 : MASKS / 2); i++) asm volatile("" : "+r"(t.masks[i]));
}

// 1/neighbours.
template <int KIND> __device__ __forceinline__ float part(const Fine &t, int r, int j) {
    return KIND != EDGE || bit(t, FOUR, r, j) ? 0.25f : bit(t, THREE, r, j) ? 1.f / 3 : bit(t, TWO, r, j) ? 0.5f : 1;
}

// The sum of the differences to the neighbours of pixel j of row r. A thread's pixels begin at multiples of four, and of ROWS.
template <int KIND> __device__ __forceinline__ float flow(const Fine &t, int r, int j, float v, float l, float g, float u, float d) {
    if (KIND != EDGE) return ((l - v) + (g - v)) + ((u - v) + (d - v));
    return ((j == 0 && t.first_column ? 0 : l - v) + (bit(t, RIGHT, r, j) ? g - v : 0)) +
           ((r == 0 && t.first_row ? 0 : u - v) + (bit(t, BELOW, r, j) ? d - v : 0));
}

// The same where the neighbours at the sides are given.
template <int KIND> __device__ __forceinline__ float flow_at(const Fine &t, int r, int j, float l, float g) {
    const float u = r ? t.x[r - 1][j] : j == 0 ? t.up.x : j == 1 ? t.up.y : j == 2 ? t.up.z : t.up.w;
    const float d = r < ROWS - 1 ? t.x[r + 1][j] : j == 0 ? t.down.x : j == 1 ? t.down.y : j == 2 ? t.down.z : t.down.w;
    return flow<KIND>(t, r, j, t.x[r][j], l, g, u, d);
}

// Makes a pixel the mean of its neighbours. Of these, rounding leaves no more than it does of the pixel itself; residuals need the
// differences, as what a mean is off adds up over the image.
template <int KIND> __device__ __forceinline__ void relax(Fine &t, int r, int j, float l, float g) {
    const float u = r ? t.x[r - 1][j] : j == 0 ? t.up.x : j == 1 ? t.up.y : j == 2 ? t.up.z : t.up.w;
    const float d = r < ROWS - 1 ? t.x[r + 1][j] : j == 0 ? t.down.x : j == 1 ? t.down.y : j == 2 ? t.down.z : t.down.w;
    // What is outside of the image is 0.
    const float v = ((l + g) + (u + d)) * part<KIND>(t, r, j);
    if (has<KIND>(t, FREE, r, j)) t.x[r][j] = v;
}

// What the lanes before and behind have. A row of a tile at an edge may begin or end with the image, and beyond is 0.
template <int KIND> __device__ __forceinline__ float lane_before(const Fine &t, float v) {
    const float l = __shfl_up_sync(~0u, v, 1);
    return KIND == EDGE && t.lane == 0 ? 0 : l;
}
template <int KIND> __device__ __forceinline__ float lane_behind(const Fine &t, float v) {
    const float g = __shfl_down_sync(~0u, v, 1);
    return KIND == EDGE && t.lane == 31 ? 0 : g;
}

// Makes the pixels of a colour the mean of their neighbours.
template <int KIND, int COLOUR> __device__ __forceinline__ void half_sweep(Fine &t) {
    forget<KIND>(t);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (((COLOUR ^ r) & 1) == 0) {
            const float l = lane_before<KIND>(t, t.x[r][3]);
            relax<KIND>(t, r, 0, l, t.x[r][1]);
            relax<KIND>(t, r, 2, t.x[r][1], t.x[r][3]);
        } else {
            const float g = lane_behind<KIND>(t, t.x[r][0]);
            relax<KIND>(t, r, 1, t.x[r][0], t.x[r][2]);
            relax<KIND>(t, r, 3, t.x[r][2], g);
        }
    }
}

// Gets the rows of the warps above and below; at an edge they are 0 beyond the tile, which may begin or end with the image.
template <int KIND> __device__ __forceinline__ void exchange(Fine &t, FineShared &s) {
    s.rows[t.turn][0][t.warp][t.lane] = make_float4(t.x[0][0], t.x[0][1], t.x[0][2], t.x[0][3]);
    s.rows[t.turn][1][t.warp][t.lane] = make_float4(t.x[ROWS - 1][0], t.x[ROWS - 1][1], t.x[ROWS - 1][2], t.x[ROWS - 1][3]);
    __syncthreads();
    t.up = s.rows[t.turn][1][t.warp ? t.warp - 1 : 0][t.lane];
    t.down = s.rows[t.turn][0][t.warp < FINE_WARPS - 1 ? t.warp + 1 : t.warp][t.lane];
    if (KIND == EDGE && t.warp == 0) t.up = make_float4(0, 0, 0, 0);
    if (KIND == EDGE && t.warp == FINE_WARPS - 1) t.down = make_float4(0, 0, 0, 0);
    t.turn ^= 1;
}

// The weight of each free neighbour in line with a pixel between two: those across count for nothing, and all that are fixed do.
template <int KIND> __device__ __forceinline__ float side_part(const Fine &t, int r, int j) {
    if (KIND == PLAIN) return 0.5f;
    return bit(t, HALF, r, j) ? 0.5f : bit(t, THIRD, r, j) ? 1.f / 3 : KIND != EDGE || bit(t, QUARTER, r, j) ? 0.25f : 1;
}

// The correction of the first level at a thread's pixels, and in the next row. Beyond the level it is something else, that no free pixel
// takes.
struct Correction {
    float2 at[ROWS / 2 + 1];
};

template <int KIND> __device__ __forceinline__ Correction correction_of(const BoxLevel &l, const float *e, int x0, int y0) {
    Correction c;
    const int cx = KIND == EDGE ? min(max(x0 >> 1, 0), l.stride - 2) : x0 >> 1, cy = y0 >> 1;
#pragma unroll
    for (int i = 0; i <= ROWS / 2; i++) {
        const int row = KIND == EDGE || i == ROWS / 2 ? min(max(cy + i, 0), l.height - 1) : cy + i;
        c.at[i] = *(const float2 *)(e + (size_t)row * l.stride + cx);
    }
    return c;
}

// Adds it on pixels of colour 0; those of colour 1 are relaxed next, and forget what they were.
template <int KIND> __device__ __forceinline__ void prolong(Fine &t, FineShared &s, const Correction &e) {
    forget<KIND>(t);
    float c[ROWS / 2 + 1][3];
#pragma unroll
    for (int i = 0; i <= ROWS / 2; i++) c[i][0] = e.at[i].x, c[i][1] = e.at[i].y, c[i][2] = __shfl_down_sync(~0u, c[i][0], 1);
    float h[ROWS / 2][2], v[ROWS / 2][2];
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            int r = 2 * i, j = 2 * k + 1;
            h[i][k] = only<KIND>(t, FREE, r, j, (only<KIND>(t, FREE_LEFT, r, j, c[i][k]) + only<KIND>(t, FREE_RIGHT, r, j, c[i][k + 1])) * side_part<KIND>(t, r, j));
            r = 2 * i + 1, j = 2 * k;
            v[i][k] = only<KIND>(t, FREE, r, j, (only<KIND>(t, FREE_UP, r, j, c[i][k]) + only<KIND>(t, FREE_DOWN, r, j, c[i + 1][k])) * side_part<KIND>(t, r, j));
        }
    s.hand[t.warp][t.lane] = make_float4(h[0][0], h[0][1], 0, 0);
    __syncthreads();
    forget<KIND>(t);
    float4 next = s.hand[t.warp < FINE_WARPS - 1 ? t.warp + 1 : t.warp][t.lane];
    if (KIND == EDGE && t.warp == FINE_WARPS - 1) next = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) {
        t.x[2 * i][0] += only<KIND>(t, FREE, 2 * i, 0, c[i][0]);
        t.x[2 * i][2] += only<KIND>(t, FREE, 2 * i, 2, c[i][1]);
        const float right = lane_behind<KIND>(t, v[i][0]);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int r = 2 * i + 1, j = 2 * k + 1;
            const float below = i < ROWS / 2 - 1 ? h[i + 1][k] : k ? next.y : next.x;
            t.x[r][j] += only<KIND>(t, FREE, r, j, part<KIND>(t, r, j) * ((h[i][k] + below) + (v[i][k] + (k ? right : v[i][1]))));
        }
    }
}

// The right-hand side of the first level: the residual, restricted. It returns the largest one of the thread's pixels. That of pixels of
// colour 1, which were relaxed last, is what rounding leaves; without it the whole image would be off by what that adds up to.
template <int KIND> __device__ __forceinline__ float restrict_residual(Fine &t, FineShared &s, const BoxLevel &l, float *b, int x0, int y0, bool own) {
    forget<KIND>(t);
    float most = 0;
    float centre[ROWS / 2][2], v[ROWS / 2][2];
    // Between four: each of the points around it gets a part.
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) {
        forget<KIND>(t);
        const int r = 2 * i + 1;
        const float g = __shfl_down_sync(~0u, t.x[r][0], 1), l3 = __shfl_up_sync(~0u, t.x[r][3], 1);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int j = 2 * k + 1;
            const float f = only<KIND>(t, FREE, r, j, flow_at<KIND>(t, r, j, t.x[r][j - 1], k ? g : t.x[r][2]));
            most = fmaxf(most, fabsf(f));
            centre[i][k] = f * part<KIND>(t, r, j);
        }
        const float left = lane_before<KIND>(t, centre[i][1]);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int j = 2 * k;
            const float f = flow_at<KIND>(t, r, j, k ? t.x[r][1] : l3, t.x[r][j + 1]) + ((k ? centre[i][0] : left) + centre[i][k]);
            v[i][k] = only<KIND>(t, FREE, r, j, f * side_part<KIND>(t, r, j));
        }
    }
    s.hand[t.warp][t.lane] = make_float4(centre[ROWS / 2 - 1][0], centre[ROWS / 2 - 1][1], v[ROWS / 2 - 1][0], v[ROWS / 2 - 1][1]);
    __syncthreads();
    forget<KIND>(t);
    float4 prior = s.hand[t.warp ? t.warp - 1 : 0][t.lane];
    if (KIND == EDGE && t.warp == 0) prior = make_float4(0, 0, 0, 0);
    const int cx = x0 >> 1, cy = y0 >> 1;
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) {
        forget<KIND>(t);
        const int r = 2 * i;
        const float g = __shfl_down_sync(~0u, t.x[r][0], 1), l3 = __shfl_up_sync(~0u, t.x[r][3], 1);
        float h[2], out[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int j = 2 * k + 1;
            const float above = i ? centre[i - 1][k] : k ? prior.y : prior.x;
            const float f = flow_at<KIND>(t, r, j, t.x[r][j - 1], k ? g : t.x[r][2]) + (above + centre[i][k]);
            h[k] = only<KIND>(t, FREE, r, j, f * side_part<KIND>(t, r, j));
        }
        const float left = lane_before<KIND>(t, h[1]);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int j = 2 * k;
            const float f = only<KIND>(t, FREE, r, j, flow_at<KIND>(t, r, j, k ? t.x[r][1] : l3, t.x[r][j + 1]));
            most = fmaxf(most, fabsf(f));
            const float above = i ? v[i - 1][k] : k ? prior.w : prior.z;
            out[k] = only<KIND>(t, FREE, r, j, f + (((k ? h[0] : left) + h[k]) + (above + v[i][k])));
        }
        // The second may be beyond the width, but not the stride.
        if (own && (KIND != EDGE || ((u32)(cy + i) < (u32)l.height && (u32)cx < (u32)l.width)))
            *(float2 *)(b + (size_t)(cy + i) * l.stride + cx) = make_float2(out[0], out[1]);
    }
    return most;
}

// How many times its correction the cycle after so many goes; why, see boxStep of kernels/cpu/diffusion_box.go.
__device__ __forceinline__ float box_step(u32 cycles) { return cycles == 0 ? 1.0170321f : cycles == 2 ? 1.3042116f : 1.1428571f; }

// Four pixels of a row, from x on. WIDE says that rows of four begin at multiples of 16 bytes, and end within the image or not at all. At
// an edge, what is outside of the image is some other pixel.
template <int KIND, bool WIDE> __device__ __forceinline__ float4 four_of(const float *plane, int w, int h, int x, int y) {
    const float *row = plane + (size_t)(KIND == EDGE ? min(max(y, 0), h - 1) : y) * w;
    if (WIDE) return *(const float4 *)(row + (KIND == EDGE ? min(max(x, 0), w - 4) : x));
    float4 r;
    r.x = row[KIND == EDGE ? min(max(x, 0), w - 1) : x], r.y = row[KIND == EDGE ? min(max(x + 1, 0), w - 1) : x + 1];
    r.z = row[KIND == EDGE ? min(max(x + 2, 0), w - 1) : x + 2], r.w = row[KIND == EDGE ? min(max(x + 3, 0), w - 1) : x + 3];
    return r;
}

// Their flags; 8 outside of the image.
template <int KIND, bool WIDE> __device__ __forceinline__ u32 flags_of(const u8 *flags, int w, int h, int x, int y) {
    const u8 *row = flags + (size_t)(KIND == EDGE ? min(max(y, 0), h - 1) : y) * w;
    if (WIDE) {
        const u32 f = *(const u32 *)(row + (KIND == EDGE ? min(max(x, 0), w - 4) : x));
        return KIND != EDGE || ((u32)x < (u32)w && (u32)y < (u32)h) ? f : 0x08080808;
    }
    u32 f = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const u32 v = row[KIND == EDGE ? min(max(x + j, 0), w - 1) : x + j];
        f |= (KIND != EDGE || ((u32)(x + j) < (u32)w && (u32)y < (u32)h) ? v : 8) << 8 * j;
    }
    return f;
}

// Writes a thread's pixels, but for those outside of the image.
template <int KIND, bool WIDE> __device__ __forceinline__ void store_fine(const Fine &t, float *to, int w, int h, int x0, int y0) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float *at = to + (size_t)(y0 + r) * w + x0;
        if (KIND == EDGE && y0 + r >= h) break;
        if (WIDE) {
            if (KIND != EDGE || x0 < w) *(float4 *)at = make_float4(t.x[r][0], t.x[r][1], t.x[r][2], t.x[r][3]);
        } else
            for (int j = 0; j < 4; j++)
                if (KIND != EDGE || x0 + j < w) at[j] = t.x[r][j];
    }
}

static_assert(BOX_MEAN_BLOCKS % 32 == 0, "sums that a lane has");

// The mean of a channel's fixed pixels, in each lane, by the sums of BOX_MEAN_BLOCKS blocks.
__device__ __forceinline__ float mean_of(const double *sums, u32 fixed) {
    double all[BOX_MEAN_BLOCKS / 32];
#pragma unroll
    for (int i = 0; i < BOX_MEAN_BLOCKS / 32; i++) all[i] = sums[32 * i + lane_id()];
#pragma unroll
    for (int i = 1; i < BOX_MEAN_BLOCKS / 32; i++) all[0] += all[i];
    return (float)(warp_sum(all[0]) / (fixed ? fixed : 1));
}

// A bit for each of four pixels, by their flags, that is neither fixed nor outside.
__device__ __forceinline__ u32 free_of(u32 flags) {
    const u32 free = ~flags & (~flags >> 3) & 0x01010101;
    return (free | free >> 7 | free >> 14 | free >> 21) % 16;
}

// What a cycle changes on a tile, and what is left of the residual. Own says that the thread's pixels are the block's own.
template <bool START, int KIND, bool WIDE>
__device__ __forceinline__ void fine_steps(Fine &t, const BoxSolve &p, const BoxLevel &l, const Correction &e, float *b, FineShared &s, int x0, int y0, bool own, float step, const float *from, float *to) {
    if (!START && l.width) prolong<KIND>(t, s, e);
#pragma unroll 1
    for (int i = START ? 1 : 2;; i--) {
        exchange<KIND>(t, s);
        half_sweep<KIND, 1>(t);
        if (i == 0) break;
        exchange<KIND>(t, s);
        half_sweep<KIND, 0>(t);
    }
    if (START) exchange<KIND>(t, s);
    float most = 0;
    if (!START) {
        // Pixels of colour 1 are what their neighbours make them before and behind the cycle, and so they are after the step, too.
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4 v = four_of<KIND, WIDE>(from, p.width, p.height, x0, y0 + r);
            const float o[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool in = KIND != EDGE || ((u32)(y0 + r) < (u32)p.height && (u32)(x0 + j) < (u32)p.width);
                const float d = in ? step * (t.x[r][j] - o[j]) : 0;
                t.x[r][j] = in ? o[j] + d : 0;
                most = fmaxf(most, fabsf(d));
            }
        }
        exchange<KIND>(t, s);
    }
    float left = restrict_residual<KIND>(t, s, l, b, x0, y0, own);
    if (own)
        store_fine<KIND, WIDE>(t, to, p.width, p.height, x0, y0);
    else
        most = left = 0;
    most = warp_max(most), left = warp_max(left);
    if (t.lane == 0) s.most[0][t.warp] = most, s.most[1][t.warp] = left;
}

// A tile. All loads come before what is made of them, so that they wait together.
template <bool START, int KIND, bool WIDE>
__device__ __forceinline__ void fine_tile(const BoxSolve &p, const BoxLevel &l, const float *e, float *b, FineShared &s, int tx, int ty, const float *colours, const double *sums, float step, const float *from, float *to) {
    Fine t;
    t.warp = threadIdx.x >> 5, t.lane = lane_id(), t.turn = 0;
    const int w = p.width, h = p.height;
    const int x0 = tx + 4 * t.lane, y0 = ty + t.warp * ROWS;
    const bool some = p.head->fixed != 0;
    u32 f[ROWS];
    float4 v[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) f[r] = flags_of<KIND, WIDE>(p.flags, w, h, x0, y0 + r);
    // What is above and left of the tile says how its first row and column are interpolated. What that is off would reach, by the last half sweep,
    // the pixels two before the block's own, and so the residual that these take from.
    u32 above = 0x08080808;
    bool left_free = false; // in row y0 + lane
    if (!START) {
        if (t.warp == 0) above = flags_of<KIND, WIDE>(p.flags, w, h, x0, y0 - 1);
        const int y = y0 + t.lane;
        if (t.lane < ROWS && (KIND != EDGE || ((u32)(tx - 1) < (u32)w && (u32)y < (u32)h)))
            left_free = !(p.flags[(size_t)y * w + tx - 1] & DIFFUSION_FIXED);
    }
    if (START && t.warp == 0) { // the others wait for it where they wait for their loads
        const float m = p.start == FROM_MEAN ? mean_of(sums, p.head->fixed) : 0;
        if (t.lane == 0) s.mean = m;
    }
    const bool from_mean = START && (p.start == FROM_MEAN || !some);
    if (!from_mean)
#pragma unroll
        for (int r = 0; r < ROWS; r++) v[r] = four_of<KIND, WIDE>(from, w, h, x0, y0 + r);
    float4 c[ROWS];
    if (START)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            c[r] = make_float4(0, 0, 0, 0);
            if (f[r] & 0x01010101) c[r] = four_of<KIND, WIDE>(colours, w, h, x0, y0 + r);
        }
    if (!START) {
        after_prior();
        before_next();
    } else {
        __syncthreads();
        const float m = s.mean;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (from_mean) v[r] = make_float4(m, m, m, m);
            v[r].x = f[r] & DIFFUSION_FIXED ? c[r].x : v[r].x, v[r].y = f[r] >> 8 & DIFFUSION_FIXED ? c[r].y : v[r].y;
            v[r].z = f[r] >> 16 & DIFFUSION_FIXED ? c[r].z : v[r].z,
            v[r].w = f[r] >> 24 & DIFFUSION_FIXED ? c[r].w : v[r].w;
        }
    }
    Correction correction;
    if (!START && l.width) correction = correction_of<KIND>(l, e, x0, y0);
    u32 mine = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const u32 g = f[r];
        if (some) mine |= free_of(g) << 4 * r;
        if (KIND == EDGE) v[r].x = g & 8 ? 0 : v[r].x, v[r].y = g >> 8 & 8 ? 0 : v[r].y, v[r].z = g >> 16 & 8 ? 0 : v[r].z, v[r].w = g >> 24 & 8 ? 0 : v[r].w;
        t.x[r][0] = v[r].x, t.x[r][1] = v[r].y, t.x[r][2] = v[r].z, t.x[r][3] = v[r].w;
    }
    const bool own = (t.lane >= BOX_FINE_MARGIN / 4 || tx == 0) &&
                     (t.lane < 32 - BOX_FINE_MARGIN / 4 || tx + 128 >= w) &&
                     (t.warp >= BOX_FINE_MARGIN / ROWS || ty == 0) &&
                     (t.warp < FINE_WARPS - BOX_FINE_MARGIN / ROWS || ty + FINE_WARPS * ROWS >= h);
    s.free[t.warp][t.lane] = mine;
    u32 free_above = 0, free_before = 0; // as bits of the last row, and of the last column
    if (!START && some) {
        free_above = free_of(above) << (4 * ROWS - 4);
        const u32 rows = __ballot_sync(~0u, left_free);
#pragma unroll
        for (int r = 0; r < ROWS; r++) free_before |= (rows >> r & 1) << (4 * r + 3);
    }
    // A tile without a free pixel stays as it is. It begins so in both places, as what others read of it is now there, now here. (Those
    // who begin with X read nothing of a fixed pixel there.) Where all is the mean, it stays that at first.
    const bool around = START || ((t.warp || free_above == (15u << (4 * ROWS - 4))) && (t.lane || free_before == 0x8888));
    const bool fixed = !__syncthreads_or(mine), free = KIND == INNER && __syncthreads_and(mine == ALL_FREE && around);
    if (fixed || (START && free && p.start == FROM_MEAN)) {
        if (START && own) {
            if (fixed) store_fine<KIND, WIDE>(t, const_cast<float *>(from), w, h, x0, y0);
            store_fine<KIND, WIDE>(t, to, w, h, x0, y0);
#pragma unroll
            for (int r = 0; r < ROWS; r += 2)
                if (KIND != EDGE || ((u32)(y0 + r) < 2 * (u32)l.height && (u32)x0 < 2 * (u32)l.width)) *(float2 *)(b + (size_t)((y0 + r) >> 1) * l.stride + (x0 >> 1)) = make_float2(0, 0);
        }
        if (t.lane == 0) s.most[0][t.warp] = s.most[1][t.warp] = 0;
        return;
    }
    if (free) {
        fine_steps<START, PLAIN, WIDE>(t, p, l, correction, b, s, x0, y0, own, step, from, to);
        return;
    }
    const u32 prior = t.warp ? s.free[t.warp - 1][t.lane] : free_above, next = t.warp < FINE_WARPS - 1 ? s.free[t.warp + 1][t.lane] : 0;
    const u32 before = __shfl_up_sync(~0u, mine, 1), behind = __shfl_down_sync(~0u, mine, 1);
    const u32 up = (mine << 4 | prior >> (4 * ROWS - 4)) & ALL_FREE, down = (mine >> 4 | next << (4 * ROWS - 4)) & ALL_FREE;
    const u32 left = (mine << 1 & 0xeeee) | ((t.lane ? before : free_before) >> 3 & 0x1111);
    const u32 right = (mine >> 1 & 0x7777) | ((t.lane < 31 ? behind : 0) << 3 & 0x8888);
    t.set(FREE_LEFT, left, right);
    t.set(FREE_UP, up, down);
    // In even rows pixels are between two at their sides, in odd ones between one above and one below; in line with them are the others.
    const u32 p0 = (up & 0x0f0f) | (left & 0xf0f0), p1 = (down & 0x0f0f) | (right & 0xf0f0), both = p0 & p1, one = p0 ^ p1;
    u32 below = 0;
    if (KIND != EDGE)
        t.set(HALF, both, one);
    else {
        u32 rm = 0;
        for (int j = 0; j < 4; j++) rm |= (u32)(x0 + j < w - 1) << j;
        for (int r = 0; r < ROWS; r++) below |= (y0 + r < h - 1 ? 15u : 0u) << 4 * r;
        t.first_column = x0 == 0, t.first_row = y0 == 0;
        const u32 at_left = t.first_column ? 0xeeee : 0xffff, at_right = rm * 0x1111, above = t.first_row ? 0xfff0 : 0xffff;
        // Numbers of two bits are added up, for all pixels at once.
        const u32 a = at_left ^ at_right, b = at_left & at_right, c = above ^ below, d = above & below;
        const u32 four = b & d, three = (a & d) | (b & c), two = (a & c & ~(b | d)) | (b & ~(c | d)) | (d & ~(a | b));
        const u32 none = ~(p0 | p1);
        t.set(HALF, (four & both) | (three & one) | (two & none), (four & one) | (three & none));
        t.set(QUARTER, four & none, at_right);
        t.set(FOUR, four, three);
        t.set(TWO, two, 0);
    }
    t.set(FREE, mine, below);
    fine_steps<START, KIND, WIDE>(t, p, l, correction, b, s, x0, y0, own, step, from, to);
}

// Counts a block, behind what its calling thread did before. A fence would make the multiprocessor forget what other blocks of it have loaded.
__device__ __forceinline__ u32 arrive(u32 *count) {
    u32 before;
#if __CUDA_ARCH__ >= 700
    asm volatile("atom.add.release.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
#else
    __threadfence();
    before = atomicAdd(count, 1);
#endif
    return before;
}

template <bool START> __device__ __forceinline__ void fine(const BoxSolve &p, const BoxLevel &l, const float *e, float *b) {
    __shared__ FineShared s;
    // Of a cycle all but the correction is older than the kernel before, where there are levels.
    if (START || !l.width) after_prior();
    if (START) before_next();
    BoxState *st = p.state;
    if (st->stop) {
        after_prior();
        before_next();
        return;
    }
    const size_t n = (size_t)p.width * p.height, vector = (size_t)l.stride * l.height;
    // A block's place. Those of the channels are next to each other, as all read the same flags.
    const u32 channel = blockIdx.x % p.channels;
    const int tx = (int)(blockIdx.x / p.channels) * BOX_FINE_WIDTH, ty = (int)blockIdx.y * BOX_FINE_HEIGHT;
    const float *from = (!START && st->side ? p.y : p.x) + channel * n, *colours = p.colours + channel * n;
    float *to = (!START && st->side ? p.x : p.y) + channel * n; // start goes to Y as well: neighbours read X
    const double *sums = p.sums + channel * BOX_MEAN_BLOCKS;
    const float step = START ? 1 : box_step(st->cycles);
    e += channel * vector, b += channel * vector;
    const bool edge = tx == 0 || ty == 0 || tx + 128 >= p.width || ty + FINE_WARPS * ROWS >= p.height, wide = p.width % 4 == 0;
    if (edge && wide)
        fine_tile<START, EDGE, true>(p, l, e, b, s, tx, ty, colours, sums, step, from, to);
    else if (edge)
        fine_tile<START, EDGE, false>(p, l, e, b, s, tx, ty, colours, sums, step, from, to);
    else if (wide)
        fine_tile<START, INNER, true>(p, l, e, b, s, tx, ty, colours, sums, step, from, to);
    else
        fine_tile<START, INNER, false>(p, l, e, b, s, tx, ty, colours, sums, step, from, to);
    __syncthreads();
    if (threadIdx.x != 0) return;
    float most = 0, left = 0;
    for (int i = 0; i < FINE_WARPS; i++) most = fmaxf(most, s.most[0][i]), left = fmaxf(left, s.most[1][i]);
    // Of numbers that are not negative the bits are in the same order.
    if (most > 0) atomicMax(&st->most, __float_as_uint(most));
    if (left > 0) atomicMax(&st->most_left, __float_as_uint(left));
    if (arrive(&st->done) != gridDim.x * gridDim.y - 1) return;
    // All others have ended, as far as it matters.
    most = __uint_as_float(atomicExch(&st->most, 0));
    st->residual = __uint_as_float(atomicExch(&st->most_left, 0));
    st->done = 0;
    st->side ^= 1;
    if (START) return;
    // A step that is longer than the one before changes more by as much. (Both are computed: cicc of nvcc 11.8 puts a constant that a branch
    // leaves alone before it or behind it, by where its memory lies.)
    const float seen = fmaxf(fminf(most / st->update + (1 - box_step(st->cycles) / box_step(st->cycles - 1)), MOST_RATIO), LEAST_RATIO);
    const float ratio = st->cycles > 0 && st->update > 0 ? seen : FIRST_RATIO;
    st->update = most;
    st->ratio = ratio;
    st->cycles++;
    st->estimate = ratio * most / (1 - ratio);
    st->converged = st->estimate <= p.tolerance;
    st->stop = st->converged;
}

extern "C" __global__ void __launch_bounds__(BOX_FINE_THREADS, BOX_FINE_BLOCKS)
    diffusion_box_start(BoxSolve p, BoxLevel l, const float *e, float *b) {
    fine<true>(p, l, e, b);
}

extern "C" __global__ void __launch_bounds__(BOX_FINE_THREADS, BOX_FINE_BLOCKS)
    diffusion_box_fine(BoxSolve p, BoxLevel l, const float *e, float *b) {
    fine<false>(p, l, e, b);
}

// ---- levels

// Tiles of levels: a thread has a cell of 2x2 points, all couplings that they have, and their values in up to three channels, so that the
// couplings are loaded once, and what one channel waits for is time for the others. Points are relaxed in four colours: a point
// after two sweeps takes of points up to 8 away along rows, and up to 4 across. So does a residual after two sweeps that begin with 0, whose
// first step takes of no other.
#define TILE_CELLS 32 // of a row: those of a warp
#define PITCH (TILE_CELLS + 1)
#define DOWN_X 8
#define DOWN_Y 4
#define UP_X 8
#define UP_Y 4
static_assert(BOX_DOWN_THREADS == TILE_CELLS * BOX_DOWN_ROWS && BOX_DOWN_WIDTH == 2 * (TILE_CELLS - DOWN_X) &&
                  BOX_DOWN_HEIGHT == 2 * (BOX_DOWN_ROWS - DOWN_Y),
              "tiles on the way down");
static_assert(BOX_UP_THREADS == TILE_CELLS * BOX_UP_ROWS && BOX_UP_WIDTH == 2 * (TILE_CELLS - UP_X) &&
                  BOX_UP_HEIGHT == 2 * (BOX_UP_ROWS - UP_Y),
              "tiles on the way up");

// A cell's points are a b in its first row, and c d below. Couplings are those kept at them, and those of the cells around (w, n, e and
// so on, with the point of that cell) that lead here.
struct Cell {
    float4 a, b, c, d;
    float e_wb, e_wd, s_nc, s_nd, se_nwd, se_nc, se_wb, sw_nd, sw_nec, sw_ea;
    float inv_a, inv_b, inv_c, inv_d; // 1/(sum of couplings + sink); 0 where there is no equation
    float sink_a, sink_b, sink_c;
};

__device__ __forceinline__ Cell cell_at(const BoxLevel &l, int x, int y) {
    const float4 *at = l.couplings + ((ptrdiff_t)y * l.stride + x), none = make_float4(0, 0, 0, 0);
    const bool w = (u32)(x - 1) < (u32)l.width, o = (u32)x < (u32)l.width, e = (u32)(x + 1) < (u32)l.width, ee = (u32)(x + 2) < (u32)l.width;
    const bool up = (u32)(y - 1) < (u32)l.height, row = (u32)y < (u32)l.height, down = (u32)(y + 1) < (u32)l.height;
    Cell c;
    c.a = row && o ? at[0] : none, c.b = row && e ? at[1] : none;
    c.c = down && o ? at[l.stride] : none, c.d = down && e ? at[l.stride + 1] : none;
    c.e_wb = row && w ? E(at[-1]) : 0, c.se_wb = row && w ? SE(at[-1]) : 0, c.e_wd = down && w ? E(at[l.stride - 1]) : 0;
    const float4 *n = at - l.stride;
    c.s_nc = up && o ? S(n[0]) : 0, c.se_nc = up && o ? SE(n[0]) : 0;
    c.s_nd = up && e ? S(n[1]) : 0, c.sw_nd = up && e ? SW(n[1]) : 0;
    c.se_nwd = up && w ? SE(n[-1]) : 0, c.sw_nec = up && ee ? SW(n[2]) : 0, c.sw_ea = row && ee ? SW(at[2]) : 0;
    const float2 *sinks = l.sinks + ((ptrdiff_t)y * l.stride + x), nothing = make_float2(0, 0);
    const float2 a = row && o ? sinks[0] : nothing, b = row && e ? sinks[1] : nothing;
    const float2 s = down && o ? sinks[l.stride] : nothing, d = down && e ? sinks[l.stride + 1] : nothing;
    c.sink_a = a.x, c.sink_b = b.x, c.sink_c = s.x;
    c.inv_a = a.y, c.inv_b = b.y, c.inv_c = s.y, c.inv_d = d.y;
    return c;
}

// The same where the lanes of a warp have the cells of a row, x is even, and y may be of no level: each loads what is of its own cell and of
// the one above, and gets the rest from its neighbours. The first and the last lane get something else in its place, which counts for as much
// as what lies beyond the tile. What is beyond the width, but not the stride, is 0.
__device__ __forceinline__ Cell cell_of_row(const BoxLevel &l, int x, int y) {
    const float4 *at = l.couplings + ((ptrdiff_t)y * l.stride + x), none = make_float4(0, 0, 0, 0);
    const bool in = (u32)x < (u32)l.stride, up = in && (u32)(y - 1) < (u32)l.height, row = in && (u32)y < (u32)l.height, down = in && (u32)(y + 1) < (u32)l.height;
    const float4 *sinks = (const float4 *)(l.sinks + ((ptrdiff_t)y * l.stride + x));
    const float4 nc = up ? at[-l.stride] : none, nd = up ? at[1 - l.stride] : none;
    Cell c;
    c.a = row ? at[0] : none, c.b = row ? at[1] : none;
    c.c = down ? at[l.stride] : none, c.d = down ? at[l.stride + 1] : none;
    const float4 first = row ? sinks[0] : none, second = down ? sinks[l.stride / 2] : none;
    c.sink_a = first.x, c.inv_a = first.y, c.sink_b = first.z, c.inv_b = first.w;
    c.sink_c = second.x, c.inv_c = second.y, c.inv_d = second.w;
    c.s_nc = S(nc), c.se_nc = SE(nc), c.s_nd = S(nd), c.sw_nd = SW(nd);
    c.e_wb = __shfl_up_sync(~0u, E(c.b), 1), c.se_wb = __shfl_up_sync(~0u, SE(c.b), 1), c.e_wd = __shfl_up_sync(~0u, E(c.d), 1);
    c.se_nwd = __shfl_up_sync(~0u, SE(nd), 1), c.sw_nec = __shfl_down_sync(~0u, SW(nc), 1), c.sw_ea = __shfl_down_sync(~0u, SW(c.a), 1);
    return c;
}

// Values of cells in shared memory, a plane for each of the four points, with a cell of 0 all around.
struct Planes {
    float *a, *b, *c, *d;
    int pitch, o; // o is the thread's cell
};

// What neighbours add to a sum: coupling*(their value - v) of each.
__device__ __forceinline__ float add_a(float sum, const Cell &k, const Planes &p, const float4 &x, float v) {
    sum += S(k.a) * (x.z - v), sum += E(k.a) * (x.y - v), sum += SE(k.a) * (x.w - v), sum += k.e_wb * (p.b[p.o - 1] - v);
    sum += SW(k.a) * (p.d[p.o - 1] - v), sum += k.s_nc * (p.c[p.o - p.pitch] - v), sum += k.sw_nd * (p.d[p.o - p.pitch] - v);
    return sum + k.se_nwd * (p.d[p.o - p.pitch - 1] - v);
}
__device__ __forceinline__ float add_b(float sum, const Cell &k, const Planes &p, const float4 &x, float v) {
    sum += SW(k.b) * (x.z - v), sum += S(k.b) * (x.w - v), sum += E(k.a) * (x.x - v), sum += E(k.b) * (p.a[p.o + 1] - v);
    sum += SE(k.b) * (p.c[p.o + 1] - v), sum += k.s_nd * (p.d[p.o - p.pitch] - v), sum += k.se_nc * (p.c[p.o - p.pitch] - v);
    return sum + k.sw_nec * (p.c[p.o - p.pitch + 1] - v);
}
__device__ __forceinline__ float add_c(float sum, const Cell &k, const Planes &p, const float4 &x, float v) {
    sum += S(k.a) * (x.x - v), sum += E(k.c) * (x.w - v), sum += SW(k.b) * (x.y - v), sum += k.e_wd * (p.d[p.o - 1] - v);
    sum += k.se_wb * (p.b[p.o - 1] - v), sum += S(k.c) * (p.a[p.o + p.pitch] - v), sum += SE(k.c) * (p.b[p.o + p.pitch] - v);
    return sum + SW(k.c) * (p.b[p.o + p.pitch - 1] - v);
}
__device__ __forceinline__ float add_d(float sum, const Cell &k, const Planes &p, const float4 &x, float v) {
    sum += SE(k.a) * (x.x - v), sum += S(k.b) * (x.y - v), sum += E(k.c) * (x.z - v), sum += E(k.d) * (p.c[p.o + 1] - v);
    sum += k.sw_ea * (p.a[p.o + 1] - v), sum += S(k.d) * (p.b[p.o + p.pitch] - v), sum += SW(k.d) * (p.a[p.o + p.pitch] - v);
    return sum + SE(k.d) * (p.a[p.o + p.pitch + 1] - v);
}
// The first two where all is 0 but for the points relaxed before: a, and a and b.
__device__ __forceinline__ float add_b_first(float sum, const Cell &k, const Planes &p, const float4 &x) {
    return sum + E(k.a) * x.x + E(k.b) * p.a[p.o + 1];
}
__device__ __forceinline__ float add_c_first(float sum, const Cell &k, const Planes &p, const float4 &x) {
    sum += S(k.a) * x.x, sum += SW(k.b) * x.y, sum += k.se_wb * p.b[p.o - 1], sum += S(k.c) * p.a[p.o + p.pitch];
    return sum + SE(k.c) * p.b[p.o + p.pitch] + SW(k.c) * p.b[p.o + p.pitch - 1];
}

// Who takes part in sweeps. KEEPS says that threads have the values of their own cells in registers, too.
//
// The rows of cells of a tile: a step need not be done where nothing that the block keeps takes of it, so many rows from above and from below.
template <int CELL_ROWS, bool KEPT> struct Rows {
    enum { KEEPS = KEPT };
    int row;
    __device__ __forceinline__ bool operator()(int above, int below) const { return row >= above && row < CELL_ROWS - below; }
    __device__ __forceinline__ void meet() const { __syncthreads(); }
};
// The values of a thread's cell.
__device__ __forceinline__ float4 own_values(const Planes &p) { return make_float4(p.a[p.o], p.b[p.o], p.c[p.o], p.d[p.o]); }

// A step of a sweep over N channels: that of all points of a kind.
#define RELAX(plane, of, inv, above, below, sum)                                       \
    do {                                                                               \
        if (who(above, below)) {                                                       \
            _Pragma("unroll") for (int n = 0; n < N; n++) {                            \
                const float4 v = Who::KEEPS ? x[n] : own_values(p[n]);                 \
                p[n].plane[p[n].o] = x[n].of = k.inv * (sum);                          \
            }                                                                          \
        }                                                                              \
        who.meet();                                                                    \
    } while (0)

// Two sweeps from 0 in the order of rows. Planes need not be 0 but around the cells.
template <int N, class Who> __device__ __forceinline__ void sweeps(const Cell &k, const Planes (&p)[N], const float4 (&b)[N], float4 (&x)[N], const Who &who) {
    RELAX(a, x, inv_a, 0, 0, (void(v), b[n].x));
    RELAX(b, y, inv_b, 0, 0, add_b_first(b[n].y, k, p[n], v));
    RELAX(c, z, inv_c, 0, 1, add_c_first(b[n].z, k, p[n], v));
    RELAX(d, w, inv_d, 0, 1, add_d(b[n].w, k, p[n], v, 0));
    RELAX(a, x, inv_a, 1, 1, add_a(b[n].x, k, p[n], v, 0));
    RELAX(b, y, inv_b, 1, 1, add_b(b[n].y, k, p[n], v, 0));
    RELAX(c, z, inv_c, 1, 2, add_c(b[n].z, k, p[n], v, 0));
    RELAX(d, w, inv_d, 1, 2, add_d(b[n].w, k, p[n], v, 0));
}

// Two sweeps in the other order.
template <int N, class Who> __device__ __forceinline__ void sweeps_back(const Cell &k, const Planes (&p)[N], const float4 (&b)[N], float4 (&x)[N], const Who &who) {
#pragma unroll 1
    for (int i = 0; i < 2; i++) {
        RELAX(d, w, inv_d, i, i + 1, add_d(b[n].w, k, p[n], v, 0));
        RELAX(c, z, inv_c, i, i + 1, add_c(b[n].z, k, p[n], v, 0));
        RELAX(b, y, inv_b, i + 1, i + 1, add_b(b[n].y, k, p[n], v, 0));
        RELAX(a, x, inv_a, i + 1, i + 1, add_a(b[n].x, k, p[n], v, 0));
    }
}

// A vector at the points of a cell; 0 beyond the level.
__device__ __forceinline__ float4 load_cell(const BoxLevel &l, const float *v, int x, int y) {
    const float *at = v + (ptrdiff_t)y * l.stride + x;
    float4 r = make_float4(0, 0, 0, 0);
    if (within(l, x, y)) r.x = at[0];
    if (within(l, x + 1, y)) r.y = at[1];
    if (within(l, x, y + 1)) r.z = at[l.stride];
    if (within(l, x + 1, y + 1)) r.w = at[l.stride + 1];
    return r;
}

__device__ __forceinline__ void store_cell(const BoxLevel &l, float *v, int x, int y, const float4 &r) {
    float *at = v + (ptrdiff_t)y * l.stride + x;
    if (within(l, x, y)) at[0] = r.x;
    if (within(l, x + 1, y)) at[1] = r.y;
    if (within(l, x, y + 1)) at[l.stride] = r.z;
    if (within(l, x + 1, y + 1)) at[l.stride + 1] = r.w;
}

__device__ __forceinline__ float4 weights(const BoxLevel &l, const float4 *w, int x, int y) {
    return within(l, x, y) ? w[(size_t)y * l.stride + x] : make_float4(0, 0, 0, 0);
}

// What a cell adds to the right-hand side of the points of the level below at its place, right of that, and below. The residual at d,
// which was relaxed last, is what rounding leaves of the correction, a millionth of it, and counts for nothing here.
__device__ __forceinline__ void restrict_cell(const Cell &k, const Planes &p, const float4 &b, const float4 &x, const float4 &w, float &own, float &right, float &below) {
    const float ra = k.inv_a > 0 ? add_a(b.x - k.sink_a * x.x, k, p, x, x.x) : 0;
    const float rb = k.inv_b > 0 ? add_b(b.y - k.sink_b * x.y, k, p, x, x.y) : 0;
    const float rc = k.inv_c > 0 ? add_c(b.z - k.sink_c * x.z, k, p, x, x.z) : 0;
    own = ra + w.x * rb + w.z * rc;
    right = w.y * rb;
    below = w.w * rc;
}

// Adds to a cell what the level below has at its place, right of that, below, and diagonally below.
__device__ __forceinline__ void prolong_cell(float4 &x, const float4 &sides, const float4 &centres, float e0, float e1, float e2, float e3) {
    x.x += e0;
    x.y += sides.x * e0 + sides.y * e1;
    x.z += sides.z * e0 + sides.w * e2;
    x.w += centres.x * e0 + centres.y * e1 + centres.z * e2 + centres.w * e3;
}

// A vector at the points of a cell, whose x is even; something beyond the level.
__device__ __forceinline__ float4 cell_values(const BoxLevel &l, const float *v, int x, int y) {
    const float *at = v + (ptrdiff_t)y * l.stride + x;
    const bool in = (u32)x < (u32)l.width;
    float2 first = make_float2(0, 0), second = first;
    if (in && (u32)y < (u32)l.height) first = *(const float2 *)at;
    if (in && (u32)(y + 1) < (u32)l.height) second = *(const float2 *)(at + l.stride);
    return make_float4(first.x, first.y, second.x, second.y);
}

// Writes them; what is beyond the width, but not the stride, as well.
__device__ __forceinline__ void set_cell(const BoxLevel &l, float *v, int x, int y, const float4 &r) {
    float *at = v + (size_t)y * l.stride + x;
    if (x >= l.width || y >= l.height) return;
    *(float2 *)at = make_float2(r.x, r.y);
    if (y + 1 < l.height) *(float2 *)(at + l.stride) = make_float2(r.z, r.w);
}

// Forgets what is at points that have no equation.
__device__ __forceinline__ float4 clean(const Cell &k, const float4 &v) {
    return make_float4(k.inv_a > 0 ? v.x : 0, k.inv_b > 0 ? v.y : 0, k.inv_c > 0 ? v.z : 0, k.inv_d > 0 ? v.w : 0);
}

// Of a cell_of_row, what clean looks at.
__device__ __forceinline__ Cell inverses_of_row(const BoxLevel &l, int x, int y) {
    const float4 *sinks = (const float4 *)(l.sinks + ((ptrdiff_t)y * l.stride + x)), none = make_float4(0, 0, 0, 0);
    const bool in = (u32)x < (u32)l.stride;
    const float4 first = in && (u32)y < (u32)l.height ? sinks[0] : none, second = in && (u32)(y + 1) < (u32)l.height ? sinks[l.stride / 2] : none;
    Cell c;
    c.inv_a = first.y, c.inv_b = first.w, c.inv_c = second.y, c.inv_d = second.w;
    return c;
}

template <int CELL_ROWS> struct TileShared {
    enum { PLANE = (CELL_ROWS + 2) * PITCH + 1 };
    float planes[BOX_TILE_CHANNELS][4][PLANE];
};

// The planes of N channels, which are 0 around the cells: rows share what is between them.
template <int N, int CELL_ROWS> __device__ __forceinline__ void tile_planes(TileShared<CELL_ROWS> &s, Planes (&p)[N]) {
    const int lane = threadIdx.x % TILE_CELLS, row = threadIdx.x / TILE_CELLS;
    for (int i = row; i < N * 4; i += CELL_ROWS) {
        float *plane = s.planes[i >> 2][i & 3];
        plane[lane] = plane[(CELL_ROWS + 1) * PITCH + lane] = 0;
        if (lane < CELL_ROWS + 2) plane[lane * PITCH] = 0;
        if (lane < 3) plane[lane ? TileShared<CELL_ROWS>::PLANE - lane : TILE_CELLS] = 0;
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        p[n].a = s.planes[n][0], p[n].b = s.planes[n][1], p[n].c = s.planes[n][2], p[n].d = s.planes[n][3];
        p[n].pitch = PITCH, p[n].o = (int)(threadIdx.x / TILE_CELLS + 1) * PITCH + (int)(threadIdx.x % TILE_CELLS) + 1;
    }
}

// A block's tile. blockIdx.x counts groups of channels, then tiles.
struct Tile {
    int lane, row, X, Y, cx, cy;
    u32 first; // channel of its N
};

template <int N> __device__ __forceinline__ Tile tile_of(u32 tiles_x, u32 groups, int width, int height, int margin_x, int margin_y) {
    Tile t;
    t.lane = threadIdx.x % TILE_CELLS, t.row = threadIdx.x / TILE_CELLS;
    const u32 tile = blockIdx.x / groups;
    t.first = blockIdx.x % groups * N;
    t.X = (int)(tile % tiles_x) * width - margin_x + 2 * t.lane, t.Y = (int)(tile / tiles_x) * height - margin_y + 2 * t.row;
    t.cx = t.X >> 1, t.cy = t.Y >> 1;
    return t;
}

// A tile none of whose points has an equation is 0, and so is its residual. What the set-up made is older than the kernel before, and so may
// be read before that has ended.
template <int N>
__device__ __forceinline__ void down_tile(TileShared<BOX_DOWN_ROWS> &s, const BoxState *state, const BoxLevel &l,
                                          const BoxLevel &next, const float *b, float *x, float *next_b, u32 tiles_x,
                                          u32 groups) {
    const Tile t = tile_of<N>(tiles_x, groups, BOX_DOWN_WIDTH, BOX_DOWN_HEIGHT, DOWN_X, DOWN_Y);
    const bool own = t.lane >= DOWN_X / 2 && t.lane < TILE_CELLS - DOWN_X / 2 && t.row >= DOWN_Y / 2 &&
                     t.row < BOX_DOWN_ROWS - DOWN_Y / 2;
    const Cell k = cell_of_row(l, t.X, t.Y);
    const float4 w = weights(next, next.sides, t.cx, t.cy);
    Planes p[N];
    tile_planes<N, BOX_DOWN_ROWS>(s, p);
    after_prior();
    before_next();
    // All of this waits at the same time.
    const u32 stop = state->stop;
    const size_t vector = (size_t)l.stride * l.height, next_vector = (size_t)next.stride * next.height;
    float4 rhs[N], v[N];
#pragma unroll
    for (int n = 0; n < N; n++) rhs[n] = cell_values(l, b + (t.first + n) * vector, t.X, t.Y);
    const bool live = __syncthreads_or(k.inv_a + k.inv_b + k.inv_c + k.inv_d > 0);
    if (stop) return;
    x += t.first * vector, next_b += t.first * next_vector + (ptrdiff_t)t.cy * next.stride + t.cx;
    const bool out = own && within(next, t.cx, t.cy);
    if (!live) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            if (own) set_cell(l, x + n * vector, t.X, t.Y, make_float4(0, 0, 0, 0));
            if (out) next_b[n * next_vector] = 0;
        }
        return;
    }
#pragma unroll
    for (int n = 0; n < N; n++) rhs[n] = clean(k, rhs[n]);
    sweeps<N>(k, p, rhs, v, Rows<BOX_DOWN_ROWS, true>{t.row});
    float here[N], right[N], below[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        restrict_cell(k, p[n], rhs[n], v[n], w, here[n], right[n], below[n]);
        here[n] += __shfl_up_sync(~0u, right[n], 1);
        if (own) set_cell(l, x + n * vector, t.X, t.Y, v[n]);
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < N; n++) p[n].a[p[n].o] = below[n];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < N; n++)
        if (out) next_b[n * next_vector] = here[n] + p[n].a[p[n].o - PITCH];
}

// Channels are those of all groups: as many of each, up to BOX_TILE_CHANNELS.
extern "C" __global__ void __launch_bounds__(BOX_DOWN_THREADS, BOX_DOWN_BLOCKS)
    diffusion_box_down(const BoxState *state, BoxLevel l, BoxLevel next, const float *b, float *x, float *next_b, u32 tiles_x, u32 channels, u32 groups, u32 pad) {
    __shared__ TileShared<BOX_DOWN_ROWS> s;
    switch (channels / groups) {
    case 1: down_tile<1>(s, state, l, next, b, x, next_b, tiles_x, groups); break;
    case 2: down_tile<2>(s, state, l, next, b, x, next_b, tiles_x, groups); break;
    default: down_tile<BOX_TILE_CHANNELS>(s, state, l, next, b, x, next_b, tiles_x, groups);
    }
}

template <int N>
__device__ __forceinline__ void up_tile(TileShared<BOX_UP_ROWS> &s, const BoxState *state, const BoxLevel &l,
                                        const BoxLevel &next, const float *b, const float *x, const float *next_e,
                                        float *e, u32 tiles_x, u32 groups) {
    const Tile t = tile_of<N>(tiles_x, groups, BOX_UP_WIDTH, BOX_UP_HEIGHT, UP_X, UP_Y);
    const bool own =
        t.lane >= UP_X / 2 && t.lane < TILE_CELLS - UP_X / 2 && t.row >= UP_Y / 2 && t.row < BOX_UP_ROWS - UP_Y / 2;
    const size_t vector = (size_t)l.stride * l.height, next_vector = (size_t)next.stride * next.height;
    b += t.first * vector, x += t.first * vector, e += t.first * vector, next_e += t.first * next_vector;
    // These are of the way down, and older than the kernel before as well.
    float4 rhs[N], v[N];
#pragma unroll
    for (int n = 0; n < N; n++) v[n] = cell_values(l, x + n * vector, t.X, t.Y);
    if (N < BOX_TILE_CHANNELS)
#pragma unroll
        for (int n = 0; n < N; n++) rhs[n] = cell_values(l, b + n * vector, t.X, t.Y);
    Cell k = N < BOX_TILE_CHANNELS ? cell_of_row(l, t.X, t.Y) : inverses_of_row(l, t.X, t.Y);
    const float4 sides = weights(next, next.sides, t.cx, t.cy), centres = weights(next, next.centres, t.cx, t.cy);
    Planes p[N];
    tile_planes<N, BOX_UP_ROWS>(s, p);
    after_prior();
    before_next();
    // All of this waits at the same time.
    const u32 stop = state->stop;
    float g[N][2];
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float *at = next_e + n * next_vector + (ptrdiff_t)t.cy * next.stride + t.cx;
        g[n][0] = within(next, t.cx, t.cy) ? at[0] : 0;
        g[n][1] = within(next, t.cx, t.cy + 1) ? at[next.stride] : 0;
    }
    const bool live = __syncthreads_or(k.inv_a + k.inv_b + k.inv_c + k.inv_d > 0);
    if (stop) return;
    if (!live) {
#pragma unroll
        for (int n = 0; n < N; n++)
            if (own) set_cell(l, e + n * vector, t.X, t.Y, make_float4(0, 0, 0, 0));
        return;
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        float right = __shfl_down_sync(~0u, g[n][0], 1), diagonal = __shfl_down_sync(~0u, g[n][1], 1);
        if (t.lane == TILE_CELLS - 1) {
            const float *at = next_e + n * next_vector + (ptrdiff_t)t.cy * next.stride + t.cx + 1;
            right = within(next, t.cx + 1, t.cy) ? at[0] : 0, diagonal = within(next, t.cx + 1, t.cy + 1) ? at[next.stride] : 0;
        }
        v[n] = clean(k, v[n]);
        prolong_cell(v[n], sides, centres, g[n][0], right, g[n][1], diagonal);
        p[n].a[p[n].o] = v[n].x, p[n].b[p[n].o] = v[n].y, p[n].c[p[n].o] = v[n].z, p[n].d[p[n].o] = v[n].w;
    }
    __syncthreads();
    if (N == BOX_TILE_CHANNELS) { // there are registers for these only now
#pragma unroll
        for (int n = 0; n < N; n++) rhs[n] = cell_values(l, b + n * vector, t.X, t.Y);
        k = cell_of_row(l, t.X, t.Y);
    }
#pragma unroll
    for (int n = 0; n < N; n++) rhs[n] = clean(k, rhs[n]);
    sweeps_back<N>(k, p, rhs, v, Rows<BOX_UP_ROWS, false>{t.row});
#pragma unroll
    for (int n = 0; n < N; n++)
        if (own) set_cell(l, e + n * vector, t.X, t.Y, own_values(p[n]));
}

extern "C" __global__ void __launch_bounds__(BOX_UP_THREADS, BOX_UP_BLOCKS)
    diffusion_box_up(const BoxState *state, BoxLevel l, BoxLevel next, const float *b, const float *x, const float *next_e, float *e, u32 tiles_x, u32 channels, u32 groups, u32 pad) {
    __shared__ TileShared<BOX_UP_ROWS> s;
    switch (channels / groups) {
    case 1: up_tile<1>(s, state, l, next, b, x, next_e, e, tiles_x, groups); break;
    case 2: up_tile<2>(s, state, l, next, b, x, next_e, e, tiles_x, groups); break;
    default: up_tile<BOX_TILE_CHANNELS>(s, state, l, next, b, x, next_e, e, tiles_x, groups);
    }
}

// The levels that a block does alone, the largest first: of up to 32x32, 16x16 and 8x8 points; the last of them by the inverse of its operator.
// A level of 64x64 took a block 10 us, most of it for loads, and takes 5 as tiles. All that the set-up made is in registers before the kernel
// before this one has ended. Barriers are of the whole block: one of some warps is more than racecheck understands.
#define BOTTOM_CELLS (BOX_BOTTOM_SIDE / 2) // of a row of the first level
static_assert(BOX_BOTTOM_THREADS == BOTTOM_CELLS * BOTTOM_CELLS && BOX_BOTTOM_SIDE == 4 * BOX_COARSEST,
              "levels that a block does alone");

// The planes of a level of so many cells a row, which begin as 0.
template <int CELLS> struct BottomPlanes {
    float planes[4][(CELLS + 2) * (CELLS + 2)];
};

struct BottomShared {
    BottomPlanes<BOTTOM_CELLS> first;
    BottomPlanes<BOTTOM_CELLS / 2> second;
    float b1[COARSEST_POINTS][4], b2[COARSEST_POINTS]; // of the second level, by cells, and of the last; all up to here begins as 0
    float below[BOX_BOTTOM_THREADS], e2[COARSEST_POINTS];
};

// A level's cells among the block's first threads.
template <int CELLS> struct Share {
    enum { KEEPS = true };
    int cx, cy;
    bool mine; // it has a cell
    Planes q;
    Cell k;
    float4 sides, centres, b, x; // of the next level's point at the cell's place; and of the cell
    __device__ __forceinline__ Share(BottomPlanes<CELLS> &s, const BoxLevel &l, const BoxLevel &next) {
        cx = threadIdx.x % CELLS, cy = threadIdx.x / CELLS;
        mine = threadIdx.x < CELLS * CELLS && within(l, 2 * cx, 2 * cy);
        q.a = s.planes[0], q.b = s.planes[1], q.c = s.planes[2], q.d = s.planes[3];
        q.pitch = CELLS + 2, q.o = (cy + 1) * (CELLS + 2) + cx + 1;
        if (!mine) return;
        k = cell_at(l, 2 * cx, 2 * cy);
        sides = weights(next, next.sides, cx, cy), centres = weights(next, next.centres, cx, cy);
    }
    __device__ __forceinline__ bool operator()(int, int) const { return mine; }
    __device__ __forceinline__ void meet() const { __syncthreads(); }
};

// Down a level whose right-hand side is b: the thread's part of that of the next one. Below is for so many threads.
template <int CELLS> __device__ __forceinline__ float bottom_down(Share<CELLS> &h, float *below) {
    Planes qs[1] = {h.q};
    float4 bs[1] = {h.b}, xs[1] = {make_float4(0, 0, 0, 0)};
    sweeps<1>(h.k, qs, bs, xs, h);
    h.x = xs[0];
    float own = 0, right = 0;
    if (h.mine) restrict_cell(h.k, h.q, h.b, h.x, h.sides, own, right, below[threadIdx.x]);
    right = __shfl_up_sync(~0u, right, 1);
    __syncthreads();
    if (h.cx) own += right;
    if (h.mine && h.cy) own += below[threadIdx.x - CELLS];
    return own;
}

// Up a level, given what the level below has at the four points around a cell.
template <int CELLS> __device__ __forceinline__ void bottom_up(Share<CELLS> &h, const float (&e)[4]) {
    Planes qs[1] = {h.q};
    float4 bs[1] = {h.b}, xs[1] = {h.x};
    if (h.mine) {
        prolong_cell(xs[0], h.sides, h.centres, e[0], e[1], e[2], e[3]);
        h.q.a[h.q.o] = xs[0].x, h.q.b[h.q.o] = xs[0].y, h.q.c[h.q.o] = xs[0].z, h.q.d[h.q.o] = xs[0].w;
    }
    __syncthreads();
    sweeps_back<1>(h.k, qs, bs, xs, h);
    h.x = xs[0];
}

// What the last level has around the cell of the level above at (x, y).
__device__ __forceinline__ void last_around(const BoxLevel &l, const float *v, int x, int y, float (&e)[4]) {
#pragma unroll
    for (int j = 0; j < 4; j++) e[j] = within(l, x + (j & 1), y + (j >> 1)) ? v[(y + (j >> 1)) * l.width + x + (j & 1)] : 0;
}

extern "C" __global__ void __launch_bounds__(BOX_BOTTOM_THREADS)
    diffusion_box_bottom(const BoxState *state, BoxBottomArgs p) {
    __shared__ BottomShared s;
    const int t = threadIdx.x;
    const u32 levels = p.levels;
    const BoxLevel &last = levels == 1 ? p.l0 : levels == 2 ? p.l1 : p.l2;
    // Four threads a row of the inverse.
    const int n = last.width * last.height, row = t / 4;
    float inverse[COARSEST_POINTS / 4];
#pragma unroll
    for (int i = 0; i < COARSEST_POINTS / 4; i++) inverse[i] = row < n && t % 4 + 4 * i < n ? p.inverse[row * n + t % 4 + 4 * i] : 0;
    const size_t vector = (size_t)p.l0.stride * p.l0.height;
    const float *b0 = p.b + blockIdx.x * vector;
    float *e0 = p.e + blockIdx.x * vector;
    Share<BOTTOM_CELLS> first(s.first, p.l0, p.l1);
    Share<BOTTOM_CELLS / 2> second(s.second, p.l1, p.l2);
    first.mine = first.mine && levels > 1, second.mine = second.mine && levels > 2;
    for (int i = t; i < (int)(offsetof(BottomShared, below) / 4); i += BOX_BOTTOM_THREADS) ((float *)&s)[i] = 0;
    __syncthreads();
    after_prior();
    before_next();
    const u32 stop = state->stop;
    first.b = first.mine ? load_cell(p.l0, b0, 2 * first.cx, 2 * first.cy) : make_float4(0, 0, 0, 0);
    if (levels == 1 && t < n) s.b2[t] = b0[t / last.width * last.stride + t % last.width];
    if (stop) return;
    if (levels > 1) {
        const float own = bottom_down(first, s.below);
        if (first.mine) {
            if (levels == 2)
                s.b2[first.cy * last.width + first.cx] = own;
            else
                s.b1[(first.cy >> 1) * (BOTTOM_CELLS / 2) + (first.cx >> 1)][(first.cy & 1) * 2 + (first.cx & 1)] = own;
        }
    }
    __syncthreads();
    if (levels > 2) {
        second.b = make_float4(0, 0, 0, 0);
        if (second.mine) second.b = make_float4(s.b1[t][0], s.b1[t][1], s.b1[t][2], s.b1[t][3]);
        const float own = bottom_down(second, s.below);
        if (second.mine) s.b2[second.cy * last.width + second.cx] = own;
        __syncthreads();
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < COARSEST_POINTS / 4; i++) sum += inverse[i] * s.b2[t % 4 + 4 * i];
    sum += __shfl_xor_sync(~0u, sum, 1), sum += __shfl_xor_sync(~0u, sum, 2);
    if (row < n && t % 4 == 0) {
        s.e2[row] = sum;
        if (levels == 1) e0[row / last.width * last.stride + row % last.width] = sum;
    }
    if (levels == 1) return;
    __syncthreads();
    float e[4];
    if (levels > 2) {
        last_around(last, s.e2, second.cx, second.cy, e);
        bottom_up(second, e);
        // The first level's cell is where the second has a point.
        const Planes &q = second.q;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int x = first.cx + (j & 1), y = first.cy + (j >> 1);
            e[j] = q.a[((y & 1) * 2 + (x & 1)) * (q.b - q.a) + ((y >> 1) + 1) * q.pitch + (x >> 1) + 1];
        }
    } else
        last_around(last, s.e2, first.cx, first.cy, e);
    bottom_up(first, e);
    if (first.mine) store_cell(p.l0, e0, 2 * first.cx, 2 * first.cy, first.x);
}

// Copies the image to X where it is in Y, and writes the status.
extern "C" __global__ void __launch_bounds__(BOX_END_THREADS) diffusion_box_end(BoxSolve p, DiffusionStatus *status) {
    after_prior();
    const BoxState *st = p.state;
    if (st->magic != STATE_MAGIC) return;
    if (st->side) {
        const u64 n = (u64)p.width * p.height * p.channels, step = (u64)gridDim.x * BOX_END_THREADS;
        const u64 first = (u64)blockIdx.x * BOX_END_THREADS + threadIdx.x;
        for (u64 i = first; i < n / 4; i += step) ((float4 *)p.x)[i] = ((const float4 *)p.y)[i];
        if (first < n % 4) p.x[n - 1 - first] = p.y[n - 1 - first];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        DiffusionStatus r = {st->cycles, st->converged, st->update, st->ratio, st->estimate, st->residual, 0};
        *status = r;
    }
}
