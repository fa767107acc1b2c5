// See ../selectvertices.cu.
#pragma once

#include "types.cuh"

// Counters that phases share, and their counts by bins.
struct SelectState {
    u32 stay, last_bin; // how many stay, and how many are in the last bin
    u32 ended[4];       // blocks of a phase
    u32 bin, rest;      // of the last one to be chosen, and how many of that bin are
    u32 sub, sub_rest;  // the same of the bin's parts
    u32 pad[6];
    u32 bins[SELECT_BINS], subs[SELECT_BINS];
};

// What all phases work on. Candidates are counted from the first one, (spacing+1, spacing+1). The rank of one is its
// key, and below that the index of its corner, y*(width+1) + x.
struct Selection {
    const unsigned short *edges;
    const int2 *previous;
    int2 *points;
    u32 *count;
    u32 *keys;  // of candidates
    u64 *first; // rank of each block; when these are done with, the ranks of the last bin
    u64 *stay;  // ranks, in any order
    u64 *cells; // the first rank of each
    SelectState *state;
    u32 *tickets;  // of cells: their parts that have ended
    u32 *bits;     // one for each corner
    u32 *segments; // how many vertices come before each, and at the end all
    u64 mixed;     // the seed
    u32 zero_words, bit_words, cell_count; // to clear, from state on; of these those of bits
    u32 floor, strength, previous_count;
    u32 n, room; // wanted, and those of them that are not on the border
    int width, height, spacing, columns, rows;
    int block, block_columns, block_rows, row_blocks; // row_blocks: rows of blocks that a block of threads does
    int cell, cell_columns, cell_rows, cell_parts;
    int border_columns, border_rows; // parts
    u32 index_bits;                  // of the greatest index
};

KERNEL(select_clear, Selection v);
KERNEL(select_keys, Selection v);
KERNEL(select_previous, Selection v);
KERNEL(select_cells, Selection v);
KERNEL(select_distance, Selection v);
KERNEL(select_refine, Selection v);
KERNEL(select_mark, Selection v);
KERNEL(select_count, Selection v);
KERNEL(select_write, Selection v);
