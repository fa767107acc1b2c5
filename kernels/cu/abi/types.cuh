// What host and kernels agree on: structs, parameters of kernels, constants. nvcc reads the headers of this folder for
// the kernels, and a C++ compiler reads them for tools/kernelabi, which writes kernels/cuda/abi.go. So they hold
// declarations only, and no type of CUDA's own but those below.
//
// A pointer is an address on the device, a uint64 in Go. A struct or constant with the name of an exported one of
// kernels/driver is the same as that; a Go build fails where they differ.
#pragma once

#include "policy.cuh"

#ifdef __CUDACC__
// KERNEL declares a kernel of the source file that is named like the header. Its definition has to agree: nvcc reports
// two C functions of one name otherwise. Parameters fill up the struct that holds them, with a pad where need be.
#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#else
#define KERNEL(name, ...) \
    extern "C" void name(__VA_ARGS__) {}
struct int2 {
    int x, y;
};
struct int4 {
    int x, y, z, w;
} __attribute__((aligned(16)));
struct uint2 {
    unsigned x, y;
} __attribute__((aligned(8)));
struct uint4;
struct float2;
struct float4;
#endif

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef u64 Item; // a run of pixels of a row, see common.cuh

// What the kernels report as wrong; see report in fault.cuh and faultTexts in kernels/cuda.
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

// Constants of package driver.
#define DIFFUSION_FIXED 1
#define DIFFUSION_BLOCK_RIGHT 2
#define DIFFUSION_BLOCK_DOWN 4
#define DIFFUSION_SHUT_RIGHT 8
#define DIFFUSION_SHUT_LEFT 16
#define DIFFUSION_SHUT_DOWN 32
#define DIFFUSION_SHUT_UP 64
#define MASK_EXTREMA 2u
#define MASK_MOMENTS 4u
#define MASK_HISTOGRAM 8u
#define BLUR_LEVELS 7
#define DIFFUSION_FAR_CYCLES 24
#define MAX_EDGE 2040u
#define MAX_PAIR_OFFSETS 16
#define MAX_SERIES 16
#define MAX_FLIP_ROUNDS (1u << 20)
