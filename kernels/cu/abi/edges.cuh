// See ../edges.cu.
#pragma once

#include "types.cuh"

KERNEL(edges_sobel, const unsigned char *src, u64 stride, unsigned short *dst, int width, int height, u32 kind,
       u32 weights, u32 shift, u32 pad);
