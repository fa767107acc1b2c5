// See ../diffusion_sweeps.cu.
#pragma once

#include "diffusion.cuh"

#define SWEEP_LEVELS 21     // sides are up to 2^20
#define PYRAMID_SWEEPS 4096 // of a level of a pyramid at most

// An image of a pyramid.
struct SweepImage {
    const u8 *flags;
    u8 *open;
    float *x, *spare;
    int width, height;
};

// The images of a pyramid, the largest first.
struct SweepPyramid {
    SweepImage at[SWEEP_LEVELS];
};

// How far a solve has come.
struct SweepState {
    u32 magic, channels, cycles, done;
    u32 level, level_cycles; // the level at work, and its cycles so far: with 0 it takes a start from the one below
    u32 stop_at;             // so many cycles of the image, and this op is over
    u32 tickets;             // blocks of a launch that have ended
    u32 change, residual;    // the bits of a float that is not negative
    float update, ratio, estimate, difference, fall;
    float past[PAST_UPDATES]; // updates of the last cycles
    u32 peak;                 // the bits of the largest value that there was to begin with
};

// A DiffusionStatus of the methods that can stop by a threshold; see driver.DiffusionStatus.
struct SweepStatus {
    u32 cycles, converged;
    float update, ratio, estimate, residual, difference, fall;
};

struct SweepSolve {
    DiffusionHeader *head;
    SweepState *state;
    SweepStatus *status;
    const u32 *nearest;
    float *old;
    double *sums; // of tiles: how much the sweep before the middle of a cycle changed, and the last one
    u64 *fault;
    u32 channels, start, method, walls;
    float tolerance, threshold; // one of them is 0
    u32 levels, cycles;
    float weights[SWEEP_HALO]; // of the sweeps of a pass; see DiffusionSolve.Weights of package driver
};

KERNEL(diffusion_sweeps_flags, const u8 *fine, u8 *to, int fine_width, int fine_height, int width, int height,
       u32 greedy, u32 pad);
KERNEL(diffusion_sweeps_columns, const u8 *flags, int *rows, int width, int height);
KERNEL(diffusion_sweeps_nearest, const int *rows, u32 *nearest, int width, int height);
KERNEL(diffusion_sweeps_finish, DiffusionHeader *head, u32 *counts, u32 width, u32 height, u32 walls, u32 method);
KERNEL(diffusion_sweeps_begin, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_run, SweepSolve s, SweepPyramid p, u32 pass, u32 passes);
KERNEL(diffusion_sweeps_far, SweepSolve s, SweepImage l, const float *from, float *to, u32 first, u32 last);
KERNEL(diffusion_sweeps_spread, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_peak, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_shrink, SweepSolve s, SweepImage fine, SweepImage l);
KERNEL(diffusion_sweeps_step, SweepSolve s);
KERNEL(diffusion_sweeps_last, SweepSolve s, SweepImage l);
KERNEL(diffusion_sweeps_status, SweepSolve s);
