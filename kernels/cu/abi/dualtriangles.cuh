// See ../dualtriangles.cu.
#pragma once

#include "mesh.cuh"

// A tile: triangles in the tiles before (first those in it), and entries in the list.
struct DualTile {
    u32 triangles, entries;
};

KERNEL(dual_sites, MeshDiagram v, MeshCounts *counts);
KERNEL(dual_find, MeshDiagram v, DualTile *tiles, u32 *list);
KERNEL(dual_scan, MeshDiagram v, DualTile *tiles, MeshCounts *counts);
KERNEL(dual_write, MeshDiagram v, Triangle *triangles, const DualTile *tiles, const u32 *list);
