// See ../diffusion_graph_setup.cu.
#pragma once

#include "diffusion_graph.cuh"

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
