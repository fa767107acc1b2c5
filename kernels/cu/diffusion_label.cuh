// What pixels of a diffusion are.
#pragma once

#include "collective.cuh"
#include "diffusion.cuh"

// What a pixel that has an equation takes from: bit 0 right, 1 left, 2 below, 3 above; 4 to 7 the same, where that one has an
// equation, too. 0 for pixels without one.
#define OPEN_RIGHT 1
#define OPEN_LEFT 2
#define OPEN_DOWN 4
#define OPEN_UP 8

__device__ __forceinline__ int degree(u32 open) { return __popc(open & 15); }

// What pixel i, at (x, y), takes from, whatever those are.
__device__ __forceinline__ u32 open_edges(const u8 *flags, u64 i, int x, int y, int w, int h) {
    const u32 f = flags[i];
    u32 open = 0;
    if (x + 1 < w && !(f & (DIFFUSION_BLOCK_RIGHT | DIFFUSION_SHUT_RIGHT))) open |= OPEN_RIGHT;
    if (x > 0 && !(flags[i - 1] & DIFFUSION_BLOCK_RIGHT) && !(f & DIFFUSION_SHUT_LEFT)) open |= OPEN_LEFT;
    if (y + 1 < h && !(f & (DIFFUSION_BLOCK_DOWN | DIFFUSION_SHUT_DOWN))) open |= OPEN_DOWN;
    if (y > 0 && !(flags[i - w] & DIFFUSION_BLOCK_DOWN) && !(f & DIFFUSION_SHUT_UP)) open |= OPEN_UP;
    return open;
}

// Sums over a block of 256 threads, always in the same order, in every thread.
__device__ __forceinline__ void block_sums(double (&v)[4]) {
    __shared__ double sums[8][4];
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const double s = warp_sum(v[c]);
        if (lane_id() == 0) sums[threadIdx.x / 32][c] = s;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 4; c++) {
        v[c] = 0;
        for (int k = 0; k < 8; k++) v[c] += sums[k][c];
    }
}
