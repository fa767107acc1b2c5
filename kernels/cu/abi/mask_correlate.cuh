// See ../mask_correlate.cu.
#pragma once

#include "mask.cuh"

// See driver.PairSums.
struct PairSums {
    u64 pairs, a, b, sq_a, sq_b, product;
};

struct CorrelateArgs {
    View p;
    const unsigned char *frame, *frame_end, *other, *other_end; // aligned words with a byte in between may be read
    PairSums *sums;
    u32 *bits; // which pixels are inside, of each region of the launch; null where all lags are (0,0)
    u64 stride, other_stride, slot; // slot: words of bits that each region has
    u32 first, count; // regions of the launch
    u32 out;          // of the results, that of the first
    int row0, rows;   // of both frames
    int from_row, to_row;
    u32 pixel, lags, slots, series; // bytes of a pixel, lags of the launch, results of a series, series of a region
    u32 a_at[MAX_SERIES], b_at[MAX_SERIES]; // bytes of the channels in a pixel
    int dx[CORRELATE_LAUNCH], dy[CORRELATE_LAUNCH];
    u32 to[CORRELATE_LAUNCH]; // the slot of each lag
    u32 pad;
};

KERNEL(mask_correlate_gray8, CorrelateArgs g);
KERNEL(mask_correlate_still8, CorrelateArgs g);
KERNEL(mask_correlate_8, CorrelateArgs g);
KERNEL(mask_correlate_16, CorrelateArgs g);
