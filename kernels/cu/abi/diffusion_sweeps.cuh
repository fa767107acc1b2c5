// See ../diffusion_sweeps.cu.
#pragma once

#include "diffusion.cuh"

// An image of a pyramid.
struct SweepImage {
    const u8 *flags;
    u8 *open;
    float *x, *spare;
    int width, height;
};

// How far a solve has come.
struct SweepState {
    u32 magic, channels, cycles, done, level_done;
    u32 change, residual; // the bits of a float that is not negative
    float update, ratio, estimate;
    float past[PAST_UPDATES]; // updates of the last cycles
    u32 peak;                 // the bits of the largest value that there was to begin with
};

struct SweepSolve {
    DiffusionHeader *head;
    SweepState *state;
    DiffusionStatus *status;
    const u32 *nearest;
    float *old;
    u64 *fault;
    u32 channels, start, method, walls;
    float tolerance;
    u32 pad;
};

KERNEL(diffusion_sweeps_flags, const u8 *fine, u8 *to, int fine_width, int fine_height, int width, int height,
       u32 greedy, u32 pad);
KERNEL(diffusion_sweeps_columns, const u8 *flags, int *rows, int width, int height);
KERNEL(diffusion_sweeps_nearest, const int *rows, u32 *nearest, int width, int height);
KERNEL(diffusion_sweeps_finish, DiffusionHeader *head, u32 *counts, u32 width, u32 height, u32 walls, u32 method);
KERNEL(diffusion_sweeps_begin, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_run, SweepSolve s, SweepImage l, const float *from, float *to, u32 sweeps, u32 first, u32 last,
       u32 level);
KERNEL(diffusion_sweeps_far, SweepSolve s, SweepImage l, const float *from, float *to, u32 first, u32 last);
KERNEL(diffusion_sweeps_spread, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_peak, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_shrink, SweepSolve s, SweepImage fine, SweepImage l);
KERNEL(diffusion_sweeps_grow, SweepSolve s, SweepImage l, SweepImage coarse);
KERNEL(diffusion_sweeps_level_step, SweepSolve s);
KERNEL(diffusion_sweeps_step, SweepSolve s);
KERNEL(diffusion_sweeps_last, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_status, SweepSolve s);
