// See ../pack.cu.
#pragma once

#include "types.cuh"

struct PackImage {
    u8 *data;
    u64 stride;
    u32 channels, order; // order: a byte a channel
    u32 sample_bytes, alpha;
};

KERNEL(pack_unpack, PackImage src, const u8 *mask, u8 *flags, float *planes, int width, int height, u32 most, u32 pad);
KERNEL(pack_pack, const float *planes, const u8 *flags, PackImage src, PackImage dst, PackImage residual, int width,
       int height, u32 most, u32 pad);
