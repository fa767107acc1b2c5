// What the solvers of diffusion share.
#pragma once

#include "abi/diffusion.cuh"
#include "fault.cuh"

#define DIFFUSION_MAGIC 0x5e7d1ff5

// Assumed of the ratio before there are two updates, and at most.
#define FIRST_RATIO 0.5f
#define MOST_RATIO (1 - 1e-5f)
