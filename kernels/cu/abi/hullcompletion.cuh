// See ../hullcompletion.cu.
#pragma once

#include "mesh.cuh"

// Of a chain: corners, and triangles that were cut off.
struct HullChain {
    u32 border, corners, cuts, pad;
};

// Where the chains are: each has room for the pixels of its side, one behind the other.
struct HullArgs {
    MeshDiagram v;
    HullChain *chains;
    u32 *labels;
    int2 *points;
    Triangle *cut;
    Triangle *triangles;
    MeshCounts *counts;
};

KERNEL(hull_chains, HullArgs g);
KERNEL(hull_join, HullArgs g);
