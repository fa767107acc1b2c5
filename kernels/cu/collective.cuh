// What the threads of a warp, or of a block, do together: sums of those before, sums, the least and the most.
//
// Scans of a warp are CUB's: a predicate of the shuffle says which lanes have one before them, which saves a comparison a
// step. Reductions are ours: CUB's, of nvcc 11.8, leave the result in one lane, so that all lanes want a shuffle more, and
// add integers by shuffles where compute capability 8 has an instruction. Floats are added as a butterfly does, in an order
// that results depend on.
#pragma once

#include <cub/warp/warp_scan.cuh>

#include "common.cuh"

// Sums of the values of a warp up to and with the lane's own.
template <class T> __device__ __forceinline__ T warp_scan(T v) {
    typename cub::WarpScan<T>::TempStorage none; // the scan is by shuffles
    cub::WarpScan<T>(none).InclusiveSum(v, v);
    return v;
}

// The sum of the threads before this one in a block of THREADS, and that of all of them in total.
template <int THREADS, class T> __device__ __forceinline__ T block_scan(T v, T &total) {
    __shared__ T sums[THREADS / 32];
    const T upto = warp_scan(v);
    __syncthreads(); // sums may be in use
    if (lane_id() == 31) sums[threadIdx.x / 32] = upto;
    __syncthreads();
    T before = 0;
    total = 0;
#pragma unroll
    for (u32 w = 0; w < THREADS / 32; w++) {
        if (w == threadIdx.x / 32) before = total;
        total += sums[w];
    }
    return before + upto - v;
}

// Reductions of a warp, in every lane.

template <class T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ u32 warp_sum(u32 v) { return __reduce_add_sync(~0u, v); }
template <> __device__ __forceinline__ int warp_sum(int v) { return __reduce_add_sync(~0u, v); }
// In pieces of 27 bits, which 32 lanes can't overflow.
template <> __device__ __forceinline__ u64 warp_sum(u64 v) {
    const u32 mask = (1u << 27) - 1;
    return (u64)__reduce_add_sync(~0u, (u32)v & mask) + ((u64)__reduce_add_sync(~0u, (u32)(v >> 27) & mask) << 27) +
           ((u64)__reduce_add_sync(~0u, (u32)(v >> 54)) << 54);
}
#endif

// The least. For int there is an instruction from compute capability 8 on; that for unsigned values, as nvcc 11.8 emits it
// for sm_90, was seen to pass over zeros on an H200.
template <class T> __device__ __forceinline__ T warp_min(T v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        const T w = __shfl_xor_sync(~0u, v, o);
        v = w < v ? w : v;
    }
    return v;
}
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ int warp_min(int v) { return __reduce_min_sync(~0u, v); }
#endif

template <class T> __device__ __forceinline__ T warp_max(T v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v = max(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
