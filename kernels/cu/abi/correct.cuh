// See ../correct.cu.
#pragma once

#include "types.cuh"

// Samples that a thread makes of a row, and threads of a block.
#define CORRECT_SAMPLES 8
#define CORRECT_THREADS 128

// CorrectArgs: rows of `samples` samples. The field has one row, for all of them, or as many; its rows are `pitch`
// samples apart, a multiple of 16.
struct CorrectArgs {
    const u8 *src;
    u8 *dst;
    const u8 *dark;
    const u8 *gain;
    u64 src_stride, dst_stride;
    int samples, rows, field_rows, pitch;
    u32 fraction, most;
    u32 wide; // rows of src and dst begin at multiples of 16 bytes
    u32 pad;
};

KERNEL(correct_bytes, CorrectArgs a);
KERNEL(correct_words, CorrectArgs a);
