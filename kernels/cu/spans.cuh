// Row spans: how one row of a region is found by a warp, or by a block where the row is dense.
//
// A band is BAND_ROWS rows of one region. The block first collects the edges that reach the band (each edge is read
// once a band, not once a row), then each warp takes rows: the lanes test candidate edges, the hits (a few, for
// most rows) get one lane each, are ranked by their column with shuffles, and their signs are summed in that order,
// which gives the winding number on both sides of each crossing and so the starts and ends of the spans. A row with
// more than 32 crossings is dense: the whole block scatters its signed crossings into a window of BAND_WINDOW columns
// in shared memory and a prefix sum gives every pixel's winding number, so that the cost is crossings plus pixels.
#pragma once

#include "collective.cuh"

#define WARPS (MASK_THREADS / 32)
#define MAX_SPANS 17    // 32 crossings make 16 spans at most, and one more that starts at column 0

struct BandShared {
    Edge cand[BAND_CANDIDATES];
    int n_cand;
    u32 hit[WARPS][32];
    int start[WARPS][MAX_SPANS + 1];
    int end[WARPS][MAX_SPANS + 1];
    int delta[BAND_WINDOW];
    int warp_total[WARPS];
    int carry;
    u32 bits[BAND_WINDOW / 32];
};

// Collects the edges that count for a row in [yc0, yc1] (row centres) and lie right of the first centre somewhere.
__device__ __forceinline__ void band_candidates(BandShared &s, const Edge *edges, int n, int yc0, int yc1) {
    if (threadIdx.x == 0) s.n_cand = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += MASK_THREADS) {
        Edge e = edges[i];
        if (min(e.y0, e.y1) <= yc1 && max(e.y0, e.y1) > yc0 && max(e.x0, e.x1) > 128) {
            int k = atomicAdd(&s.n_cand, 1);
            if (k < BAND_CANDIDATES) s.cand[k] = e;
        }
    }
    __syncthreads();
}

// Finds the spans of the row with centre yc, by one warp; they lie in s.start and s.end[warp], in order. Returns
// their number, or -1 where the row is dense. Spans may be empty (start >= end).
__device__ __forceinline__ int row_spans(BandShared &s, const Edge *edges, int n, u32 fill, int yc, int width) {
    const int warp = threadIdx.x >> 5;
    const u32 lane = lane_id(), below = (1u << lane) - 1;
    const bool listed = s.n_cand <= BAND_CANDIDATES;
    const int count = listed ? s.n_cand : n;
    const Edge *list = listed ? s.cand : edges;
    int m = 0;
    for (int base = 0; base < count; base += 32) {
        int i = base + lane;
        const bool hit = i < count && crosses(list[i], yc);
        u32 b = __ballot_sync(~0u, hit);
        if (hit) {
            int slot = m + __popc(b & below);
            if (slot < 32) s.hit[warp][slot] = i;
        }
        m += __popc(b);
        if (m > 32) return -1;
    }
    __syncwarp();
    int k = 0x7fffffff, sg = 0;
    if (lane < m) {
        Edge e = list[s.hit[warp][lane]];
        k = crossing(e, yc, width);
        sg = sign_of(e);
    }
    // Winding left of a crossing: the signs of those at or right of it.
    int total = warp_sum(sg), rank = 0, before = 0;
    for (int j = 0; j < m; j++) {
        int kj = __shfl_sync(~0u, k, j), sj = __shfl_sync(~0u, sg, j);
        if (kj < k || (kj == k && j < lane)) {
            rank++;
            before += sj;
        }
    }
    bool left = inside(total - before, fill), right = inside(total - before - sg, fill);
    u32 flags = lane < m ? (left && !right ? 1u : !left && right ? 2u : 0u) : 0u;
    __syncwarp();
    if (lane < m) s.hit[warp][rank] = (u32)k << 2 | flags; // k <= 2^20
    __syncwarp();
    u32 v = lane < m ? s.hit[warp][lane] : 0;
    u32 ends = __ballot_sync(~0u, v & 1), starts = __ballot_sync(~0u, v & 2);
    int first = inside(total, fill);
    if (lane == 0 && first) s.start[warp][0] = 0;
    if (v & 1) s.end[warp][__popc(ends & below)] = v >> 2;
    if (v & 2) s.start[warp][first + __popc(starts & below)] = v >> 2;
    __syncwarp();
    return __popc(ends);
}

// Finds the pixels of a dense row in columns [x0, x0 + BAND_WINDOW), by the block: bit x - x0 of s.bits.
__device__ __forceinline__ void dense_window(BandShared &s, const Edge *edges, int n, u32 fill, int yc, int width,
                                             int x0) {
    const int t = threadIdx.x, warp = t >> 5;
    const u32 lane = lane_id();
    for (int i = t; i < BAND_WINDOW; i += MASK_THREADS) s.delta[i] = 0;
    if (t == 0) s.carry = 0;
    __syncthreads();
    const bool listed = s.n_cand <= BAND_CANDIDATES;
    const int count = listed ? s.n_cand : n;
    const Edge *list = listed ? s.cand : edges;
    int right = 0; // signs of crossings right of the window's first column
    for (int i = t; i < count; i += MASK_THREADS) {
        Edge e = list[i];
        if (!crosses(e, yc)) continue;
        int k = crossing(e, yc, width), sg = sign_of(e);
        if (k <= x0) continue;
        right += sg;
        if (k < x0 + BAND_WINDOW) atomicAdd(&s.delta[k - x0], -sg);
    }
    right = warp_sum(right);
    if (lane == 0 && right) atomicAdd(&s.carry, right);
    __syncthreads();
    // Each thread takes 16 columns.
    int d[BAND_WINDOW / MASK_THREADS], sum = 0;
#pragma unroll
    for (int i = 0; i < BAND_WINDOW / MASK_THREADS; i++) {
        d[i] = s.delta[t * (BAND_WINDOW / MASK_THREADS) + i];
        sum += d[i];
    }
    const int inc = warp_scan(sum);
    if (lane == 31) s.warp_total[warp] = inc;
    __syncthreads();
    int w = s.carry + inc - sum;
    for (int i = 0; i < warp; i++) w += s.warp_total[i];
    u32 mask = 0;
#pragma unroll
    for (int i = 0; i < BAND_WINDOW / MASK_THREADS; i++) {
        w += d[i];
        int x = x0 + t * (BAND_WINDOW / MASK_THREADS) + i;
        if (inside(w, fill) && x < width) mask |= 1u << i;
    }
    ((unsigned short *)s.bits)[t] = mask;
    __syncthreads();
}
static_assert(BAND_WINDOW / MASK_THREADS == 16, "dense_window packs 16 columns a thread");
