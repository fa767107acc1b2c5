// A solve is: _begin, diffusion_label_mean and _fill, _step for the start, and for each cycle
// _down       what is left on the first level, 4 lanes a node
// _levels     all others: the sums of nodes of the finer one, what is left, and so on to the last one, which is solved by the inverse; then back,
//             the correction and the last step. 4 to 32 lanes a node. Blocks meet after each level: that takes 1.3 us
// _up         back to the first level
// _smooth_out the correction q of pixels from nodes, and the last steps, colour by colour; parts of r q and q A q, and the largest q: the last
//             block adds them up, for beta, alpha, the estimate, and whether that is all; a block a tile           8 bytes a value
// _step       p = q + beta p, x and r; then the first steps of the preconditioner for the next cycle, what is left of r, and its sums over
//             nodes; a block a tile                                                                                28 bytes
// and _last and _status. All but the first return at once when the solve is done, so that cycles can be enqueued ahead: what remains once
// the estimate says so is the step that it says it of. As p A p comes from q A q, sums over all pixels are needed but once a cycle. They are of
// up to GRAPH_PARTS parts, added in order: a solve gives the same bits each time.

#include "abi/diffusion_graph_solve.cuh"
#include "diffusion_graph.cuh"

// How far a solve has come. done is 1 where there is none, 2 when it has ended, and LAST_STEP when only the last step remains to be taken.
#define LAST_STEP 3

__device__ __forceinline__ float block_max(float v) {
    __shared__ float most[WARPS];
    v = warp_max(v);
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
    for (u32 k = threadIdx.x; k < gridDim.x; k += GRAPH_THREADS)
#pragma unroll
        for (int c = 0; c < 4; c++) v[c] += __ldcg(&s.sums[k * 8 + c]), more[c] += __ldcg(&s.sums[k * 8 + 4 + c]);
    block_sums(v);
    block_sums(more);
}

__device__ __forceinline__ float largest_part(const GraphSolve &s) {
    float v = 0;
    for (u32 k = threadIdx.x; k < gridDim.x; k += GRAPH_THREADS) v = fmaxf(v, __ldcg(&s.largest[k]));
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

// The sum of the differences across the open edges of pixel i. Where one is closed the pixel stands for the one behind it, so that nothing
// waits to know which is.
__device__ __forceinline__ float flow(const float *v, u32 i, u32 open, int w) {
    const float own = v[i], right = v[open & OPEN_RIGHT ? i + 1 : i], left = v[open & OPEN_LEFT ? i - 1 : i];
    const float down = v[open & OPEN_DOWN ? i + w : i], up = v[open & OPEN_UP ? i - w : i];
    return (right - own) + (left - own) + (down - own) + (up - own);
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
#define TILE (GRAPH_TILE_X * GRAPH_TILE_Y)
#define TILE_CELLS (GRAPH_INNER_X / 2 * (GRAPH_INNER_Y / 2))
#define EACH_ROW _Pragma("unroll") for (int k = 0; k < GRAPH_TILE_ROWS; k++)

__device__ __forceinline__ float inverse_or_0(u32 open) { return open ? inverse(open) : 0; }

// A thread's pixels.
struct Tile {
    int at;               // the first one in the tile
    u32 pixel[GRAPH_TILE_ROWS]; // in the image, or the nearest one that does
    u32 opens;            // what they take from, 4 bits each
    u32 mine;             // a bit for each that lies in the image and within the rim
    bool odd;             // is the column: pixels of the first colour are in odd rows
    __device__ __forceinline__ u32 open(int k) const { return opens >> 4 * k & 15; }
    __device__ __forceinline__ bool own(int k) const { return mine >> k & 1; }
    __device__ __forceinline__ u32 colour_opens() const { return odd ? opens << 4 & 0xf0f0f0f0 | opens >> 4 & 0x0f0f0f0f : opens; }
    __device__ __forceinline__ u32 colour_mine() const { return odd ? mine << 1 & 0xaa | mine >> 1 & 0x55 : mine; }
    // Where pixels of a colour, 0 or 1, begin: from there on each other row has one.
    __device__ __forceinline__ int begin(int colour) const { return at + (odd != (colour == 1) ? GRAPH_TILE_X : 0); }
    // What comes of bits is not to be kept from channel to channel: there are no registers for it.
    __device__ __forceinline__ void again() { asm volatile("" : "+r"(opens), "+r"(mine)); }
};
static_assert(4 * GRAPH_TILE_ROWS <= 32, "Tile");

__device__ __forceinline__ Tile tile_at(const GraphSolve &s, u32 tile, u32 across) {
    const int w = s.g.width, h = s.g.height, tx = threadIdx.x % GRAPH_TILE_X,
              ty = threadIdx.x / GRAPH_TILE_X * GRAPH_TILE_ROWS;
    const int x = (int)(tile % across) * GRAPH_INNER_X - GRAPH_RIM + tx,
              y = (int)(tile / across) * GRAPH_INNER_Y - GRAPH_RIM + ty;
    Tile t;
    t.at = ty * GRAPH_TILE_X + tx, t.opens = t.mine = 0, t.odd = tx & 1;
    u32 open[GRAPH_TILE_ROWS];
    EACH_ROW {
        t.pixel[k] = (u32)(min(max(y + k, 0), h - 1) * w + min(max(x, 0), w - 1));
        open[k] = s.g.open[t.pixel[k]];
    }
    EACH_ROW {
        // The outermost pixels of the tile have no neighbours on one side: they are let be, as are those outside the image.
        const bool in = x >= 0 && x < w && y + k >= 0 && y + k < h;
        if (in && tx > 0 && tx < GRAPH_TILE_X - 1 && ty + k > 0 && ty + k < GRAPH_TILE_Y - 1)
            t.opens |= (open[k] & 15) << 4 * k;
        if (in && tx >= GRAPH_RIM && tx < GRAPH_TILE_X - GRAPH_RIM && ty + k >= GRAPH_RIM &&
            ty + k < GRAPH_TILE_Y - GRAPH_RIM)
            t.mine |= 1u << k;
    }
    return t;
}

// What all threads have, for those beside them, in one of two places in turn: there is what was shown two times before, which all have read.
struct Shown {
    float v[2][TILE];
};

__device__ __forceinline__ const float *show(Shown &shown, u32 &turn, const Tile &t,
                                             const float (&v)[GRAPH_TILE_ROWS]) {
    float *to = shown.v[turn] + t.at;
    turn ^= 1;
    EACH_ROW to[k * GRAPH_TILE_X] = v[k];
    __syncthreads();
    return to;
}

// The sum of the differences across the open edges of the thread's pixel k, of v, which is shown.
__device__ __forceinline__ float tile_flow(const float *at, const Tile &t, const float (&v)[GRAPH_TILE_ROWS], int k) {
    const float own = v[k];
    const u32 open = t.open(k);
    float s = 0;
    if (open & OPEN_RIGHT) s += at[k * GRAPH_TILE_X + 1] - own;
    if (open & OPEN_LEFT) s += at[k * GRAPH_TILE_X - 1] - own;
    if (open & OPEN_DOWN)
        s += (k + 1 < GRAPH_TILE_ROWS ? v[k + 1 < GRAPH_TILE_ROWS ? k + 1 : k] : at[(k + 1) * GRAPH_TILE_X]) - own;
    if (open & OPEN_UP) s += (k > 0 ? v[k > 0 ? k - 1 : k] : at[-GRAPH_TILE_X]) - own;
    return s;
}

__device__ __forceinline__ void by_colour(const Tile &t, float (&v)[GRAPH_TILE_ROWS]) {
#pragma unroll
    for (int k = 0; k < GRAPH_TILE_ROWS; k += 2) {
        const float a = v[k], b = v[k + 1];
        v[k] = t.odd ? b : a, v[k + 1] = t.odd ? a : b;
    }
}

#define EACH_OF(colour) _Pragma("unroll") for (int k = (colour); k < GRAPH_TILE_ROWS; k += 2)

// show of those of a colour.
__device__ __forceinline__ const float *show_colour(Shown &shown, u32 &turn, const Tile &t, int colour,
                                                    const float (&v)[GRAPH_TILE_ROWS]) {
    float *all = shown.v[turn], *to = all + t.begin(colour);
    turn ^= 1;
    EACH_OF(colour) to[k / 2 * 2 * GRAPH_TILE_X] = v[k];
    __syncthreads();
    return all;
}

// The sum of the differences across the open edges of a pixel of value own, where what is beside it is shown.
__device__ __forceinline__ float flow_around(const float *at, u32 open, float own) {
    float s = 0;
    if (open & OPEN_RIGHT) s += at[1] - own;
    if (open & OPEN_LEFT) s += at[-1] - own;
    if (open & OPEN_DOWN) s += at[GRAPH_TILE_X] - own;
    if (open & OPEN_UP) s += at[-GRAPH_TILE_X] - own;
    return s;
}

// Has the rows of a plane that the tile covers come near, of which each thread says a part.
__device__ __forceinline__ void fetch_rows(const GraphSolve &s, const float *plane, u32 tile, u32 across) {
    const int x = (int)(tile % across) * GRAPH_INNER_X - GRAPH_RIM + (int)(threadIdx.x % 2) * (GRAPH_TILE_X / 2),
              y = (int)(tile / across) * GRAPH_INNER_Y - GRAPH_RIM + (int)(threadIdx.x / 2);
    if (threadIdx.x < 2 * GRAPH_TILE_Y && x >= 0 && x < (int)s.g.width && y >= 0 && y < (int)s.g.height)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(plane + (u32)y * s.g.width + x));
}

// step begins with r where start is not 0, and goes a step otherwise.
extern "C" __global__ void __launch_bounds__(GRAPH_THREADS, GRAPH_TILE_BLOCKS)
    diffusion_graph_step(GraphSolve s, u32 across, u32 start) {
    __shared__ Shown shown;
    __shared__ float left[4][GRAPH_INNER_Y * GRAPH_INNER_X];
    after_prior();
    const GraphState &st = *s.state;
    if (st.done != 0 && st.done != LAST_STEP) return;
    const u32 n = s.g.width * s.g.height;
    const bool odd = st.cycles & 1, first = st.cycles <= 1;
    const float *from = odd ? s.p1 : s.p0, *before = odd ? s.r0 : s.r1;
    float *to = odd ? s.p0 : s.p1, *after = odd ? s.r1 : s.r0;
    // Those of other channels would be asked for late, and are far away.
    for (u32 c = 0; c < s.channels && !start; c++) fetch_rows(s, from + c * n, blockIdx.x, across), fetch_rows(s, s.x + c * n, blockIdx.x, across);
    Tile t = tile_at(s, blockIdx.x, across);
    u32 turn = 0;
#pragma unroll 1
    for (u32 c = 0; c < s.channels; c++) {
        t.again();
        const u32 plane = c * n;
        const float beta = st.beta[c], alpha = start ? 1 : st.alpha[c];
        float v[GRAPH_TILE_ROWS], r[GRAPH_TILE_ROWS];
        if (start) {
            EACH_ROW v[k] = s.x[plane + t.pixel[k]], r[k] = 0;
        } else {
            // All is on its way at once.
            float p[GRAPH_TILE_ROWS], x[GRAPH_TILE_ROWS];
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
        EACH_OF(1)
        v[k] = inverse(opens >> 4 * k & 15) * (r[k] + flow_around(at + (k - 1) * GRAPH_TILE_X, opens >> 4 * k, 0));
        // What is left of r: nothing of the second colour; of the first what came from the second one later. (1 - SMOOTH A / degree) of that.
        at = show_colour(shown, turn, t, 1, v) + t.begin(0);
        const int row = t.at / GRAPH_TILE_X - GRAPH_RIM, column = t.at % GRAPH_TILE_X - GRAPH_RIM;
        EACH_OF(0) {
            const float l = flow_around(at + k * GRAPH_TILE_X, opens >> 4 * k, 0);
            v[k] = inverse(opens >> 4 * k & 15) * l;
            if (mine >> k & 1) left[c][(row + (k ^ t.odd)) * GRAPH_INNER_X + column] = (1 - SMOOTH) * l;
        }
        at = show_colour(shown, turn, t, 0, v) + t.begin(1);
        EACH_OF(1) {
            const float l = SMOOTH * flow_around(at + (k - 1) * GRAPH_TILE_X, opens >> 4 * k, 0);
            if (mine >> k & 1) left[c][(row + (k ^ t.odd)) * GRAPH_INNER_X + column] = l;
        }
    }
    if (s.g.table->depth == 0) return;
    __syncthreads();
    const int w = s.g.width, h = s.g.height, cw = cells(w, 1), ch = cells(h, 1);
    for (int i = threadIdx.x; i < TILE_CELLS; i += GRAPH_THREADS) {
        const int x = i % (GRAPH_INNER_X / 2), y = i / (GRAPH_INNER_X / 2);
        const int cx = (int)(blockIdx.x % across) * (GRAPH_INNER_X / 2) + x,
                  cy = (int)(blockIdx.x / across) * (GRAPH_INNER_Y / 2) + y;
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
                const int at = (2 * y + (k >> 1)) * GRAPH_INNER_X + 2 * x + (k & 1);
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

// A lane's part of a row. Its first entries, which a set-up has made, are on their way before what they are for is there; but where nodes have
// few lanes there are not the registers.
template <int lanes, int batch>
struct LaneRow {
    static const bool early = lanes == 32;
    u32 at, end;
    GraphEntry first[batch];

    __device__ __forceinline__ void find(const GraphEntry *pool, const GraphRow &row) {
        at = row.at + lane_id() % lanes, end = row.at + row.count;
        if (early) fetch(pool);
    }
    __device__ __forceinline__ void fetch(const GraphEntry *pool) {
#pragma unroll
        for (int k = 0; k < batch; k++) {
            first[k] = GraphEntry{-1, 0};
            if (at + k * lanes < end) first[k] = pool[at + k * lanes];
        }
    }
    __device__ __forceinline__ void fetch_late(const GraphEntry *pool) {
        if (!early) fetch(pool);
    }
    // Adds up the row of which entries were fetched, and returns the sum of the weights.
    __device__ __forceinline__ float add_to(float4 &to, const GraphEntry *pool, const float4 *from) {
        float sum = 0;
        while (at < end) {
            float4 v[batch];
#pragma unroll
            for (int k = 0; k < batch; k++) {
                v[k] = make_float4(0, 0, 0, 0);
                if (first[k].to >= 0) v[k] = from[first[k].to];
            }
#pragma unroll
            for (int k = 0; k < batch; k++) sum += first[k].weight, add(to, first[k].weight, v[k]);
            at += lanes * batch;
            if (at < end) fetch(pool);
        }
        return sum;
    }
};

#define BATCH(lanes) (lanes < 32 ? 4 : 2)

// What there is to do at a node, by so many lanes of which the first one is to write. load is what needs nothing that other nodes have written.

// b - A x.
template <int lanes>
struct NodeDown {
    LaneRow<lanes, BATCH(lanes)> edges;
    float sink;
    __device__ __forceinline__ void load(const GraphSolve &s, u32 i) { edges.find(s.g.edges, s.g.row[i]), sink = s.g.sink[i]; }
    __device__ __forceinline__ float4 residual(const GraphSolve &s, u32 i, bool in, bool writes) {
        float4 r = make_float4(0, 0, 0, 0);
        if (in) {
            edges.fetch_late(s.g.edges);
            const float4 x = s.nx[i];
            if (writes) r = s.nb[i], add(r, -sink, x);
            const float sum = edges.add_to(r, s.g.edges, s.nx);
            add(r, -sum, x);
        }
        return lane_sum<lanes>(r);
    }
    __device__ __forceinline__ void run(const GraphSolve &s, u32 i, bool in, bool writes) {
        const float4 r = residual(s, i, in, writes);
        if (in && writes) s.nr[i] = r;
    }
};

// Sums of nodes of the level before, and the first step.
template <int lanes>
struct NodeGather {
    LaneRow<lanes, BATCH(lanes)> row;
    __device__ __forceinline__ void load(const GraphSolve &s, u32 i) { row.find(s.g.restrict_pool, s.g.restricts[i]); }
    __device__ __forceinline__ void run(const GraphSolve &s, u32 i, bool in, bool writes) {
        float4 b = make_float4(0, 0, 0, 0);
        if (in) row.fetch_late(s.g.restrict_pool), row.add_to(b, s.g.restrict_pool, s.nr);
        b = lane_sum<lanes>(b);
        if (in && writes) node_begin(s, i, b);
    }
};

// The correction by the next level, and the last step: A times the correction comes from rows of A P, so that it needs no neighbours.
template <int lanes>
struct NodeUp {
    LaneRow<lanes, BATCH(lanes)> product;
    LaneRow<lanes, lanes < 8 ? 2 : 1> own;
    __device__ __forceinline__ void load(const GraphSolve &s, u32 i) {
        product.find(s.g.product_pool, s.g.product[i]), own.find(s.g.prolong_pool, s.g.prolong[i]);
    }
    __device__ __forceinline__ void run(const GraphSolve &s, u32 i, bool in, bool writes) {
        float4 x = make_float4(0, 0, 0, 0), r = x;
        if (in) {
            product.fetch_late(s.g.product_pool), own.fetch_late(s.g.prolong_pool);
            if (writes) x = s.nx[i], r = s.nr[i];
            const float step = JACOBI * s.g.inv[i];
            product.add_to(r, s.g.product_pool, s.nx);
            own.add_to(x, s.g.prolong_pool, s.nx);
            add(x, step, r);
        }
        x = lane_sum<lanes>(x);
        if (in && writes) s.nx[i] = x;
    }
};

// A step of Jacobi, and its result taken back for the next.
template <int lanes>
struct NodeRelax : NodeDown<lanes> {
    __device__ __forceinline__ void run(const GraphSolve &s, u32 i, bool in, bool writes) {
        float4 r = this->residual(s, i, in, writes);
        if (!in || !writes) return;
        float4 x = s.nx[i];
        add(x, JACOBI * s.g.inv[i], r);
        s.nr[i] = x;
    }
};
template <int lanes>
struct NodeKeep {
    __device__ __forceinline__ void load(const GraphSolve &, u32) {}
    __device__ __forceinline__ void run(const GraphSolve &s, u32 i, bool in, bool writes) {
        if (in && writes) s.nx[i] = s.nr[i];
    }
};

// A row of the inverse times what is left on the last level.
template <int lanes>
struct NodeSolve {
    __device__ __forceinline__ void load(const GraphSolve &, u32) {}
    __device__ __forceinline__ void run(const GraphSolve &s, u32 i, bool in, bool writes) {
        const u32 depth = s.g.table->depth, first = s.g.table->first[depth], n = s.g.table->first[depth + 1] - first;
        float4 x = make_float4(0, 0, 0, 0);
        if (in)
            for (u32 k = lane_id() % lanes; k < n; k += lanes) add(x, s.g.dense[(i - first) * n + k], s.nb[first + k]);
        x = lane_sum<lanes>(x);
        if (in && writes) s.nx[i] = x;
    }
};

// The first level has a kernel for each way. Blocks go on to other nodes: one for each few nodes would wait for the same words again.
template <template <int> class Node>
__device__ __forceinline__ void first_level(const GraphSolve &s) {
    const u32 last = s.g.table->first[2], groups = gridDim.x * (GRAPH_THREADS / GRAPH_FIRST_LANES);
    u32 i = s.g.table->first[1] + (blockIdx.x * GRAPH_THREADS + threadIdx.x) / GRAPH_FIRST_LANES;
    Node<GRAPH_FIRST_LANES> node, next;
    if (i < last) node.load(s, i);
    for (; i - lane_id() / GRAPH_FIRST_LANES < last; i += groups, node = next) {
        if (i + groups < last) next.load(s, i + groups); // where the next row is is on its way meanwhile
        node.run(s, i, i < last, lane_id() % GRAPH_FIRST_LANES == 0);
    }
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS, GRAPH_FIRST_BLOCKS) diffusion_graph_down(GraphSolve s) {
    after_prior();
    if (s.state->done || s.g.table->depth <= 1) return;
    first_level<NodeDown>(s);
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS, GRAPH_FIRST_BLOCKS) diffusion_graph_up(GraphSolve s) {
    after_prior();
    if (s.state->done || s.g.table->depth <= 1) return;
    first_level<NodeUp>(s);
}

// The blocks of a kernel, all of which are on the GPU at once: what each has written when it leaves can be read when all have met.
struct Meeting {
    u32 *met, all;
    __device__ __forceinline__ void leave() {
        __syncthreads();
        all += gridDim.x;
        if (threadIdx.x != 0 || gridDim.x == 1) return;
#if __CUDA_ARCH__ >= 700
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(met) : "memory");
#else
        __threadfence();
        atomicAdd(met, 1);
#endif
    }
    __device__ __forceinline__ void meet() {
        if (threadIdx.x == 0 && gridDim.x > 1) {
            u32 now;
#if __CUDA_ARCH__ >= 700
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(met) : "memory");
            while (now < all);
#else
            do now = *(volatile u32 *)met;
            while (now < all);
            __threadfence();
#endif
        }
        __syncthreads();
    }
};

// Runs a level when all blocks have ended the one before; what needs nothing of that is on its way until then.
template <template <int> class Node, int lanes>
__device__ __forceinline__ void level_by(const GraphSolve &s, u32 first, u32 last, Meeting &blocks) {
    const u32 warp = threadIdx.x / 32, part = lane_id() / lanes;
    // Where a block has not enough nodes for its warps, those that follow each other are of different blocks.
    u32 i =
        first +
        (lanes == 4 ? (blockIdx.x * (GRAPH_LEVEL_THREADS / 32) + warp) : warp * gridDim.x + blockIdx.x) * (32 / lanes) +
        part;
    Node<lanes> node;
    if (i < last) node.load(s, i);
    blocks.meet();
    while (i - part < last) {
        node.run(s, i, i < last, lane_id() % lanes == 0);
        i += gridDim.x * (GRAPH_LEVEL_THREADS / lanes);
        if (i < last) node.load(s, i);
    }
    blocks.leave();
}

// Nodes get 4 to 32 lanes each, as many as there are: so most levels take one turn.
template <template <int> class Node>
__device__ __forceinline__ void level(const GraphSolve &s, u32 k, Meeting &blocks) {
    const u32 first = s.g.table->first[k], last = s.g.table->first[k + 1],
              lanes = gridDim.x * GRAPH_LEVEL_THREADS / (last - first);
    if (lanes >= 32) level_by<Node, 32>(s, first, last, blocks);
    else if (lanes >= 16) level_by<Node, 16>(s, first, last, blocks);
    else if (lanes >= 8) level_by<Node, 8>(s, first, last, blocks);
    else level_by<Node, 4>(s, first, last, blocks);
}

// All levels but the first, in one kernel: a grid's blocks meet in less time than a launch takes.
extern "C" __global__ void __launch_bounds__(GRAPH_LEVEL_THREADS) diffusion_graph_levels(GraphSolve s) {
    after_prior();
    GraphState &st = *s.state;
    const u32 depth = s.g.table->depth;
    if (st.done || depth == 0) return;
    Meeting blocks = {&st.met, 0};
    for (u32 k = 1; k < depth; k++) {
        if (k > 1) level<NodeDown>(s, k, blocks);
        level<NodeGather>(s, k + 1, blocks);
    }
    if (s.g.table->first[depth + 1] - s.g.table->first[depth] <= GRAPH_DENSE_NODES) {
        level<NodeSolve>(s, depth, blocks);
    } else {
        for (int k = 0; k < BOTTOM; k++) level<NodeRelax>(s, depth, blocks), level<NodeKeep>(s, depth, blocks);
    }
    for (u32 k = depth - 1; k >= 2; k--) level<NodeUp>(s, k, blocks);
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

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS, GRAPH_TILE_BLOCKS)
    diffusion_graph_smooth_out(GraphSolve s, u32 across, u32 tiles) {
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
        int parent[GRAPH_TILE_ROWS];
        EACH_ROW parent[k] = levels ? s.g.parent[t.pixel[k]] : -1;
#pragma unroll 1
        for (u32 c = 0; c < s.channels; c++) {
            float v[GRAPH_TILE_ROWS], r[GRAPH_TILE_ROWS];
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
                v[k] += inverse_or_0(open) * (r[k] + SMOOTH * flow_around(at + k * GRAPH_TILE_X, open, v[k]));
            }
            at = show_colour(shown, turn, t, 0, v) + t.begin(1);
            EACH_OF(1) {
                const u32 open = opens >> 4 * k & 15;
                v[k] = inverse_or_0(open) * (r[k] + flow_around(at + (k - 1) * GRAPH_TILE_X, open, 0));
            }
            at = show_colour(shown, turn, t, 1, v) + t.begin(0);
            // After that, A q is r for those of the first colour.
            float rq = 0, qaq = 0;
            EACH_OF(0) {
                const u32 open = opens >> 4 * k & 15;
                v[k] = inverse_or_0(open) * (r[k] + flow_around(at + k * GRAPH_TILE_X, open, 0));
                if (mine >> k & 1) rq += r[k] * v[k];
            }
            qaq = rq;
            at = show_colour(shown, turn, t, 0, v) + t.begin(1);
            EACH_OF(1) {
                const float flow = flow_around(at + (k - 1) * GRAPH_TILE_X, opens >> 4 * k, v[k]);
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
    float left = fmaxf(st.ratio / (1 - st.ratio), fmaxf(LEAST_LEFT, 1.f / st.cycles));
    for (int c = 0; c < 4; c++) left = fmaxf(left, CAUTION * (st.slowest[c] - 1));
    st.estimate = update * left;
    if (st.estimate <= s.tolerance) st.done = LAST_STEP;
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS) diffusion_graph_last(GraphSolve s) {
    after_prior();
    if (s.state->done == 1) return;
    const u32 n = s.g.width * s.g.height;
    float most = 0;
    for (u32 i = blockIdx.x * GRAPH_THREADS + threadIdx.x; i < n; i += GRAPH_PARTS * GRAPH_THREADS) {
        const u32 open = s.g.open[i];
#pragma unroll
        for (u32 c = 0; c < 4; c++)
            if (c < s.channels) most = fmaxf(most, fabsf(flow(s.x + (u64)c * n, i, open, s.g.width)));
    }
    most = block_max(most);
    if (threadIdx.x == 0) s.largest[blockIdx.x] = most;
}

extern "C" __global__ void __launch_bounds__(GRAPH_THREADS) diffusion_graph_status(GraphSolve s) {
    after_prior();
    const GraphState &st = *s.state;
    if (st.done == 1) return;
    float residual = 0;
    for (u32 k = threadIdx.x; k < GRAPH_PARTS; k += GRAPH_THREADS) residual = fmaxf(residual, s.largest[k]);
    residual = block_max(residual);
    if (threadIdx.x != 0) return;
    DiffusionStatus out;
    out.cycles = st.cycles, out.converged = st.done != 0;
    out.update = st.update, out.ratio = st.ratio, out.estimate = st.estimate, out.residual = residual, out.pad = 0;
    *s.status = out;
}
