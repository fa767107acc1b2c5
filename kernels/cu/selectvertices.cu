// selectvertices chooses the vertices of a low-poly picture: order sampling of candidates that keep their distance, exact
// and the same as the CPU's, with nothing for the host to look at in between.
//
//	clear     the counters, the cells and the bitmap of corners
//	keys      of all candidates, and the first one of each block of Spacing+1 columns and rows: whatever is first within
//	          Spacing is first in its block, too (Neubeck and Van Gool, Efficient non-maximum suppression, 2006)
//	previous  lowers the keys of vertices of the frame before
//	cells     finds the first candidate of each cell, and makes its key 0
//	distance  lists the first ones of blocks that are first within Spacing, and counts them by their keys, in bins that are
//	          a 64th of an octave wide
//	refine    counts those of the bin in which the last one to be chosen is, by the bits that follow
//	mark      sets the bits of the chosen corners; the few of the last bin are compared with each other
//	count     bits of segments of the bitmap, and where the vertices of each begin
//	write     the vertices in the order of rows, without any sorting
//
// The last block of a phase to end does what needs all of them. Bytes moved: for each pixel 2 read, 4 written and up to 4 or
// so read again (keys), 1/8 written and read twice; for each block 8 written and read. Complexity: some 80 instructions a
// candidate, half of them for the hash, and some of the 4 (Spacing+1)^2 keys around it for a block where the nine first ones don't
// tell.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter; Yang, Low poly in CUDA, 2018 (what is chosen
// by); Ohlsson, Sequential Poisson sampling, 1998.

#include "abi/selectvertices.cuh"
#include "collective.cuh"

#define WARPS (SELECT_THREADS / 32)
#define NO_RANK (~0ull)


__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

__device__ __forceinline__ u32 key_of(const Selection &v, int i, int j, u32 weight) {
    const u64 at = (u64)(u32)(j + v.spacing + 1) << 32 | (u32)(i + v.spacing + 1);
    return max((u32)(mix(v.mixed ^ at) >> 32) / weight, 1u);
}
__device__ __forceinline__ u64 rank_of(const Selection &v, int i, int j, u32 key) {
    return (u64)key << 32 | ((u32)(j + v.spacing + 1) * (u32)(v.width + 1) + (u32)(i + v.spacing + 1));
}
// The candidate of a rank.
__device__ __forceinline__ int2 candidate(const Selection &v, u64 rank) {
    const u32 index = (u32)rank, y = index / (u32)(v.width + 1);
    return make_int2((int)(index - y * (u32)(v.width + 1)) - v.spacing - 1, (int)y - v.spacing - 1);
}

// The edges of the two pixels of pixel row y that candidates of column i touch.
__device__ __forceinline__ u32 edges_of(const Selection &v, int i, int y) {
    const unsigned short *e = v.edges + (u64)y * v.width + i + v.spacing;
    return min((u32)__ldg(e), MAX_EDGE) + min((u32)__ldg(e + 1), MAX_EDGE);
}

// Gives a candidate a key that is no greater than the one it has.
__device__ __forceinline__ void lower(const Selection &v, int i, int j, u32 key) {
    v.keys[(u64)j * v.columns + i] = key;
    atomicMin(v.first + (u64)(j / v.block) * v.block_columns + i / v.block, rank_of(v, i, j, key));
}

// Whether this block is the last of the phase to come here. What the others wrote before can be read then, past the L1 cache.
__device__ __forceinline__ bool last_block(u32 *ended) {
    __shared__ u32 old;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) old = atomicAdd(ended, 1);
    __syncthreads();
    if (old + 1 != gridDim.x) return false;
    __threadfence();
    return true;
}

// The first bin up to which there are at least so many, and how many of it make these full. SELECT_BINS where there are
// fewer.
__device__ __forceinline__ void pick(const u32 *bins, u32 wanted, u32 *bin, u32 *rest) {
    const u32 each = SELECT_BINS / SELECT_THREADS;
    u32 own[each], sum = 0, total;
#pragma unroll
    for (u32 i = 0; i < each; i++) sum += own[i] = __ldcg(bins + threadIdx.x * each + i);
    u32 before = block_scan<SELECT_THREADS>(sum, total);
    if (threadIdx.x == 0 && total < wanted) *bin = SELECT_BINS, *rest = 0;
    if (total >= wanted && before < wanted && before + sum >= wanted) {
        u32 i = 0;
        while (before + own[i] < wanted) before += own[i++];
        *bin = threadIdx.x * each + i, *rest = wanted - before;
    }
    if (threadIdx.x == 0 && wanted == 0) *bin = 0, *rest = 0;
}

// The bin of a rank: all keys below 64 have one of their own, and from there on 64 an octave. And the part of that bin, by the
// 11 bits that follow.
__device__ __forceinline__ u32 bin_of(u64 rank) {
    const u32 key = (u32)(rank >> 32);
    if (key < 64) return key;
    const u32 e = 31 - __clz(key);
    return (e - 5) * 64 + (key >> (e - 6) & 63);
}
__device__ __forceinline__ u32 sub_of(u64 rank, u32 index_bits) {
    const u32 key = (u32)(rank >> 32), low = key < 64 ? 0 : 25 - __clz(key); // bits of the key that follow
    const u64 all = (u64)(key & ((1u << low) - 1)) << index_bits | (u32)rank;
    const u32 bits = low + index_bits;
    return (u32)(bits > 11 ? all >> (bits - 11) : all);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_clear(Selection v) {
    after_prior();
    const u32 step = gridDim.x * SELECT_THREADS, at = blockIdx.x * SELECT_THREADS + threadIdx.x;
    uint4 *zeros = (uint4 *)v.state;
    for (u32 i = at; i < v.zero_words / 4; i += step) zeros[i] = make_uint4(0, 0, 0, 0);
    for (u32 i = at; i < v.cell_count; i += step) v.cells[i] = NO_RANK;
}

// A block of threads does as many whole blocks of a row as it has threads for, row_blocks rows of them.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_keys(Selection v) {
    __shared__ u64 ranks[SELECT_THREADS];
    after_prior();
    const int wide = SELECT_THREADS / v.block, tiles = (v.block_columns + wide - 1) / wide; // wide: in blocks
    const int tile = blockIdx.x % tiles;
    const int t = threadIdx.x, i = tile * wide * v.block + t;
    const bool some = t < wide * v.block && i < v.columns;
    const int from = blockIdx.x / tiles * v.row_blocks, to = min(from + v.row_blocks, v.block_rows);
    u32 above = some ? edges_of(v, i, from * v.block + v.spacing) : 0;
    for (int b = from; b < to; b++) {
        u64 first = NO_RANK;
        if (some) {
            u32 least = ~0u;
            int where = b * v.block;
            const int end = min((b + 1) * v.block, v.rows);
#pragma unroll 4
            for (int j = b * v.block; j < end; j++) {
                const u32 below = edges_of(v, i, j + v.spacing + 1);
                const u32 key = key_of(v, i, j, v.floor + above + below);
                above = below;
                v.keys[(u64)j * v.columns + i] = key;
                if (key < least) least = key, where = j;
            }
            first = rank_of(v, i, where, least);
        }
        ranks[t] = first;
        __syncthreads();
        if (t < wide && tile * wide + t < v.block_columns) {
            u64 r = ranks[t * v.block];
            for (int k = 1; k < v.block; k++) r = min(r, ranks[t * v.block + k]);
            v.first[(u64)b * v.block_columns + tile * wide + t] = r;
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_previous(Selection v) {
    after_prior();
    for (u32 k = blockIdx.x * SELECT_THREADS + threadIdx.x; k < v.previous_count; k += gridDim.x * SELECT_THREADS) {
        const int2 p = v.previous[k];
        // Far ones must not come round.
        if (p.x <= v.spacing || p.y <= v.spacing || p.x > v.spacing + v.columns || p.y > v.spacing + v.rows) continue;
        const int i = p.x - v.spacing - 1, j = p.y - v.spacing - 1;
        const u32 weight = v.floor + edges_of(v, i, p.y - 1) + edges_of(v, i, p.y);
        lower(v, i, j, key_of(v, i, j, weight * (1 + v.strength)));
    }
}

// Candidates of a cell lie in [lo, hi) of n, by columns or rows.
__device__ __forceinline__ int2 cell_span(const Selection &v, int c, int n) {
    return make_int2(min(max(c * v.cell - v.spacing - 1, 0), n), max(min((c + 1) * v.cell - 2 * v.spacing - 1, n), 0));
}

// A warp does some rows of a cell; the one that is last makes the key.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_cells(Selection v) {
    after_prior();
    const u32 lane = lane_id(), units = v.cell_count * (u32)v.cell_parts;
    for (u32 unit = (blockIdx.x * SELECT_THREADS + threadIdx.x) >> 5; unit < units; unit += gridDim.x * WARPS) {
        const u32 c = unit / v.cell_parts, part = unit % v.cell_parts;
        const int2 is = cell_span(v, c % v.cell_columns, v.columns), js = cell_span(v, c / v.cell_columns, v.rows);
        const int each = max(js.y - js.x, 0) / v.cell_parts + 1;
        const int from = js.x + (int)part * each, to = min(from + each, js.y);
        u32 least = ~0u, where = 0; // its index, which is not 0
        for (int j = from; j < to; j++) {
            const u32 *keys = v.keys + (u64)j * v.columns;
            for (int i = is.x + lane; i < is.y; i += 32) {
                const u32 key = keys[i];
                if (key < least || where == 0) least = key, where = (u32)rank_of(v, i, j, 0);
            }
        }
        u64 r = warp_min(where == 0 ? NO_RANK : (u64)least << 32 | where);
        if (lane != 0) continue;
        if (v.cell_parts > 1) {
            atomicMin(v.cells + c, r);
            __threadfence();
            if (atomicAdd(v.tickets + c, 1) + 1 != v.cell_parts) continue;
            r = atomicMin(v.cells + c, NO_RANK);
        }
        if (r == NO_RANK) continue;
        const int2 at = candidate(v, r);
        lower(v, at.x, at.y, 0);
    }
}

// Whether no candidate within spacing of (x, y) comes before rank r, by 8 lanes: of the blocks around it, (bi, bj), they look at
// those with a bit in todo. Other lanes of the warp look for others, or for none.
__device__ __forceinline__ bool alone(const Selection &v, u64 r, int x, int y, int bi, int bj, u32 todo) {
    const u32 group = lane_id() & 24;
    bool before = false;
    int x0 = 0, y0 = 0, wide = 1, n = 0; // what is left of a block
    int at = 0;
    while (true) {
        if (before) todo = 0, n = 0;
        for (; at >= n && todo; todo &= todo - 1) {
            const int k = __ffs(todo) - 1, ni = bi + k % 3 - 1, nj = bj + k / 3 - 1;
            x0 = max(ni * v.block, x - v.spacing), y0 = max(nj * v.block, y - v.spacing);
            const int columns = min(min(ni * v.block + v.block, v.columns), x + v.spacing + 1) - x0;
            const int rows = min(min(nj * v.block + v.block, v.rows), y + v.spacing + 1) - y0;
            wide = max(columns, 1), n = columns * rows, at = 0; // there may be none
        }
        if (!__any_sync(~0u, at < n)) return !before;
        // Four each, so that they are waited for together.
        u32 key[4], where[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int t = at + k * 8 + (int)(lane_id() & 7), j = t / wide, i = t - j * wide;
            const bool in = t < n;
            key[k] = in ? __ldg(v.keys + (u64)(y0 + j) * v.columns + x0 + i) : ~0u;
            where[k] = in ? (u32)rank_of(v, x0 + i, y0 + j, 0) : ~0u;
        }
        at += 32;
        bool found = false;
#pragma unroll
        for (int k = 0; k < 4; k++) found |= ((u64)key[k] << 32 | where[k]) < r;
        before |= (__ballot_sync(~0u, found) >> group & 255) != 0;
    }
}

// The same by one lane, where there are few: 8 would mostly look at nothing.
__device__ __forceinline__ bool alone_among_few(const Selection &v, u64 r, int x, int y, int bi, int bj, u32 todo) {
    for (; todo; todo &= todo - 1) {
        const int k = __ffs(todo) - 1, ni = bi + k % 3 - 1, nj = bj + k / 3 - 1;
        const int x0 = max(ni * v.block, x - v.spacing), x1 = min(min(ni * v.block + v.block, v.columns), x + v.spacing + 1);
        const int y0 = max(nj * v.block, y - v.spacing), y1 = min(min(nj * v.block + v.block, v.rows), y + v.spacing + 1);
        for (int j = y0; j < y1; j++)
#pragma unroll 4
            for (int i = x0; i < x1; i++)
                if (((u64)__ldg(v.keys + (u64)j * v.columns + i) << 32 | (u32)rank_of(v, i, j, 0)) < r) return false;
    }
    return true;
}

// A lane looks at the first one of a block and those of the blocks around. Where these don't tell, it or 8 lanes look at others
// of these blocks.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_distance(Selection v) {
    __shared__ u32 bins[SELECT_BINS], count, base;
    for (u32 i = threadIdx.x; i < SELECT_BINS; i += SELECT_THREADS) bins[i] = 0;
    after_prior();
    const u32 lane = lane_id(), blocks = (u32)v.block_columns * (u32)v.block_rows;
    for (u32 from = blockIdx.x * SELECT_THREADS; from < blocks; from += gridDim.x * SELECT_THREADS) {
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        const u32 b = from + threadIdx.x;
        u64 r = NO_RANK;
        int2 at = make_int2(0, 0);
        bool stays = false;
        u32 look = 0; // at others of these blocks
        int bi = 0, bj = 0;
        if (b < blocks) {
            r = v.first[b];
            stays = true;
            if (v.spacing > 0) {
                at = candidate(v, r);
                bi = b % (u32)v.block_columns, bj = b / (u32)v.block_columns;
#pragma unroll
                for (int k = 0; k < 9; k++) {
                    const int ni = bi + k % 3 - 1, nj = bj + k / 3 - 1;
                    if (k == 4 || ni < 0 || nj < 0 || ni >= v.block_columns || nj >= v.block_rows) continue;
                    const u64 o = v.first[(u64)nj * v.block_columns + ni];
                    if (o >= r) continue;
                    const int2 other = candidate(v, o);
                    if (max(abs(other.x - at.x), abs(other.y - at.y)) <= v.spacing)
                        stays = false;
                    else
                        look |= 1u << k;
                }
            }
        }
        if (v.spacing < SELECT_FEW) {
            if (stays && look) stays = alone_among_few(v, r, at.x, at.y, bi, bj, look);
            look = 0;
            __syncwarp();
        }
        // Four at a time.
        for (u32 todo = __ballot_sync(~0u, stays && look != 0); todo;) {
            int k = -1; // whose this lane looks for
            for (u32 g = 0; g < 4 && todo; g++, todo &= todo - 1)
                if (lane / 8 == g) k = __ffs(todo) - 1;
            const int from = max(k, 0);
            const u64 rank = __shfl_sync(~0u, r, from);
            const int x = __shfl_sync(~0u, at.x, from), y = __shfl_sync(~0u, at.y, from);
            const int i = __shfl_sync(~0u, bi, from), j = __shfl_sync(~0u, bj, from);
            const u32 blocks = __shfl_sync(~0u, look, from);
            const bool ok = alone(v, rank, x, y, i, j, k < 0 ? 0 : blocks);
#pragma unroll
            for (u32 g = 0; g < 4; g++) {
                const int whose = __shfl_sync(~0u, k, g * 8);
                const bool good = __shfl_sync(~0u, ok, g * 8);
                if (whose == (int)lane) stays = good;
            }
        }
        const u32 all = __ballot_sync(~0u, stays);
        u32 slot = 0;
        if (lane == 0 && all) slot = atomicAdd(&count, __popc(all));
        slot = __shfl_sync(~0u, slot, 0) + __popc(all & ((1u << lane) - 1));
        __syncthreads();
        if (threadIdx.x == 0) base = count ? atomicAdd(&v.state->stay, count) : 0;
        __syncthreads();
        if (stays) {
            v.stay[base + slot] = r;
            atomicAdd(bins + bin_of(r), 1);
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < SELECT_BINS; i += SELECT_THREADS)
        if (bins[i]) atomicAdd(v.state->bins + i, bins[i]);
    if (last_block(v.state->ended)) pick(v.state->bins, v.room, &v.state->bin, &v.state->rest);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_refine(Selection v) {
    after_prior();
    const u32 stay = v.state->stay, bin = v.state->bin;
    for (u32 i = blockIdx.x * SELECT_THREADS + threadIdx.x; i < stay; i += gridDim.x * SELECT_THREADS) {
        const u64 r = v.stay[i];
        if (bin_of(r) == bin) atomicAdd(v.state->subs + sub_of(r, v.index_bits), 1);
    }
    if (last_block(v.state->ended + 1)) pick(v.state->subs, v.state->rest, &v.state->sub, &v.state->sub_rest);
}

__device__ __forceinline__ void mark(const Selection &v, u32 index) { atomicOr(v.bits + (index >> 5), 1u << (index & 31)); }
__device__ __forceinline__ void mark_corner(const Selection &v, u32 x, u32 y) { mark(v, y * (u32)(v.width + 1) + x); }

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_mark(Selection v) {
    after_prior();
    const u32 step = gridDim.x * SELECT_THREADS, t = blockIdx.x * SELECT_THREADS + threadIdx.x;
    for (u32 i = t; i <= v.border_columns; i += step) {
        const u32 x = (u32)((u64)i * v.width / v.border_columns);
        mark_corner(v, x, 0), mark_corner(v, x, v.height);
    }
    for (u32 i = t; i <= v.border_rows; i += step) {
        const u32 y = (u32)((u64)i * v.height / v.border_rows);
        mark_corner(v, 0, y), mark_corner(v, v.width, y);
    }
    const u32 stay = v.state->stay, bin = v.state->bin, sub = v.state->sub;
    for (u32 i = t; i < stay; i += step) {
        const u64 r = v.stay[i];
        const u32 b = bin_of(r);
        if (b > bin) continue;
        const u32 s = b < bin ? 0 : sub_of(r, v.index_bits);
        if (b < bin || s < sub)
            mark(v, (u32)r);
        else if (s == sub)
            v.first[atomicAdd(&v.state->last_bin, 1)] = r;
    }
    if (!last_block(v.state->ended + 2)) return;
    const u32 n = __ldcg(&v.state->last_bin), rest = v.state->sub_rest;
    for (u32 i = threadIdx.x; i < n; i += SELECT_THREADS) {
        const u64 r = __ldcg(v.first + i);
        u32 before = 0;
        for (u32 k = 0; k < n; k++) before += __ldcg(v.first + k) < r;
        if (before < rest) mark(v, (u32)r);
    }
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_count(Selection v) {
    after_prior();
    u32 total;
    const uint4 w = ((const uint4 *)v.bits)[blockIdx.x * SELECT_THREADS + threadIdx.x];
    block_scan<SELECT_THREADS>((u32)(__popc(w.x) + __popc(w.y) + __popc(w.z) + __popc(w.w)), total);
    if (threadIdx.x == 0) v.segments[blockIdx.x] = total;
    if (!last_block(v.state->ended + 3)) return;
    u32 before = 0;
    for (u32 from = 0; from < gridDim.x; from += SELECT_THREADS) {
        const u32 i = from + threadIdx.x;
        const u32 sum = block_scan<SELECT_THREADS>(i < gridDim.x ? __ldcg(v.segments + i) : 0, total);
        if (i < gridDim.x) v.segments[i] = before + sum;
        before += total;
    }
    if (threadIdx.x == 0) v.segments[gridDim.x] = *v.count = before;
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS) select_write(Selection v) {
    after_prior();
    const uint4 four = ((const uint4 *)v.bits)[blockIdx.x * SELECT_THREADS + threadIdx.x];
    const u32 w[4] = {four.x, four.y, four.z, four.w};
    u32 total, at = __popc(w[0]) + __popc(w[1]) + __popc(w[2]) + __popc(w[3]);
    at = v.segments[blockIdx.x] + block_scan<SELECT_THREADS>(at, total);
    const u32 index = (blockIdx.x * SELECT_THREADS + threadIdx.x) * 128;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        for (u32 m = w[k]; m; m &= m - 1) {
            const u32 corner = index + k * 32 + __ffs(m) - 1, y = corner / (u32)(v.width + 1);
            if (at < v.n) v.points[at] = make_int2((int)(corner - y * (u32)(v.width + 1)), (int)y);
            at++;
        }
    }
    for (u32 i = v.segments[gridDim.x] + blockIdx.x * SELECT_THREADS + threadIdx.x; i < v.n;
         i += gridDim.x * SELECT_THREADS)
        v.points[i] = make_int2(0, 0);
}
