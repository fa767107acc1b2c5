// See ../diffusion_graph_solve.cu.
#pragma once

#include "diffusion_graph.cuh"

KERNEL(diffusion_graph_begin, GraphSolve s);
KERNEL(diffusion_graph_step, GraphSolve s, u32 across, u32 start);
KERNEL(diffusion_graph_down, GraphSolve s);
KERNEL(diffusion_graph_up, GraphSolve s);
KERNEL(diffusion_graph_levels, GraphSolve s);
KERNEL(diffusion_graph_smooth_out, GraphSolve s, u32 across, u32 tiles);
KERNEL(diffusion_graph_last, GraphSolve s);
KERNEL(diffusion_graph_status, GraphSolve s);
