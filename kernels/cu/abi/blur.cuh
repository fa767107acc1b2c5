// See ../blur.cu.
#pragma once

#include "types.cuh"

KERNEL(blur_level, const float *src, float *dst, int w, int h, int dw, int dh, u32 rows, u32 pad);
KERNEL(blur_mix, const float *src, const float *levels, const float *sigma, float *dst, int w, int h, u32 channels,
       float scale);
