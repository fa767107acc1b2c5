// Prefix sums over tiles in one pass, by decoupled look-back.
#pragma once

#include "collective.cuh"

// Status of tiles, for prefix sums in one pass: the sum of a tile, or of it and all before. 0 is that it is not known yet.
#define STATUS_SUM (1u << 30)
#define STATUS_PREFIX (2u << 30)
#define STATUS_VALUE ((1u << 30) - 1)

__device__ __forceinline__ u32 status_read(const u32 *at) { return *(const volatile u32 *)at; }
__device__ __forceinline__ void status_write(u32 *at, u32 v) { *(volatile u32 *)at = v; }

// The sum of all tiles before. Called by a whole warp. Tiles are taken in order, so that those before are under way.
__device__ __forceinline__ u32 look_back(u32 *status, u32 tile, u32 sum) {
    const int lane = lane_id();
    if (lane == 0) status_write(status + tile, (tile ? STATUS_SUM : STATUS_PREFIX) | sum);
    u32 prefix = 0;
    for (int at = (int)tile - 1; at >= 0; at -= 32) {
        u32 v;
        do v = at >= lane ? status_read(status + at - lane) : STATUS_PREFIX;
        while (__any_sync(~0u, v == 0));
        const u32 known = __ballot_sync(~0u, v & STATUS_PREFIX);
        const int last = known ? __ffs(known) - 1 : 31;
        prefix += warp_sum(lane <= last ? v & STATUS_VALUE : 0);
        if (known) break;
    }
    if (lane == 0 && tile) status_write(status + tile, STATUS_PREFIX | (prefix + sum));
    return prefix;
}

__device__ __forceinline__ u32 take_tile(u32 *counter) {
    __shared__ u32 tile;
    if (threadIdx.x == 0) tile = atomicAdd(counter, 1);
    __syncthreads();
    return tile;
}
