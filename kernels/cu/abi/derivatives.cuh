// See ../derivatives.cu.
#pragma once

#include "types.cuh"

// DerivativesArgs: weights and most are those of Luminance in ../luma.cuh. zero is added to Laplacians, and the last drop
// bits of both are rounded off.
struct DerivativesArgs {
    const u8 *src;
    u64 stride;
    unsigned short *gradient, *laplacian;
    int width, height;
    u32 kind, weights, most;
    u32 zero, drop, pad;
};

KERNEL(derivatives_sobel, DerivativesArgs a);
