// See ../islands.cu.
#pragma once

#include "mesh.cuh"

KERNEL(islands_find, MeshDiagram v, u32 *list, u32 *found);
KERNEL(islands_settle, MeshDiagram v, u32 *list, u32 *found, u32 *count);
