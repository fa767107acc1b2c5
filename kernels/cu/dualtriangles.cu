// dualtriangles reads triangles off a Voronoi diagram; see driver.DualTriangles.
//
// sites: counts the sites whose pixel has their label: a gather of 4 bytes a site.
//
// find: a tile is DUAL_ITEMS times DUAL_THREADS blocks of pixels that follow each other row by row. Those of them that
// have triangles, one of a hundred, go to the tile's part of a list, in order. Reads the labels once from memory, and
// once more from the caches for the row below.
//
// scan: one block adds up the triangles of the tiles before each. (In one pass with find, each tile would wait for
// those before it: with hundreds of tiles under way that took longer than all the rest.)
//
// write: a block for each tile reads the labels of what is in the list again, and writes 12 bytes a triangle.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter (count, scan, write).

#include "abi/dualtriangles.cuh"
#include "collective.cuh"
#include "mesh.cuh"

#define WARPS (DUAL_THREADS / 32)

static_assert(DUAL_ITEMS * DUAL_THREADS == 1 << 12, "entries of the list");

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

extern "C" __global__ void __launch_bounds__(DUAL_THREADS) dual_sites(MeshDiagram v, MeshCounts *counts) {
    after_prior();
    u32 n = 0;
    for (u32 i = blockIdx.x * DUAL_THREADS + threadIdx.x; i < v.n; i += gridDim.x * DUAL_THREADS) {
        const int2 s = v.sites[i];
        n += s.x >= 0 && s.x < v.width && s.y >= 0 && s.y < v.height && v.labels[(size_t)s.y * v.width + s.x] == i;
    }
    n = warp_sum(n);
    if (lane_id() == 0 && n) atomicAdd(&counts->sites, n);
}

// An entry of the list: the block in the tile, whether it has two triangles, and how many the blocks before have.
extern "C" __global__ void __launch_bounds__(DUAL_THREADS) dual_find(MeshDiagram v, DualTile *tiles, u32 *list) {
    __shared__ u32 sums[DUAL_ITEMS][WARPS]; // triangles, and in the high half blocks that have some
    after_prior();
    const u32 blocks = (u32)(v.width - 1) * (u32)(v.height - 1), from = blockIdx.x * (DUAL_ITEMS * DUAL_THREADS);
    const u32 warp = threadIdx.x >> 5, lane = lane_id();
    u32 found = 0; // two bits an item
#pragma unroll
    for (int k = 0; k < DUAL_ITEMS; k++) {
        const u32 i = from + k * DUAL_THREADS + threadIdx.x;
        const u32 n = i < blocks ? triangles_of(block_at(v, i), v.n) : 0;
        found |= n << 2 * k;
        const u32 some = __ballot_sync(~0u, n != 0), two = __ballot_sync(~0u, n == 2);
        if (lane == 0) sums[k][warp] = __popc(some) << 16 | (__popc(some) + __popc(two));
    }
    __syncthreads();
    // The first warp adds up the DUAL_ITEMS * WARPS sums, in the order of the blocks.
    if (warp == 0) {
        const int each = DUAL_ITEMS * WARPS / 32;
        u32 *mine = &sums[0][0] + each * lane, sum = 0;
        for (int k = 0; k < each; k++) sum += mine[k];
        const u32 in = warp_scan(sum);
        if (lane == 31) {
            DualTile tile = {in & 0xffff, in >> 16};
            tiles[blockIdx.x] = tile;
        }
        u32 at = in - sum;
        for (int k = 0; k < each; k++) {
            const u32 n = mine[k];
            mine[k] = at;
            at += n;
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DUAL_ITEMS; k++) {
        const u32 n = found >> 2 * k & 3, below = (1u << lane) - 1;
        const u32 some = __ballot_sync(~0u, n != 0), two = __ballot_sync(~0u, n == 2);
        if (!n) continue;
        const u32 s = sums[k][warp], at = (s & 0xffff) + __popc(some & below) + __popc(two & below);
        list[from + (s >> 16) + __popc(some & below)] = (k * DUAL_THREADS + threadIdx.x) | (n - 1) << 12 | at << 16;
    }
}

// One block.
extern "C" __global__ void __launch_bounds__(DUAL_SCAN_THREADS)
    dual_scan(MeshDiagram v, DualTile *tiles, MeshCounts *counts) {
    after_prior();
    const u32 n =
        ((u32)(v.width - 1) * (u32)(v.height - 1) + DUAL_ITEMS * DUAL_THREADS - 1) / (DUAL_ITEMS * DUAL_THREADS);
    const u32 each = (n + DUAL_SCAN_THREADS - 1) / DUAL_SCAN_THREADS, from = threadIdx.x * each,
              to = min(from + each, n);
    u32 sum = 0;
    for (u32 i = from; i < to; i++) sum += tiles[i].triangles;
    u32 all, at = block_scan<DUAL_SCAN_THREADS>(sum, all);
    for (u32 i = from; i < to; i++) {
        const u32 t = tiles[i].triangles;
        tiles[i].triangles = at;
        at += t;
    }
    if (threadIdx.x == 0) counts->triangles = min(all, 2 * v.n);
}

extern "C" __global__ void __launch_bounds__(DUAL_WRITE_THREADS)
    dual_write(MeshDiagram v, Triangle *triangles, const DualTile *tiles, const u32 *list) {
    after_prior();
    const DualTile tile = tiles[blockIdx.x];
    const u32 from = blockIdx.x * (DUAL_ITEMS * DUAL_THREADS);
    for (u32 i = threadIdx.x; i < tile.entries; i += DUAL_WRITE_THREADS) {
        const u32 e = list[from + i];
        write_triangles(v, block_at(v, from + (e & 0xfff)), 1 + (e >> 12 & 1), tile.triangles + (e >> 16), triangles);
    }
}
