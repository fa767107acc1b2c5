// What the solvers of diffusion share.
#pragma once

#include "types.cuh"

// Begins a set-up. Magic is DIFFUSION_MAGIC where it is whole, and whatever was there before where it is not; a set-up
// clears it first and writes it last.
struct DiffusionHeader {
    u32 magic, width, height, barriers, method, pad, fixed, void_pixels;
};

// How far a solve has come; see driver.DiffusionStatus.
struct DiffusionStatus {
    u32 cycles, converged;
    float update, ratio, estimate, residual;
    u64 pad;
};
