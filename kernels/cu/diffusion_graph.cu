// Diffusion with barriers: conjugate gradients, preconditioned by smoothed aggregation. See kernels/cpu/diffusion_graph.go for what is
// computed; here is how. diffusion_label.cu comes first, and says what pixels take from.
//
// The set-up makes levels one by one, nodes of all numbered through:
// diffusion_graph_join, _join_pixels          components within blocks of 2x2 cells, and how many there are in each; a warp a block, or a
//                                             thread where cells are pixels
// diffusion_graph_number, _number_pixels      numbers them in the order of blocks: each thread block adds up what those before have
// diffusion_graph_smooth, _smooth_first       a row of P a warp, or a thread; those of pixels are found where they are needed
// diffusion_graph_product, _product_first     a row of A P a warp, or 8 lanes
// diffusion_graph_multiply, _multiply_first,  a row of P' A P a warp
// _multiply_pixels
// diffusion_graph_finish                      how many levels there are
// Rows are added up in hash tables on chip, by integers in units of 2^-40, and sorted: so they don't depend on the order. To multiply by A P
// takes a fifth of the time that multiplying by A and P at once takes, at levels with long rows. Those named first have smaller
// tables, for shorter rows. Bytes: 40 a pixel for the image's own part, and about 300 for rows, mostly from the cache.
//
// A solve is: _begin, diffusion_label_mean and _fill, then for the start and for each cycle
// _apply      p = z + beta p and A p, and parts of p A p          (not at the start)
// _update     x, r, and the first step of the preconditioner      28 bytes a value
// _residual   what is left                                        8 bytes
// _restrict   to nodes, a thread a block of 2x2 pixels            4 bytes
// _down       what is left on a level: 8 lanes a node, or 32
// _gather     sums of nodes of the finer level
// _tail       the levels of few nodes, in one block
// _up, _relax back
// _prolong    from nodes                                          8 bytes
// _smooth_out the last step, and parts of r z and the largest z   16 bytes
// _step       beta, the estimate and whether that is all; one block
// and _last and _status. All but the first return at once when the solve is done, so that cycles can be enqueued ahead. Sums over all pixels
// are of GRAPH_PARTS parts, added in order: a solve gives the same bits each time.

#include "diffusion_label.cuh"

#define THREADS 256
#define WARPS 8
// Levels that nodes may have, and blocks of kernels that sum over all pixels.
#define GRAPH_LEVELS 20
#define GRAPH_PARTS 1024
// Levels of so many nodes are left to one block: it takes less time than launches do.
#define TAIL_NODES 256
#define TAIL_THREADS 1024
// What a warp has room for: nodes that take from one, and columns of a row (a table is slow when it is full).
#define SUPPORT 128
#define TABLE 256
#define SMALL_TABLE 128
#define FEW_TABLE 64
#define MULTIPLY_WARPS 4

// The same as in kernels/cpu/diffusion_graph.go.
#define CAUTION 3.f
#define STRONG 0.04f
#define LOOSE 0.25f
#define SMOOTH (2.f / 3)
#define JACOBI 0.8f
#define BOTTOM 8

#define UNIT 1099511627776.f // sums are of integers, in its inverse

// A row of a sparse matrix: its entries in a pool.
struct GraphRow {
    u32 at, count;
};
static_assert(sizeof(GraphRow) == 8, "GraphRow");

struct GraphEntry {
    int to;
    float weight;
};
static_assert(sizeof(GraphEntry) == 8, "GraphEntry");

// Nodes of level k, from 1, are first[k] to first[k + 1]. A level is bad where there was no room for it. There are levels 1 to depth, of
// which those from tail on are solved by one block.
struct GraphTable {
    u32 first[GRAPH_LEVELS + 2], bad[GRAPH_LEVELS + 2];
    u32 depth, tail, edges, prolongs, restricts, products[GRAPH_LEVELS + 2], pad;
};
static_assert(sizeof(GraphTable) == 288, "GraphTable");

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
    GraphRow *product;       // while levels are made: rows of -A P, and of A times the sums of rows of P
    float *lack;
    GraphEntry *product_pool;
    int *labels;
    u32 *parts;
    u32 width, height, node_room, edge_room, prolong_room, product_room;
};

// How far a solve has come.
struct GraphState {
    u32 magic, channels, cycles, done;
    float update, ratio, estimate, residual;
    float beta[4];
    double rho[4];
};
static_assert(sizeof(GraphState) == 80, "GraphState");

struct GraphSolve {
    Graph g;
    GraphState *state;
    DiffusionStatus *status;
    const u8 *flags;
    const float *colours;
    float *x, *r, *z, *q, *ap, *p0, *p1;
    double *sums;  // 4 for each part
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

extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_graph_join(Graph g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
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
        for (int k = 0; k < n; k++) {
            const int i = b.at(k);
            const GraphRow row = g.row[i];
            const float d = g.diagonal[i];
            u32 bits = 0;
            for (u32 e = lane; e < row.count; e += 32) {
                const GraphEntry x = g.edges[row.at + e];
                const int j = b.index(x.to);
                if (j >= 0 && strong(x.weight, d, g.diagonal[x.to])) bits |= 1u << j;
            }
#pragma unroll
            for (int o = 16; o; o >>= 1) bits |= __shfl_xor_sync(~0u, bits, o);
            if (k == (int)lane && some) near |= bits;
        }
        const u32 tied = __ballot_sync(~0u, some);
        if (some) near &= tied;
        // Take over what neighbours are connected with, until nobody learns anything.
        while (true) {
            u32 all = near;
            for (int j = 0; j < n; j++) {
                const u32 other = __shfl_sync(~0u, near, j);
                if (near >> j & 1 || other >> lane & 1) all |= other;
            }
            const bool more = all != near;
            near = all;
            if (!__any_sync(~0u, more)) break;
        }
        if ((int)lane < n) labels[node] = b.at(__ffs(near) - 1);
        count = __popc(__ballot_sync(~0u, some && __ffs(near) - 1 == (int)lane));
    } else {
        for (int i = lane; i < n; i += 32) labels[b.at(i)] = b.at(i);
        __syncwarp();
        bool more = true;
        while (__any_sync(~0u, more)) {
            more = false;
            for (int i = lane; i < n; i += 32) {
                const int node = b.at(i);
                const GraphRow row = g.row[node];
                const float d = g.diagonal[node];
                int least = ((volatile int *)labels)[node];
                const int old = least;
                for (u32 e = 0; e < row.count && g.node_parent[node] >= 0; e++) {
                    const GraphEntry x = g.edges[row.at + e];
                    if (b.index(x.to) >= 0 && g.node_parent[x.to] >= 0 && strong(x.weight, d, g.diagonal[x.to])) least = min(least, ((volatile int *)labels)[x.to]);
                }
                least = min(least, ((volatile int *)labels)[least]);
                if (least < old) {
                    ((volatile int *)labels)[node] = least;
                    more = true;
                }
            }
            __syncwarp();
        }
        for (int i = lane; i < n; i += 32) count += labels[b.at(i)] == b.at(i) && g.node_parent[b.at(i)] >= 0;
        count = warp_sum((int)count);
    }
    if (lane == 0) {
        next[c] = count;
        if (count) atomicAdd(&parts[c / THREADS], count);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_graph_number(Graph g, const int *cell, int *next, u32 *parts, int level, int pad) {
    after_prior();
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

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_smooth_first(Graph g, int level, int pad) {
    after_prior();
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
        u32 before = n;
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
            n = 0;
        }
        at += before - n;
        if (i < last) {
            g.prolong[i] = GraphRow{at, n};
            for (u32 k = 0; k < n; k++) g.prolong_pool[at + k] = GraphEntry{to[k], weight[k]};
        }
    }
}

// What a warp works with.
template <int table>
struct Hash {
    int key[table];
    u32 low[table], high[table]; // of sums: there are no atomics of 64 bits on chip but by trying
    int sorted[table];
    u32 used;
};
template <int table>
struct Multiply : Hash<table> {
    int support[SUPPORT];
    float share[SUPPORT];
    u32 count;
};
// 6x6 pixels around a block of 2x2, their rows of P, and nodes of the 5x5 blocks that those lead to, four at most in each: there is a place
// for each, in the order of nodes.
struct MultiplyPixels {
    int cell[25];
    short to[36][3];
    float weight[36][3], sum[36];
    u32 open[36], low[100], high[100];
};

// slot finds or makes the entry of a key; table where there is no room.
template <int table>
__device__ __forceinline__ u32 slot(Hash<table> &m, int key, bool &made) {
    u32 at = ((u32)key * 2654435761u >> 16) % table;
    made = false;
    while (true) {
        const int old = ((volatile int *)m.key)[at];
        if (old == key) return at;
        if (old == -1) {
            if (*(volatile u32 *)&m.used >= table * 3 / 4) return table;
            const int was = atomicCAS(&m.key[at], -1, key);
            if (was == -1) {
                atomicAdd(&m.used, 1);
                made = true;
                return at;
            }
            if (was == key) return at;
        }
        at = (at + 1) % table;
    }
}

template <int table>
__device__ __forceinline__ void support(Multiply<table> &m, int node, bool &bad) {
    bool made;
    if (slot(m, node, made) == table) bad = true;
    if (!made) return;
    const u32 k = atomicAdd(&m.count, 1);
    if (k < SUPPORT) m.support[k] = node;
    else bad = true;
}

__device__ __forceinline__ void add_to(u32 &low, u32 &high, float v) {
    const u64 sum = (u64)__float2ll_rn(v * UNIT);
    const u32 a = (u32)sum, old = atomicAdd(&low, a), b = (u32)(sum >> 32) + (old + a < a);
    if (b) atomicAdd(&high, b);
}

template <int table>
__device__ __forceinline__ void add(Hash<table> &m, int self, int key, float v, bool &bad) {
    if (key == self) return;
    bool made;
    const u32 at = slot(m, key, made);
    if (at == table) bad = true;
    else add_to(m.low[at], m.high[at], v);
}

template <int table>
__device__ __forceinline__ i64 value(const Hash<table> &m, u32 at) { return (i64)((u64)m.high[at] << 32 | m.low[at]); }

__device__ __forceinline__ i64 warp_sum64(i64 v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// The pixel that one takes from by bit k.
__device__ __forceinline__ int beside(int i, int k, int w) { return k == 0 ? i + 1 : k == 1 ? i - 1 : k == 2 ? i + w : i - w; }

// Row i of P where i is a pixel: the entries of its own node, of a neighbour in the row, and of one in the column.
__device__ __forceinline__ void pixel_row(const Graph &g, int i, int x, int y, int (&to)[3], float (&weight)[3], float &sum) {
    const u32 open = g.open[i];
    const int w = g.width;
    const float unit = SMOOTH / degree(open);
    to[0] = g.parent[i], to[1] = to[2] = -1;
    sum = 1 - unit * (degree(open) - __popc(open >> 4));
    weight[0] = sum, weight[1] = weight[2] = unit;
    if (to[0] < 0) return;
    const int h = x & 1 ? 0 : 1, v = y & 1 ? 2 : 3; // the ways that lead out of the block
    if (open >> 4 >> h & 1) to[1] = g.parent[beside(i, h, w)], weight[0] -= unit;
    if (open >> 4 >> v & 1) to[2] = g.parent[beside(i, v, w)], weight[0] -= unit;
}

// What belongs to a row of n entries, of which each lane has sums of the values and of their sizes.
__device__ __forceinline__ void finish_node(const Graph &g, int node, u32 at, u32 n, i64 sum, i64 size, i64 sink, bool bad, int level) {
    const u32 lane = lane_id();
    sum = warp_sum64(sum) + sink, size = warp_sum64(size) + sink;
    if (lane == 0) {
        if (bad) g.table->bad[level] = 1;
        const float d = (float)sum / UNIT, safe = (float)((sum + size) / 2) / UNIT;
        g.row[node] = GraphRow{at, bad ? 0 : n};
        g.sink[node] = (float)sink / UNIT;
        g.diagonal[node] = d;
        g.inv[node] = sum > 0 ? 1 / fmaxf(d, safe) : 0;
        g.node_parent[node] = (float)(size - sink) > LOOSE * (float)sum ? 0 : -1; // for diffusion_graph_join and _number
    }
}

// What multiply does once the sums are there: sorts the row and writes it.
template <int table>
__device__ __forceinline__ void finish_row(const Graph &g, Hash<table> &m, int node, i64 sink, bool bad, int level) {
    const u32 lane = lane_id();
    __syncwarp();
    u32 n = 0;
    for (u32 k = lane; k < table; k += 32) {
        const bool there = m.key[k] != -1 && (m.low[k] | m.high[k]) != 0;
        const u32 who = __ballot_sync(~0u, there);
        if (there) m.sorted[n + __popc(who & ((1u << lane) - 1))] = k;
        n += __popc(who);
    }
    __syncwarp();
    u32 at = 0;
    if (lane == 0 && n) at = atomicAdd(&g.table->edges, n);
    at = __shfl_sync(~0u, at, 0);
    if (at > g.edge_room || n > g.edge_room - at) bad = true;
    bad = __any_sync(~0u, bad);
    i64 sum = 0, size = 0;
    for (u32 k = lane; k < n && !bad; k += 32) {
        const u32 s = m.sorted[k];
        const int key = m.key[s];
        const i64 v = value(m, s);
        u32 rank = 0;
        for (u32 o = 0; o < n; o++) rank += m.key[m.sorted[o]] < key;
        g.edges[at + rank] = GraphEntry{key, (float)v / UNIT};
        sum += v, size += v < 0 ? -v : v;
    }
    finish_node(g, node, at, n, sum, size, sink, bad, level);
}

template <int table>
__device__ __forceinline__ void clear_table(Hash<table> &m) {
    for (u32 k = lane_id(); k < table; k += 32) m.key[k] = -1, m.low[k] = m.high[k] = 0;
    if (lane_id() == 0) m.used = 0;
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS) diffusion_graph_multiply_pixels(Graph g) {
    __shared__ MultiplyPixels shared[MULTIPLY_WARPS];
    after_prior();
    MultiplyPixels &m = shared[threadIdx.x / 32];
    const u32 lane = lane_id(), first = g.table->first[1], last = g.table->first[2];
    const int w = g.width, h = g.height, cw = cells(w, 1), ch = cells(h, 1);
    for (u32 node = first + blockIdx.x * MULTIPLY_WARPS + threadIdx.x / 32; node < last; node += gridDim.x * MULTIPLY_WARPS) {
        const int block = g.node_block[node], bx = block % cw, by = block / cw, x0 = 2 * bx - 2, y0 = 2 * by - 2;
        i64 sink = 0;
        for (u32 k = lane; k < 100; k += 32) m.low[k] = m.high[k] = 0;
        if (lane < 25) {
            const int x = bx - 2 + (int)lane % 5, y = by - 2 + (int)lane / 5;
            m.cell[lane] = x >= 0 && x < cw && y >= 0 && y < ch ? g.cell[y * cw + x] : 0;
        }
        __syncwarp();
        for (u32 k = lane; k < 36; k += 32) {
            const int cx = (int)k % 6, cy = (int)k / 6, x = x0 + cx, y = y0 + cy;
            int to[3] = {-1, -1, -1};
            float weight[3] = {0, 0, 0}, sum = 0;
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
        const int self = 48 + (int)node - m.cell[12];
        // Pixels in the shape of a plus take from the node, 12 of them, and there are five terms for each: its own, and those of its
        // neighbours.
        for (u32 t = lane; t < 60; t += 32) {
            const u32 p = t / 5, k = t % 5;
            const u32 j = p < 4 ? 14 + (p & 1) + (p >> 1) * 6 : p < 6 ? 13 + (p - 4) * 6 : p < 8 ? 16 + (p - 6) * 6 : p < 10 ? p : p + 16;
            float share = 0;
#pragma unroll
            for (int e = 0; e < 3; e++)
                if (m.to[j][e] == self) share = m.weight[j][e];
            if (share == 0) continue;
            const u32 open = m.open[j];
            u32 from = j;
            float v = share;
            if (k == 4) {
                sink += __float2ll_rn(share * m.sum[j] * (degree(open) - __popc(open >> 4)) * UNIT);
                v = -share * degree(open);
            } else {
                if (!(open >> 4 >> k & 1)) continue;
                from = beside(j, k, 6);
                sink += __float2ll_rn(share * (m.sum[j] - m.sum[from]) * UNIT);
            }
#pragma unroll
            for (int e = 0; e < 3; e++) {
                const int to = m.to[from][e];
                if (to >= 0 && to != self) add_to(m.low[to], m.high[to], v * m.weight[from][e]);
            }
        }
        __syncwarp();
        u32 who[4], n = 0, at = 0;
        i64 v[4], sum = 0, size = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const u32 i = 32 * k + lane;
            v[k] = i < 100 ? (i64)((u64)m.high[i] << 32 | m.low[i]) : 0;
            who[k] = __ballot_sync(~0u, v[k] != 0);
            n += __popc(who[k]);
            sum += v[k], size += v[k] < 0 ? -v[k] : v[k];
        }
        if (lane == 0 && n) at = atomicAdd(&g.table->edges, n);
        at = __shfl_sync(~0u, at, 0);
        const bool bad = at > g.edge_room || n > g.edge_room - at;
        u32 to = at;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const u32 i = 32 * k + lane;
            if (v[k] != 0 && !bad) g.edges[to + __popc(who[k] & ((1u << lane) - 1))] = GraphEntry{m.cell[i / 4] + (int)(i & 3), (float)v[k] / UNIT};
            to += __popc(who[k]);
        }
        finish_node(g, node, at, n, sum, size, warp_sum64(sink), bad, 1);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS) diffusion_graph_smooth(Graph g, int level, int pad) {
    __shared__ Hash<FEW_TABLE> shared[MULTIPLY_WARPS];
    after_prior();
    Hash<FEW_TABLE> &m = shared[threadIdx.x / 32];
    const u32 lane = lane_id(), first = g.table->first[level], last = g.table->first[level + 1];
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
        float diagonal = 0, s = 0; // of the lane's edges
        for (u32 e = lane; e < row.count; e += 32) {
            const GraphEntry x = g.edges[row.at + e];
            if (x.weight < 0 || !strong(x.weight, d, g.diagonal[x.to])) continue;
            diagonal += x.weight;
            some = true;
            const int p = g.node_parent[x.to];
            if (p < 0) s += x.weight; // no correction comes from there
            else add(m, own, p, x.weight, bad);
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
        u32 at = 0;
        if (lane == 0) at = atomicAdd(&g.table->prolongs, n + 1);
        at = __shfl_sync(~0u, at, 0);
        if (at > g.prolong_room || n + 1 > g.prolong_room - at) bad = true;
        bad = __any_sync(~0u, bad);
        i64 rest = 0;
        for (u32 k = lane; k < n && !bad; k += 32) {
            const u32 t = m.sorted[k];
            const int key = m.key[t];
            u32 rank = 1;
            for (u32 o = 0; o < n; o++) rank += m.key[m.sorted[o]] < key;
            const float v = SMOOTH * ((float)value(m, t) / UNIT) / diagonal;
            g.prolong_pool[at + rank] = GraphEntry{key, v};
            rest += __float2ll_rn(v * UNIT);
        }
        rest = warp_sum64(rest);
        if (lane == 0) {
            if (bad) g.table->bad[level + 1] = 1;
            else g.prolong_pool[at] = GraphEntry{own, sum - (float)rest / UNIT};
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
    for (u32 base = first + blockIdx.x * each; base < last; base += gridDim.x * each) {
        const u32 i = base + threadIdx.x / lanes;
        const bool in = i < last;
        bool bad = false;
        for (u32 k = lane; k < table; k += lanes) m.key[k] = -1, m.low[k] = m.high[k] = 0;
        if (lane == 0) m.used = 0;
        __syncwarp();
        i64 lack = 0;
        if (in) {
            const GraphRow row = g.row[i], own = g.prolong[i];
            const float sum = g.sum[i], d = -g.diagonal[i];
            if (lane == 0) lack = __float2ll_rn(g.sink[i] * sum * UNIT);
            for (u32 e = lane; e < own.count; e += lanes) {
                const GraphEntry x = g.prolong_pool[own.at + e];
                add(m, -1, x.to, d * x.weight, bad);
            }
            for (u32 e = lane; e < row.count; e += lanes) {
                const GraphEntry x = g.edges[row.at + e];
                const GraphRow other = g.prolong[x.to];
                lack += __float2ll_rn(x.weight * (sum - g.sum[x.to]) * UNIT);
                for (u32 o = 0; o < other.count; o++) {
                    const GraphEntry y = g.prolong_pool[other.at + o];
                    add(m, -1, y.to, x.weight * y.weight, bad);
                }
            }
        }
        __syncwarp();
#pragma unroll
        for (int o = lanes / 2; o; o >>= 1) lack += __shfl_xor_sync(~0u, lack, o);
        const u32 n = m.used;
        u32 at = 0, to = 0;
        if (lane == 0 && n) at = atomicAdd(&g.table->products[level], n);
        at = __shfl_sync(~0u, at, group);
        const u32 mine = lanes == 32 ? ~0u : ((1u << lanes % 32) - 1) << group;
        bad = (__ballot_sync(~0u, bad) & mine) != 0 || at > g.product_room || n > g.product_room - at;
        for (u32 k = lane; k < table; k += lanes) {
            const bool there = m.key[k] != -1;
            const u32 who = __ballot_sync(~0u, there) & mine;
            if (there && !bad) g.product_pool[at + to + __popc(who & ((1u << lane_id()) - 1))] = GraphEntry{m.key[k], (float)value(m, k) / UNIT};
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

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS) diffusion_graph_product_first(Graph g, int level, int pad) {
    after_prior();
    product<FEW_TABLE, 8>(g, level);
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS) diffusion_graph_product(Graph g, int level, int pad) {
    after_prior();
    product<TABLE, 32>(g, level);
}

template <int table>
__device__ __forceinline__ void multiply(const Graph &g, const int *cell, int level) {
    __shared__ Multiply<table> shared[MULTIPLY_WARPS];
    Multiply<table> &m = shared[threadIdx.x / 32];
    const u32 lane = lane_id(), first = g.table->first[level + 1], last = g.table->first[level + 2];
    const int w = cells(g.width, level), h = cells(g.height, level), cw = (w + 1) / 2;
    for (u32 node = first + blockIdx.x * MULTIPLY_WARPS + threadIdx.x / 32; node < last; node += gridDim.x * MULTIPLY_WARPS) {
        const int block = g.node_block[node];
        const Block b = block_of(cell, w, h, block % cw, block / cw);
        bool bad = false;
        clear_table(m);
        if (lane == 0) m.count = 0;
        __syncwarp();
        for (int base = 0; base < b.size(); base += 32) {
            const int mine = base + (int)lane < b.size() ? b.at(base + lane) : -1;
            u32 members = __ballot_sync(~0u, mine >= 0 && g.node_parent[mine] == (int)node);
            while (members) {
                const int i = b.at(base + __ffs(members) - 1);
                members &= members - 1;
                const GraphRow row = g.row[i];
                const float d = g.diagonal[i];
                if (lane == 0) support(m, i, bad);
                for (u32 e = lane; e < row.count; e += 32) {
                    const GraphEntry x = g.edges[row.at + e];
                    if (x.weight > 0 && strong(x.weight, d, g.diagonal[x.to])) support(m, x.to, bad);
                }
            }
        }
        __syncwarp();
        // Whose row of P has the node, in order.
        const u32 n = min(m.count, (u32)SUPPORT);
        u32 kept = 0;
        for (u32 base = 0; base < n; base += 32) {
            const u32 k = base + lane;
            int i = 0;
            float share = 0;
            u32 rank = 0;
            if (k < n) {
                i = m.support[k];
                for (u32 o = 0; o < n; o++) rank += m.support[o] < i;
                const GraphRow row = g.prolong[i];
                for (u32 e = 0; e < row.count; e++) {
                    const GraphEntry x = g.prolong_pool[row.at + e];
                    if (x.to == (int)node) share = x.weight;
                }
                m.sorted[rank] = i;
                m.share[rank] = share;
            }
            kept += __popc(__ballot_sync(~0u, share != 0));
        }
        u32 at = 0;
        if (lane == 0) at = atomicAdd(&g.table->restricts, kept);
        at = __shfl_sync(~0u, at, 0);
        if (at > g.prolong_room || kept > g.prolong_room - at) bad = true;
        clear_table(m);
        bad = __any_sync(~0u, bad);
        u32 to = 0;
        for (u32 base = 0; base < n; base += 32) {
            const u32 k = base + lane;
            const float share = k < n ? m.share[k] : 0;
            const u32 who = __ballot_sync(~0u, share != 0);
            if (share != 0 && !bad) g.restrict_pool[at + to + __popc(who & ((1u << lane) - 1))] = GraphEntry{m.sorted[k], share};
            to += __popc(who);
        }
        if (lane == 0) g.restricts[node] = GraphRow{at, bad ? 0 : kept};
        // Eight lanes for each.
        i64 sink = 0;
        for (u32 k = lane / 8; k < n && !bad; k += 4) {
            const float share = m.share[k];
            if (share == 0) continue;
            const int i = m.sorted[k];
            const GraphRow row = g.product[i];
            if (lane % 8 == 0) sink += __float2ll_rn(share * g.lack[i] * UNIT);
            for (u32 e = lane % 8; e < row.count; e += 8) {
                const GraphEntry x = g.product_pool[row.at + e];
                add(m, node, x.to, share * x.weight, bad);
            }
        }
        __syncwarp();
        finish_row(g, m, node, warp_sum64(sink), bad, level + 1);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS)
    diffusion_graph_multiply_first(Graph g, const int *cell, int level, int pad) {
    after_prior();
    multiply<SMALL_TABLE>(g, cell, level);
}

extern "C" __global__ void __launch_bounds__(32 * MULTIPLY_WARPS)
    diffusion_graph_multiply(Graph g, const int *cell, int level, int pad) {
    after_prior();
    multiply<TABLE>(g, cell, level);
}

extern "C" __global__ void diffusion_graph_finish(Graph g, u32 *counts, u32 levels, u32 most, u32 method, u32 pad) {
    after_prior();
    GraphTable &t = *g.table;
    u32 depth = 0;
    while (depth < levels && !t.bad[depth + 1] && t.first[depth + 2] > t.first[depth + 1]) depth++;
    t.depth = depth;
    t.tail = 1;
    while (t.tail < depth && t.tail < most && t.first[t.tail + 1] - t.first[t.tail] > TAIL_NODES) t.tail++;
    counts[0] = g.head->fixed, counts[1] = g.head->void_pixels;
    g.head->width = g.width, g.head->height = g.height, g.head->barriers = 1, g.head->method = method;
    g.head->magic = DIFFUSION_MAGIC;
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

__device__ __forceinline__ void leave_parts(const GraphSolve &s, double (&v)[4]) {
    block_sums(v);
    if (threadIdx.x < 4) s.sums[blockIdx.x * 4 + threadIdx.x] = threadIdx.x == 0 ? v[0] : threadIdx.x == 1 ? v[1] : threadIdx.x == 2 ? v[2] : v[3];
}

__device__ __forceinline__ void take_parts(const GraphSolve &s, double (&v)[4]) {
#pragma unroll
    for (int c = 0; c < 4; c++) {
        v[c] = 0;
        for (u32 k = threadIdx.x; k < GRAPH_PARTS; k += THREADS) v[c] += s.sums[k * 4 + c];
    }
    block_sums(v);
}

__device__ __forceinline__ float largest_part(const GraphSolve &s) {
    float v = 0;
    for (u32 k = threadIdx.x; k < GRAPH_PARTS; k += THREADS) v = fmaxf(v, s.largest[k]);
    return v;
}

__device__ __forceinline__ float inverse(u32 open) { return 1.f / (float)max(degree(open), 1); }

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
    for (int c = 0; c < 4; c++) st.beta[c] = 0, st.rho[c] = 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_apply(GraphSolve s) {
    after_prior();
    if (s.state->done) return;
    const u32 n = s.g.width * s.g.height;
    const int w = s.g.width;
    const bool odd = s.state->cycles & 1;
    double sum[4] = {0, 0, 0, 0};
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += GRAPH_PARTS * THREADS) {
        const u32 open = s.g.open[i];
        if (!open) continue; // it is 0 there
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            if (c >= s.channels) break;
            const float *z = s.q + (u64)c * n, *p = (odd ? s.p1 : s.p0) + (u64)c * n;
            const float beta = s.state->beta[c];
            const float own = z[i] + beta * p[i];
            float v = 0;
            if (open & OPEN_RIGHT) v += own - (z[i + 1] + beta * p[i + 1]);
            if (open & OPEN_LEFT) v += own - (z[i - 1] + beta * p[i - 1]);
            if (open & OPEN_DOWN) v += own - (z[i + w] + beta * p[i + w]);
            if (open & OPEN_UP) v += own - (z[i - w] + beta * p[i - w]);
            (odd ? s.p0 : s.p1)[(u64)c * n + i] = own;
            s.ap[(u64)c * n + i] = v;
            sum[c] += (double)v * own;
        }
    }
    leave_parts(s, sum);
}

// update begins with r where start is not 0, and goes a step otherwise.
extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_update(GraphSolve s, u32 start, u32 pad) {
    after_prior();
    if (s.state->done) return;
    const u32 n = s.g.width * s.g.height;
    float alpha[4] = {0, 0, 0, 0};
    if (!start) {
        double pq[4];
        take_parts(s, pq);
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (pq[c] > 0) alpha[c] = (float)(s.state->rho[c] / pq[c]);
    }
    const bool odd = s.state->cycles & 1;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += GRAPH_PARTS * THREADS) {
        const u32 open = s.g.open[i];
        const float inv = JACOBI * inverse(open);
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            if (c >= s.channels) break;
            const u64 at = (u64)c * n + i;
            float r = 0;
            if (start) {
                if (open) r = flow(s.x + (u64)c * n, i, open, s.g.width);
                else s.p0[at] = s.p1[at] = s.q[at] = s.ap[at] = 0;
                if (open) s.p0[at] = 0;
            } else {
                if (!open) break;
                r = s.r[at] - alpha[c] * s.ap[at];
                s.x[at] += alpha[c] * (odd ? s.p0 : s.p1)[at];
            }
            s.r[at] = r;
            s.z[at] = inv * r;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_residual(GraphSolve s) {
    after_prior();
    if (s.state->done) return;
    const u32 n = s.g.width * s.g.height;
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const u32 open = s.g.open[i];
    if (!open) return;
    for (u32 c = 0; c < s.channels; c++) s.q[(u64)c * n + i] = s.r[(u64)c * n + i] + flow(s.z + (u64)c * n, i, open, s.g.width);
}

__device__ __forceinline__ void add(float4 &a, float w, const float4 &b) { a.x += w * b.x, a.y += w * b.y, a.z += w * b.z, a.w += w * b.w; }

// The right side of node i, and the first step from 0.
__device__ __forceinline__ void node_begin(const GraphSolve &s, u32 i, const float4 &b) {
    float4 x = make_float4(0, 0, 0, 0);
    add(x, JACOBI * s.g.inv[i], b);
    s.nb[i] = b, s.nx[i] = x;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_restrict(GraphSolve s) {
    after_prior();
    if (s.state->done || s.g.table->depth == 0) return;
    const u32 n = s.g.width * s.g.height;
    const int w = s.g.width, h = s.g.height, cw = cells(w, 1), ch = cells(h, 1);
    const u32 cell = blockIdx.x * THREADS + threadIdx.x;
    if (cell >= (u32)cw * ch) return;
    const int first = s.g.cell[cell], count = s.g.cell[cell + 1] - first;
    if (count == 0) return;
    float sum[4][4];
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int c = 0; c < 4; c++) sum[k][c] = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int x = 2 * (cell % cw) + (k & 1), y = 2 * (cell / cw) + (k >> 1);
        if (x >= w || y >= h) continue;
        const u32 i = (u32)y * w + x, open = s.g.open[i];
        const int p = s.g.parent[i] - first;
        if (p < 0) continue;
        const float inv = inverse(open);
        const float right = open & OPEN_RIGHT ? inverse(s.g.open[i + 1]) : 0, left = open & OPEN_LEFT ? inverse(s.g.open[i - 1]) : 0;
        const float down = open & OPEN_DOWN ? inverse(s.g.open[i + w]) : 0, up = open & OPEN_UP ? inverse(s.g.open[i - w]) : 0;
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            if (c >= s.channels) break;
            const float *q = s.q + (u64)c * n;
            const float own = q[i];
            float v = 0;
            if (open & OPEN_RIGHT) v += q[i + 1] * right - own * inv;
            if (open & OPEN_LEFT) v += q[i - 1] * left - own * inv;
            if (open & OPEN_DOWN) v += q[i + w] * down - own * inv;
            if (open & OPEN_UP) v += q[i - w] * up - own * inv;
            v = own + SMOOTH * v;
#pragma unroll
            for (int m = 0; m < 4; m++)
                if (m == p) sum[m][c] += v;
        }
    }
#pragma unroll
    for (int m = 0; m < 4; m++)
        if (m < count) node_begin(s, first + m, make_float4(sum[m][0], sum[m][1], sum[m][2], sum[m][3]));
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

// b - A x of node i, in all of its lanes.
template <int lanes>
__device__ __forceinline__ float4 node_residual(const GraphSolve &s, u32 i, bool in) {
    const u32 part = lane_id() % lanes;
    float4 r = make_float4(0, 0, 0, 0);
    if (in) {
        const float4 x = s.nx[i];
        if (part == 0) r = s.nb[i], add(r, -s.g.sink[i], x);
        const GraphRow row = s.g.row[i];
        float sum = 0;
        for (u32 e = part; e < row.count; e += lanes) {
            const GraphEntry y = s.g.edges[row.at + e];
            sum += y.weight;
            add(r, y.weight, s.nx[y.to]);
        }
        add(r, -sum, x);
    }
    return lane_sum<lanes>(r);
}

// The sum of a row, in all of its lanes.
template <int lanes>
__device__ __forceinline__ float4 node_gather(const GraphRow *rows, const GraphEntry *pool, const float4 *from, u32 i, bool in) {
    float4 v = make_float4(0, 0, 0, 0);
    if (in) {
        const GraphRow row = rows[i];
        for (u32 e = lane_id() % lanes; e < row.count; e += lanes) {
            const GraphEntry y = pool[row.at + e];
            add(v, y.weight, from[y.to]);
        }
    }
    return lane_sum<lanes>(v);
}

template <int lanes>
__device__ __forceinline__ void node_down(const GraphSolve &s, u32 i, bool in) {
    const float4 r = node_residual<lanes>(s, i, in);
    if (in && lane_id() % lanes == 0) s.nr[i] = r;
}
template <int lanes>
__device__ __forceinline__ void node_restrict(const GraphSolve &s, u32 i, bool in) {
    const float4 b = node_gather<lanes>(s.g.restricts, s.g.restrict_pool, s.nr, i, in);
    if (in && lane_id() % lanes == 0) node_begin(s, i, b);
}
template <int lanes>
__device__ __forceinline__ void node_up(const GraphSolve &s, u32 i, bool in) {
    float4 x = node_gather<lanes>(s.g.prolong, s.g.prolong_pool, s.nr, i, in);
    if (in && lane_id() % lanes == 0) add(x, 1, s.nx[i]), s.nx[i] = x;
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

// Rows of deep levels are long, and nodes few: they get a warp each.
#define LONG_ROWS 3
#define EACH_NODE_OF(level, f, lanes)                                                                  \
    {                                                                                                  \
        const u32 first = s.g.table->first[level], last = s.g.table->first[(level) + 1];               \
        for (u32 at = first + blockIdx.x * (THREADS / lanes); at < last; at += gridDim.x * (THREADS / lanes)) { \
            const u32 i = at + threadIdx.x / lanes;                                                    \
            f<lanes>(s, i, i < last);                                                                  \
        }                                                                                              \
    }
#define EACH_NODE(level, f)                \
    if ((level) < LONG_ROWS)               \
        EACH_NODE_OF(level, f, 8)          \
    else                                   \
        EACH_NODE_OF(level, f, 32)

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_down(GraphSolve s, u32 level, u32 pad) {
    after_prior();
    if (s.state->done || level >= s.g.table->tail || level > s.g.table->depth) return;
    EACH_NODE(level, node_down)
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_gather(GraphSolve s, u32 level, u32 pad) {
    after_prior();
    if (s.state->done || level > s.g.table->tail || level > s.g.table->depth) return;
    EACH_NODE(level, node_restrict)
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_up(GraphSolve s, u32 level, u32 pad) {
    after_prior();
    if (s.state->done || level >= s.g.table->tail || level > s.g.table->depth) return;
    EACH_NODE(level, node_up)
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_relax(GraphSolve s, u32 level, u32 pad) {
    after_prior();
    if (s.state->done || level >= s.g.table->tail || level > s.g.table->depth) return;
    EACH_NODE(level, node_relax)
}

#define TAIL_EACH(level, f)                                                              \
    {                                                                                    \
        const u32 first = s.g.table->first[level], last = s.g.table->first[(level) + 1]; \
        for (u32 at = first; at < last; at += TAIL_THREADS / 32) {                       \
            const u32 i = at + threadIdx.x / 32;                                         \
            f<32>(s, i, i < last);                                                       \
        }                                                                                \
        __syncthreads();                                                                 \
    }

extern "C" __global__ void __launch_bounds__(TAIL_THREADS) diffusion_graph_tail(GraphSolve s) {
    after_prior();
    const u32 depth = s.g.table->depth, tail = s.g.table->tail;
    if (s.state->done || depth == 0) return;
    for (u32 k = tail; k < depth; k++) {
        TAIL_EACH(k, node_down)
        TAIL_EACH(k + 1, node_restrict)
    }
    // The last level: the result of a step is taken back for the next.
    const u32 first = s.g.table->first[depth], last = s.g.table->first[depth + 1];
    for (int k = 0; k < BOTTOM; k++) {
        TAIL_EACH(depth, node_relax)
        for (u32 i = first + threadIdx.x; i < last; i += TAIL_THREADS) s.nx[i] = s.nr[i];
        __syncthreads();
    }
    for (u32 k = depth - 1; k >= tail; k--) {
        TAIL_EACH(k, node_up)
        TAIL_EACH(k, node_relax)
    }
}

__device__ __forceinline__ float part(const float4 &v, int c) { return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w; }

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_prolong(GraphSolve s) {
    after_prior();
    if (s.state->done || s.g.table->depth == 0) return;
    const u32 n = s.g.width * s.g.height;
    const int w = s.g.width;
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const int p = s.g.parent[i];
    if (p < 0) return;
    const u32 open = s.g.open[i];
    const float unit = SMOOTH * inverse(open);
    const float4 own = s.nr[p];
    float4 v = own;
    add(v, -unit * degree(open), own); // what flows to where there is no correction
    if (open & OPEN_RIGHT << 4) add(v, unit, s.nr[s.g.parent[i + 1]]);
    if (open & OPEN_LEFT << 4) add(v, unit, s.nr[s.g.parent[i - 1]]);
    if (open & OPEN_DOWN << 4) add(v, unit, s.nr[s.g.parent[i + w]]);
    if (open & OPEN_UP << 4) add(v, unit, s.nr[s.g.parent[i - w]]);
#pragma unroll
    for (u32 c = 0; c < 4; c++)
        if (c < s.channels) s.z[(u64)c * n + i] += part(v, c);
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_smooth_out(GraphSolve s) {
    after_prior();
    if (s.state->done) return;
    const u32 n = s.g.width * s.g.height;
    double sum[4] = {0, 0, 0, 0};
    float most = 0;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += GRAPH_PARTS * THREADS) {
        const u32 open = s.g.open[i];
        if (!open) continue;
        const float inv = JACOBI * inverse(open);
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            if (c >= s.channels) break;
            const u64 at = (u64)c * n + i;
            const float r = s.r[at];
            const float v = s.z[at] + inv * (r + flow(s.z + (u64)c * n, i, open, s.g.width));
            s.q[at] = v;
            sum[c] += (double)v * r;
            most = fmaxf(most, fabsf(v));
        }
    }
    leave_parts(s, sum);
    most = block_max(most);
    if (threadIdx.x == 0) s.largest[blockIdx.x] = most;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_graph_step(GraphSolve s, u32 start, u32 pad) {
    after_prior();
    GraphState &st = *s.state;
    if (st.done) return;
    double rho[4];
    take_parts(s, rho);
    const float update = CAUTION * block_max(largest_part(s));
    if (threadIdx.x != 0) return;
    for (int c = 0; c < 4; c++) {
        st.beta[c] = !start && st.rho[c] > 0 ? (float)(rho[c] / st.rho[c]) : 0;
        st.rho[c] = rho[c];
    }
    if (start) return;
    st.ratio = FIRST_RATIO;
    if (st.cycles > 0 && st.update > 0) st.ratio = fminf(update / st.update, MOST_RATIO);
    st.update = update;
    st.cycles++;
    st.estimate = update / (1 - st.ratio);
    if (st.estimate <= s.tolerance) st.done = 2;
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
    const float residual = block_max(largest_part(s));
    if (threadIdx.x != 0) return;
    DiffusionStatus out;
    out.cycles = st.cycles, out.converged = st.done == 2;
    out.update = st.update, out.ratio = st.ratio, out.estimate = st.estimate, out.residual = residual, out.pad = 0;
    *s.status = out;
}
