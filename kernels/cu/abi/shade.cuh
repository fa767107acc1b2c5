// Shade; Hold shares Shading.
#pragma once

#include "types.cuh"

// Pixels and sums over their bytes in the order of memory, or over their samples of 16 bits.
struct ShadeTotals {
    u64 pixels, sums[4];
};

// Counters that the launches share; all are 0 at first.
struct ShadeState {
    u32 bad, splits; // bad: something is wrong with the input, and nothing is to be painted
    u64 tasks;       // asked for
    u64 listed;      // entries of lists that were asked for
};

// A triangle that is cut, and how many of its tasks have ended.
struct ShadeSplit {
    u32 triangle, tasks, ended, pad;
    ShadeTotals totals;
};

// What all launches work on.
struct Shading {
    const unsigned char *src;
    unsigned char *dst;
    u64 src_stride, dst_stride;
    const int2 *points;
    const u32 *triangles; // three each
    const u32 *count;
    unsigned char *colors;
    u64 *fault;
    ShadeState *state;
    unsigned char *ways; // WHOLE, CUT or TILED of each triangle
    ShadeSplit *splits;
    uint2 *tasks;   // split, and its first row; ~0 for none
    ShadeTotals *totals; // of triangles; 0 where these are not done tile by tile, and the same for what follows
    u32 *starts;    // of the lists of tiles, and the end of the last
    u32 *list;      // of triangles
    u32 n, max, task_room, list_room;
    int width, height, tile_columns, tile_rows;
    u32 kind, pixel_bytes; // kind: the same, and 16 for one sample of 16 bits
    u32 centroid, pad;
};

KERNEL(shade_prepare, Shading v);
KERNEL(shade_triangles_8, Shading v);
KERNEL(shade_triangles_16, Shading v);
KERNEL(shade_triangles_32, Shading v);
KERNEL(shade_tasks, Shading v);
KERNEL(shade_scan, Shading v);
KERNEL(shade_list, Shading v);
KERNEL(shade_sum_tiles, Shading v);
KERNEL(shade_colors, Shading v);
KERNEL(shade_paint_tiles, Shading v);
