// See ../mask_blobs.cu.
#pragma once

#include "mask.cuh"

// A blob; see driver.Blob.
struct Blob {
    u64 count, sum_x, sum_y, sum_xx, sum_xy, sum_yy, sum, sum_sq;
    u32 min, max, first, region, x0, y0, x1, y1, sides_x, sides_y, convex, concave;
};

// What a region has; see driver.BlobCount.
struct BlobCount {
    u32 all, kept, first, runs, first_run, pad;
};

// A run of pixels of a blob; see driver.BlobRun.
struct BlobRun {
    u32 y, x0, x1, blob;
};

// A region of the op: where its bits are, and which samples are foreground. Its first word is a multiple of 256, and
// rows are filled up to a multiple of eight.
struct BlobMap {
    u32 word0, row_words; // of a row; 0 where the region has no pixel in the frame
    int x0, y0, y1;       // x0 is a multiple of 32
    u32 lo, hi, strong_lo, strong_hi, strong;
};

// How many blobs and runs there are before a region.
struct BlobStart {
    u32 all, kept, runs, pad;
};

struct BlobArgs {
    View p;
    const unsigned char *frame, *frame_end; // words with a byte in between may be read
    const BlobMap *maps;                    // of the regions of the launch, and one behind them that has the end
    BlobStart *starts;                      // likewise
    BlobCount *counts;                      // of the regions of the launch
    Blob *blobs;
    BlobRun *runs;
    u32 *bits, *inside, *spare; // foreground, the pixels of the regions, and what a step writes
    u32 *run_prefix;            // runs before each word
    u32 *labels;                // BLOB_STARTS for each word
    u32 *status;                // three for each tile of mask_blobs_number, and its counter
    u64 stride;
    u32 first, count, words; // regions of the launch, and words of all
    u32 tiles;
    int row0;
    u32 pixel, at; // bytes of a pixel, byte of the channel in it
    u32 wide;      // samples have two bytes
    u32 eight, min_count, max_blobs, max_runs;
    u32 erode, reach; // of a step
    u8 half[BLOB_REACH + 1];
};

KERNEL(mask_blobs_mark, BlobArgs g);
KERNEL(mask_blobs_step, BlobArgs g);
KERNEL(mask_blobs_link, BlobArgs g);
KERNEL(mask_blobs_join, BlobArgs g);
KERNEL(mask_blobs_flatten, BlobArgs g);
KERNEL(mask_blobs_number, BlobArgs g);
KERNEL(mask_blobs_measure, BlobArgs g);
