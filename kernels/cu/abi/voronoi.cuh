// See ../voronoi.cu.
#pragma once

#include "types.cuh"

// Where things are.
struct VoronoiArgs {
    const int2 *sites;
    u32 *labels; // width*height
    u64 *fault;
    u32 *words;      // pitch for each strip: bit y%32 of the word at (y/32)*pitch + x is the pixel's
    u32 *occupied;   // occupied_pitch for each strip: bit cx%32 of the word at cy*occupied_pitch + cx/32 is the cell's
    u32 *blocks; // occupied_pitch for each 32 strips: bit cy%32 says that a word of the bitmap, of the same column, is
                 // not 0
    u32 *next;       // how many entries there are, and how many hard parts
    u32 *hard;       // parts of tiles for voronoi_hard: 32 times the tile, and which part
    uint2 *ranks;    // for each word with sites that word, and the entry of its first
    uint2 *heads;    // of each cell its first entry, and how many it has
    uint2 *entries;  // index of a site, and its place in its cell: x + 32 y
    u32 *
        plane; // width*height: of the nearest site within the column, its distance * 4 + which way, see voronoi_columns
    int *above;      // for each word, the last row above its strip with a site in that column, or -1
    int *below;      // and the first one below, or NO_ROW
    u32 n;
    int width, height, pitch;
    int cells, occupied_pitch; // cells in a row, and words of their bitmap
    int step;                  // of jump flooding, in pixels
    u32 pad;
};

KERNEL(voronoi_mark, VoronoiArgs g);
KERNEL(voronoi_rank, VoronoiArgs g);
KERNEL(voronoi_least, VoronoiArgs g);
KERNEL(voronoi_hard, VoronoiArgs g);
KERNEL(voronoi_hard_wide, VoronoiArgs g);
KERNEL(voronoi_tiles, VoronoiArgs g);
KERNEL(voronoi_tiles_wide, VoronoiArgs g);
KERNEL(voronoi_few, VoronoiArgs g);
KERNEL(voronoi_few_wide, VoronoiArgs g);
KERNEL(voronoi_strips, VoronoiArgs g);
KERNEL(voronoi_columns, VoronoiArgs g);
KERNEL(voronoi_rows, VoronoiArgs g);
KERNEL(voronoi_rows_wide, VoronoiArgs g);
KERNEL(voronoi_brute, VoronoiArgs g);
KERNEL(voronoi_seed, VoronoiArgs g);
KERNEL(voronoi_jump, VoronoiArgs g);
