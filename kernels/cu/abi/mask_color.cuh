// See ../mask_color.cu.
#pragma once

#include "mask.cuh"

struct ColorArgs {
    View p;
    const unsigned char *frame, *frame_end; // the bytes in between may be read
    MaskStats *stats;
    u32 *hist;
    u64 stride;
    u32 first, count;
    int row0, rows;
    u32 bytes, order;      // of a pixel; order: a byte a channel
    u32 channels, channel; // of the results, and the first one that the kernel writes
    u32 what, copies;      // copies: how often the table of parts is in shared memory, as a power of two
    u32 whole, cleared;    // whole: the frame is the whole image; cleared: by the kernel before this
    u32 pad[2];
    int4 x, y, z;          // rows of a matrix; w is the offset
};

KERNEL(mask_color_rgb, ColorArgs g);
KERNEL(mask_color_rgb_a, ColorArgs g);
KERNEL(mask_color_rgb_ah, ColorArgs g);
KERNEL(mask_color_alpha, ColorArgs g);
KERNEL(mask_color_alpha_a, ColorArgs g);
KERNEL(mask_color_alpha_ah, ColorArgs g);
KERNEL(mask_color_gray, ColorArgs g);
KERNEL(mask_color_gray_a, ColorArgs g);
KERNEL(mask_color_gray_ah, ColorArgs g);
KERNEL(mask_color_gray709, ColorArgs g);
KERNEL(mask_color_gray709_a, ColorArgs g);
KERNEL(mask_color_gray709_ah, ColorArgs g);
KERNEL(mask_color_hsv, ColorArgs g);
KERNEL(mask_color_hsv_a, ColorArgs g);
KERNEL(mask_color_hsv_ah, ColorArgs g);
KERNEL(mask_color_lab, ColorArgs g);
KERNEL(mask_color_lab_a, ColorArgs g);
KERNEL(mask_color_lab_ah, ColorArgs g);
KERNEL(mask_color_matrix, ColorArgs g);
KERNEL(mask_color_matrix_a, ColorArgs g);
KERNEL(mask_color_matrix_ah, ColorArgs g);
