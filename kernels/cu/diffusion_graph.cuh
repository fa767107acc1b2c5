// Diffusion with barriers: conjugate gradients, preconditioned by smoothed aggregation. See kernels/cpu/diffusion_graph.go for what is
// computed; here is how. diffusion_label.cu comes first, and says what pixels take from.
#pragma once

#include "abi/diffusion_graph.cuh"
#include "collective.cuh"
#include "diffusion_label.cuh"

#define WARPS 8

// The same as in kernels/cpu/diffusion_graph.go.
#define CAUTION 1.5f
#define LEAST_LEFT 0.4f
#define GROUP 4
#define STRONG 0.04f
#define LOOSE 0.23f
#define SMOOTH (2.f / 3)
#define JACOBI 0.95f
#define DEAD_PIVOT 1e-6f
#define BOTTOM 8

__device__ __forceinline__ int cells(int n, int level) { return (int)(((u32)n + (1u << level) - 1) >> level); }
