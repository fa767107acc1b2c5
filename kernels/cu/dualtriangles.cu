// dualtriangles reads triangles off a Voronoi diagram; see driver.DualTriangles.
//
// sites: counts the sites whose pixel has their label: a gather of 4 bytes a site.
//
// find: count, prefix sum and write in one pass. A tile is ITEMS times THREADS blocks of pixels that follow each other row by row.
// Each warp counts its blocks by ballots; the tile learns how many triangles there are before it from the tiles before (decoupled
// look-back), and then the few lanes that have some read their labels again and write. Reads the labels once from memory, and once
// more from the caches for the row below; writes 12 bytes a triangle.
//
// Source: seeds/000 (count, scan, write); Merrill and Garland: Single-pass parallel prefix scan with decoupled look-back (2016).

#include "lookback.cuh"
#include "mesh.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define ITEMS 16 // blocks of pixels of a thread: with fewer, tiles wait for those before them; with more, the last ones are idle

struct DualState {
    u32 tiles; // that were taken
};

// The labels of 2x2 pixels, clockwise on a screen from the top left.
struct Block {
    u32 p, q, r, t;
};

__device__ __forceinline__ Block block_at(const MeshDiagram &v, u32 i) {
    const u32 w = v.width - 1, y = i / w;
    const u32 *at = v.labels + i + y; // rows are a pixel longer than rows of blocks
    Block b = {at[0], at[1], at[v.width + 1], at[v.width]};
    return b;
}

__device__ __forceinline__ u32 triangles_of(const Block &b, u32 n) {
    if (b.p == b.r || b.q == b.t) return 0;
    const u32 same = (b.p == b.q) + (b.q == b.r) + (b.r == b.t) + (b.t == b.p);
    return same > 1 || b.p >= n || b.q >= n || b.r >= n || b.t >= n ? 0 : 2 - same;
}

__device__ __noinline__ void write_triangles(const MeshDiagram &v, const Block &b, u32 count, u32 at, Triangle *out) {
    Triangle first, second;
    if (count == 1) {
        if (b.p == b.q) first = least_first(b.p, b.r, b.t);
        else if (b.q == b.r) first = least_first(b.p, b.q, b.t);
        else first = least_first(b.p, b.q, b.r);
    } else {
        const int2 p = v.sites[b.p], q = v.sites[b.q], r = v.sites[b.r], t = v.sites[b.t];
        if (turn(p, q, t) > 0 && turn(q, r, t) > 0 &&
            (turn(p, q, r) <= 0 || turn(p, r, t) <= 0 || inside(minus(q, p), minus(r, p), minus(t, p)))) {
            first = least_first(b.p, b.q, b.t), second = least_first(b.q, b.r, b.t);
        } else {
            first = least_first(b.p, b.q, b.r), second = least_first(b.p, b.r, b.t);
        }
    }
    if (at < 2 * v.n) out[at] = first;
    if (count == 2 && at + 1 < 2 * v.n) out[at + 1] = second;
}

extern "C" __global__ void __launch_bounds__(THREADS) dual_sites(MeshDiagram v, MeshCounts *counts) {
    after_prior();
    u32 n = 0;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < v.n; i += gridDim.x * THREADS) {
        const int2 s = v.sites[i];
        n += s.x >= 0 && s.x < v.width && s.y >= 0 && s.y < v.height && v.labels[(size_t)s.y * v.width + s.x] == i;
    }
    n = warp_sum((int)n);
    if (lane_id() == 0 && n) atomicAdd(&counts->sites, n);
}

extern "C" __global__ void __launch_bounds__(THREADS) dual_find(MeshDiagram v, Triangle *triangles, MeshCounts *counts, DualState *state, u32 *status) {
    __shared__ u32 sums[ITEMS][WARPS];
    after_prior();
    const u32 blocks = (u32)(v.width - 1) * (u32)(v.height - 1);
    const u32 tile = take_tile(&state->tiles), from = tile * (ITEMS * THREADS);
    const u32 warp = threadIdx.x >> 5, lane = lane_id();
    u32 found = 0; // two bits an item
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const u32 i = from + k * THREADS + threadIdx.x;
        const u32 n = i < blocks ? triangles_of(block_at(v, i), v.n) : 0;
        found |= n << 2 * k;
        const u32 some = __ballot_sync(~0u, n != 0), two = __ballot_sync(~0u, n == 2);
        if (lane == 0) sums[k][warp] = __popc(some) + __popc(two);
    }
    __syncthreads();
    // The first warp adds up the ITEMS * WARPS sums, in the order of the blocks.
    if (warp == 0) {
        const int each = ITEMS * WARPS / 32;
        u32 *mine = &sums[0][0] + each * lane, sum = 0;
        for (int k = 0; k < each; k++) sum += mine[k];
        u32 in = sum;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const u32 u = __shfl_up_sync(~0u, in, o);
            if (lane >= (u32)o) in += u;
        }
        const u32 all = __shfl_sync(~0u, in, 31), head = look_back(status, tile, all);
        if (lane == 0 && (u64)from + ITEMS * THREADS >= blocks) counts->triangles = min(head + all, 2 * v.n);
        u32 at = head + in - sum;
        for (int k = 0; k < each; k++) {
            const u32 n = mine[k];
            mine[k] = at;
            at += n;
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const u32 n = found >> 2 * k & 3;
        const u32 some = __ballot_sync(~0u, n != 0), two = __ballot_sync(~0u, n == 2), below = (1u << lane) - 1;
        if (n) write_triangles(v, block_at(v, from + k * THREADS + threadIdx.x), n, sums[k][warp] + __popc(some & below) + __popc(two & below), triangles);
    }
}
