// See ../diffusion_box.cu.
#pragma once

#include "diffusion.cuh"

// What a solve knows between kernels; it begins State.
struct BoxState {
    u32 magic, channels, stop, cycles;
    u32 side;              // 0: the image is in X; 1: it is in Y
    u32 done;              // blocks of a kernel that have ended
    u32 most, most_left;   // bits of the largest update and residual so far
    float update, ratio, estimate, residual;
    u32 converged, pad;
};

// A level but for its vectors. Point (x, y) is at y*stride + x. Its operator is sum over neighbours of coupling*(own
// value - theirs) + sink*(own value); couplings are e, s, se and sw, kept at the one of two points from which they lead
// right or down. The weights are those by which points of the level above are interpolated: what is added to the point
// right of that which has the same place as this one from it and the next, to the point below, and to the one
// diagonally below.
struct BoxLevel {
    int width, height, stride, pad;
    float4 *couplings;
    float2 *sinks;   // the sink, and 1/(sum of couplings + sink), or 0 where there is no equation
    float4 *sides;   // h0, h1, v0, v1
    float4 *centres; // c0 to c3
};

// What the kernels of a solve have in common. Colours, x and y have a plane a channel.
struct BoxSolve {
    const u8 *flags;
    const DiffusionHeader *head;
    const float *colours;
    float *x, *y;
    BoxState *state;
    double *sums; // BOX_MEAN_BLOCKS a channel
    u64 *fault;
    int width, height, channels, start; // driver.DiffusionStart
    float tolerance;
    u32 pad;
};

struct BoxBottomArgs {
    BoxLevel l0, l1, l2;
    const float *inverse;
    const float *b;
    float *e;
    u32 levels, pad;
};

KERNEL(diffusion_box_check, const u8 *flags, u64 n, DiffusionHeader *head, u32 *counts, u64 *fault);
KERNEL(diffusion_box_coarsen_flags, const u8 *flags, int width, int height, BoxLevel to);
KERNEL(diffusion_box_coarsen, BoxLevel from, BoxLevel to);
KERNEL(diffusion_box_invert, BoxLevel l, float *inverse, DiffusionHeader *head, u32 width, u32 height);
KERNEL(diffusion_box_begin, BoxSolve p);
KERNEL(diffusion_box_start, BoxSolve p, BoxLevel l, const float *e, float *b);
KERNEL(diffusion_box_fine, BoxSolve p, BoxLevel l, const float *e, float *b);
KERNEL(diffusion_box_down, const BoxState *state, BoxLevel l, BoxLevel next, const float *b, float *x, float *next_b,
       u32 tiles_x, u32 channels, u32 groups, u32 pad);
KERNEL(diffusion_box_up, const BoxState *state, BoxLevel l, BoxLevel next, const float *b, const float *x,
       const float *next_e, float *e, u32 tiles_x, u32 channels, u32 groups, u32 pad);
KERNEL(diffusion_box_bottom, const BoxState *state, BoxBottomArgs p);
KERNEL(diffusion_box_end, BoxSolve p, DiffusionStatus *status);
