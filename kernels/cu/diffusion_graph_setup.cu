// The set-up makes levels one by one, nodes of all numbered through:
// diffusion_graph_join, _first, _many, _pixels   groups of up to GROUP nodes that are connected within blocks of 2x2 cells, or components of
//                                             pixels, and how many there are in each; for a warp, 16 lanes, a block, or a thread
// diffusion_graph_number, _number_pixels      numbers them in the order of blocks: each thread block adds up what those before have
// diffusion_graph_amid_pixels                 rows of P' A P amid pixels that take from all around, which are all the same: half to four fifths of
//                                             them; a thread a row, a block a tile. The others are listed
// diffusion_graph_multiply_pixels             those others, 4 lanes each, in whole numbers; rows of P are found where they are needed
// diffusion_graph_smooth, _first, _deep       a row of P for 4 lanes, 2, or 16
// diffusion_graph_product, _first, _deep      a row of A P for 8 lanes, 2, or a warp
// diffusion_graph_multiply, _first, _deep     a row of P' A P for a warp, or 16 lanes
// diffusion_graph_finish                      how many levels there are
// diffusion_graph_invert                      the inverse of the last level's operator, in the registers of one block
// Columns of a row are nodes that lie in cells around, a few exceptions apart. Nodes are numbered in the order of cells: so those of some rows of
// cells are a few sequences of numbers, and each has a place in a table on chip, in their order. There rows are added up, by integers of 32 bits in
// units of a billionth of all that is added: they don't depend on the order, and come out sorted. Hash tables took twice as long where they
// had all columns; they have the exceptions now, for which a row's entries are gone through once more. Who takes from a node is found the same
// way, among the nodes around. Lanes for a row are as many as took the least time, warps as many as have 64 registers a thread: with more, that
// spill, the second level took twice as long. To multiply by A P takes a fifth of the time that multiplying by A and P at once takes, at levels
// with long rows. Bytes: 40 a pixel for the image's own part, and about 300 for rows, mostly from the cache.

#include "abi/diffusion_graph_setup.cuh"
#include "diffusion_graph.cuh"

// Entries of P of pixels are multiples of 1/18, as 2/3 is by how much they are smoothed, and 1 to 4 neighbours are taken from.
#define PIXEL_UNIT 18
#define PIXEL_STEP 12 // SMOOTH
#define PRODUCT_UNIT ((float)(PIXEL_UNIT * PIXEL_UNIT))

// Which of the four pixels of a block stand for a component, and for which each does: 4 times 4 bits, 8 for none.
__device__ __forceinline__ u32 block_roots(const GraphSetup &g, int bx, int by) {
    const int w = g.width, h = g.height;
    u32 open[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int x = 2 * bx + (k & 1), y = 2 * by + (k >> 1);
        open[k] = x < w && y < h ? g.open[(u64)y * w + x] >> 4 : 0;
    }
    u32 root[4];
#pragma unroll
    for (int k = 0; k < 4; k++) root[k] = open[k] ? k : 8;
    // An edge within the block is open on both sides.
    if (open[0] & OPEN_RIGHT) root[1] = 0;
    if (open[0] & OPEN_DOWN) root[2] = 0;
    if (open[1] & OPEN_DOWN) root[3] = root[1];
    if (open[2] & OPEN_RIGHT) {
        // 2 and 3: the lesser root stands for both, and for what the other one stood for.
        const u32 a = root[2], b = root[3], lo = a < b ? a : b, hi = a < b ? b : a;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (root[k] == hi) root[k] = lo;
    }
    return root[0] | root[1] << 4 | root[2] << 8 | root[3] << 12;
}

// Which blocks are of four pixels that take from all around, where labels of pixels were.
__device__ __forceinline__ u8 *whole_blocks(const GraphSetup &g) { return (u8 *)g.labels; }

__device__ __forceinline__ bool block_whole(const GraphSetup &g, int bx, int by) {
    const int w = g.width, x = 2 * bx, y = 2 * by;
    if (x + 1 >= w || y + 1 >= (int)g.height) return false;
    const u8 *open = g.open + (u64)y * w + x;
    return (open[0] & open[1] & open[w] & open[w + 1]) == 255;
}

__device__ __forceinline__ u32 count_roots(u32 roots) {
    u32 n = 0;
#pragma unroll
    for (u32 k = 0; k < 4; k++) n += (roots >> 4 * k & 15) == k;
    return n;
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS) diffusion_graph_join_pixels(GraphSetup g) {
    after_prior();
    const int cw = cells(g.width, 1), ch = cells(g.height, 1);
    const u32 c = blockIdx.x * GRAPH_THREADS + threadIdx.x;
    u32 n = 0, total;
    if (c < (u32)cw * ch) n = count_roots(block_roots(g, c % cw, c / cw));
    if (c < (u32)cw * ch) g.cell[c] = n;
    block_scan<GRAPH_THREADS>(n, total);
    if (threadIdx.x == 0) g.parts[blockIdx.x] = total;
}

// number gives the cells of level k, of which each has so many nodes, their numbers. It returns the first of the thread's cell, or -1
// where there is no room for the level.
__device__ __forceinline__ i64 number(const GraphSetup &g, int k, int *cell, u32 *parts, u32 count, u32 cellcount) {
    u32 mine = 0, all = 0, total;
    for (u32 i = threadIdx.x; i < gridDim.x; i += GRAPH_THREADS) {
        const u32 v = parts[i];
        all += v;
        if (i < blockIdx.x) mine += v;
    }
    block_scan<GRAPH_THREADS>(all, total), all = total;
    block_scan<GRAPH_THREADS>(mine, total), mine = total;
    const u32 before = block_scan<GRAPH_THREADS>(count, total);
    const u32 base = g.table->first[k];
    const bool bad = k > 1 && g.table->bad[k - 1];
    const bool full = bad || all > g.node_room - base;
    const u32 c = blockIdx.x * GRAPH_THREADS + threadIdx.x;
    const u32 at = full ? base : base + mine + before;
    if (c < cellcount) cell[c] = at;
    if (c + 1 == cellcount) {
        cell[cellcount] = full ? base : base + all;
        g.table->first[k + 1] = full ? base : base + all;
        if (full) g.table->bad[k] = 1;
    }
    return full ? -1 : (i64)at;
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS) diffusion_graph_number_pixels(GraphSetup g) {
    after_prior();
    const int w = g.width, h = g.height, cw = cells(w, 1), ch = cells(h, 1);
    const u32 c = blockIdx.x * GRAPH_THREADS + threadIdx.x, n = (u32)cw * ch;
    const u32 count = c < n ? g.cell[c] : 0;
    const i64 first = number(g, 1, g.cell, g.parts, count, n);
    if (c >= n) return;
    const int bx = c % cw, by = c / cw;
    const u32 roots = block_roots(g, bx, by);
    whole_blocks(g)[c] = block_whole(g, bx, by);
    int id[4], next = (int)first;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const u32 r = roots >> 4 * k & 15;
        id[k] = -1;
        if (first >= 0 && r == k) {
            g.node_block[next] = c;
            id[k] = next++;
        }
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        const u32 r = roots >> 4 * k & 15;
        const int x = 2 * bx + (k & 1), y = 2 * by + (k >> 1);
        int p = -1;
#pragma unroll
        for (u32 m = 0; m < 4; m++)
            if (r == m) p = id[m];
        if (x < w && y < h) g.parent[(u64)y * w + x] = p;
    }
}

// Which cell a node lies in, and above it by how many cells nodes are beyond its block whose rows of P have it, where that is more than NEAR.
#define CELL_BITS 27
#define CELL_MASK ((1u << CELL_BITS) - 1)
#define NEAR 1
#define MOST_FAR 31 // where there is no room for the level

__device__ __forceinline__ u32 cell_of(const GraphSetup &g, u32 node) { return g.node_block[node] & CELL_MASK; }

// A level of so few nodes is the last one: it is solved exactly.
__device__ __forceinline__ bool last_level(const GraphSetup &g, int level) {
    return g.table->first[level + 1] - g.table->first[level] <= GRAPH_DENSE_NODES;
}

__device__ __forceinline__ bool strong(float w, float di, float dj) { return w * w > STRONG * STRONG * di * dj; }

// Where a cell is, by a multiplication.
struct Across {
    u32 w, inverse;
    __device__ __forceinline__ Across(u32 w) : w(w), inverse(~0u / w) {}
    __device__ __forceinline__ int2 of(u32 cell) const {
        u32 y = __umulhi(cell, inverse), x = cell - y * w;
        if (x >= w) x -= w, y++;
        return make_int2(x, y);
    }
};

// The nodes of level k in the cells of a block: those from a to b, and from c to d.
struct Block {
    int a, b, c, d;
    __device__ __forceinline__ int size() const { return b - a + d - c; }
    __device__ __forceinline__ int at(int i) const { return i < b - a ? a + i : c + i - (b - a); }
    __device__ __forceinline__ int index(int node) const {
        return node >= a && node < b ? node - a : node >= c && node < d ? node - c + b - a : -1;
    }
};

__device__ __forceinline__ Block block_of(const int *cell, int w, int h, int bx, int by) {
    Block b;
    const int x0 = 2 * bx, x1 = min(2 * bx + 2, w), y = 2 * by;
    b.a = cell[y * w + x0], b.b = cell[y * w + x1], b.c = b.d = 0;
    if (y + 1 < h) b.c = cell[(y + 1) * w + x0], b.d = cell[(y + 1) * w + x1];
    return b;
}

#define NO_NODE 0x7fffffff

// What some threads have room for that join the nodes of a block. Where there are more, a warp works in global memory.
template <int room>
struct Join {
    float diagonal[room]; // infinite where a node is not to have a parent: its edges are not strong then
    GraphRow row[room];
    u32 near[room][room / 32]; // those that strong edges lead to
    int root[room];            // of a node's group, its first node; -1 where there is none
    u32 free[room / 32];       // those that have no group yet
};

// Each node that has no group yet makes one with those around it that have none either, ring by ring. This is for one thread.
template <int room>
__device__ __forceinline__ void group_nodes(Join<room> &j) {
    const int words = room / 32;
    u32 free[words];
#pragma unroll
    for (int q = 0; q < words; q++) free[q] = j.free[q];
#pragma unroll
    for (int q = 0; q < words; q++)
        while (free[q]) {
            const int k = 32 * q + __ffs(free[q]) - 1;
            u32 group[words], ring[words], around[words], more = 1;
#pragma unroll
            for (int v = 0; v < words; v++) group[v] = ring[v] = v == q ? 1u << k % 32 : 0, around[v] = 0;
            int size = 1;
            while (more && size < GROUP) {
#pragma unroll
                for (int v = 0; v < words; v++) around[v] = 0;
#pragma unroll
                for (int u = 0; u < words; u++)
                    for (u32 rest = ring[u]; rest; rest &= rest - 1)
#pragma unroll
                        for (int v = 0; v < words; v++) around[v] |= j.near[32 * u + __ffs(rest) - 1][v];
                more = 0;
#pragma unroll
                for (int v = 0; v < words; v++) {
                    ring[v] = around[v] & free[v] & ~group[v];
                    while (size + __popc(ring[v]) > GROUP) ring[v] &= ~(1u << (31 - __clz(ring[v])));
                    size += __popc(ring[v]), group[v] |= ring[v], more |= ring[v];
                }
            }
            // One alone belongs to a group beside it.
            int of = k;
#pragma unroll
            for (int v = words - 1; v >= 0; v--) {
                const u32 others = around[v] & ~group[v];
                if (size == 1 && others) of = 32 * v + __ffs(others) - 1;
            }
            if (of != k) of = j.root[of];
#pragma unroll
            for (int v = 0; v < words; v++) {
                free[v] &= ~group[v];
                for (u32 rest = group[v]; rest; rest &= rest - 1) j.root[32 * v + __ffs(rest) - 1] = of;
            }
        }
}

// The same for a block of any size, by a warp. It returns how many groups there are, and leaves in node_parent which a node's is.
__device__ __forceinline__ u32 group_many(const GraphSetup &g, const Block &b, int level) {
    const int n = b.size(), lane = lane_id();
    volatile int *const label = g.labels - g.table->first[level], *const parent = g.node_parent;
    for (int i = lane; i < n; i += 32) label[b.at(i)] = -1;
    __syncwarp();
    for (int k = 0; k < n; k++) {
        const int node = b.at(k);
        if (parent[node] < 0 || label[node] >= 0) continue;
        int group[GROUP], size = 1, first = NO_NODE;
        group[0] = node;
        for (int m = 1; m < GROUP; m++) group[m] = -1;
        for (int ring = 0; ring < size && size < GROUP;) {
            // Each lane keeps the first ones of those that it sees.
            int seen[GROUP - 1];
            for (int m = 0; m < GROUP - 1; m++) seen[m] = NO_NODE;
            for (int from = ring; from < size; from++) {
                int at = group[0];
                for (int m = 1; m < GROUP; m++) at = m == from ? group[m] : at;
                const GraphRow row = g.row[at];
                const float d = g.diagonal[at];
                for (u32 e = lane; e < row.count; e += 32) {
                    const GraphEntry x = g.edges[row.at + e];
                    if (b.index(x.to) < 0 || parent[x.to] < 0 || !strong(x.weight, d, g.diagonal[x.to])) continue;
                    bool mine = label[x.to] < 0;
                    if (!mine) first = min(first, x.to);
                    for (int m = 0; m < GROUP; m++) mine = mine && group[m] != x.to;
                    int v = mine ? x.to : NO_NODE;
                    for (int m = 0; m < GROUP - 1; m++) {
                        const int less = min(v, seen[m]);
                        v = v == seen[m] ? NO_NODE : max(v, seen[m]);
                        seen[m] = less;
                    }
                }
            }
            ring = size;
            for (int m = 0; m < GROUP - 1 && size < GROUP; m++) {
                const int v = warp_min(seen[0]);
                if (v == NO_NODE) break;
                for (int k = 1; k < GROUP; k++) group[k] = k == size ? v : group[k];
                size++;
                if (seen[0] == v) {
                    for (int k = 0; k + 1 < GROUP - 1; k++) seen[k] = seen[k + 1];
                    seen[GROUP - 2] = NO_NODE;
                }
            }
        }
        first = warp_min(first);
        const int of = size > 1 || first == NO_NODE ? node : label[first];
        __syncwarp();
        if (lane == 0)
            for (int m = 0; m < GROUP; m++)
                if (group[m] >= 0) label[group[m]] = of;
        __syncwarp();
    }
    u32 count = 0;
    for (int base = 0; base < n; base += 32) {
        const int node = base + lane < n ? b.at(base + lane) : -1;
        const bool root = node >= 0 && label[node] == node;
        const u32 who = __ballot_sync(~0u, root);
        if (root) parent[node] = count + __popc(who & ((1u << lane) - 1));
        count += __popc(who);
    }
    __syncwarp();
    for (int i = lane; i < n; i += 32)
        if (parent[b.at(i)] >= 0) parent[b.at(i)] = parent[label[b.at(i)]];
    return count;
}

#define JOIN_FEW_LANES (2 * GRAPH_JOIN_NODES)

// What join does for such a block. It returns false where some of the warp's are others, and then nothing is done.
__device__ __forceinline__ bool join_few(const GraphSetup &g, const Block &b, u32 &count) {
    const int n = b.size(), own = lane_id() % JOIN_FEW_LANES / 2, base = lane_id() / JOIN_FEW_LANES * JOIN_FEW_LANES;
    if (__any_sync(~0u, n > GRAPH_JOIN_NODES)) return false;
    GraphRow row = {0, 0};
    float d = INFINITY;
    int node = 0;
    if (own < n) {
        node = b.at(own), row = g.row[node];
        const float diagonal = g.diagonal[node];
        if (g.node_parent[node] >= 0) d = diagonal;
    }
    const bool some = d < INFINITY;
    u32 near = 1u << own;
    for (u32 e = lane_id() & 1; __any_sync(~0u, e < row.count); e += 8) {
        GraphEntry x[4];
#pragma unroll
        for (u32 k = 0; k < 4; k++) x[k] = e + 2 * k < row.count ? g.edges[row.at + e + 2 * k] : GraphEntry{-1, 0};
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            const int o = b.index(x[k].to);
            const float other = __shfl_sync(~0u, d, base + 2 * max(o, 0));
            if (o >= 0 && strong(x[k].weight, d, other)) near |= 1u << o;
        }
    }
    near |= __shfl_xor_sync(~0u, near, 1);
    // Take over what neighbours are connected with: three times, as paths have at most seven edges.
#pragma unroll
    for (int round = 0; round < 3; round++) {
        u32 all = near;
#pragma unroll
        for (int k = 0; k < GRAPH_JOIN_NODES; k++) {
            const u32 other = __shfl_sync(~0u, near, base + 2 * k);
            if (near >> k & 1) all |= other;
        }
        near = all;
    }
    if (__any_sync(~0u, some && __popc(near) > GROUP)) return false;
    const u32 roots = __ballot_sync(~0u, some && (lane_id() & 1) == 0 && __ffs(near) - 1 == own) >> base & ((1u << JOIN_FEW_LANES) - 1);
    if (some && (lane_id() & 1) == 0) g.node_parent[node] = __popc(roots & ((1u << 2 * (__ffs(near) - 1)) - 1));
    count = __popc(roots);
    return true;
}

// How many groups a block of cells has; node_parent becomes which of those a node's is. So many threads do that: some of a warp, which go through
// everything with the others, or all of the block.
template <int threads, int room>
__device__ __forceinline__ u32 join_block(const GraphSetup &g, const Block &b, int level) {
    __shared__ Join<room> shared[GRAPH_THREADS / threads];
    Join<room> &j = shared[threadIdx.x / threads];
    const int lanes = threads < 32 ? threads : 32, lane = lane_id() % lanes, shift = lane_id() - lane, thread = threadIdx.x % threads;
    auto sync = [] {
        if (threads <= 32) __syncwarp();
        else __syncthreads();
    };
    const int all = b.size(), n = all <= room ? all : 0;
    u32 count = 0;
    if (threads == JOIN_FEW_LANES && join_few(g, b, count)) return count;
    for (int k = thread; k < n; k += threads) {
        const int node = b.at(k);
        const bool some = g.node_parent[node] >= 0;
        j.row[k] = g.row[node], j.diagonal[k] = some ? g.diagonal[node] : INFINITY;
#pragma unroll
        for (int q = 0; q < room / 32; q++) j.near[k][q] = 0;
    }
    for (int q = thread; q < room / 32; q += threads) j.free[q] = 0;
    sync();
    // Eight threads for each row, and two entries at once.
    for (int k = thread / 8; k < n; k += threads / 8) {
        const GraphRow row = j.row[k];
        const float d = j.diagonal[k];
        auto look = [&](const GraphEntry &x) {
            const int o = b.index(x.to);
            if (o >= 0 && strong(x.weight, d, j.diagonal[o])) atomicOr(&j.near[k][o / 32], 1u << o % 32);
        };
        for (u32 e = thread % 8; e < row.count; e += 16) {
            const GraphEntry x = g.edges[row.at + e], y = e + 8 < row.count ? g.edges[row.at + e + 8] : GraphEntry{-1, 0};
            look(x), look(y);
        }
    }
    sync();
    // Those that no edge leads to are alone.
    for (int k = thread; k < n; k += threads) {
        u32 some = 0;
#pragma unroll
        for (int q = 0; q < room / 32; q++) some |= j.near[k][q];
        if (some) atomicOr(&j.free[k / 32], 1u << k % 32);
        j.root[k] = j.diagonal[k] < INFINITY ? k : -1;
    }
    sync();
    if (thread == 0) group_nodes(j);
    sync();
    // Each warp counts those that groups begin with.
    u32 roots[room / lanes];
#pragma unroll
    for (int q = 0; q < room / lanes; q++) {
        const int k = lanes * q + lane;
        const u32 who = __ballot_sync(~0u, k < n && j.root[k] == k);
        roots[q] = lanes == 32 ? who : who >> shift & ((1u << lanes % 32) - 1);
        count += __popc(roots[q]);
    }
    for (int k = thread; k < n; k += threads) {
        const int to = j.root[k];
        int rank = 0;
#pragma unroll
        for (int q = 0; q < room / lanes; q++)
            rank += __popc(lanes * (q + 1) <= to ? roots[q] : lanes * q <= to ? roots[q] & ((1u << to % lanes) - 1) : 0);
        if (to >= 0) g.node_parent[b.at(k)] = rank;
    }
    if (thread < lanes)
        for (int q = 0; q < 32 / lanes; q++) {
            const Block many = {__shfl_sync(~0u, b.a, q * lanes), __shfl_sync(~0u, b.b, q * lanes), __shfl_sync(~0u, b.c, q * lanes),
                                __shfl_sync(~0u, b.d, q * lanes)};
            if (many.size() <= room) continue;
            const u32 groups = group_many(g, many, level);
            if (lane_id() / lanes == q) count = groups;
        }
    return count;
}

// How many groups there are in the blocks of cells that a thread block has goes to their part at once: all that are added to parts wait
// for each other, and with one for each block of cells that was half of what joining took.
template <int threads, int room>
__device__ __forceinline__ void join(const GraphSetup &g, const int *cell, int *next, u32 *parts, int level) {
    __shared__ u32 total;
    if (threadIdx.x == 0) total = 0;
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2, ch = (h + 1) / 2;
    const u32 c = (blockIdx.x * GRAPH_THREADS + threadIdx.x) / threads;
    const bool in = c < (u32)cw * ch;
    Block b = {0, 0, 0, 0};
    if (in) b = block_of(cell, w, h, c % cw, c / cw);
    const u32 count = join_block<threads, room>(g, b, level);
    __syncthreads();
    if (in && threadIdx.x % threads == 0) {
        next[c] = count;
        atomicAdd(&total, count);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&parts[c / GRAPH_THREADS], total);
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS)
    diffusion_graph_join_first(GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) join<JOIN_FEW_LANES, 64>(g, cell, next, parts, level);
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS)
    diffusion_graph_join(GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) join<32, 128>(g, cell, next, parts, level);
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS)
    diffusion_graph_join_many(GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) join<GRAPH_THREADS, 128>(g, cell, next, parts, level);
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS)
    diffusion_graph_number(GraphSetup g, const int *cell, int *next, u32 *parts, int level, int pad) {
    __shared__ int firsts[GRAPH_THREADS], counts[GRAPH_THREADS];
    after_prior();
    if (last_level(g, level)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) g.table->first[level + 2] = g.table->first[level + 1];
        return;
    }
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2, ch = (h + 1) / 2;
    const u32 c = blockIdx.x * GRAPH_THREADS + threadIdx.x, cellcount = (u32)cw * ch;
    counts[threadIdx.x] = c < cellcount ? next[c] : 0;
    firsts[threadIdx.x] = (int)number(g, level + 1, next, parts, counts[threadIdx.x], cellcount);
    __syncthreads();
    // Eight threads for each block of cells.
    const Across across(cw);
    for (int k = threadIdx.x / 8; k < GRAPH_THREADS; k += GRAPH_THREADS / 8) {
        const u32 own = blockIdx.x * GRAPH_THREADS + k;
        if (own >= cellcount) break;
        const int2 at = across.of(own);
        const Block b = block_of(cell, w, h, at.x, at.y);
        const int id = firsts[k], n = b.size();
        for (int i = threadIdx.x % 8; i < n; i += 8) {
            const int node = b.at(i), rank = g.node_parent[node];
            if (rank >= 0) g.node_parent[node] = id < 0 ? -1 : id + rank;
        }
        for (int i = threadIdx.x % 8; i < counts[k] && id >= 0; i += 8) g.node_block[id + i] = own;
    }
}

// 6x6 pixels around a block of 2x2, their rows of P, and nodes of the 5x5 blocks that those lead to, four at most in each: there is a place
// for each, in the order of nodes.
struct MultiplyPixels {
    int cell[25], product[100]; // in units of 1/324
    signed char to[36][3], weight[36][3], sum[36]; // in units of 1/18
    u8 open[36];
    u32 pad[3]; // so that those of the groups of a warp begin 8 banks apart
};
static_assert(sizeof(MultiplyPixels) % 128 == 32, "MultiplyPixels");

struct Room {
    u32 at, left;
    __device__ __forceinline__ u32 take(u32 *counter, u32 end, u32 n, u32 rows, bool &bad) {
        if (n > left) {
            left = n * min(rows, GRAPH_ROOM_ROWS);
            if (lane_id() == 0) at = atomicAdd(counter, left);
            at = __shfl_sync(~0u, at, 0);
            if (at > end || left > end - at) bad = true, left = 0;
        }
        if (n > left) return 0;
        left -= n, at += n;
        return at - n;
    }
};

// Room for n entries of each row that a warp has at once, where it comes to so many times.
template <int lanes>
__device__ __forceinline__ u32 take(Room &room, u32 *counter, u32 end, u32 n, u32 rows, bool &bad) {
    u32 before = 0, total = 0;
#pragma unroll
    for (u32 k = 0; k < 32; k += lanes) {
        const u32 t = __shfl_sync(~0u, n, k);
        if (k + lanes <= lane_id()) before += t;
        total += t;
    }
    return room.take(counter, end, total, rows, bad) + before;
}

// What a row of so many lanes adds up to.
template <int lanes, class T>
__device__ __forceinline__ T row_sum(T v) {
#pragma unroll
    for (int o = lanes / 2; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// By what numbers are multiplied that are added up as integers, where their sizes together are at most bound; of that a billionth is kept.
// It is a power of 2.
__device__ __forceinline__ float scale_for(float bound) {
    const int e = (__float_as_int(bound) >> 23) - 127;
    return __int_as_float((29 - min(max(e, -60), 100) + 127) << 23);
}

// The sizes of a row of A together.
__device__ __forceinline__ float row_size(float inv) { return inv > 0 ? 2 / inv : 1; }

// The pixel that one takes from by bit k.
__device__ __forceinline__ int beside(int i, int k, int w) { return k == 0 ? i + 1 : k == 1 ? i - 1 : k == 2 ? i + w : i - w; }

// Row i of P where i is a pixel, in units of 1/18: the entries of its own node, of a neighbour in the row, and of one in the column.
__device__ __forceinline__ void pixel_row(const GraphSetup &g, int i, int x, int y, int (&to)[3], int (&weight)[3],
                                          int &sum) {
    const u32 open = g.open[i];
    const int w = g.width;
    const int unit = 0x346c0 >> 4 * degree(open) & 15; // PIXEL_STEP / degree
    to[0] = g.parent[i], to[1] = to[2] = -1;
    sum = PIXEL_UNIT - unit * (degree(open) - __popc(open >> 4));
    weight[0] = sum, weight[1] = weight[2] = unit;
    if (to[0] < 0) return;
    const int h = x & 1 ? 0 : 1, v = y & 1 ? 2 : 3; // the ways that lead out of the block
    if (open >> 4 >> h & 1) to[1] = g.parent[beside(i, h, w)], weight[0] -= unit;
    if (open >> 4 >> v & 1) to[2] = g.parent[beside(i, v, w)], weight[0] -= unit;
}

// What belongs to a row of n entries: the sum of them and the sink, and that of their sizes.
__device__ __forceinline__ void finish_node(const GraphSetup &g, int node, u32 at, u32 n, float sum, float size,
                                            float sink, bool bad, int level) {
    if (bad) g.table->bad[level] = 1;
    g.row[node] = GraphRow{at, bad ? 0 : n};
    g.sink[node] = sink;
    g.diagonal[node] = sum;
    g.inv[node] = sum > 0 ? 1 / fmaxf(sum, (sum + size) / 2) : 0;
    g.node_parent[node] = size - sink > LOOSE * sum ? 0 : -1; // for diffusion_graph_join and _number
}

// The blocks that a block of pixels is coupled with where all pixels around take from all sides, in the order of their nodes, and the
// weights in units of 1/324.
#define AMID 12
__constant__ signed char amid_x[AMID] = {0, -1, 0, 1, -2, -1, 1, 2, -1, 0, 1, 0}, amid_y[AMID] = {-2, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 2};
__constant__ u8 amid_weight[AMID] = {18, 108, 72, 108, 18, 72, 72, 18, 108, 72, 108, 18};
#define AMID_SUM 792

// The place of the n'th bit that is set, from 0; 31 where there are fewer.
__device__ __forceinline__ u32 nth_bit(u32 bits, u32 n) {
    u32 at = 0;
#pragma unroll
    for (u32 step = 16; step; step >>= 1) {
        const u32 below = __popc(bits >> at & ((1u << step) - 1));
        if (below <= n) n -= below, at += step;
    }
    return at;
}

// Rows that are as those of others are written at once, the others' nodes are listed where rows of products will be.
extern "C" __global__ void __launch_bounds__(GRAPH_THREADS) diffusion_graph_amid_pixels(GraphSetup g) {
    __shared__ int first[(GRAPH_AMID_Y + 4) * (GRAPH_AMID_X + 4)], by[AMID];
    __shared__ float weight[AMID];
    __shared__ u8 whole[(GRAPH_AMID_Y + 4) * (GRAPH_AMID_X + 4)], list[GRAPH_THREADS];
    __shared__ u32 room[2];
    after_prior();
    if (g.table->first[2] == g.table->first[1]) return;
    const int cw = cells(g.width, 1), ch = cells(g.height, 1), across = (cw + GRAPH_AMID_X - 1) / GRAPH_AMID_X,
              thread = threadIdx.x;
    const int x0 = (int)blockIdx.x % across * GRAPH_AMID_X, y0 = (int)blockIdx.x / across * GRAPH_AMID_Y,
              pitch = GRAPH_AMID_X + 4;
    for (int k = thread; k < (GRAPH_AMID_Y + 4) * pitch; k += GRAPH_THREADS) {
        const int x = x0 - 2 + k % pitch, y = y0 - 2 + k / pitch;
        const bool in = x >= 0 && x < cw && y >= 0 && y < ch;
        first[k] = in ? g.cell[y * cw + x] : 0, whole[k] = in ? whole_blocks(g)[y * cw + x] : 0;
    }
    if (thread < AMID) by[thread] = amid_y[thread] * pitch + amid_x[thread], weight[thread] = amid_weight[thread] / PRODUCT_UNIT;
    __syncthreads();
    const int x = x0 + thread % GRAPH_AMID_X, y = y0 + thread / GRAPH_AMID_X,
              at = (thread / GRAPH_AMID_X + 2) * pitch + thread % GRAPH_AMID_X + 2;
    const int node = first[at], nodes = x < cw && y < ch ? g.cell[y * cw + x + 1] - node : 0;
    u32 all = whole[at];
#pragma unroll
    for (int k = 0; k < AMID; k++) all &= whole[at + amid_y[k] * pitch + amid_x[k]];
    const bool amid = all != 0;
    u32 total;
    const u32 before = block_scan<GRAPH_THREADS>(amid ? 1 : (u32)nodes << 16, total);
    if (amid) list[before & 0xffff] = thread;
    if (thread == 0) room[0] = atomicAdd(&g.table->edges, AMID * (total & 0xffff)), room[1] = atomicAdd(&g.table->rest, total >> 16);
    __syncthreads();
    const u32 begin = room[0], entries = AMID * (total & 0xffff);
    const bool bad = begin > g.edge_room || entries > g.edge_room - begin;
    for (u32 e = thread; e < entries && !bad; e += GRAPH_THREADS) {
        const u32 from = list[e / AMID], k = e % AMID;
        g.edges[begin + e] =
            GraphEntry{first[(from / GRAPH_AMID_X + 2) * pitch + from % GRAPH_AMID_X + 2 + by[k]], weight[k]};
    }
    if (amid) finish_node(g, node, begin + AMID * (before & 0xffff), AMID, AMID_SUM / PRODUCT_UNIT, AMID_SUM / PRODUCT_UNIT, 0, bad, 1);
    for (int k = 0; k < nodes && !amid; k++) ((u32 *)g.product)[room[1] + (before >> 16) + k] = node + k;
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_multiply_pixels(GraphSetup g) {
    __shared__ MultiplyPixels shared[GRAPH_MULTIPLY_WARPS * 32 / GRAPH_PIXEL_LANES];
    after_prior();
    MultiplyPixels &m = shared[threadIdx.x / GRAPH_PIXEL_LANES];
    const u32 part = threadIdx.x % GRAPH_PIXEL_LANES, mine = ((1u << GRAPH_PIXEL_LANES) - 1) << (lane_id() - part),
              before = (1u << lane_id()) - 1;
    const u32 rest = g.table->rest, groups = GRAPH_MULTIPLY_WARPS * 32 / GRAPH_PIXEL_LANES;
    const int w = g.width, h = g.height, cw = cells(w, 1), ch = cells(h, 1);
    const Across across(cw);
    Room room = {0, 0};
    for (u32 base = blockIdx.x * groups; base < rest; base += gridDim.x * groups) {
        const u32 index = base + threadIdx.x / GRAPH_PIXEL_LANES;
        const bool in = index < rest;
        const int node = in ? (int)((const u32 *)g.product)[index] : -1;
        const int2 block = across.of(in ? g.node_block[node] : 0u);
        const int x0 = 2 * block.x - 2, y0 = 2 * block.y - 2;
        for (u32 k = part; k < 100; k += GRAPH_PIXEL_LANES) m.product[k] = 0;
        for (u32 k = part; k < 25; k += GRAPH_PIXEL_LANES) {
            const int x = block.x - 2 + (int)k % 5, y = block.y - 2 + (int)k / 5;
            m.cell[k] = x >= 0 && x < cw && y >= 0 && y < ch ? g.cell[y * cw + x] : 0;
        }
        __syncwarp();
        for (u32 k = part; k < 36; k += GRAPH_PIXEL_LANES) {
            const int cx = (int)k % 6, cy = (int)k / 6, x = x0 + cx, y = y0 + cy;
            int to[3] = {-1, -1, -1}, weight[3] = {0, 0, 0}, sum = 0;
            u32 open = 0;
            if (x >= 0 && x < w && y >= 0 && y < h && (open = g.open[y * w + x]) != 0) pixel_row(g, y * w + x, x, y, to, weight, sum);
            m.open[k] = open, m.sum[k] = sum;
            // The places of the nodes: in the pixel's block, in the one beside it, and in the one above or below.
            const int own = (cy / 2 + 1) * 5 + cx / 2 + 1;
            const int place[3] = {own, own + (cx & 1 ? 1 : -1), own + (cy & 1 ? 5 : -5)};
#pragma unroll
            for (int e = 0; e < 3; e++) {
                m.to[k][e] = to[e] < 0 ? -1 : 4 * place[e] + to[e] - m.cell[place[e]];
                m.weight[k][e] = weight[e];
            }
        }
        __syncwarp();
        const int self = 48 + node - m.cell[12];
        int sink = 0;
        // Pixels in the shape of a plus take from the node, 12 of them, and there are five terms for each: its own, and those of its
        // neighbours.
        for (u32 p = part; p < 12 && in; p += GRAPH_PIXEL_LANES) {
            const u32 j = p < 4 ? 14 + (p & 1) + (p >> 1) * 6 : p < 6 ? 13 + (p - 4) * 6 : p < 8 ? 16 + (p - 6) * 6 : p < 10 ? p : p + 16;
            int share = 0;
#pragma unroll
            for (int e = 0; e < 3; e++)
                if (m.to[j][e] == self) share = m.weight[j][e];
            if (share == 0) continue;
            const u32 open = m.open[j];
            const int sum = m.sum[j];
            auto add_row = [&](u32 from, int v) {
#pragma unroll
                for (int e = 0; e < 3; e++) {
                    const int to = m.to[from][e];
                    if (to >= 0 && to != self) atomicAdd(&m.product[to], v * m.weight[from][e]);
                }
            };
            sink += share * sum * (degree(open) - __popc(open >> 4));
            add_row(j, -share * degree(open));
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (!(open >> 4 >> k & 1)) continue;
                const u32 from = beside(j, k, 6);
                sink += share * (sum - m.sum[from]);
                add_row(from, share);
            }
        }
        __syncwarp();
        u32 n = 0;
        int sum = 0, size = 0;
#pragma unroll
        for (u32 k = 0; k < 100; k += GRAPH_PIXEL_LANES) {
            const int v = k + part < 100 ? m.product[k + part] : 0;
            n += __popc(__ballot_sync(~0u, v != 0) & mine);
            sum += v, size += abs(v);
        }
        bool bad = false;
        u32 to = take<GRAPH_PIXEL_LANES>(room, &g.table->edges, g.edge_room, n,
                                         (rest - 1 - base) / (gridDim.x * groups) + 1, bad);
        const u32 at = to;
#pragma unroll
        for (u32 k = 0; k < 100; k += GRAPH_PIXEL_LANES) {
            const int v = k + part < 100 ? m.product[k + part] : 0;
            const u32 who = __ballot_sync(~0u, v != 0) & mine;
            if (v != 0 && !bad) g.edges[to + __popc(who & before)] = GraphEntry{m.cell[(k + part) / 4] + (int)((k + part) & 3), v / PRODUCT_UNIT};
            to += __popc(who);
        }
        sum = row_sum<GRAPH_PIXEL_LANES>(sum), size = row_sum<GRAPH_PIXEL_LANES>(size),
        sink = row_sum<GRAPH_PIXEL_LANES>(sink);
        if (in && part == 0) finish_node(g, node, at, n, (sum + sink) / PRODUCT_UNIT, (size + sink) / PRODUCT_UNIT, sink / PRODUCT_UNIT, bad, 1);
        __syncwarp();
    }
}

// Rows of P begin at even places, and end with one of no weight where needed: so two entries are read at once.
__device__ __forceinline__ u32 even(u32 n) { return (n + 1) & ~1u; }

struct GraphPair {
    GraphEntry a, b;
};

__device__ __forceinline__ GraphPair pair_at(const GraphEntry *pool, u32 at) {
    const int4 v = *(const int4 *)(pool + at);
    return GraphPair{{v.x, __int_as_float(v.y)}, {v.z, __int_as_float(v.w)}};
}

// Where the nodes of the next level in up to (2 reach + 1)^2 cells have places in a table, in their order. Nodes are numbered in the order of cells: those of
// a row of cells follow one another.
template <int reach>
struct Window {
    int first[2 * reach + 1];
    u32 places[2 * reach + 1]; // of rows of cells: the place of the first node, and above it how many there are
    int count;

    // load is for the window around cell (x, y) of w by h. The nodes of the level are begin to end; it is all of them where there is room, and of fewer
    // cells where there is not.
    template <int room>
    __device__ __forceinline__ void load(const int *cell, int begin, int end, int w, int h, int x, int y) {
#pragma unroll 1
        for (int r = reach;; r--) {
            int last[2 * reach + 1];
            const int x0 = max(x - r, 0), x1 = min(x + r + 1, w);
#pragma unroll
            for (int k = 0; k <= 2 * reach; k++) {
                const int row = y - reach + k;
                first[k] = row < y ? begin : end, last[k] = first[k];
                if (row >= max(y - r, 0) && row <= min(y + r, h - 1)) first[k] = cell[row * w + x0], last[k] = cell[row * w + x1];
            }
            if (end - begin <= room) first[0] = begin, last[0] = end;
            count = 0;
#pragma unroll
            for (int k = 0; k <= 2 * reach; k++) {
                if (end - begin <= room && k > 0) first[k] = last[k] = end;
                const int n = min(last[k] - first[k], room - min(count, room));
                places[k] = min(count, room) | n << 16;
                count += last[k] - first[k];
            }
            if (count <= room || r == 0) break;
        }
        count = min(count, room);
    }

    // The place of a node, or -1.
    __device__ __forceinline__ int place(int node) const {
        int from = first[0];
        u32 here = places[0];
#pragma unroll
        for (int r = 1; r <= 2 * reach; r++)
            if (node >= first[r]) from = first[r], here = places[r];
        const u32 nth = node - from;
        return nth < here >> 16 ? (int)(nth + (here & 0xffff)) : -1;
    }

    __device__ __forceinline__ int node(int place) const {
        int by = first[0];
#pragma unroll
        for (int r = 1; r <= 2 * reach; r++) {
            const int at = places[r] & 0xffff;
            if (place >= at) by = first[r] - at;
        }
        return place + by;
    }
};

// A row while it is added up: columns with a place, and the few others, in a hash table. Rows of the groups of a warp lie 8 banks apart.
template <int room, int others>
struct Sums {
    int near[room], key[others], sum[others], pad[8];

    __device__ __forceinline__ void add_other(int to, int v, bool &bad) {
        u32 at = ((u32)to * 2654435761u >> 16) % others;
#pragma unroll 1
        for (int k = 0; k < others; k++, at = (at + 1) % others) {
            const int old = atomicCAS(&key[at], -1, to);
            if (old == -1 || old == to) {
                atomicAdd(&sum[at], v);
                return;
            }
        }
        bad = true;
    }
};

// A row of a matrix by some lanes of a warp: so many, that all have the same part in all that follows. Other lanes have other rows meanwhile.
template <int lanes, int reach, int room, int others>
struct Row {
    Sums<room, others> &m;
    Window<reach> window;
    u32 part, mine; // the lane's number among those of the row, and those
    bool far;       // are there columns without a place

    __device__ __forceinline__ Row(Sums<room, others> &m) : m(m), part(lane_id() % lanes) {
        mine = lanes == 32 ? ~0u : ((1u << lanes % 32) - 1) << (lane_id() - part);
        clear();
    }

    __device__ __forceinline__ void clear() {
        for (int k = part; k < others; k += lanes) m.key[k] = -1, m.sum[k] = 0;
    }

    // begin is for the row of a node, or what becomes one, in cell (x, y).
    __device__ __forceinline__ void begin(const int *cell, int begin, int end, int w, int h, int x, int y) {
        window.template load<room>(cell, begin, end, w, h, x, y);
        for (int k = part; k < window.count; k += lanes) m.near[k] = 0;
        far = false;
        __syncwarp();
    }

    // sum adds all entries up: each(add) calls add(column, value) for those of the lane.
    template <class Each>
    __device__ __forceinline__ void sum(bool &bad, const Each &each) {
        bool outside = false;
        each([&](int to, float v) {
            const int at = window.place(to);
            if (at >= 0) atomicAdd(&m.near[at], __float2int_rn(v));
            else outside = true;
        });
        far = __any_sync(~0u, outside);
        if (far)
            each([&](int to, float v) {
                if (window.place(to) < 0) m.add_other(to, __float2int_rn(v), bad);
            });
        __syncwarp();
    }

    // How many columns are not 0.
    __device__ __forceinline__ u32 count() const {
        u32 n = 0;
        for (int k = part; __any_sync(~0u, k < window.count); k += lanes) n += __popc(__ballot_sync(~0u, k < window.count && m.near[k] != 0) & mine);
        if (far)
#pragma unroll 1
            for (int k = 0; k < others; k++) n += m.sum[k] != 0;
        return n;
    }

    // each calls entry(k, column, sum) for the k'th of them, by the lane that has it. Then the next row can begin.
    template <class Entry>
    __device__ __forceinline__ void each(const Entry &entry) {
        u32 n = 0;
        for (int k = part; __any_sync(~0u, k < window.count); k += lanes) {
            const int v = k < window.count ? m.near[k] : 0;
            const u32 who = __ballot_sync(~0u, v != 0) & mine;
            if (v != 0) entry(n + __popc(who & ((1u << lane_id()) - 1)), window.node(k), v);
            n += __popc(who);
        }
        if (far) {
            for (int k = part; k < others; k += lanes) {
                if (m.sum[k] == 0) continue;
                u32 before = n;
#pragma unroll 1
                for (int o = 0; o < others; o++) before += m.sum[o] != 0 && m.key[o] < m.key[k];
                entry(before, m.key[k], m.sum[k]);
            }
            __syncwarp();
            clear();
        }
        __syncwarp();
    }
};

template <int lanes, int reach, int room, int others>
__device__ __forceinline__ void smooth(const GraphSetup &g, const int *next, int level) {
    __shared__ Sums<room, others> shared[GRAPH_MULTIPLY_WARPS * 32 / lanes];
    Row<lanes, reach, room, others> m(shared[threadIdx.x / lanes]);
    const u32 part = m.part, groups = GRAPH_MULTIPLY_WARPS * 32 / lanes;
    const u32 first = g.table->first[level], last = g.table->first[level + 1], end = g.table->first[level + 2];
    const int w = cells(g.width, level), cw = (w + 1) / 2, ch = cells(g.height, level + 1);
    const Across across(w), next_across(cw);
    Room pool = {0, 0};
    for (u32 base = first + blockIdx.x * groups; base < last; base += gridDim.x * groups) {
        const u32 i = base + threadIdx.x / lanes;
        GraphRow row = {0, 0};
        float d = 0, sink = 0, inv = 0;
        int own = -1;
        int2 at = {0, 0};
        if (i < last) own = g.node_parent[i], row = g.row[i], d = g.diagonal[i], sink = g.sink[i], inv = g.inv[i], at = across.of(cell_of(g, i));
        if (own < 0) row.count = 0;
        const float scale = scale_for(row_size(inv));
        // All that is read at once comes before it is looked at: two entries of the row, then what belongs to those.
        const GraphEntry none = {(int)min(i, last - 1), 0};
        const GraphEntry x = part < row.count ? g.edges[row.at + part] : none, y = part + lanes < row.count ? g.edges[row.at + part + lanes] : none;
        m.begin(next, last, end, cw, ch, at.x / 2, at.y / 2);
        bool bad = false, some;
        float diagonal, s; // of the lane's edges
        m.sum(bad, [&](auto put) {
            some = false, diagonal = s = 0;
            auto look = [&](const GraphEntry &x, float other, int p) {
                const bool joined = x.weight > 0 & strong(x.weight, d, other);
                some |= joined;
                diagonal += joined ? x.weight : 0;
                s += joined & p < 0 ? x.weight : 0; // no correction comes from there
                if (joined & p >= 0 & p != own) put(p, x.weight * scale);
            };
            GraphEntry a = x, b = y;
            for (u32 e = part; e < row.count;) {
                const float da = g.diagonal[a.to], db = g.diagonal[b.to];
                const int pa = g.node_parent[a.to], pb = g.node_parent[b.to];
                look(a, da, pa), look(b, db, pb);
                e += 2 * lanes;
                a = e < row.count ? g.edges[row.at + e] : none, b = e + lanes < row.count ? g.edges[row.at + e + lanes] : none;
            }
        });
        diagonal = row_sum<lanes>(diagonal) + sink, s = row_sum<lanes>(s) + sink;
        const float sum = __ballot_sync(~0u, some) & m.mine ? 1 - SMOOTH * s / diagonal : 1;
        // The others, in order, after the own one.
        const u32 n = m.count() + 1;
        const u32 to = take<lanes>(pool, &g.table->prolongs, g.prolong_room, own < 0 ? 0 : even(n), (last - 1 - base) / (gridDim.x * groups) + 1, bad);
        bad = (__ballot_sync(~0u, bad) & m.mine) != 0;
        const float unit = diagonal > 0 ? SMOOTH / (diagonal * scale) : 0; // a node from which nothing flows by strong edges has no others
        int rest = 0;
        m.each([&](u32 k, int p, int v) {
            rest += v;
            if (bad) return;
            g.prolong_pool[to + 1 + k] = GraphEntry{p, (float)v * unit};
            const u32 there = g.node_block[p];
            const int2 block = next_across.of(there & CELL_MASK);
            const int x = at.x - 2 * block.x, y = at.y - 2 * block.y, far = max(max(-x, x - 1), max(-y, y - 1));
            if (far > NEAR && far > (int)(there >> CELL_BITS)) atomicMax(&g.node_block[p], (u32)min(far, MOST_FAR) << CELL_BITS | (there & CELL_MASK));
        });
        rest = row_sum<lanes>(rest);
        if (i < last && part == 0) {
            if (own >= 0 && !bad) g.prolong_pool[to] = GraphEntry{own, sum - (float)rest * unit};
            if (own >= 0 && !bad && n & 1) g.prolong_pool[to + n] = GraphEntry{own, 0};
            if (bad) g.table->bad[level + 1] = 1;
            g.sum[i] = own < 0 ? 0 : sum;
            g.prolong[i] = GraphRow{to, own < 0 || bad ? 0 : n};
        }
    }
}

template <int lanes, int reach, int room, int others>
__device__ __forceinline__ void product(const GraphSetup &g, const int *next, int level) {
    __shared__ Sums<room, others> shared[GRAPH_MULTIPLY_WARPS * 32 / lanes];
    Row<lanes, reach, room, others> m(shared[threadIdx.x / lanes]);
    // Two lanes for each row of P, and two entries a lane.
    const u32 part = m.part, nth = part / 2, of = 2 * (part % 2), rows = lanes / 2,
              groups = GRAPH_MULTIPLY_WARPS * 32 / lanes;
    const u32 first = g.table->first[level], last = g.table->first[level + 1], end = g.table->first[level + 2];
    const int w = cells(g.width, level), cw = (w + 1) / 2, ch = cells(g.height, level + 1);
    const Across across(w);
    Room pool = {0, 0};
    for (u32 base = first + blockIdx.x * groups; base < last; base += gridDim.x * groups) {
        const u32 i = base + threadIdx.x / lanes;
        GraphRow row = {0, 0}, own = {0, 0};
        float sum = 0, d = 0, sink = 0, inv = 0;
        int2 at = {0, 0};
        if (i < last) row = g.row[i], own = g.prolong[i], sum = g.sum[i], d = g.diagonal[i], sink = g.sink[i], inv = g.inv[i], at = across.of(cell_of(g, i));
        const float scale = scale_for(row_size(inv));
        d *= -scale;
        m.begin(next, last, end, cw, ch, at.x / 2, at.y / 2);
        bool bad = false;
        float lack;
        m.sum(bad, [&](auto put) {
            // The row of P of one neighbour is added while that of the next, and the one after it, are on their way.
            const GraphEntry none = {(int)i, 0};
            const GraphPair no_pair = {none, none};
            u32 e = nth;
            GraphEntry x = e < row.count ? g.edges[row.at + e] : none, y = e + rows < row.count ? g.edges[row.at + e + rows] : none;
            GraphRow p = e < row.count ? g.prolong[x.to] : GraphRow{0, 0};
            float other = e < row.count ? g.sum[x.to] : 0;
            lack = part == 0 ? sink * sum : 0;
            for (u32 k = part; k < own.count; k += lanes) {
                const GraphEntry z = g.prolong_pool[own.at + k];
                put(z.to, d * z.weight);
            }
            while (e < row.count) {
                GraphPair z = of < p.count ? pair_at(g.prolong_pool, p.at + of) : no_pair;
                const GraphEntry now = x;
                const GraphRow here = p;
                const float before = other;
                e += rows;
                x = y;
                if (e < row.count) p = g.prolong[x.to], other = g.sum[x.to];
                if (e + rows < row.count) y = g.edges[row.at + e + rows];
                if (of == 0) lack += now.weight * (sum - before);
                for (u32 k = of; k < here.count;) {
                    const GraphPair v = z;
                    k += 4;
                    if (k < here.count) z = pair_at(g.prolong_pool, here.at + k);
                    put(v.a.to, now.weight * scale * v.a.weight); // what fills a row up has no weight
                    put(v.b.to, now.weight * scale * v.b.weight);
                }
            }
        });
        lack = row_sum<lanes>(lack);
        const u32 n = m.count();
        const u32 to = take<lanes>(pool, &g.table->products, g.product_room, n, (last - 1 - base) / (gridDim.x * groups) + 1, bad);
        bad = (__ballot_sync(~0u, bad) & m.mine) != 0;
        const float unit = 1 / scale;
        m.each([&](u32 k, int p, int v) {
            if (!bad) g.product_pool[to + k] = GraphEntry{p, (float)v * unit};
        });
        if (i < last && part == 0) {
            if (bad) g.table->bad[level + 1] = 1;
            g.product[i] = GraphRow{to, bad ? 0 : n};
            g.lack[i] = lack;
        }
    }
}

// Who takes corrections from a node, how much, and their rows of A P.
template <int most>
struct Support {
    int node[most];
    float share[most];
    GraphRow row[most];
};

template <int lanes, int reach, int room, int others, int most>
__device__ __forceinline__ void multiply(const GraphSetup &g, const int *cell, const int *next, int level) {
    __shared__ Sums<room, others> shared[GRAPH_MULTIPLY_WARPS * 32 / lanes];
    __shared__ Support<most> supports[GRAPH_MULTIPLY_WARPS * 32 / lanes];
    Row<lanes, reach, room, others> m(shared[threadIdx.x / lanes]);
    Support<most> &from = supports[threadIdx.x / lanes];
    // A fourth of the lanes are for nodes of a row of cells, or entries of a row of A P.
    const u32 part = m.part, quarter = lanes / 4, nth = part / quarter, of = part % quarter,
              groups = GRAPH_MULTIPLY_WARPS * 32 / lanes;
    const u32 first = g.table->first[level + 1], last = g.table->first[level + 2];
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2, ch = (h + 1) / 2;
    const Across across(cw);
    Room edges = {0, 0}, restricts = {0, 0};
    for (u32 base = first + blockIdx.x * groups; base < last; base += gridDim.x * groups) {
        const u32 node = base + threadIdx.x / lanes, rows = (last - 1 - base) / (gridDim.x * groups) + 1;
        const bool in = node < last;
        const u32 there = in ? g.node_block[node] : 0;
        const int2 block = across.of(there & CELL_MASK);
        const int far = max((int)(there >> CELL_BITS), NEAR), x = 2 * block.x, y = 2 * block.y;
        const int x0 = max(x - far, 0), x1 = min(x + 2 + far, w), y1 = in ? min(y + 2 + far, h) : 0;
        int line = max(y - far, 0) + nth, i = 0, end = 0;
        if (line < y1) i = cell[line * w + x0] + of, end = cell[line * w + x1];
        m.begin(next, first, last, cw, ch, block.x, block.y);
        // Nodes near the block. What belongs to one that has a share is on its way with its row of P.
        bool bad = far == MOST_FAR;
        u32 n = 0;
        float sink = 0, bound = 0;
        while (__any_sync(~0u, line < y1)) {
            for (; __any_sync(~0u, i < end); i += quarter) {
                GraphRow p = {0, 0}, row = {0, 0};
                float share = 0, lack = 0, inv = 0;
                if (i < end) p = g.prolong[i], row = g.product[i], lack = g.lack[i], inv = g.inv[i];
                for (u32 e = 0; e < p.count; e += 6) {
                    // What fills a row up has no weight.
                    const GraphPair none = {{-1, 0}, {-1, 0}}, a = pair_at(g.prolong_pool, p.at + e), b = e + 2 < p.count ? pair_at(g.prolong_pool, p.at + e + 2) : none,
                                    c = e + 4 < p.count ? pair_at(g.prolong_pool, p.at + e + 4) : none;
                    if (a.a.to == (int)node) share += a.a.weight;
                    if (a.b.to == (int)node) share += a.b.weight;
                    if (b.a.to == (int)node) share += b.a.weight;
                    if (b.b.to == (int)node) share += b.b.weight;
                    if (c.a.to == (int)node) share += c.a.weight;
                    if (c.b.to == (int)node) share += c.b.weight;
                }
                const u32 who = __ballot_sync(~0u, share != 0) & m.mine, k = n + __popc(who & ((1u << lane_id()) - 1));
                if (share != 0 && k < most) {
                    from.node[k] = i, from.share[k] = share, from.row[k] = row;
                    sink += share * lack, bound += share * row_size(inv);
                }
                n += __popc(who);
            }
            line += 4;
            if (line < y1) i = cell[line * w + x0] + of, end = cell[line * w + x1];
        }
        if (n > most) n = most, bad = true;
        __syncwarp();
        const u32 at = take<lanes>(restricts, &g.table->restricts, g.prolong_room, n, rows, bad);
        bad = (__ballot_sync(~0u, bad) & m.mine) != 0;
        for (u32 k = part; k < n && !bad; k += lanes) g.restrict_pool[at + k] = GraphEntry{from.node[k], from.share[k]};
        if (in && part == 0) g.restricts[node] = GraphRow{at, bad ? 0 : n};
        const float scale = scale_for(row_sum<lanes>(bound));
        // Four rows of A P at once, four entries a lane, and the next ones are on their way.
        m.sum(bad, [&](auto put) {
            const GraphEntry none = {(int)node, 0};
            GraphEntry a[4], b[4];
            GraphRow row = nth < n ? from.row[nth] : GraphRow{0, 0};
            u32 e = of;
#pragma unroll
            for (u32 k = 0; k < 4; k++) a[k] = e + k * quarter < row.count ? g.product_pool[row.at + e + k * quarter] : none;
            for (u32 q = nth; q < n;) {
                const float v = from.share[q] * scale;
                e += lanes;
                if (e - of >= row.count) {
                    q += 4, e = of;
                    row = q < n ? from.row[q] : GraphRow{0, 0};
                }
#pragma unroll
                for (u32 k = 0; k < 4; k++) b[k] = e + k * quarter < row.count ? g.product_pool[row.at + e + k * quarter] : none;
#pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    if (a[k].to != (int)node) put(a[k].to, v * a[k].weight);
                    a[k] = b[k];
                }
            }
        });
        const u32 columns = m.count(), to = take<lanes>(edges, &g.table->edges, g.edge_room, columns, rows, bad);
        bad = (__ballot_sync(~0u, bad) & m.mine) != 0;
        const float unit = 1 / scale, s = row_sum<lanes>(sink);
        int sum = 0, size = 0;
        m.each([&](u32 k, int p, int v) {
            if (!bad) g.edges[to + k] = GraphEntry{p, (float)v * unit};
            sum += v, size += abs(v);
        });
        sum = row_sum<lanes>(sum), size = row_sum<lanes>(size);
        if (in && part == 0) finish_node(g, node, to, columns, (float)sum * unit + s, (float)size * unit + s, s, bad, level + 1);
    }
}

// Kernels of a level: the first has short rows, deep ones few long rows, which lead far away.
extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_smooth_first(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) smooth<2, 1, 32, 16>(g, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_smooth(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) smooth<4, 1, 64, 32>(g, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS)
    diffusion_graph_smooth_deep(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) smooth<16, 2, 192, 64>(g, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_product_first(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) product<2, 2, 48, 16>(g, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_product(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) product<8, 3, 192, 32>(g, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS)
    diffusion_graph_product_deep(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) product<32, 4, 512, 64>(g, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_multiply_first(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    multiply<16, 3, 128, 32, 64>(g, cell, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS, GRAPH_MULTIPLY_BLOCKS)
    diffusion_graph_multiply(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    multiply<32, 4, 256, 64, 128>(g, cell, next, level);
}

extern "C" __global__ void __launch_bounds__(32 * GRAPH_MULTIPLY_WARPS)
    diffusion_graph_multiply_deep(GraphSetup g, const int *cell, const int *next, int level, int pad) {
    after_prior();
    multiply<32, 5, 512, 64, 128>(g, cell, next, level);
}

extern "C" __global__ void diffusion_graph_finish(GraphSetup g, u32 *counts, u32 levels, u32 method) {
    after_prior();
    GraphTable &t = *g.table;
    u32 depth = 0;
    while (depth < levels && !t.bad[depth + 1] && t.first[depth + 2] > t.first[depth + 1]) depth++;
    t.depth = depth;
    counts[0] = g.head->fixed, counts[1] = g.head->void_pixels;
    g.head->width = g.width, g.head->height = g.height, g.head->barriers = 1, g.head->method = method;
    g.head->magic = DIFFUSION_MAGIC;
}

// The tiles on and below the diagonal of 32x32 tiles.
#define INVERT_TILES 528

// Gauss and Jordan's elimination of a symmetric matrix, in place and symmetric all the way: a thread has a tile of n x n entries, as large as needed. What
// comes out is the inverse less its sign.
template <int tile>
__device__ __forceinline__ void invert(float *dense, int n, const float *dead) {
    __shared__ float columns[2][32 * tile], pivots[2];
    int ty = 0;
    while ((ty + 1) * (ty + 2) / 2 <= (int)threadIdx.x) ty++;
    const int tx = threadIdx.x - ty * (ty + 1) / 2;
    const bool some = threadIdx.x < INVERT_TILES;
    // As a value that cicc of nvcc 11.8 knows nothing of: it makes copies of a constant that branches assign to a variable, or does not, by where its
    // memory lies. ptxas does know it.
    float zero;
    asm("mov.f32 %0, 0f00000000;" : "=f"(zero));
    float m[tile][tile];
#pragma unroll
    for (int a = 0; a < tile; a++)
#pragma unroll
        for (int b = 0; b < tile; b++) m[a][b] = some && ty * tile + a < n && tx * tile + b < n ? dense[(ty * tile + a) * n + tx * tile + b] : zero;
#pragma unroll 1
    for (int part = 0; part * tile < n; part++) {
        const bool in_row = some && ty == part, in_column = some && tx == part;
#pragma unroll
        for (int at = 0; at < tile; at++) {
            const int k = part * tile + at;
            if (k >= n) break;
            float *column = columns[(tile * part + at) & 1];
            // Entries of the row and of the column become those of the inverse, as if they had been 0, and there had been others.
            if (in_row && in_column) pivots[k & 1] = m[at][at];
            if (in_column)
#pragma unroll
                for (int a = 0; a < tile; a++) column[ty * tile + a] = a == at && in_row ? -1 : m[a][at], m[a][at] = zero;
            if (in_row)
#pragma unroll
                for (int b = 0; b < tile; b++) {
                    if (!in_column) column[tx * tile + b] = m[at][b];
                    m[at][b] = zero;
                }
            __syncthreads();
            const float pivot = pivots[k & 1], inv = pivot > dead[k] ? __fdividef(1, pivot) : zero;
            float by[tile];
#pragma unroll
            for (int b = 0; b < tile; b++) by[b] = some ? column[tx * tile + b] : zero;
#pragma unroll
            for (int a = 0; a < tile; a++) {
                const float f = some ? column[ty * tile + a] * inv : zero;
#pragma unroll
                for (int b = 0; b < tile; b++) m[a][b] -= f * by[b];
            }
        }
    }
#pragma unroll
    for (int a = 0; a < tile; a++)
#pragma unroll
        for (int b = 0; b < tile; b++) {
            const int i = ty * tile + a, j = tx * tile + b;
            if (some && i < n && j < n) dense[i * n + j] = dense[j * n + i] = -m[a][b];
        }
}

extern "C" __global__ void __launch_bounds__(GRAPH_INVERT_THREADS) diffusion_graph_invert(GraphSetup g) {
    __shared__ float dead[GRAPH_DENSE_NODES];
    after_prior();
    const u32 depth = g.table->depth, first = g.table->first[depth], n = g.table->first[depth + 1] - first;
    if (depth == 0 || n > GRAPH_DENSE_NODES) return;
    for (u32 k = threadIdx.x; k < n * n; k += GRAPH_INVERT_THREADS) g.dense[k] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x / 8; i < n; i += GRAPH_INVERT_THREADS / 8) {
        const GraphRow row = g.row[first + i];
        const float d = g.diagonal[first + i];
        for (u32 e = threadIdx.x % 8; e < row.count; e += 8) {
            const GraphEntry x = g.edges[row.at + e];
            g.dense[i * n + x.to - first] = -x.weight;
        }
        if (threadIdx.x % 8 == 0) g.dense[i * n + i] = d, dead[i] = DEAD_PIVOT * d;
    }
    __syncthreads();
    // As small tiles as there can be.
    if (n <= 64) invert<2>(g.dense, n, dead);
    else if (n <= 96) invert<3>(g.dense, n, dead);
    else if (n <= 128) invert<4>(g.dense, n, dead);
    else if (n <= 160) invert<5>(g.dense, n, dead);
    else invert<GRAPH_DENSE_NODES / 32>(g.dense, n, dead);
}
