// See ../hold.cu.
#pragma once

#include "shade.cuh"

KERNEL(hold_check, Shading v, u32 *changed, u32 limit, u32 jump);
KERNEL(hold_triangles, Shading v, u32 *changed, u32 limit, u32 jump);
