// See ../mask_reduce.cu.
#pragma once

#include "mask.cuh"

struct ReduceArgs {
    View p;
    const unsigned char *frame, *frame_end; // the bytes in between may be read
    MaskStats *stats;
    u32 *hist;
    u64 stride, item0; // item0: that of the first region
    u32 first, count;
    int row0, rows;
    u32 channels, order, levels, what; // order: a byte a channel
    u32 whole, cleared;                // whole: the frame is the whole image; cleared: by the kernel before this
};

KERNEL(mask_reduce_clear, MaskStats *stats, u64 n, uint4 *hist, u64 hist_vecs);
KERNEL(mask_reduce_gray8, ReduceArgs g);
KERNEL(mask_reduce_gray8_m, ReduceArgs g);
KERNEL(mask_reduce_gray8_h, ReduceArgs g);
KERNEL(mask_reduce_gray8_hm, ReduceArgs g);
KERNEL(mask_reduce_gray16, ReduceArgs g);
KERNEL(mask_reduce_gray16_m, ReduceArgs g);
KERNEL(mask_reduce_gray16_h, ReduceArgs g);
KERNEL(mask_reduce_gray16_hm, ReduceArgs g);
KERNEL(mask_reduce_any8, ReduceArgs g);
KERNEL(mask_reduce_any8_m, ReduceArgs g);
KERNEL(mask_reduce_any8_h, ReduceArgs g);
KERNEL(mask_reduce_any8_hm, ReduceArgs g);
KERNEL(mask_reduce_gray8_each, ReduceArgs g);
KERNEL(mask_reduce_gray8_m_each, ReduceArgs g);
KERNEL(mask_reduce_gray8_h_each, ReduceArgs g);
KERNEL(mask_reduce_gray8_hm_each, ReduceArgs g);
KERNEL(mask_reduce_gray16_each, ReduceArgs g);
KERNEL(mask_reduce_gray16_m_each, ReduceArgs g);
KERNEL(mask_reduce_gray16_h_each, ReduceArgs g);
KERNEL(mask_reduce_gray16_hm_each, ReduceArgs g);
KERNEL(mask_reduce_any8_each, ReduceArgs g);
KERNEL(mask_reduce_any8_m_each, ReduceArgs g);
KERNEL(mask_reduce_any8_h_each, ReduceArgs g);
KERNEL(mask_reduce_any8_hm_each, ReduceArgs g);
KERNEL(mask_reduce_wide_h, ReduceArgs g);
KERNEL(mask_reduce_wide_hm, ReduceArgs g);
KERNEL(mask_reduce_global_h, ReduceArgs g);
KERNEL(mask_reduce_global_hm, ReduceArgs g);
