// See ../triangulate.cu.
#pragma once

#include "mesh.cuh"

// What kernels tell each other. All of it is 0 at first.
struct TriangulateState {
    u32 min_x, min_y, max_x, max_y; // of the coordinates + 2^31; min_x and min_y hold the complements
    u32 bad;                        // a coordinate is out of range
    u32 n;                          // distinct points
    u32 solid;                      // they are not on a line
    u32 far, far_done; // tasks of triangulate_far: points that were given to it, and how many tasks were taken
    u32 unique_tiles, emit_tiles;   // tiles that were taken
    u32 proven;                     // entries of lines that were taken
    u32 sort_tiles[8];
    u32 digits[8][256]; // keys by digit
    int4 lines[32];     // see is_proven
    u32 ready[32];
};

// A box along a line, of the points of a node of the tree: the least and the greatest cross and dot products with
// along.
struct Slab {
    i64 least_cross, most_cross, least_dot, most_dot;
    int2 along;
};

struct DelaunayArgs {
    const int2 *points;
    Triangle *triangles;
    u32 *count;
    TriangulateState *state;
    u32 *unique_status, *emit_status,
        *sort_status; // of tiles; the last for two passes, 256 a tile, of which the first is 0
    u64 *keys0, *keys1;
    u32 *ids0, *ids1;
    int2 *xy;                               // distinct points along the curve
    u32 *id;                                // their numbers in points
    int4 *box0, *box1, *box2, *box3, *box4; // the tree: least and greatest coordinates of 8 * 32^level points
    Slab *slab0, *slab1, *slab2;            // of the same nodes; see triangulate_slabs
    uint2 *pairs;                           // the other corners of triangles: POINT_SLOTS times n
    unsigned char *masks;                   // which slots of a point are taken
    u32 *far;                               // points for triangulate_far
    u64 *fault;
    u32 n, pad;
};

KERNEL(triangulate_bounds, DelaunayArgs d);
KERNEL(triangulate_keys, DelaunayArgs d);
KERNEL(triangulate_sort, DelaunayArgs d, u32 pass, u32 pad);
KERNEL(triangulate_unique, DelaunayArgs d);
KERNEL(triangulate_boxes, DelaunayArgs d);
KERNEL(triangulate_tree, DelaunayArgs d);
KERNEL(triangulate_stars, DelaunayArgs d);
KERNEL(triangulate_slabs, DelaunayArgs d);
KERNEL(triangulate_far, DelaunayArgs d);
KERNEL(triangulate_emit, DelaunayArgs d);
