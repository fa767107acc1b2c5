// What the solvers of diffusion share. Keep in sync: kernels/driver/diffusion.go, kernels/cuda/diffusion_layout.go.
#pragma once

#include "fault.cuh"

typedef unsigned char u8;

#define FIXED 1
#define BLOCK_RIGHT 2
#define BLOCK_DOWN 4
#define SHUT_RIGHT 8
#define SHUT_LEFT 16
#define SHUT_DOWN 32
#define SHUT_UP 64

#define DIFFUSION_MAGIC 0x5e7d1ff5

// Begins a set-up. Magic is DIFFUSION_MAGIC where it is whole, and whatever was there before where it is not; a set-up
// clears it first and writes it last.
struct DiffusionHeader {
    u32 magic, width, height, barriers, method, pad, fixed, void_pixels;
};
static_assert(sizeof(DiffusionHeader) == 32, "DiffusionHeader");

// How far a solve has come; see driver.DiffusionStatus.
struct DiffusionStatus {
    u32 cycles, converged;
    float update, ratio, estimate, residual;
    u64 pad;
};
static_assert(sizeof(DiffusionStatus) == 32, "DiffusionStatus");

// Assumed of the ratio before there are two updates, and at most.
#define FIRST_RATIO 0.5f
#define MOST_RATIO (1 - 1e-5f)
