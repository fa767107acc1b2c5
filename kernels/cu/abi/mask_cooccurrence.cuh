// See ../mask_cooccurrence.cu.
#pragma once

#include "mask.cuh"

struct PairArgs {
    View p;
    const unsigned char *frame, *frame_end; // words with a byte in between may be read
    u32 *counts;
    u32 *bits; // which pixels are inside, of each region of the launch
    u64 stride, slot; // slot: words of bits that each region has
    u32 first, count; // regions of the launch
    u32 out;          // of the results, that of the first
    int row0, rows;   // of the frame
    int from_row, to_row;
    u32 pixel, at, sample_bits; // bytes of a pixel, byte of the channel in it, significant bits
    u32 levels, channels, channel;
    u32 offset0, offsets, all_offsets; // those of the launch, and how many there are
    int dx[MAX_PAIR_OFFSETS], dy[MAX_PAIR_OFFSETS];
};

KERNEL(mask_cooccurrence_mark, PairArgs g);
KERNEL(mask_cooccurrence_gray8, PairArgs g);
KERNEL(mask_cooccurrence_8, PairArgs g);
KERNEL(mask_cooccurrence_16, PairArgs g);
KERNEL(mask_cooccurrence_gray8_global, PairArgs g);
KERNEL(mask_cooccurrence_8_global, PairArgs g);
KERNEL(mask_cooccurrence_16_global, PairArgs g);
