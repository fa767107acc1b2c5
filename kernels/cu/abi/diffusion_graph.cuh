// See ../diffusion_graph.cu.
#pragma once

#include "diffusion.cuh"

// A row of a sparse matrix: its entries in a pool.
struct GraphRow {
    u32 at, count;
} __attribute__((aligned(8))); // so that it is loaded in one go

struct GraphEntry {
    int to;
    float weight;
} __attribute__((aligned(8)));

// Nodes of level k, from 1, are first[k] to first[k + 1]. A level is bad where there was no room for it. There are
// levels 1 to depth.
struct GraphTable {
    u32 first[GRAPH_MOST_LEVELS + 2], bad[GRAPH_MOST_LEVELS + 2];
    u32 depth, edges, prolongs, restricts, products, rest;
};

// A set-up. Nodes of all levels are numbered through, cells of a level begin at a place of theirs.
struct GraphSetup {
    DiffusionHeader *head;
    GraphTable *table;
    u8 *open;
    int *parent;             // of pixels; -1 where there is none
    int *cell;               // where the nodes of each cell begin
    int *node_parent;        // -1 where there is none; before it is known, where there is to be none
    u32 *node_block;         // see NEAR
    GraphRow *row, *prolong, *restricts;
    float *sink, *diagonal, *inv, *sum;
    GraphEntry *edges, *prolong_pool, *restrict_pool;
    GraphRow *product;       // rows of -A P
    float *lack;             // while levels are made: A times the sums of rows of P
    GraphEntry *product_pool;
    int *labels;
    u32 *parts;
    float *dense;            // the inverse of the last level's operator
    u32 width, height, node_room, edge_room, prolong_room, product_room;
};

struct GraphState {
    u32 magic, channels, cycles, done;
    float update, ratio, estimate, residual;
    float beta[4], alpha[4];
    double rho[4], pq[4]; // r z, and p A p
    float slowest[4], before[4],
        last[4]; // of slowMode: 1 / the eigenvalue of the slowest mode, alpha of the step before, and the component
    u32 ended, met, pad[2]; // blocks of a kernel that have ended, and that have met
};

struct GraphSolve {
    GraphSetup g;
    GraphState *state;
    DiffusionStatus *status;
    const u8 *flags;
    const float *colours;
    float *x, *r0, *r1, *q, *p0, *p1; // r and p of cycles in turn
    double *sums;                     // 8 for each part
    float *largest;
    float4 *nx, *nb, *nr; // of nodes
    u64 *fault;
    u32 channels, start, method;
    float tolerance;
};

KERNEL(diffusion_graph_join_pixels, GraphSetup g);
KERNEL(diffusion_graph_number_pixels, GraphSetup g);
KERNEL(diffusion_graph_join_first, GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad);
KERNEL(diffusion_graph_join, GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad);
KERNEL(diffusion_graph_join_many, GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad);
KERNEL(diffusion_graph_number, GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad);
KERNEL(diffusion_graph_amid_pixels, GraphSetup g);
KERNEL(diffusion_graph_multiply_pixels, GraphSetup g);
KERNEL(diffusion_graph_smooth_first, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_smooth, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_smooth_deep, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_product_first, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_product, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_product_deep, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_multiply_first, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_multiply, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_multiply_deep, GraphSetup g, const int *cell, const int *next, int level, int pad);
KERNEL(diffusion_graph_finish, GraphSetup g, u32 *counts, u32 levels, u32 method);
KERNEL(diffusion_graph_invert, GraphSetup g);
KERNEL(diffusion_graph_begin, GraphSolve s);
KERNEL(diffusion_graph_step, GraphSolve s, u32 across, u32 start);
KERNEL(diffusion_graph_down, GraphSolve s);
KERNEL(diffusion_graph_up, GraphSolve s);
KERNEL(diffusion_graph_levels, GraphSolve s);
KERNEL(diffusion_graph_smooth_out, GraphSolve s, u32 across, u32 tiles);
KERNEL(diffusion_graph_last, GraphSolve s);
KERNEL(diffusion_graph_status, GraphSolve s);
