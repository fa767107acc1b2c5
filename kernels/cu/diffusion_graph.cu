// Diffusion with barriers: conjugate gradients, preconditioned by smoothed aggregation. See kernels/cpu/diffusion_graph.go for what is
// computed; here is how. diffusion_label.cu comes first, and says what pixels take from.
//
// The set-up makes levels one by one, nodes of all numbered through:
// diffusion_graph_join, _join_pixels          groups of up to GROUP nodes that are connected within blocks of 2x2 cells, or components of pixels,
//                                             and how many there are in each; a warp a block, or a thread where cells are pixels
// diffusion_graph_number, _number_pixels      numbers them in the order of blocks: each thread block adds up what those before have
// diffusion_graph_amid_pixels                 rows of P' A P amid pixels that take from all around, which are all the same: half to four fifths of
//                                             them; a thread a row. The others are listed
// diffusion_graph_multiply_pixels             those others, a warp each, in whole numbers; rows of P are found where they are needed
// diffusion_graph_smooth, _smooth_first       a row of P a warp, or a thread
// diffusion_graph_product, _product_first     a row of A P a warp, or 8 lanes
// diffusion_graph_multiply, _multiply_first   a row of P' A P a warp
// diffusion_graph_finish                      how many levels there are
// diffusion_graph_invert                      the inverse of the last level's operator, in the registers of one block
// Rows are added up in hash tables on chip, by integers of 32 bits in units of a billionth of all that is added, and sorted: so they don't
// depend on the order. Lanes of a warp go through tables in step: see slot; that made it 1.3 times as fast. To multiply by A P
// takes a fifth of the time that multiplying by A and P at once takes, at levels with long rows. Those named first have smaller
// tables, for shorter rows. Bytes: 40 a pixel for the image's own part, and about 300 for rows, mostly from the cache.
//
// A solve is: _begin, diffusion_label_mean and _fill, _step for the start, and for each cycle
// _down       what is left on the first level, 4 lanes a node
// _levels     all others: the sums of nodes of the finer one, what is left, and so on to the last one, which is solved by the inverse; then back,
//             the correction and the last step. 8 lanes a node, or a warp. Blocks meet after each level: that takes 1.3 us
// _up         back to the first level
// _smooth_out the correction q of pixels from nodes, and the last steps, colour by colour; parts of r q and q A q, and the largest q: the last
//             block adds them up, for beta, alpha, the estimate, and whether that is all; a block a tile           8 bytes a value
// _step       p = q + beta p, x and r; then the first steps of the preconditioner for the next cycle, what is left of r, and its sums over
//             nodes; a block a tile                                                                                28 bytes
// and _last and _status. All but the first return at once when the solve is done, so that cycles can be enqueued ahead: what remains once
// the estimate says so is the step that it says it of. As p A p comes from q A q, sums over all pixels are needed but once a cycle. They are of
// up to GRAPH_PARTS parts, added in order: a solve gives the same bits each time.

#include "diffusion_label.cuh"

#define THREADS 256
#define WARPS 8
// Levels that nodes may have, and blocks of kernels that sum over all pixels.
#define GRAPH_LEVELS 20
#define GRAPH_PARTS 1024
#define LEVEL_THREADS 1024
// What a warp has room for: nodes that take from one, and columns of a row (a table is slow when it is full).
#define SUPPORT 128
#define TABLE 256
#define SMALL_TABLE 128
#define FEW_TABLE 64
#define JOIN_NODES 4
#define MULTIPLY_WARPS 4

// Threads that a multiprocessor has at once, and blocks of kernels that it is to have room for. Those for rows get as many from the host:
// one more would come when all others are done, and take as long as they did. That made rows of the second level 1.4 times as slow.
#if __CUDA_ARCH__ == 750
#define UNIT_THREADS 1024
#elif __CUDA_ARCH__ >= 860 && __CUDA_ARCH__ < 900
#define UNIT_THREADS 1536
#else
#define UNIT_THREADS 2048
#endif
#define MULTIPLY_BLOCKS (UNIT_THREADS > 1024 ? 10 : 8)
#define TILE_ROWS 8
#define TILE_BLOCKS 4

// The same as in kernels/cpu/diffusion_graph.go.
#define CAUTION 1.5f
#define SETTLED 3
#define GROUP 4
#define STRONG 0.04f
#define LOOSE 0.25f
#define SMOOTH (2.f / 3)
#define JACOBI 0.95f
#define DENSE_NODES 192
#define DEAD_PIVOT 1e-6f
#define BOTTOM 8

#define UNIT 1099511627776.f // sinks are sums of integers, in its inverse

// Entries of P of pixels are multiples of 1/18, as 2/3 is by how much they are smoothed, and 1 to 4 neighbours are taken from.
#define PIXEL_UNIT 18
#define PIXEL_STEP 12 // SMOOTH
#define PRODUCT_UNIT ((float)(PIXEL_UNIT * PIXEL_UNIT))

// A row of a sparse matrix: its entries in a pool.
struct GraphRow {
    u32 at, count;
} __attribute__((aligned(8))); // so that it is loaded in one go
static_assert(sizeof(GraphRow) == 8, "GraphRow");

struct GraphEntry {
    int to;
    float weight;
} __attribute__((aligned(8)));
static_assert(sizeof(GraphEntry) == 8, "GraphEntry");

// Nodes of level k, from 1, are first[k] to first[k + 1]. A level is bad where there was no room for it. There are levels 1 to depth.
struct GraphTable {
    u32 first[GRAPH_LEVELS + 2], bad[GRAPH_LEVELS + 2];
    u32 depth, edges, prolongs, restricts, products, rest;
};
static_assert(sizeof(GraphTable) == 200, "GraphTable");

// A set-up. Nodes of all levels are numbered through, cells of a level begin at a place of theirs.
struct Graph {
    DiffusionHeader *head;
    GraphTable *table;
    u8 *open;
    int *parent;             // of pixels; -1 where there is none
    int *cell;               // where the nodes of each cell begin
    int *node_parent, *node_block; // node_parent: -1 where there is none; before it is known, where there is to be none
    GraphRow *row, *prolong, *restricts;
    float *sink, *diagonal, *inv, *sum;
    GraphEntry *edges, *prolong_pool, *restrict_pool;
    GraphRow *product;       // rows of -A P
    float *lack;             // while levels are made: A times the sums of rows of P
    GraphEntry *product_pool;
    int *labels;
    u32 *parts;
    float *dense;            // the inverse of the last level's operator
    u32 width, height, node_room, edge_room, prolong_room, product_room;
};

// How far a solve has come. done is 1 where there is none, 2 when it has ended, and LAST_STEP when only the last step remains to be taken.
#define LAST_STEP 3
struct GraphState {
    u32 magic, channels, cycles, done;
    float update, ratio, estimate, residual;
    float beta[4], alpha[4];
    double rho[4], pq[4]; // r z, and p A p
    float slowest[4], before[4], last[4]; // of slowMode: 1 / the eigenvalue of the slowest mode, alpha of the step before, and the component
    u32 ended, met, pad[2]; // blocks of a kernel that have ended, and that have met
};
static_assert(sizeof(GraphState) == 192, "GraphState");

struct GraphSolve {
    Graph g;
    GraphState *state;
    DiffusionStatus *status;
    const u8 *flags;
    const float *colours;
    float *x, *r0, *r1, *q, *p0, *p1; // r and p of cycles in turn
    double *sums;                     // 8 for each part
    float *largest;
    float4 *nx, *nb, *nr; // of nodes
    u64 *fault;
    u32 channels, start, method;
    float tolerance;
};

// ---- Set-up

__device__ __forceinline__ int cells(int n, int level) { return (int)(((u32)n + (1u << level) - 1) >> level); }

// Which of the four pixels of a block stand for a component, and for which each does: 4 times 4 bits, 8 for none.
__device__ __forceinline__ u32 block_roots(const Graph &g, int bx, int by) {
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
__device__ __forceinline__ u8 *whole_blocks(const Graph &g) { return (u8 *)g.labels; }

__device__ __forceinline__ bool block_whole(const Graph &g, int bx, int by) {
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

// Sum over a block of THREADS, in every thread, and the sum of those before.
__device__ __forceinline__ u32 block_scan(u32 v, u32 &before) {
    __shared__ u32 sums[WARPS];
    u32 s = v;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        const u32 t = __shfl_up_sync(~0u, s, o);
        if (lane_id() >= o) s += t;
    }
    __syncthreads();
    if (lane_id() == 31) sums[threadIdx.x / 32] = s;
    __syncthreads();
    u32 total = 0, warps = 0;
#pragma unroll
    for (int k = 0; k < WARPS; k++) {
        if (k < (int)threadIdx.x / 32) warps += sums[k];
        total += sums[k];
    }
    before = warps + s - v;
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_join_pixels(Graph g) {
    after_prior();
    const int cw = cells(g.width, 1), ch = cells(g.height, 1);
    const u32 c = blockIdx.x * THREADS + threadIdx.x;
    u32 n = 0, before;
    if (c < (u32)cw * ch) n = count_roots(block_roots(g, c % cw, c / cw));
    if (c < (u32)cw * ch) g.cell[c] = n;
    n = block_scan(n, before);
    if (threadIdx.x == 0) g.parts[blockIdx.x] = n;
}

// number gives the cells of level k, of which each has so many nodes, their numbers. It returns the first of the thread's cell, or -1
// where there is no room for the level.
__device__ __forceinline__ i64 number(const Graph &g, int k, int *cell, u32 *parts, u32 count, u32 cellcount) {
    u32 mine = 0, all = 0, before;
    for (u32 i = threadIdx.x; i < gridDim.x; i += THREADS) {
        const u32 v = parts[i];
        all += v;
        if (i < blockIdx.x) mine += v;
    }
    all = block_scan(all, before);
    mine = block_scan(mine, before);
    block_scan(count, before);
    const u32 base = g.table->first[k];
    const bool bad = k > 1 && g.table->bad[k - 1];
    const bool full = bad || all > g.node_room - base;
    const u32 c = blockIdx.x * THREADS + threadIdx.x;
    const u32 at = full ? base : base + mine + before;
    if (c < cellcount) cell[c] = at;
    if (c + 1 == cellcount) {
        cell[cellcount] = full ? base : base + all;
        g.table->first[k + 1] = full ? base : base + all;
        if (full) g.table->bad[k] = 1;
    }
    return full ? -1 : (i64)at;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_number_pixels(Graph g) {
    after_prior();
    const int w = g.width, h = g.height, cw = cells(w, 1), ch = cells(h, 1);
    const u32 c = blockIdx.x * THREADS + threadIdx.x, n = (u32)cw * ch;
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

// A level of so few nodes is the last one: it is solved exactly.
__device__ __forceinline__ bool last_level(const Graph &g, int level) { return g.table->first[level + 1] - g.table->first[level] <= DENSE_NODES; }

__device__ __forceinline__ bool strong(float w, float di, float dj) { return w * w > STRONG * STRONG * di * dj; }

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

__device__ __forceinline__ int warp_min(int v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v = min(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_graph_join(Graph g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
    if (last_level(g, level)) return;
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2, ch = (h + 1) / 2;
    const u32 c = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = lane_id();
    if (c >= (u32)cw * ch) return;
    const Block b = block_of(cell, w, h, c % cw, c / cw);
    const int n = b.size();
    int *const labels = g.labels - g.table->first[level];
    u32 count = 0;
    if (n <= 32) {
        u32 near = 1u << lane;
        const int node = (int)lane < n ? b.at(lane) : 0;
        const bool some = (int)lane < n && g.node_parent[node] >= 0;
        const GraphRow own = (int)lane < n ? g.row[node] : GraphRow{0, 0};
        const float diagonal = (int)lane < n ? g.diagonal[node] : 0;
        // The first edges of some nodes are on their way at once.
        for (int first = 0; first < n; first += JOIN_NODES) {
            GraphEntry edge[JOIN_NODES];
#pragma unroll
            for (int q = 0; q < JOIN_NODES; q++) {
                const u32 at = __shfl_sync(~0u, own.at, first + q), count = first + q < n ? __shfl_sync(~0u, own.count, first + q) : 0;
                edge[q] = lane < count ? g.edges[at + lane] : GraphEntry{-1, 0};
            }
#pragma unroll
            for (int q = 0; q < JOIN_NODES; q++) {
                const int k = first + q;
                if (k >= n) break;
                const u32 at = __shfl_sync(~0u, own.at, k), count = __shfl_sync(~0u, own.count, k);
                const float d = __shfl_sync(~0u, diagonal, k);
                GraphEntry x = edge[q];
                u32 bits = 0;
                for (u32 base = 0; base < count; base += 32) {
                    if (base) x = base + lane < count ? g.edges[at + base + lane] : GraphEntry{-1, 0};
                    const int j = b.index(x.to);
                    const float other = __shfl_sync(~0u, diagonal, j < 0 ? 0 : j);
                    if (j >= 0 && strong(x.weight, d, other)) bits |= 1u << j;
                }
#pragma unroll
                for (int o = 16; o; o >>= 1) bits |= __shfl_xor_sync(~0u, bits, o);
                if (k == (int)lane && some) near |= bits;
            }
        }
        const u32 tied = __ballot_sync(~0u, some);
        if (some) near &= tied;
        // Each node that has none yet makes one with those around it that have none either, ring by ring.
        u32 free = tied;
        int root = lane;
        for (int k = 0; k < n; k++) {
            if (!(free >> k & 1)) continue;
            u32 group = 1u << k, around = 0;
            for (u32 ring = group; ring && __popc(group) < GROUP; group |= ring) {
                for (around = 0; ring; ring &= ring - 1) around |= __shfl_sync(~0u, near, __ffs(ring) - 1);
                ring = around & free & ~group;
                while (__popc(group | ring) > GROUP) ring &= ~(1u << (31 - __clz(ring)));
            }
            free &= ~group;
            const u32 others = around & ~group;
            const int of = __popc(group) > 1 || !others ? k : __shfl_sync(~0u, root, __ffs(others) - 1);
            if (group >> lane & 1) root = of;
        }
        if ((int)lane < n) labels[node] = b.at(root);
        count = __popc(__ballot_sync(~0u, some && root == (int)lane));
    } else {
        volatile int *const label = labels;
        for (int i = lane; i < n; i += 32) label[b.at(i)] = -1;
        __syncwarp();
        for (int k = 0; k < n; k++) {
            const int node = b.at(k);
            if (g.node_parent[node] < 0 || label[node] >= 0) continue;
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
                        if (b.index(x.to) < 0 || g.node_parent[x.to] < 0 || !strong(x.weight, d, g.diagonal[x.to])) continue;
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
            count += of == node;
            __syncwarp();
            if (lane == 0)
                for (int m = 0; m < GROUP; m++)
                    if (group[m] >= 0) label[group[m]] = of;
            __syncwarp();
        }
    }
    if (lane == 0) {
        next[c] = count;
        if (count) atomicAdd(&parts[c / THREADS], count);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_graph_number(Graph g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
    if (last_level(g, level)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) g.table->first[level + 2] = g.table->first[level + 1];
        return;
    }
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2, ch = (h + 1) / 2;
    const u32 c = blockIdx.x * THREADS + threadIdx.x, cellcount = (u32)cw * ch;
    const u32 count = c < cellcount ? next[c] : 0;
    int id = (int)number(g, level + 1, next, parts, count, cellcount);
    if (c >= cellcount) return;
    const bool full = id < 0;
    const Block b = block_of(cell, w, h, c % cw, c / cw);
    const int n = b.size();
    const int *const labels = g.labels - g.table->first[level];
    for (int i = 0; i < n; i++) {
        const int node = b.at(i);
        int p = -1;
        if (!full && g.node_parent[node] >= 0) {
            if (labels[node] == node) {
                g.node_block[id] = c;
                p = id++;
            } else {
                p = g.node_parent[labels[node]]; // that of a node before
            }
        }
        g.node_parent[node] = p;
    }
}

// Entries of a row of P that a thread has room for.
#define PROLONG_ENTRIES 16

// Rows of P begin at even places, and end with one of no weight where needed: so two entries are read at once.
__device__ __forceinline__ u32 even(u32 n) { return (n + 1) & ~1u; }

struct GraphPair {
    GraphEntry a, b;
};

__device__ __forceinline__ GraphPair pair_at(const GraphEntry *pool, u32 at) {
    const int4 v = *(const int4 *)(pool + at);
    return GraphPair{{v.x, __int_as_float(v.y)}, {v.z, __int_as_float(v.w)}};
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_smooth_first(Graph g, int level, int pad) {
    after_prior();
    if (last_level(g, level)) return;
    const u32 first = g.table->first[level], last = g.table->first[level + 1];
    for (u32 base = first + blockIdx.x * THREADS; base < last; base += gridDim.x * THREADS) {
        const u32 i = base + threadIdx.x;
        int to[PROLONG_ENTRIES];
        float weight[PROLONG_ENTRIES];
        u32 n = 0;
        if (i < last) {
            const int own = g.node_parent[i];
            float sum = 0;
            if (own >= 0) {
                const GraphRow row = g.row[i];
                const float d = g.diagonal[i];
                float s = g.sink[i], diagonal = s;
                bool alone = true;
                n = 1, to[0] = own;
                for (u32 e = 0; e < row.count; e++) {
                    const GraphEntry x = g.edges[row.at + e];
                    if (x.weight < 0 || !strong(x.weight, d, g.diagonal[x.to])) continue;
                    diagonal += x.weight;
                    alone = false;
                    const int p = g.node_parent[x.to];
                    if (p < 0) s += x.weight; // no correction comes from there
                    if (p == own || p < 0) continue;
                    u32 k = 1;
                    while (k < n && to[k] != p) k++;
                    if (k == PROLONG_ENTRIES) continue; // as if it had the same parent
                    if (k == n) to[n] = p, weight[n] = 0, n++;
                    weight[k] += x.weight;
                }
                float rest = 1;
                if (!alone) rest -= SMOOTH * s / diagonal;
                sum = rest;
                for (u32 k = 1; k < n; k++) {
                    weight[k] = SMOOTH * weight[k] / diagonal;
                    rest -= weight[k];
                }
                weight[0] = rest;
            }
            g.sum[i] = sum;
        }
        // Room, once for each warp.
        u32 before = even(n);
#pragma unroll
        for (int o = 1; o < 32; o <<= 1) {
            const u32 t = __shfl_up_sync(~0u, before, o);
            if (lane_id() >= o) before += t;
        }
        const u32 total = __shfl_sync(~0u, before, 31);
        u32 at = 0;
        if (lane_id() == 0 && total) at = atomicAdd(&g.table->prolongs, total);
        at = __shfl_sync(~0u, at, 0);
        if (at > g.prolong_room || total > g.prolong_room - at) {
            g.table->bad[level + 1] = 1;
            before = n = 0;
        }
        at += before - even(n);
        if (i < last) {
            g.prolong[i] = GraphRow{at, n};
            for (u32 k = 0; k < n; k++) g.prolong_pool[at + k] = GraphEntry{to[k], weight[k]};
            if (n & 1) g.prolong_pool[at + n] = GraphEntry{to[0], 0};
        }
    }
}

// What a warp works with.
template <int table>
struct Hash {
    int key[table], sum[table], sorted[table];
};
template <int table>
struct Multiply : Hash<table> {
    __align__(16) int support[SUPPORT + 4], list[table + 4]; // and what is larger than any
    float share[SUPPORT];
    u32 count;
};
// 6x6 pixels around a block of 2x2, their rows of P, and nodes of the 5x5 blocks that those lead to, four at most in each: there is a place
// for each, in the order of nodes.
struct MultiplyPixels {
    int cell[25];
    short to[36][3];
    int weight[36][3], sum[36]; // in units of 1/18
    int product[100];           // in units of 1/324
    u32 open[36];
};

// slot finds or makes the entry of a key; table where there is no room. All lanes of a warp come here together, and stay so: where they go
// their own ways through loops like this one they don't meet again, and each add takes as long as 32.
template <int table>
__device__ __forceinline__ u32 slot(Hash<table> &m, bool active, int key, bool &made) {
    u32 at = ((u32)key * 2654435761u >> 16) % table;
    made = false;
    for (u32 k = 0; __any_sync(~0u, active); k++) {
        if (active) {
            int old = ((volatile int *)m.key)[at];
            if (old == -1) {
                old = atomicCAS(&m.key[at], -1, key);
                made = old == -1;
            }
            active = !made && old != key;
            if (active) at = k < table ? (at + 1) % table : table;
            if (at == table) active = false;
        }
    }
    return at;
}

template <int table>
__device__ __forceinline__ void support(Multiply<table> &m, bool active, int node, bool &bad) {
    bool made;
    if (slot(m, active, node, made) == table) bad = true;
    if (!made) return;
    const u32 k = atomicAdd(&m.count, 1);
    if (k < SUPPORT) m.support[k] = node;
    else bad = true;
}

// Room that a warp has in a pool. It takes room for up to four rows at a time, as one that all warps ask for has no more than one answer a
// clock: with one row at a time that made half of what kernels for short rows took.
struct Room {
    u32 at, left;
    __device__ __forceinline__ u32 take(u32 *counter, u32 end, u32 n, u32 rows, bool &bad) {
        if (n > left) {
            left = n * min(rows, 4);
            if (lane_id() == 0) at = atomicAdd(counter, left);
            at = __shfl_sync(~0u, at, 0);
            if (at > end || left > end - at) bad = true, left = 0;
        }
        if (n > left) return 0;
        left -= n, at += n;
        return at - n;
    }
};

#define NO_KEY 0x7fffffff

// How many of n keys, of which there are so many and three NO_KEYs more, are less than one.
__device__ __forceinline__ u32 rank_of(const int *keys, u32 n, int key) {
    u32 rank = 0;
#pragma unroll 4
    for (u32 o = 0; o < n; o += 4) {
        const int4 k = *(const int4 *)(keys + o);
        rank += (k.x < key) + (k.y < key) + (k.z < key) + (k.w < key);
    }
    return rank;
}

// By what numbers are multiplied that are added up as integers, where their sizes together are at most bound; of that a billionth is kept.
// It is a power of 2.
__device__ __forceinline__ float scale_for(float bound) {
    const int e = (__float_as_int(bound) >> 23) - 127;
    return __int_as_float((29 - min(max(e, -60), 100) + 127) << 23);
}

// The sizes of a row of A together.
__device__ __forceinline__ float row_size(const Graph &g, u32 i) {
    const float inv = g.inv[i];
    return inv > 0 ? 2 / inv : 1;
}

template <int table>
__device__ __forceinline__ void add(Hash<table> &m, bool active, int key, float v, bool &bad) {
    bool made;
    const u32 at = slot(m, active, key, made);
    if (at == table) bad = true;
    else if (active) atomicAdd(&m.sum[at], __float2int_rn(v));
}

__device__ __forceinline__ i64 warp_sum64(i64 v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// The pixel that one takes from by bit k.
__device__ __forceinline__ int beside(int i, int k, int w) { return k == 0 ? i + 1 : k == 1 ? i - 1 : k == 2 ? i + w : i - w; }

// Row i of P where i is a pixel, in units of 1/18: the entries of its own node, of a neighbour in the row, and of one in the column.
__device__ __forceinline__ void pixel_row(const Graph &g, int i, int x, int y, int (&to)[3], int (&weight)[3], int &sum) {
    const u32 open = g.open[i];
    const int w = g.width;
    const int unit = PIXEL_STEP / degree(open);
    to[0] = g.parent[i], to[1] = to[2] = -1;
    sum = PIXEL_UNIT - unit * (degree(open) - __popc(open >> 4));
    weight[0] = sum, weight[1] = weight[2] = unit;
    if (to[0] < 0) return;
    const int h = x & 1 ? 0 : 1, v = y & 1 ? 2 : 3; // the ways that lead out of the block
    if (open >> 4 >> h & 1) to[1] = g.parent[beside(i, h, w)], weight[0] -= unit;
    if (open >> 4 >> v & 1) to[2] = g.parent[beside(i, v, w)], weight[0] -= unit;
}

// What belongs to a row of n entries: the sum of them and the sink, and that of their sizes.
__device__ __forceinline__ void finish_node(const Graph &g, int node, u32 at, u32 n, float sum, float size, float sink, bool bad, int level) {
    if (bad) g.table->bad[level] = 1;
    g.row[node] = GraphRow{at, bad ? 0 : n};
    g.sink[node] = sink;
    g.diagonal[node] = sum;
    g.inv[node] = sum > 0 ? 1 / fmaxf(sum, (sum + size) / 2) : 0;
    g.node_parent[node] = size - sink > LOOSE * sum ? 0 : -1; // for diffusion_graph_join and _number
}

// What multiply does once the sums are there: sorts the row and writes it.
template <int table>
__device__ __forceinline__ void finish_row(const Graph &g, Multiply<table> &m, int node, Room &room, u32 rows, float scale, i64 sink, bool bad, int level) {
    const u32 lane = lane_id();
    __syncwarp();
    u32 n = 0;
    for (u32 k = lane; k < table; k += 32) {
        const bool there = m.key[k] != -1 && m.sum[k] != 0;
        const u32 who = __ballot_sync(~0u, there);
        if (there) {
            const u32 to = n + __popc(who & ((1u << lane) - 1));
            m.sorted[to] = k, m.list[to] = m.key[k];
        }
        n += __popc(who);
    }
    if (lane < 4) m.list[n + lane] = NO_KEY;
    __syncwarp();
    const u32 at = room.take(&g.table->edges, g.edge_room, n, rows, bad);
    bad = __any_sync(~0u, bad);
    const float unit = 1 / scale;
    i64 sum = 0, size = 0;
    for (u32 k = lane; k < n && !bad; k += 32) {
        const int key = m.list[k], v = m.sum[m.sorted[k]];
        const u32 rank = rank_of(m.list, n, key);
        g.edges[at + rank] = GraphEntry{key, (float)v * unit};
        sum += v, size += abs(v);
    }
    sum = warp_sum64(sum), size = warp_sum64(size);
    const float s = (float)sink / UNIT;
    if (lane == 0) finish_node(g, node, at, n, (float)sum * unit + s, (float)size * unit + s, s, bad, level);
}

template <int table>
__device__ __forceinline__ void clear_table(Hash<table> &m) {
    for (u32 k = lane_id(); k < table; k += 32) m.key[k] = -1, m.sum[k] = 0;
    __syncwarp();
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
extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_amid_pixels(Graph g) {
    after_prior();
    const u32 node = g.table->first[1] + blockIdx.x * THREADS + threadIdx.x, lane = lane_id();
    const bool in = node < g.table->first[2];
    const int cw = cells(g.width, 1), ch = cells(g.height, 1);
    const u8 *whole = whole_blocks(g);
    int c = 0;
    bool amid = false;
    if (in) {
        c = g.node_block[node];
        const int x = c % cw, y = c / cw;
        amid = x >= 2 && x + 2 < cw && y >= 2 && y + 2 < ch && whole[c];
#pragma unroll
        for (int k = 0; k < AMID; k++)
            if (amid && !whole[c + amid_y[k] * cw + amid_x[k]]) amid = false;
    }
    const u32 rows = __ballot_sync(~0u, amid), others = __ballot_sync(~0u, in && !amid), before = (1u << lane) - 1;
    u32 at = 0, to = 0;
    if (lane == 0 && rows) at = atomicAdd(&g.table->edges, AMID * __popc(rows));
    if (lane == 0 && others) to = atomicAdd(&g.table->rest, __popc(others));
    at = __shfl_sync(~0u, at, 0), to = __shfl_sync(~0u, to, 0);
    // The warp's rows, one after the other: so neighbouring lanes write what lies side by side.
    const u32 begin = __shfl_sync(~0u, at, 0), total = AMID * __popc(rows);
    at += AMID * __popc(rows & before);
    const bool bad = begin > g.edge_room || total > g.edge_room - begin;
    for (u32 e = lane; e - lane < total; e += 32) {
        // The lane whose row it is: of those that have one, the e / AMID'th.
        const u32 nth = e / AMID, k = e % AMID;
        const int from = __shfl_sync(~0u, c, nth_bit(rows, nth));
        if (e < total && !bad) g.edges[begin + e] = GraphEntry{g.cell[from + amid_y[k] * cw + amid_x[k]], amid_weight[k] / PRODUCT_UNIT};
    }
    if (amid) {
        finish_node(g, node, at, AMID, AMID_SUM / PRODUCT_UNIT, AMID_SUM / PRODUCT_UNIT, 0, bad, 1);
    } else if (in) {
        ((u32 *)g.product)[to + __popc(others & before)] = node;
    }
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS, MULTIPLY_BLOCKS) diffusion_graph_multiply_pixels(Graph g) {
    __shared__ MultiplyPixels shared[MULTIPLY_WARPS];
    after_prior();
    MultiplyPixels &m = shared[threadIdx.x / 32];
    const u32 lane = lane_id(), rest = g.table->rest;
    const int w = g.width, h = g.height, cw = cells(w, 1), ch = cells(h, 1);
    Room room = {0, 0};
    for (u32 index = blockIdx.x * MULTIPLY_WARPS + threadIdx.x / 32; index < rest; index += gridDim.x * MULTIPLY_WARPS) {
        const int node = ((const u32 *)g.product)[index];
        const int block = g.node_block[node], bx = block % cw, by = block / cw, x0 = 2 * bx - 2, y0 = 2 * by - 2;
        for (u32 k = lane; k < 100; k += 32) m.product[k] = 0;
        if (lane < 25) {
            const int x = bx - 2 + (int)lane % 5, y = by - 2 + (int)lane / 5;
            m.cell[lane] = x >= 0 && x < cw && y >= 0 && y < ch ? g.cell[y * cw + x] : 0;
        }
        __syncwarp();
        for (u32 k = lane; k < 36; k += 32) {
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
                m.to[k][e] = to[e] < 0 ? -1 : (short)(4 * place[e] + to[e] - m.cell[place[e]]);
                m.weight[k][e] = weight[e];
            }
        }
        __syncwarp();
        const int self = 48 + node - m.cell[12];
        int sink = 0;
        // Pixels in the shape of a plus take from the node, 12 of them, and there are five terms for each: its own, and those of its
        // neighbours.
        for (u32 t = lane; t < 60; t += 32) {
            const u32 p = t / 5, k = t % 5;
            const u32 j = p < 4 ? 14 + (p & 1) + (p >> 1) * 6 : p < 6 ? 13 + (p - 4) * 6 : p < 8 ? 16 + (p - 6) * 6 : p < 10 ? p : p + 16;
            int share = 0;
#pragma unroll
            for (int e = 0; e < 3; e++)
                if (m.to[j][e] == self) share = m.weight[j][e];
            if (share == 0) continue;
            const u32 open = m.open[j];
            u32 from = j;
            int v = share;
            if (k == 4) {
                sink += share * m.sum[j] * (degree(open) - __popc(open >> 4));
                v = -share * degree(open);
            } else {
                if (!(open >> 4 >> k & 1)) continue;
                from = beside(j, k, 6);
                sink += share * (m.sum[j] - m.sum[from]);
            }
#pragma unroll
            for (int e = 0; e < 3; e++) {
                const int to = m.to[from][e];
                if (to >= 0 && to != self) atomicAdd(&m.product[to], v * m.weight[from][e]);
            }
        }
        __syncwarp();
        u32 who[4], n = 0;
        int v[4], sum = 0, size = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const u32 i = 32 * k + lane;
            v[k] = i < 100 ? m.product[i] : 0;
            who[k] = __ballot_sync(~0u, v[k] != 0);
            n += __popc(who[k]);
            sum += v[k], size += abs(v[k]);
        }
        bool bad = false;
        const u32 at = room.take(&g.table->edges, g.edge_room, n, (rest - 1 - index) / (gridDim.x * MULTIPLY_WARPS) + 1, bad);
        u32 to = at;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const u32 i = 32 * k + lane;
            if (v[k] != 0 && !bad) g.edges[to + __popc(who[k] & ((1u << lane) - 1))] = GraphEntry{m.cell[i / 4] + (int)(i & 3), v[k] / PRODUCT_UNIT};
            to += __popc(who[k]);
        }
        sum = warp_sum(sum), size = warp_sum(size), sink = warp_sum(sink);
        if (lane == 0) finish_node(g, node, at, n, (sum + sink) / PRODUCT_UNIT, (size + sink) / PRODUCT_UNIT, sink / PRODUCT_UNIT, bad, 1);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS, MULTIPLY_BLOCKS) diffusion_graph_smooth(Graph g, int level, int pad) {
    __shared__ Hash<FEW_TABLE> shared[MULTIPLY_WARPS];
    after_prior();
    if (last_level(g, level)) return;
    Hash<FEW_TABLE> &m = shared[threadIdx.x / 32];
    const u32 lane = lane_id(), first = g.table->first[level], last = g.table->first[level + 1];
    Room room = {0, 0};
    for (u32 i = first + blockIdx.x * MULTIPLY_WARPS + threadIdx.x / 32; i < last; i += gridDim.x * MULTIPLY_WARPS) {
        const int own = g.node_parent[i];
        if (own < 0) {
            if (lane == 0) g.sum[i] = 0, g.prolong[i] = GraphRow{0, 0};
            continue;
        }
        bool bad = false, some = false;
        clear_table(m);
        const GraphRow row = g.row[i];
        const float d = g.diagonal[i];
        const float scale = scale_for(row_size(g, i));
        float diagonal = 0, s = 0; // of the lane's edges
        for (u32 base = 0; base < row.count; base += 32) {
            int p = -1;
            float weight = 0;
            if (base + lane < row.count) {
                const GraphEntry x = g.edges[row.at + base + lane];
                if (x.weight >= 0 && strong(x.weight, d, g.diagonal[x.to])) {
                    weight = x.weight;
                    some = true;
                    p = g.node_parent[x.to];
                }
            }
            diagonal += weight;
            if (p < 0) s += weight; // no correction comes from there
            add(m, p >= 0 && p != own, p, weight * scale, bad);
        }
#pragma unroll
        for (int o = 16; o; o >>= 1) diagonal += __shfl_xor_sync(~0u, diagonal, o), s += __shfl_xor_sync(~0u, s, o);
        diagonal += g.sink[i], s += g.sink[i];
        __syncwarp();
        const float sum = __any_sync(~0u, some) ? 1 - SMOOTH * s / diagonal : 1;
        // The others, in order, after the own one.
        u32 n = 0;
        for (u32 k = lane; k < FEW_TABLE; k += 32) {
            const bool there = m.key[k] != -1;
            const u32 who = __ballot_sync(~0u, there);
            if (there) m.sorted[n + __popc(who & ((1u << lane) - 1))] = k;
            n += __popc(who);
        }
        __syncwarp();
        const u32 at = room.take(&g.table->prolongs, g.prolong_room, even(n + 1), (last - 1 - i) / (gridDim.x * MULTIPLY_WARPS) + 1, bad);
        bad = __any_sync(~0u, bad);
        i64 rest = 0;
        for (u32 k = lane; k < n && !bad; k += 32) {
            const u32 t = m.sorted[k];
            const int key = m.key[t];
            u32 rank = 1;
            for (u32 o = 0; o < n; o++) rank += m.key[m.sorted[o]] < key;
            const float v = SMOOTH * ((float)m.sum[t] / scale) / diagonal;
            g.prolong_pool[at + rank] = GraphEntry{key, v};
            rest += __float2ll_rn(v * UNIT);
        }
        rest = warp_sum64(rest);
        if (lane == 0) {
            if (bad) g.table->bad[level + 1] = 1;
            else g.prolong_pool[at] = GraphEntry{own, sum - (float)rest / UNIT};
            if (!bad && n % 2 == 0) g.prolong_pool[at + n + 1] = GraphEntry{own, 0};
            g.sum[i] = sum;
            g.prolong[i] = GraphRow{at, bad ? 0 : n + 1};
        }
        __syncwarp();
    }
}

template <int table, int lanes>
__device__ __forceinline__ void product(const Graph &g, int level) {
    __shared__ Hash<table> shared[MULTIPLY_WARPS * 32 / lanes];
    Hash<table> &m = shared[threadIdx.x / lanes];
    const u32 lane = threadIdx.x % lanes, group = lane_id() / lanes * lanes, each = MULTIPLY_WARPS * 32 / lanes;
    const u32 first = g.table->first[level], last = g.table->first[level + 1];
    Room room = {0, 0};
    for (u32 base = first + blockIdx.x * each; base < last; base += gridDim.x * each) {
        const u32 i = base + threadIdx.x / lanes;
        const bool in = i < last;
        bool bad = false;
        for (u32 k = lane; k < table; k += lanes) m.key[k] = -1, m.sum[k] = 0;
        __syncwarp();
        i64 lack = 0;
        const float scale = in ? scale_for(row_size(g, i)) : 1;
        GraphRow row = {0, 0}, own = {0, 0};
        float sum = 0, d = 0;
        if (in) {
            row = g.row[i], own = g.prolong[i];
            sum = g.sum[i], d = -g.diagonal[i] * scale;
            if (lane == 0) lack = __float2ll_rn(g.sink[i] * sum * UNIT);
        }
        for (u32 e = lane; __any_sync(~0u, e < own.count); e += lanes) {
            GraphEntry x = {0, 0};
            if (e < own.count) x = g.prolong_pool[own.at + e];
            add(m, e < own.count, x.to, d * x.weight, bad);
        }
        for (u32 e = lane; __any_sync(~0u, e < row.count); e += lanes) {
            GraphRow other = {0, 0};
            float weight = 0;
            if (e < row.count) {
                const GraphEntry x = g.edges[row.at + e];
                other = g.prolong[x.to];
                lack += __float2ll_rn(x.weight * (sum - g.sum[x.to]) * UNIT);
                weight = x.weight * scale;
            }
            GraphPair y = {{0, 0}, {0, 0}};
            if (other.count) y = pair_at(g.prolong_pool, other.at);
            for (u32 o = 0; __any_sync(~0u, o < other.count); o += 2) {
                GraphPair next = {{0, 0}, {0, 0}};
                if (o + 2 < other.count) next = pair_at(g.prolong_pool, other.at + o + 2);
                add(m, o < other.count, y.a.to, weight * y.a.weight, bad);
                add(m, o + 1 < other.count, y.b.to, weight * y.b.weight, bad);
                y = next;
            }
        }
        __syncwarp();
#pragma unroll
        for (int o = lanes / 2; o; o >>= 1) lack += __shfl_xor_sync(~0u, lack, o);
        const u32 mine = lanes == 32 ? ~0u : ((1u << lanes % 32) - 1) << group;
        // Room, once for each warp.
        u32 n = 0, before = 0, total = 0, to = 0;
#pragma unroll
        for (u32 k = 0; k < table; k += lanes) {
            const u32 who = __ballot_sync(~0u, m.key[k + lane] != -1);
            n += __popc(who & mine), before += __popc(who & ((1u << group) - 1)), total += __popc(who);
        }
        // Short rows come four at a time as it is.
        const u32 rows = lanes == 32 ? (last - 1 - base) / (gridDim.x * each) + 1 : 1;
        const u32 at = room.take(&g.table->products, g.product_room, total, rows, bad) + before;
        bad = (__ballot_sync(~0u, bad) & mine) != 0;
        for (u32 k = lane; k < table; k += lanes) {
            const bool there = m.key[k] != -1;
            const u32 who = __ballot_sync(~0u, there) & mine;
            if (there && !bad) g.product_pool[at + to + __popc(who & ((1u << lane_id()) - 1))] = GraphEntry{m.key[k], (float)m.sum[k] / scale};
            to += __popc(who);
        }
        if (in && lane == 0) {
            if (bad) g.table->bad[level + 1] = 1;
            g.product[i] = GraphRow{at, bad ? 0 : n};
            g.lack[i] = (float)lack / UNIT;
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS, MULTIPLY_BLOCKS) diffusion_graph_product_first(Graph g, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) product<FEW_TABLE, 8>(g, level);
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS, MULTIPLY_BLOCKS) diffusion_graph_product(Graph g, int level, int pad) {
    after_prior();
    if (!last_level(g, level)) product<TABLE, 32>(g, level);
}

template <int table>
__device__ __forceinline__ void multiply(const Graph &g, const int *cell, int level) {
    __shared__ Multiply<table> shared[MULTIPLY_WARPS];
    Multiply<table> &m = shared[threadIdx.x / 32];
    const u32 lane = lane_id(), first = g.table->first[level + 1], last = g.table->first[level + 2];
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2;
    Room edges = {0, 0}, restricts = {0, 0};
    for (u32 node = first + blockIdx.x * MULTIPLY_WARPS + threadIdx.x / 32; node < last; node += gridDim.x * MULTIPLY_WARPS) {
        const u32 rows = (last - 1 - node) / (gridDim.x * MULTIPLY_WARPS) + 1;
        const int block = g.node_block[node];
        const Block b = block_of(cell, w, h, block % cw, block / cw);
        bool bad = false;
        clear_table(m);
        if (lane == 0) m.count = 0;
        __syncwarp();
        for (int base = 0; base < b.size(); base += 32) {
            const int mine = base + (int)lane < b.size() ? b.at(base + lane) : -1;
            const bool member = mine >= 0 && g.node_parent[mine] == (int)node;
            const GraphRow own = member ? g.row[mine] : GraphRow{0, 0};
            const float diagonal = member ? g.diagonal[mine] : 0;
            const u32 members = __ballot_sync(~0u, member);
            // Neighbours of members, and those themselves: eight lanes for each.
            for (u32 first = 0; first < __popc(members); first += 4) {
                const bool some = first + lane / 8 < __popc(members);
                const u32 from = nth_bit(members, first + lane / 8);
                const int i = __shfl_sync(~0u, mine, from);
                const u32 at = __shfl_sync(~0u, own.at, from), count = __shfl_sync(~0u, own.count, from);
                const float d = __shfl_sync(~0u, diagonal, from);
                for (u32 e = lane % 8; __any_sync(~0u, some && e <= count); e += 8) {
                    GraphEntry x = {i, 0};
                    bool active = some && e == count;
                    if (some && e < count) {
                        x = g.edges[at + e];
                        active = x.weight > 0 && strong(x.weight, d, g.diagonal[x.to]);
                    }
                    support(m, active, x.to, bad);
                }
            }
        }
        __syncwarp();
        // Whose row of P has the node, in order.
        const u32 n = min(m.count, (u32)SUPPORT);
        if (lane < 4) m.support[n + lane] = NO_KEY;
        __syncwarp();
        u32 kept = 0;
        for (u32 base = 0; base < n; base += 32) {
            const u32 k = base + lane;
            int i = 0;
            float share = 0;
            u32 rank = 0;
            if (k < n) {
                i = m.support[k];
                const GraphRow row = g.prolong[i];
                rank = rank_of(m.support, n, i);
                for (u32 e = 0; e < row.count; e += 2) {
                    const GraphPair x = pair_at(g.prolong_pool, row.at + e);
                    if (x.a.to == (int)node) share = x.a.weight;
                    if (x.b.to == (int)node && e + 1 < row.count) share = x.b.weight;
                }
                m.sorted[rank] = i;
                m.share[rank] = share;
            }
            kept += __popc(__ballot_sync(~0u, share != 0));
        }
        const u32 at = restricts.take(&g.table->restricts, g.prolong_room, kept, rows, bad);
        clear_table(m);
        bad = __any_sync(~0u, bad);
        u32 to = 0;
        float bound = 0;
        for (u32 base = 0; base < n; base += 32) {
            const u32 k = base + lane;
            const float share = k < n ? m.share[k] : 0;
            if (share != 0) bound += share * row_size(g, m.sorted[k]);
            const u32 who = __ballot_sync(~0u, share != 0);
            if (share != 0 && !bad) g.restrict_pool[at + to + __popc(who & ((1u << lane) - 1))] = GraphEntry{m.sorted[k], share};
            to += __popc(who);
        }
        if (lane == 0) g.restricts[node] = GraphRow{at, bad ? 0 : kept};
#pragma unroll
        for (int o = 16; o; o >>= 1) bound += __shfl_xor_sync(~0u, bound, o);
        const float scale = scale_for(bound);
        // Eight lanes for each.
        i64 sink = 0;
        bool full = false;
        // What comes next is on its way while entries are added: rows while those before are, entries likewise.
        const u32 part = lane % 8;
        GraphRow row = {0, 0};
        float share = 0;
        if (lane / 8 < n && (share = m.share[lane / 8]) != 0) {
            const int i = m.sorted[lane / 8];
            row = g.product[i];
            if (part == 0) sink += __float2ll_rn(share * g.lack[i] * UNIT);
        }
        for (u32 base = 0; base < n && !bad; base += 4) {
            GraphEntry x = {(int)node, 0};
            if (part < row.count) x = g.product_pool[row.at + part];
            const u32 k = base + 4 + lane / 8;
            GraphRow row_then = {0, 0};
            float share_then = 0, lack = 0;
            if (k < n && (share_then = m.share[k]) != 0) {
                const int i = m.sorted[k];
                row_then = g.product[i];
                if (part == 0) lack = g.lack[i];
            }
            share *= scale;
            for (u32 e = part; __any_sync(~0u, e < row.count); e += 8) {
                GraphEntry then = {(int)node, 0};
                if (e + 8 < row.count) then = g.product_pool[row.at + e + 8];
                add(m, x.to != (int)node, x.to, share * x.weight, full);
                x = then;
            }
            row = row_then, share = share_then;
            sink += __float2ll_rn(share * lack * UNIT);
        }
        bad = __any_sync(~0u, full) || bad;
        __syncwarp();
        finish_row(g, m, node, edges, rows, scale, warp_sum64(sink), bad, level + 1);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS, MULTIPLY_BLOCKS)
    diffusion_graph_multiply_first(Graph g, const int *cell, int level, int pad) {
    after_prior();
    multiply<SMALL_TABLE>(g, cell, level);
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS, MULTIPLY_BLOCKS)
    diffusion_graph_multiply(Graph g, const int *cell, int level, int pad) {
    after_prior();
    multiply<TABLE>(g, cell, level);
}

extern "C" __global__ void diffusion_graph_finish(Graph g, u32 *counts, u32 levels, u32 method) {
    after_prior();
    GraphTable &t = *g.table;
    u32 depth = 0;
    while (depth < levels && !t.bad[depth + 1] && t.first[depth + 2] > t.first[depth + 1]) depth++;
    t.depth = depth;
    counts[0] = g.head->fixed, counts[1] = g.head->void_pixels;
    g.head->width = g.width, g.head->height = g.height, g.head->barriers = 1, g.head->method = method;
    g.head->magic = DIFFUSION_MAGIC;
}

#define INVERT_TILE (DENSE_NODES / 32)

// Gauss and Jordan's elimination, in place: threads of 32x32 have an entry of each 32x32 of the matrix.
extern "C" __global__ void __launch_bounds__(1024) diffusion_graph_invert(Graph g) {
    __shared__ float rows[2][DENSE_NODES], columns[2][DENSE_NODES], pivots[2], dead[DENSE_NODES];
    after_prior();
    const u32 depth = g.table->depth, first = g.table->first[depth];
    if (depth == 0 || g.table->first[depth + 1] - first > DENSE_NODES) return;
    const int n = g.table->first[depth + 1] - first, tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    for (int k = threadIdx.x; k < n * n; k += 1024) g.dense[k] = 0;
    __syncthreads();
    for (int i = ty; i < n; i += 32) {
        const GraphRow row = g.row[first + i];
        for (u32 e = tx; e < row.count; e += 32) {
            const GraphEntry x = g.edges[row.at + e];
            g.dense[i * n + x.to - (int)first] = -x.weight;
        }
        if (tx == 0) g.dense[i * n + i] = g.diagonal[first + i], dead[i] = DEAD_PIVOT * g.diagonal[first + i];
    }
    __syncthreads();
    float m[INVERT_TILE][INVERT_TILE];
#pragma unroll
    for (int a = 0; a < INVERT_TILE; a++)
#pragma unroll
        for (int b = 0; b < INVERT_TILE; b++) m[a][b] = ty + 32 * a < n && tx + 32 * b < n ? g.dense[(ty + 32 * a) * n + tx + 32 * b] : 0;
#pragma unroll
    for (int part = 0; part < INVERT_TILE; part++) {
        const int end = min(n - 32 * part, 32);
#pragma unroll 1
        for (int at = 0; at < end; at++) {
            const int k = 32 * part + at;
            float *row = rows[at & 1], *column = columns[at & 1];
            // The entries of the row and of the column become those of the inverse, as if they had been 0, and there had been others.
            if (ty == at && tx == at) pivots[at & 1] = m[part][part];
            if (ty == at)
#pragma unroll
                for (int b = 0; b < INVERT_TILE; b++) row[tx + 32 * b] = b == part && tx == at ? 1 : m[part][b], m[part][b] = 0;
            if (tx == at)
#pragma unroll
                for (int a = 0; a < INVERT_TILE; a++) column[ty + 32 * a] = a == part && ty == at ? -1 : m[a][part], m[a][part] = 0;
            __syncthreads();
            const float pivot = pivots[at & 1], inv = pivot > dead[k] ? __fdividef(1, pivot) : 0;
#pragma unroll
            for (int a = 0; a < INVERT_TILE; a++) {
                if (32 * a >= n) break;
                const float f = column[ty + 32 * a] * inv;
#pragma unroll
                for (int b = 0; b < INVERT_TILE; b++) m[a][b] -= f * row[tx + 32 * b];
            }
        }
    }
#pragma unroll
    for (int a = 0; a < INVERT_TILE; a++)
#pragma unroll
        for (int b = 0; b < INVERT_TILE; b++)
            if (ty + 32 * a < n && tx + 32 * b < n) g.dense[(ty + 32 * a) * n + tx + 32 * b] = m[a][b];
}

// ---- Solve

__device__ __forceinline__ float block_max(float v) {
    __shared__ float most[WARPS];
#pragma unroll
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    __syncthreads();
    if (lane_id() == 0) most[threadIdx.x / 32] = v;
    __syncthreads();
    for (int k = 0; k < WARPS; k++) v = fmaxf(v, most[k]);
    return v;
}

// The sums of what the blocks of a kernel left, for the last of them.
__device__ __forceinline__ void take_parts(const GraphSolve &s, double (&v)[4], double (&more)[4]) {
#pragma unroll
    for (int c = 0; c < 4; c++) v[c] = more[c] = 0;
    for (u32 k = threadIdx.x; k < gridDim.x; k += THREADS)
#pragma unroll
        for (int c = 0; c < 4; c++) v[c] += __ldcg(&s.sums[k * 8 + c]), more[c] += __ldcg(&s.sums[k * 8 + 4 + c]);
    block_sums(v);
    block_sums(more);
}

__device__ __forceinline__ float largest_part(const GraphSolve &s) {
    float v = 0;
    for (u32 k = threadIdx.x; k < gridDim.x; k += THREADS) v = fmaxf(v, __ldcg(&s.largest[k]));
    return block_max(v);
}

// Is this block the last one of the kernel that comes here? Then it sees what the others have written.
__device__ __forceinline__ bool last_block(GraphState &st) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&st.ended, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    __threadfence();
    return last;
}

__device__ __forceinline__ float inverse(u32 open) {
    const int d = degree(open);
    return d == 4 ? 0.25f : d == 3 ? 1.f / 3 : d == 2 ? 0.5f : 1.f;
}

// The sum of the differences across the open edges of pixel i.
__device__ __forceinline__ float flow(const float *v, u32 i, u32 open, int w) {
    const float own = v[i];
    float s = 0;
    if (open & OPEN_RIGHT) s += v[i + 1] - own;
    if (open & OPEN_LEFT) s += v[i - 1] - own;
    if (open & OPEN_DOWN) s += v[i + w] - own;
    if (open & OPEN_UP) s += v[i - w] - own;
    return s;
}

extern "C" __global__ void diffusion_graph_begin(GraphSolve s) {
    after_prior();
    GraphState &st = *s.state;
    const DiffusionHeader &h = *s.g.head;
    st.done = 1;
    if (h.magic != DIFFUSION_MAGIC || h.width != s.g.width || h.height != s.g.height || !h.barriers || h.method != s.method) {
        report(s.fault, FAULT_DIFFUSION_SOLVE_SETUP, h.magic);
        return;
    }
    if (s.start == 2 && (st.magic != DIFFUSION_MAGIC || st.channels != s.channels)) {
        report(s.fault, FAULT_DIFFUSION_SOLVE_START, st.magic);
        return;
    }
    st.done = 0;
    if (s.start == 2) return;
    st.magic = DIFFUSION_MAGIC, st.channels = s.channels, st.cycles = 0;
    st.update = st.ratio = st.estimate = st.residual = 0;
    for (int c = 0; c < 4; c++) st.beta[c] = st.alpha[c] = 0, st.rho[c] = st.pq[c] = 0, st.slowest[c] = st.before[c] = st.last[c] = 0;
    st.ended = st.met = 0;
}

__device__ __forceinline__ void add(float4 &a, float w, const float4 &b) { a.x += w * b.x, a.y += w * b.y, a.z += w * b.z, a.w += w * b.w; }

// The right side of node i, and the first step from 0.
__device__ __forceinline__ void node_begin(const GraphSolve &s, u32 i, const float4 &b) {
    float4 x = make_float4(0, 0, 0, 0);
    add(x, JACOBI * s.g.inv[i], b);
    s.nb[i] = b, s.nx[i] = x;
}

// Kernels that look at pixels around pixels have tiles of the image. A thread has some rows of a column; what is beside them goes through
// memory on chip. Of a tile a rim of 4 pixels is there for those within: each time when pixels take from those around them, the outermost
// that are right become one less. Channels come one by one, with the same few registers: what takes the time is instructions. Where pixels of
// one colour of a chessboard are computed, a thread has one of each two rows: of first ones at 2 j, and of second ones at 2 j + 1, once
// by_colour has swapped the values in odd columns.
#define TILE_X 64
#define TILE_Y (THREADS / TILE_X * TILE_ROWS)
#define TILE (TILE_X * TILE_Y)
#define RIM 4
#define INNER_X (TILE_X - 2 * RIM)
#define INNER_Y (TILE_Y - 2 * RIM)
#define TILE_CELLS (INNER_X / 2 * (INNER_Y / 2))
#define EACH_ROW _Pragma("unroll") for (int k = 0; k < TILE_ROWS; k++)

__device__ __forceinline__ float inverse_or_0(u32 open) { return open ? inverse(open) : 0; }

// A thread's pixels.
struct Tile {
    int at;               // the first one in the tile
    u32 pixel[TILE_ROWS]; // in the image, or the nearest one that does
    u32 opens;            // what they take from, 4 bits each
    u32 mine;             // a bit for each that lies in the image and within the rim
    bool odd;             // is the column: pixels of the first colour are in odd rows
    __device__ __forceinline__ u32 open(int k) const { return opens >> 4 * k & 15; }
    __device__ __forceinline__ bool own(int k) const { return mine >> k & 1; }
    __device__ __forceinline__ u32 colour_opens() const { return odd ? opens << 4 & 0xf0f0f0f0 | opens >> 4 & 0x0f0f0f0f : opens; }
    __device__ __forceinline__ u32 colour_mine() const { return odd ? mine << 1 & 0xaa | mine >> 1 & 0x55 : mine; }
    // Where pixels of a colour, 0 or 1, begin: from there on each other row has one.
    __device__ __forceinline__ int begin(int colour) const { return at + (odd != (colour == 1) ? TILE_X : 0); }
    // What comes of bits is not to be kept from channel to channel: there are no registers for it.
    __device__ __forceinline__ void again() { asm volatile("" : "+r"(opens), "+r"(mine)); }
};
static_assert(4 * TILE_ROWS <= 32, "Tile");

__device__ __forceinline__ Tile tile_at(const GraphSolve &s, u32 tile, u32 across) {
    const int w = s.g.width, h = s.g.height, tx = threadIdx.x % TILE_X, ty = threadIdx.x / TILE_X * TILE_ROWS;
    const int x = (int)(tile % across) * INNER_X - RIM + tx, y = (int)(tile / across) * INNER_Y - RIM + ty;
    Tile t;
    t.at = ty * TILE_X + tx, t.opens = t.mine = 0, t.odd = tx & 1;
    u32 open[TILE_ROWS];
    EACH_ROW {
        t.pixel[k] = (u32)(min(max(y + k, 0), h - 1) * w + min(max(x, 0), w - 1));
        open[k] = s.g.open[t.pixel[k]];
    }
    EACH_ROW {
        // The outermost pixels of the tile have no neighbours on one side: they are let be, as are those outside the image.
        const bool in = x >= 0 && x < w && y + k >= 0 && y + k < h;
        if (in && tx > 0 && tx < TILE_X - 1 && ty + k > 0 && ty + k < TILE_Y - 1) t.opens |= (open[k] & 15) << 4 * k;
        if (in && tx >= RIM && tx < TILE_X - RIM && ty + k >= RIM && ty + k < TILE_Y - RIM) t.mine |= 1u << k;
    }
    return t;
}

// What all threads have, for those beside them, in one of two places in turn: there is what was shown two times before, which all have read.
struct Shown {
    float v[2][TILE];
};

__device__ __forceinline__ const float *show(Shown &shown, u32 &turn, const Tile &t, const float (&v)[TILE_ROWS]) {
    float *to = shown.v[turn] + t.at;
    turn ^= 1;
    EACH_ROW to[k * TILE_X] = v[k];
    __syncthreads();
    return to;
}

// The sum of the differences across the open edges of the thread's pixel k, of v, which is shown.
__device__ __forceinline__ float tile_flow(const float *at, const Tile &t, const float (&v)[TILE_ROWS], int k) {
    const float own = v[k];
    const u32 open = t.open(k);
    float s = 0;
    if (open & OPEN_RIGHT) s += at[k * TILE_X + 1] - own;
    if (open & OPEN_LEFT) s += at[k * TILE_X - 1] - own;
    if (open & OPEN_DOWN) s += (k + 1 < TILE_ROWS ? v[k + 1 < TILE_ROWS ? k + 1 : k] : at[(k + 1) * TILE_X]) - own;
    if (open & OPEN_UP) s += (k > 0 ? v[k > 0 ? k - 1 : k] : at[-TILE_X]) - own;
    return s;
}

__device__ __forceinline__ void by_colour(const Tile &t, float (&v)[TILE_ROWS]) {
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k += 2) {
        const float a = v[k], b = v[k + 1];
        v[k] = t.odd ? b : a, v[k + 1] = t.odd ? a : b;
    }
}

#define EACH_OF(colour) _Pragma("unroll") for (int k = (colour); k < TILE_ROWS; k += 2)

// show of those of a colour.
__device__ __forceinline__ const float *show_colour(Shown &shown, u32 &turn, const Tile &t, int colour, const float (&v)[TILE_ROWS]) {
    float *all = shown.v[turn], *to = all + t.begin(colour);
    turn ^= 1;
    EACH_OF(colour) to[k / 2 * 2 * TILE_X] = v[k];
    __syncthreads();
    return all;
}

// The sum of the differences across the open edges of a pixel of value own, where what is beside it is shown.
__device__ __forceinline__ float flow_around(const float *at, u32 open, float own) {
    float s = 0;
    if (open & OPEN_RIGHT) s += at[1] - own;
    if (open & OPEN_LEFT) s += at[-1] - own;
    if (open & OPEN_DOWN) s += at[TILE_X] - own;
    if (open & OPEN_UP) s += at[-TILE_X] - own;
    return s;
}

// step begins with r where start is not 0, and goes a step otherwise.
extern "C" __global__ void __launch_bounds__(THREADS, TILE_BLOCKS) diffusion_graph_step(GraphSolve s, u32 across, u32 start) {
    __shared__ Shown shown;
    __shared__ float left[4][INNER_Y * INNER_X];
    after_prior();
    const GraphState &st = *s.state;
    if (st.done != 0 && st.done != LAST_STEP) return;
    const u32 n = s.g.width * s.g.height;
    const bool odd = st.cycles & 1, first = st.cycles <= 1;
    const float *from = odd ? s.p1 : s.p0, *before = odd ? s.r0 : s.r1;
    float *to = odd ? s.p0 : s.p1, *after = odd ? s.r1 : s.r0;
    Tile t = tile_at(s, blockIdx.x, across);
    u32 turn = 0;
#pragma unroll 1
    for (u32 c = 0; c < s.channels; c++) {
        t.again();
        const u32 plane = c * n;
        const float beta = st.beta[c], alpha = start ? 1 : st.alpha[c];
        float v[TILE_ROWS], r[TILE_ROWS];
        if (start) {
            EACH_ROW v[k] = s.x[plane + t.pixel[k]], r[k] = 0;
        } else {
            // All is on its way at once.
            float p[TILE_ROWS], x[TILE_ROWS];
            EACH_ROW {
                v[k] = s.q[plane + t.pixel[k]], r[k] = before[plane + t.pixel[k]];
                p[k] = first ? 0 : from[plane + t.pixel[k]];
                x[k] = s.x[plane + t.pixel[k]];
            }
            EACH_ROW {
                v[k] += beta * p[k]; // 0 where there is no equation
                if (t.own(k)) to[plane + t.pixel[k]] = v[k], s.x[plane + t.pixel[k]] = x[k] + alpha * v[k];
            }
        }
        const float *at = show(shown, turn, t, v);
        EACH_ROW {
            r[k] += alpha * tile_flow(at, t, v, k);
            if (t.own(k)) after[plane + t.pixel[k]] = r[k];
        }
        // The first steps of the preconditioner: pixels of the first colour, then of the second one.
        by_colour(t, r);
        const u32 opens = t.colour_opens(), mine = t.colour_mine();
        EACH_OF(0) v[k] = inverse(opens >> 4 * k & 15) * r[k];
        at = show_colour(shown, turn, t, 0, v) + t.begin(1);
        EACH_OF(1) v[k] = inverse(opens >> 4 * k & 15) * (r[k] + flow_around(at + (k - 1) * TILE_X, opens >> 4 * k, 0));
        // What is left of r: nothing of the second colour; of the first what came from the second one later. (1 - SMOOTH A / degree) of that.
        at = show_colour(shown, turn, t, 1, v) + t.begin(0);
        const int row = t.at / TILE_X - RIM, column = t.at % TILE_X - RIM;
        EACH_OF(0) {
            const float l = flow_around(at + k * TILE_X, opens >> 4 * k, 0);
            v[k] = inverse(opens >> 4 * k & 15) * l;
            if (mine >> k & 1) left[c][(row + (k ^ t.odd)) * INNER_X + column] = (1 - SMOOTH) * l;
        }
        at = show_colour(shown, turn, t, 0, v) + t.begin(1);
        EACH_OF(1) {
            const float l = SMOOTH * flow_around(at + (k - 1) * TILE_X, opens >> 4 * k, 0);
            if (mine >> k & 1) left[c][(row + (k ^ t.odd)) * INNER_X + column] = l;
        }
    }
    if (s.g.table->depth == 0) return;
    __syncthreads();
    const int w = s.g.width, h = s.g.height, cw = cells(w, 1), ch = cells(h, 1);
    for (int i = threadIdx.x; i < TILE_CELLS; i += THREADS) {
        const int x = i % (INNER_X / 2), y = i / (INNER_X / 2);
        const int cx = (int)(blockIdx.x % across) * (INNER_X / 2) + x, cy = (int)(blockIdx.x / across) * (INNER_Y / 2) + y;
        if (cx >= cw || cy >= ch) continue;
        const u32 cell = (u32)cy * cw + cx;
        const int end = s.g.cell[cell + 1];
        int parent[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int px = 2 * cx + (k & 1), py = 2 * cy + (k >> 1);
            parent[k] = px < w && py < h ? s.g.parent[(u32)py * w + px] : -1;
        }
        for (int node = s.g.cell[cell]; node < end; node++) {
            float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (parent[k] != node) continue;
                const int at = (2 * y + (k >> 1)) * INNER_X + 2 * x + (k & 1);
                sum.x += left[0][at];
                if (s.channels > 1) sum.y += left[1][at];
                if (s.channels > 2) sum.z += left[2][at];
                if (s.channels > 3) sum.w += left[3][at];
            }
            node_begin(s, node, sum);
        }
    }
}

// Sums over so many lanes, in all of them.
template <int lanes>
__device__ __forceinline__ float4 lane_sum(float4 v) {
#pragma unroll
    for (int o = lanes / 2; o; o >>= 1) {
        v.x += __shfl_xor_sync(~0u, v.x, o), v.y += __shfl_xor_sync(~0u, v.y, o);
        v.z += __shfl_xor_sync(~0u, v.z, o), v.w += __shfl_xor_sync(~0u, v.w, o);
    }
    return v;
}

// Adds the lane's part of a row. So many entries are on their way at once. It returns the sum of their weights.
template <int lanes>
__device__ __forceinline__ float row_add(float4 &to, const GraphEntry *pool, const GraphRow &row, const float4 *from) {
    constexpr int batch = lanes < 32 ? 4 : 2;
    float sum = 0;
    for (u32 e = lane_id() % lanes; e < row.count; e += lanes * batch) {
        GraphEntry y[batch];
        float4 v[batch];
#pragma unroll
        for (int k = 0; k < batch; k++) {
            y[k] = GraphEntry{-1, 0};
            if (e + k * lanes < row.count) y[k] = pool[row.at + e + k * lanes];
        }
#pragma unroll
        for (int k = 0; k < batch; k++) {
            v[k] = make_float4(0, 0, 0, 0);
            if (y[k].to >= 0) v[k] = from[y[k].to];
        }
#pragma unroll
        for (int k = 0; k < batch; k++) sum += y[k].weight, add(to, y[k].weight, v[k]);
    }
    return sum;
}

// b - A x of node i, in all of its lanes.
template <int lanes>
__device__ __forceinline__ float4 node_residual(const GraphSolve &s, u32 i, bool in) {
    float4 r = make_float4(0, 0, 0, 0);
    if (in) {
        const GraphRow row = s.g.row[i];
        const float4 x = s.nx[i];
        if (lane_id() % lanes == 0) r = s.nb[i], add(r, -s.g.sink[i], x);
        const float sum = row_add<lanes>(r, s.g.edges, row, s.nx);
        add(r, -sum, x);
    }
    return lane_sum<lanes>(r);
}

template <int lanes>
__device__ __forceinline__ void node_down(const GraphSolve &s, u32 i, bool in) {
    const float4 r = node_residual<lanes>(s, i, in);
    if (in && lane_id() % lanes == 0) s.nr[i] = r;
}
template <int lanes>
__device__ __forceinline__ void node_gather(const GraphSolve &s, u32 i, bool in) {
    float4 b = make_float4(0, 0, 0, 0);
    if (in) row_add<lanes>(b, s.g.restrict_pool, s.g.restricts[i], s.nr);
    b = lane_sum<lanes>(b);
    if (in && lane_id() % lanes == 0) node_begin(s, i, b);
}
// The correction by the next level, and the last step: A times the correction comes from rows of A P, so that it needs no neighbours.
template <int lanes>
__device__ __forceinline__ void node_up(const GraphSolve &s, u32 i, bool in) {
    float4 x = make_float4(0, 0, 0, 0), r = x;
    if (in) {
        const GraphRow product = s.g.product[i], own = s.g.prolong[i];
        const float step = JACOBI * s.g.inv[i];
        if (lane_id() % lanes == 0) x = s.nx[i], r = s.nr[i];
        row_add<lanes>(r, s.g.product_pool, product, s.nx);
        row_add<lanes>(x, s.g.prolong_pool, own, s.nx);
        add(x, step, r);
    }
    x = lane_sum<lanes>(x);
    if (in && lane_id() % lanes == 0) s.nx[i] = x;
}
template <int lanes>
__device__ __forceinline__ void node_relax(const GraphSolve &s, u32 i, bool in) {
    float4 r = node_residual<lanes>(s, i, in);
    if (in && lane_id() % lanes == 0) {
        float4 x = s.nx[i];
        add(x, JACOBI * s.g.inv[i], r);
        s.nr[i] = x;
    }
}

// Runs f for nodes of a level, this being group number group of so many.
#define EACH_NODE(level, f, lanes, group, groups)                                                      \
    {                                                                                                  \
        const u32 last = s.g.table->first[(level) + 1];                                                \
        for (u32 at = s.g.table->first[level]; at < last; at += (groups)) f<lanes>(s, at + (group), at + (group) < last); \
    }

// The first level has a kernel for each way.
#define FIRST_LANES 4
extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_down(GraphSolve s) {
    after_prior();
    if (s.state->done || s.g.table->depth <= 1) return;
    EACH_NODE(1, node_down, FIRST_LANES, (blockIdx.x * THREADS + threadIdx.x) / FIRST_LANES, gridDim.x * (THREADS / FIRST_LANES))
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_up(GraphSolve s) {
    after_prior();
    if (s.state->done || s.g.table->depth <= 1) return;
    EACH_NODE(1, node_up, FIRST_LANES, (blockIdx.x * THREADS + threadIdx.x) / FIRST_LANES, gridDim.x * (THREADS / FIRST_LANES))
}

// Waits until all blocks of the kernel have come here, and lets all that they wrote be read. All have to be on the GPU at once. turn is how
// often that has been.
__device__ __forceinline__ void meet(GraphState &st, u32 &turn) {
    turn++;
    __syncthreads();
    if (threadIdx.x == 0 && gridDim.x > 1) {
        const u32 all = turn * gridDim.x;
        u32 met;
#if __CUDA_ARCH__ >= 700
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&st.met) : "memory");
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(met) : "l"(&st.met) : "memory");
        while (met < all);
#else
        __threadfence();
        atomicAdd(&st.met, 1);
        do met = *(volatile u32 *)&st.met;
        while (met < all);
        __threadfence();
#endif
    }
    __syncthreads();
}

// Rows of deep levels are long, and nodes few: they get a warp each, and consecutive ones are of different blocks.
#define LONG_ROWS 3
#define LEVEL_EACH(level, f)                                                                                                  \
    if ((level) < LONG_ROWS) EACH_NODE(level, f, 8, blockIdx.x * (LEVEL_THREADS / 8) + threadIdx.x / 8, gridDim.x * (LEVEL_THREADS / 8)) \
    else EACH_NODE(level, f, 32, threadIdx.x / 32 * gridDim.x + blockIdx.x, gridDim.x * (LEVEL_THREADS / 32)) \
    meet(st, turn);

// A row of the inverse times what is left on the last level.
template <int lanes>
__device__ __forceinline__ void node_solve(const GraphSolve &s, u32 i, bool in) {
    const u32 depth = s.g.table->depth, first = s.g.table->first[depth], n = s.g.table->first[depth + 1] - first;
    float4 x = make_float4(0, 0, 0, 0);
    if (in)
        for (u32 k = lane_id() % lanes; k < n; k += lanes) add(x, s.g.dense[(i - first) * n + k], s.nb[first + k]);
    x = lane_sum<lanes>(x);
    if (in && lane_id() % lanes == 0) s.nx[i] = x;
}

template <int lanes>
__device__ __forceinline__ void node_keep(const GraphSolve &s, u32 i, bool in) {
    if (in && lane_id() % lanes == 0) s.nx[i] = s.nr[i];
}

// All levels but the first, in one kernel: a grid's blocks meet in less time than a launch takes.
extern "C" __global__ void __launch_bounds__(LEVEL_THREADS) diffusion_graph_levels(GraphSolve s) {
    after_prior();
    GraphState &st = *s.state;
    const u32 depth = s.g.table->depth;
    if (st.done || depth == 0) return;
    u32 turn = 0;
    for (u32 k = 1; k < depth; k++) {
        if (k > 1) {
            LEVEL_EACH(k, node_down)
        }
        LEVEL_EACH(k + 1, node_gather)
    }
    if (s.g.table->first[depth + 1] - s.g.table->first[depth] <= DENSE_NODES) {
        LEVEL_EACH(depth, node_solve)
    } else {
        for (int k = 0; k < BOTTOM; k++) {
            LEVEL_EACH(depth, node_relax)
            LEVEL_EACH(depth, node_keep)
        }
    }
    for (u32 k = depth - 1; k >= 2; k--) {
        LEVEL_EACH(k, node_up)
    }
}

// What alpha and beta of a step tell of the slowest mode: slowMode.step of kernels/cpu/diffusion_graph.go.
__device__ __forceinline__ void slow_step(GraphState &st, int c) {
    const float alpha = st.alpha[c], before = st.before[c];
    st.before[c] = alpha;
    if (before == 0) {
        st.slowest[c] = alpha, st.last[c] = sqrtf(alpha);
        return;
    }
    const float along = sqrtf(st.beta[c] / before) * st.last[c], across = along * alpha, own = st.slowest[c] + along * across;
    const float longest = (own + alpha + hypotf(own - alpha, 2 * across)) / 2, size = hypotf(longest - alpha, across);
    st.last[c] = sqrtf(alpha) * (size > 0 ? along * longest / size : 1);
    st.slowest[c] = longest;
}

extern "C" __global__ void __launch_bounds__(THREADS, TILE_BLOCKS) diffusion_graph_smooth_out(GraphSolve s, u32 across, u32 tiles) {
    __shared__ Shown shown;
    __shared__ double sums[8][WARPS]; // of r q and q A q of channels
    after_prior();
    GraphState &st = *s.state;
    if (st.done) {
        if (st.done == LAST_STEP && blockIdx.x == 0 && threadIdx.x == 0) st.done = 2;
        return;
    }
    const bool levels = s.g.table->depth > 0;
    const u32 n = s.g.width * s.g.height;
    const float *rest = st.cycles & 1 ? s.r1 : s.r0, *coarse = (const float *)s.nx;
    float most = 0;
    u32 turn = 0;
    if (threadIdx.x < 8 * WARPS) sums[threadIdx.x / WARPS][threadIdx.x % WARPS] = 0;
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        Tile t = tile_at(s, tile, across);
        int parent[TILE_ROWS];
        EACH_ROW parent[k] = levels ? s.g.parent[t.pixel[k]] : -1;
#pragma unroll 1
        for (u32 c = 0; c < s.channels; c++) {
            float v[TILE_ROWS], r[TILE_ROWS];
            t.again();
            EACH_ROW r[k] = rest[c * n + t.pixel[k]];
            EACH_ROW v[k] = parent[k] >= 0 ? coarse[4 * parent[k] + c] : 0;
            const float *at = show(shown, turn, t, v) - t.at + t.begin(0);
            by_colour(t, r), by_colour(t, v);
            const u32 opens = t.colour_opens(), mine = t.colour_mine();
            // The first step is known of pixels of the first colour, and the second one need not be. A pixel without a node has no
            // neighbour with one, and all around it is 0.
            EACH_OF(0) {
                const u32 open = opens >> 4 * k & 15;
                v[k] += inverse_or_0(open) * (r[k] + SMOOTH * flow_around(at + k * TILE_X, open, v[k]));
            }
            at = show_colour(shown, turn, t, 0, v) + t.begin(1);
            EACH_OF(1) {
                const u32 open = opens >> 4 * k & 15;
                v[k] = inverse_or_0(open) * (r[k] + flow_around(at + (k - 1) * TILE_X, open, 0));
            }
            at = show_colour(shown, turn, t, 1, v) + t.begin(0);
            // After that, A q is r for those of the first colour.
            float rq = 0, qaq = 0;
            EACH_OF(0) {
                const u32 open = opens >> 4 * k & 15;
                v[k] = inverse_or_0(open) * (r[k] + flow_around(at + k * TILE_X, open, 0));
                if (mine >> k & 1) rq += r[k] * v[k];
            }
            qaq = rq;
            at = show_colour(shown, turn, t, 0, v) + t.begin(1);
            EACH_OF(1) {
                const float flow = flow_around(at + (k - 1) * TILE_X, opens >> 4 * k, v[k]);
                if (mine >> k & 1) rq += r[k] * v[k], qaq -= v[k] * flow;
            }
            by_colour(t, v);
            EACH_ROW if (t.own(k)) s.q[c * n + t.pixel[k]] = v[k], most = fmaxf(most, fabsf(v[k]));
            const double a = warp_sum((double)rq), b = warp_sum((double)qaq);
            if (lane_id() == 0) sums[c][threadIdx.x / 32] += a, sums[c + 4][threadIdx.x / 32] += b;
        }
    }
    most = block_max(most);
    if (threadIdx.x < 8) {
        double all = 0;
        for (int k = 0; k < WARPS; k++) all += sums[threadIdx.x][k];
        s.sums[blockIdx.x * 8 + threadIdx.x] = all;
    }
    if (threadIdx.x == 0) s.largest[blockIdx.x] = most;
    double sum[4], delta[4];
    if (!last_block(st)) return;
    take_parts(s, sum, delta);
    const float update = largest_part(s);
    if (threadIdx.x != 0) return;
    // p A p without p: q A q, less what p of before has of it, as p is to be A-orthogonal to that.
    for (int c = 0; c < 4; c++) {
        const double beta = st.rho[c] > 0 ? sum[c] / st.rho[c] : 0;
        st.rho[c] = sum[c], st.pq[c] = delta[c] - beta * beta * st.pq[c];
        st.beta[c] = (float)beta, st.alpha[c] = st.pq[c] > 0 ? (float)(sum[c] / st.pq[c]) : 0;
        if (st.pq[c] > 0) slow_step(st, c);
    }
    st.ratio = FIRST_RATIO;
    if (st.cycles > 0 && st.update > 0) st.ratio = fminf(update / st.update, MOST_RATIO);
    st.update = update;
    st.cycles++;
    st.met = 0;
    float left = fmaxf(st.ratio / (1 - st.ratio), 1.f / min(st.cycles, SETTLED));
    for (int c = 0; c < 4; c++) left = fmaxf(left, CAUTION * (st.slowest[c] - 1));
    st.estimate = update * left;
    if (st.estimate <= s.tolerance) st.done = LAST_STEP;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_last(GraphSolve s) {
    after_prior();
    if (s.state->done == 1) return;
    const u32 n = s.g.width * s.g.height;
    float most = 0;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += GRAPH_PARTS * THREADS) {
        const u32 open = s.g.open[i];
        if (open)
            for (u32 c = 0; c < s.channels; c++) most = fmaxf(most, fabsf(flow(s.x + (u64)c * n, i, open, s.g.width)));
    }
    most = block_max(most);
    if (threadIdx.x == 0) s.largest[blockIdx.x] = most;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_status(GraphSolve s) {
    after_prior();
    const GraphState &st = *s.state;
    if (st.done == 1) return;
    float residual = 0;
    for (u32 k = threadIdx.x; k < GRAPH_PARTS; k += THREADS) residual = fmaxf(residual, s.largest[k]);
    residual = block_max(residual);
    if (threadIdx.x != 0) return;
    DiffusionStatus out;
    out.cycles = st.cycles, out.converged = st.done != 0;
    out.update = st.update, out.ratio = st.ratio, out.estimate = st.estimate, out.residual = residual, out.pad = 0;
    *s.status = out;
}
