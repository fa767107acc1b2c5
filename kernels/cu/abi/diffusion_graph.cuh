// Diffusion with barriers: what its set-up and its solves share.
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
