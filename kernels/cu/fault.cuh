// Faults: how kernels tell the host that what an op was given is wrong where only the device can see it, without anybody
// waiting for the answer. Keep the codes in sync with kernels/cuda/fault_layout.go; a Go test compares them.
#pragma once

#include "common.cuh"

#define FAULT_SHADE_COUNT 1
#define FAULT_SHADE_POINT 2
#define FAULT_SHADE_TRIANGLE 3
#define FAULT_DIFFUSION_SETUP_FLAGS 4
#define FAULT_DIFFUSION_SOLVE_SETUP 5
#define FAULT_DIFFUSION_SOLVE_START 6
#define FAULT_TRIANGULATE_POINT 7
#define FAULT_VORONOI_SITE 8
#define FAULT_FLIPS_COUNT 9
#define FAULT_HOLD_COUNT 10
#define FAULT_HOLD_POINT 11
#define FAULT_HOLD_TRIANGLE 12

// report writes which entry is wrong to the stream's place for it, which is memory of the host: the device reads it never.
// Of several reports any one stays. A kernel that reports goes on, or ends, without touching what it must not.
__device__ __forceinline__ void report(u64 *fault, u32 code, u64 index) {
    *(volatile u64 *)fault = (u64)code << 48 | (index & 0xffffffffffffull);
}
