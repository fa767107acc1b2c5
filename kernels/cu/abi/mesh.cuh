// Triangulations made of a Voronoi diagram.
#pragma once

#include "types.cuh"

struct Triangle {
    u32 a, b, c;
};

// See driver.MeshCounts.
struct MeshCounts {
    u32 triangles, sites, border, hull;
};

// See driver.FlipStatus.
struct FlipStatus {
    u32 rounds, flips, left, inverted, double_, concave, rings, missing;
};

// A Voronoi diagram. Labels may be no index: those count as none.
struct MeshDiagram {
    const int2 *sites;
    u32 *labels;
    u32 n;
    int width, height;
    u32 pad;
};
