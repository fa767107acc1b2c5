// See ../develop.cu.
#pragma once

#include "types.cuh"

// What a thread makes of a row, and threads of a block.
#define DEVELOP_PIXELS 8
#define DEVELOP_THREADS 128

// DevelopArgs: rows [row0, row0 + rows) of a frame of width * height. src holds rows from `first` on.
struct DevelopArgs {
    const u8 *src;
    u8 *dst;
    u32 *beyond; // 0 where nobody counts
    u64 src_stride, dst_stride;
    int width, height;
    int first, row0, rows;
    u32 bits, packed; // of a sample
    u32 luma;         // YUV: the byte of the first Y
    u32 red;          // Bayer: the column of red, and 2 for the second row
    u32 wide;         // 1: rows of src begin at multiples of 8 bytes; 2: those of dst do
};

KERNEL(develop_mono, DevelopArgs a);
KERNEL(develop_yuv, DevelopArgs a);
// Bayer of 8 bits, and of more; bilinear, and after Malvar, He and Cutler.
KERNEL(develop_bayer8, DevelopArgs a);
KERNEL(develop_bayer8_malvar, DevelopArgs a);
KERNEL(develop_bayer, DevelopArgs a);
KERNEL(develop_bayer_malvar, DevelopArgs a);
