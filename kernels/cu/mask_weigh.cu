// mask_weigh adds up the samples of listed pixels times their weights: those that boundaries of regions cross.
//
// Columns of the grid take regions, blocks of a column share the pixels of a region, and a thread takes every so many-th
// of them. Sums stay in registers and are merged once for each region that a block touches: by plain stores where the
// region is the block's own, else by atomics over results that were cleared before. Histograms are counted in the
// results by atomics: pixels of a boundary are few beside those inside.
//
// Bytes moved: 8 bytes a listed pixel, and the sector of the frame that its sample lies in. Complexity: listed pixels.

#include "abi/mask_weigh.cuh"
#include "collective.cuh"

template <int BYTES, int CHANNELS> __device__ __forceinline__ void weigh(const WeighArgs &g) {
    const int W = WEIGH_THREADS / 32;
    __shared__ i64 part[4 * CHANNELS][W];
    const u32 lane = lane_id(), warp = threadIdx.x >> 5, channels = CHANNELS == 1 ? 1 : g.channels;
    after_prior();
    for (u32 r = blockIdx.x; r < g.count; r += gridDim.x) {
        const u64 from = min((u64)g.starts[g.first + r], g.n), to = min((u64)g.starts[g.first + r + 1], g.n);
        i64 weight = 0, sum[CHANNELS] = {}, low[CHANNELS] = {}, high[CHANNELS] = {};
#pragma unroll 4
        for (u64 i = from + blockIdx.y * WEIGH_THREADS + threadIdx.x; i < to; i += (u64)gridDim.y * WEIGH_THREADS) {
            const u64 p = __ldg(g.pixels + i);
            const int x = (int)(p & 0xfffff), y = (int)(p >> 20 & 0xfffff) - g.row0;
            const i64 w = (i64)p >> 40;
            if (x >= g.width || y < 0 || y >= g.rows) continue;
            const unsigned char *px = g.frame + (u64)y * g.stride + (u64)x * g.pixel;
            weight += w;
#pragma unroll
            for (u32 c = 0; c < CHANNELS; c++) {
                if (c >= channels) break;
                const u32 v = BYTES == 2 ? __ldg((const unsigned short *)px) : __ldg(px + (g.order >> 8 * c & 255));
                const u32 sq = v * v;
                sum[c] += w * v;
                low[c] += w * (sq & 0xffff);
                if (BYTES == 2) high[c] += w * (sq >> 16);
                if (g.hist)
                    atomicAdd((u64 *)g.hist + ((u64)r * channels + c) * g.levels + (v & (g.levels - 1)), (u64)w);
            }
        }
        weight = (i64)warp_sum((u64)weight);
#pragma unroll
        for (u32 c = 0; c < CHANNELS; c++) {
            if (c >= channels) break;
            const i64 s = (i64)warp_sum((u64)sum[c]), l = (i64)warp_sum((u64)low[c]);
            const i64 h = BYTES == 2 ? (i64)warp_sum((u64)high[c]) : 0;
            if (lane == 0) {
                part[4 * c][warp] = weight;
                part[4 * c + 1][warp] = s;
                part[4 * c + 2][warp] = l;
                part[4 * c + 3][warp] = h;
            }
        }
        __syncthreads();
        if (threadIdx.x < 4 * channels) {
            i64 t = 0;
#pragma unroll
            for (int k = 0; k < W; k++) t += part[threadIdx.x][k];
            i64 *out = (i64 *)(g.sums + (u64)r * channels) + threadIdx.x;
            if (g.own)
                *out = t;
            else if (t)
                atomicAdd((u64 *)out, (u64)t);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(WEIGH_THREADS) mask_weigh_gray8(WeighArgs g) { weigh<1, 1>(g); }
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS) mask_weigh_8(WeighArgs g) { weigh<1, 4>(g); }
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS) mask_weigh_16(WeighArgs g) { weigh<2, 1>(g); }
