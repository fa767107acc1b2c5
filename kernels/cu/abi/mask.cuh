// Prepared sets of regions, and results.
#pragma once

#include "types.cuh"

// A directed edge in 1/256 px.
struct Edge {
    int x0, y0, x1, y1;
} __attribute__((aligned(16))); // so that it is loaded in one go

// Sums of one channel of one region; see driver.MaskStats.
struct MaskStats {
    u64 count, sum, sum_sq, min_key, max_key, sum_x, sum_y, sum_vx, sum_vy, pad;
};

// A region of a prepared set. Rows [y0, y1) and columns [x0, x1) bound its pixels inside the frame (x is a bound
// of the vertices, clipped). Its items take slots [item0, item_end) at most.
struct PreparedRegion {
    u32 edge0, edges, fill, pad;
    int x0, y0, x1, y1;
    u64 item0, item_end;
};

// A band is the work of one block of the preparation: up to BAND_ROWS rows of one region.
struct Band {
    u32 region;
    int y;
};

// Where the parts of a prepared set are. The host makes it from the set's header and passes it by value: a block
// would otherwise wait for two loads, one after the other, before its first useful one.
struct View {
    const Edge *edges;
    const PreparedRegion *regions;
    const Band *bands;
    u32 *counts; // items of each region
    u64 *prefix; // items of all regions before; regions + 1 of them
    Item *items;
    int width, height;
    u32 region_count, pad;
};
