// See ../mask_weigh.cu.
#pragma once

#include "types.cuh"

// Weighted sums of one channel of one region; see driver.WeightSums.
struct WeightSums {
    i64 weight, sum, sq_low, sq_high;
};

struct WeighArgs {
    const u64 *pixels; // column, row and weight
    const u32 *starts; // of regions in pixels
    const unsigned char *frame;
    WeightSums *sums;
    i64 *hist; // 0 where none is wanted
    u64 stride, n; // n: pixels
    u32 first, count;
    int width, row0, rows;
    u32 pixel, order; // bytes of a pixel, and the byte of each channel in it
    u32 channels, levels;
    u32 own; // each region has one block, which writes its sums
};

KERNEL(mask_weigh_gray8, WeighArgs g);
KERNEL(mask_weigh_8, WeighArgs g);
KERNEL(mask_weigh_16, WeighArgs g);
