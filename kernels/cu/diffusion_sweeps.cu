// Diffusion by the methods of the seed: all pixels at once, again and again. See kernels/cpu/diffusion_sweeps.go for
// what is computed; the arithmetic is the same, pixel by pixel. diffusion_label.cu comes first.
//
// The set-up, beside labels:
// diffusion_sweeps_flags    the flags of an image of half the sides, a thread a pixel; 1.25 bytes a pixel of the finer
//                           one
// diffusion_sweeps_columns  for the variable stencil: the nearest fixed pixel in each column, a thread a column
// diffusion_sweeps_nearest  and the nearest of all: columns farther and farther away, until none can be nearer. Time
//                           grows with the distance
// diffusion_sweeps_finish   the header
//
// A solve is _begin, diffusion_label_mean and _fill, _peak, a start, then for each cycle
// _run     8 sweeps of 128x64 pixels, which threads have in registers and of which those within 8 pixels of the edge
//          come to nothing; a whole cycle where an image is not larger than that. 21 bytes a value for 8 sweeps. The
//          last launch of a cycle decides what the next one does: which launches there are does not depend on what they
//          find
// or with the variable stencil
// _far     one sweep: 20 bytes a value
// _step    the estimate, and whether that is all
// and _last and _status. A pyramid starts by _shrink for all levels; then cycles begin with the smallest one. What
// comes after the last that is needed returns at once. Maxima are kept by atomics, and don't depend on the order; sums
// are added in the same one.

#include "abi/diffusion_sweeps.cuh"
#include "diffusion_label.cuh"

// Which part of the tolerance a level of a pyramid may still change.
#define PYRAMID_SHARE 4
// For estimates: see sweepOutlook of kernels/cpu.
#define SWEEP_RATIO 0.98f
#define LEAST_POWER 1.02f
#define LEFT_PER_CYCLE 4
#define SWEEP_ROUNDING 4.76837158203125e-7f
#define SWEEP_CAUTION 1.5f

extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
    diffusion_sweeps_flags(const u8 *fine, u8 *to, int fine_width, int fine_height, int width, int height, u32 greedy,
        u32 pad) {
    after_prior();
    const u64 i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (i >= (u64)width * height) return;
    const int x = (int)(i % width), y = (int)(i / width);
    int pixels = 0, fixed = 0;
    u32 closed = 0;
    for (int b = 2 * y; b < min(2 * y + 2, fine_height); b++)
        for (int a = 2 * x; a < min(2 * x + 2, fine_width); a++) {
            const u32 f = fine[(u64)b * fine_width + a];
            pixels++;
            fixed += f & DIFFUSION_FIXED;
            u32 outward = a > 2 * x ? DIFFUSION_SHUT_RIGHT | DIFFUSION_BLOCK_RIGHT : DIFFUSION_SHUT_LEFT;
            outward |= b > 2 * y ? DIFFUSION_SHUT_DOWN | DIFFUSION_BLOCK_DOWN : DIFFUSION_SHUT_UP;
            closed |= f & outward;
        }
    if (fixed > 0 && (greedy || fixed >= min(pixels, 3))) closed |= DIFFUSION_FIXED;
    to[i] = (u8)closed;
}

// In rows, -1 where a column has no fixed pixel.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
    diffusion_sweeps_columns(const u8 *flags, int *rows, int width, int height) {
    after_prior();
    const int x = blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (x >= width) return;
    int last = -1;
    for (int y = 0; y < height; y++) {
        if (flags[(u64)y * width + x] & DIFFUSION_FIXED) last = y;
        rows[(u64)y * width + x] = last;
    }
    last = -1;
    for (int y = height - 1; y >= 0; y--) {
        if (flags[(u64)y * width + x] & DIFFUSION_FIXED) last = y;
        int &r = rows[(u64)y * width + x];
        if (last >= 0 && (r < 0 || last - y < y - r)) r = last; // the upper of two as near
    }
}

extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
    diffusion_sweeps_nearest(const int *rows, u32 *nearest, int width, int height) {
    after_prior();
    const u64 i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (i >= (u64)width * height) return;
    const int x = (int)(i % width), y = (int)(i / width);
    u64 best = ~0ull, at = 0; // of several as near the one with the least number
    for (int d = 0; d < width && (u64)d * d <= best; d++) {
        if (d > x && x + d >= width) break;
        for (int side = 0; side < 2; side++) {
            const int a = side ? x + d : x - d;
            if (a < 0 || a >= width || (side && d == 0)) continue;
            const int r = rows[(u64)y * width + a];
            if (r < 0) continue;
            const u64 s = (u64)d * d + (u64)((i64)(r - y) * (r - y)), n = (u64)r * width + a;
            if (s < best || (s == best && n < at)) best = s, at = n;
        }
    }
    nearest[i] = (u32)at;
}

extern "C" __global__ void diffusion_sweeps_finish(DiffusionHeader *head, u32 *counts, u32 width, u32 height,
    u32 walls, u32 method) {
    after_prior();
    counts[0] = head->fixed, counts[1] = head->void_pixels;
    head->width = width, head->height = height, head->barriers = walls, head->method = method;
    head->magic = DIFFUSION_MAGIC;
}

extern "C" __global__ void diffusion_sweeps_begin(SweepSolve s, SweepImage l) {
    after_prior();
    SweepState &st = *s.state;
    const DiffusionHeader &h = *s.head;
    st.done = 1;
    if (h.magic != DIFFUSION_MAGIC || h.width != (u32)l.width || h.height != (u32)l.height || h.barriers != s.walls ||
        h.method != s.method) {
        report(s.fault, FAULT_DIFFUSION_SOLVE_SETUP, h.magic);
        return;
    }
    if (s.start == 2 && (st.magic != DIFFUSION_MAGIC || st.channels != s.channels)) {
        report(s.fault, FAULT_DIFFUSION_SOLVE_START, st.magic);
        return;
    }
    st.done = st.tickets = st.change = st.residual = 0;
    if (s.start != 2) {
        st.magic = DIFFUSION_MAGIC, st.channels = s.channels, st.cycles = 0;
        st.update = st.ratio = st.estimate = st.difference = st.fall = 0;
        st.level = s.start == 0 ? s.levels - 1 : 0, st.level_cycles = s.start;
        st.peak = 0;
    }
    st.stop_at = st.cycles + s.cycles;
}

__device__ __forceinline__ float inverse(u32 open) { return 1.f / (float)max(degree(open), 1); }

// most keeps the largest of values that are not negative.
__device__ __forceinline__ void most(u32 *to, float v) {
    const u32 bits = warp_max(__float_as_uint(v));
    if (lane_id() == 0 && bits) atomicMax(to, bits);
}

// The same roundings as on the CPU, so that both take as many cycles: no product and sum become one.
__device__ inline float power_sum(float p) {
    p = fmaxf(p, LEAST_POWER);
    return p / (p - 1);
}

// Counts a cycle of the image that changed a value by update at most.
__device__ inline void estimate(const SweepSolve &s, SweepState &st, float update) {
    const u32 k = st.cycles + 1;
    float ratio = SWEEP_RATIO, left = power_sum(0) / (1 - ratio);
    const float at_most = fmaxf(left, (float)k * LEFT_PER_CYCLE);
    for (u32 n = 1; n < k && n <= PAST_UPDATES && (n == 1 || 2 * n <= k); n *= 2) {
        const float before = st.past[(st.cycles - n) % PAST_UPDATES];
        float q = FIRST_RATIO;
        if (before > 0) {
            q = update / before;
            for (u32 i = n; i > 1; i /= 2) q = __fsqrt_rn(q);
        }
        q = fminf(q, MOST_RATIO);
        const float p = __fmul_rn((float)k - (float)n / 2, 1 - fmaxf(q, FIRST_RATIO));
        q = fmaxf(q, SWEEP_RATIO);
        const float l = fminf(power_sum(p) / (1 - q), at_most);
        if (n == 1 || l > left) ratio = q, left = l;
    }
    st.past[st.cycles % PAST_UPDATES] = update;
    st.update = update, st.ratio = ratio, st.cycles = k;
    st.estimate = __fadd_rn(SWEEP_CAUTION * update * left, SWEEP_ROUNDING * (float)k * __uint_as_float(st.peak));
    if (st.estimate <= s.tolerance) st.done = 2;
}

#define RUN_WARPS (SWEEP_RUN_THREADS / 32)
#define RUN_HEIGHT (RUN_WARPS * SWEEP_ROWS)

// What a thread has of a tile: 4 pixels in each of some rows.
struct Piece {
    float v[SWEEP_ROWS][4], inv[SWEEP_ROWS][4];
    u32 open[SWEEP_ROWS / 2]; // 4 bits a pixel, for WALLS
    int y, height;            // its first row, and how many the image has
    bool first, last;         // its columns are the image's first or last ones
};

// Which edges may be closed: none, those of the image, any.
enum { OPEN, BORDER, WALLS };

// A sweep, from the rows above and below the piece. To MEASURE the changes go to sum and most.
template <int EDGES, bool MEASURE>
__device__ __forceinline__ void sweep(Piece &p, float4 above, float4 below, float weight, float &sum, float &most) {
    if (EDGES == WALLS)
#pragma unroll
        // Keeps tests of bits in the loop of sweeps: outside of it they fill registers.
        for (int i = 0; i < SWEEP_ROWS / 2; i++) asm volatile("" : "+r"(p.open[i]));
    float up[4] = {p.v[0][0] - above.x, p.v[0][1] - above.y, p.v[0][2] - above.z, p.v[0][3] - above.w};
    if (EDGES == BORDER && p.y == 0) up[0] = up[1] = up[2] = up[3] = 0;
#pragma unroll
    for (int r = 0; r < SWEEP_ROWS; r++) {
        float(&v)[4] = p.v[r];
        const float next[4] = {r + 1 < SWEEP_ROWS ? p.v[(r + 1) % SWEEP_ROWS][0] : below.x,
                               r + 1 < SWEEP_ROWS ? p.v[(r + 1) % SWEEP_ROWS][1] : below.y,
                               r + 1 < SWEEP_ROWS ? p.v[(r + 1) % SWEEP_ROWS][2] : below.z,
                               r + 1 < SWEEP_ROWS ? p.v[(r + 1) % SWEEP_ROWS][3] : below.w};
        const float before = __shfl_up_sync(~0u, v[3], 1), after = __shfl_down_sync(~0u, v[0], 1);
        const float across[5] = {EDGES == BORDER && p.first ? 0 : v[0] - before, v[1] - v[0], v[2] - v[1], v[3] - v[2],
                                 EDGES == BORDER && p.last ? 0 : after - v[3]};
        const bool border = EDGES == BORDER && (p.y + r + 1 == 0 || p.y + r + 1 == p.height);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const float down = border ? 0 : next[c] - v[c];
            float f;
            if (EDGES == WALLS) {
                const u32 o = p.open[r / 2] >> (r % 2 * 16 + c * 4);
                f = ((o & OPEN_RIGHT ? across[c + 1] : 0) - (o & OPEN_LEFT ? across[c] : 0)) +
                    (o & OPEN_DOWN ? down : 0);
                f -= o & OPEN_UP ? up[c] : 0;
            } else {
                f = ((across[c + 1] - across[c]) + down) - up[c];
            }
            // Rounded as on the CPU: a quarter of something is exact, so there is but one rounding to do.
            f = __fmul_rn(weight, f);
            const float a = EDGES == OPEN ? __fmaf_rn(p.inv[r][c], f, v[c])
                                          : __fadd_rn(v[c], __fmul_rn(p.inv[r][c], f));
            if (MEASURE) {
                const float d = fabsf(a - v[c]);
                sum += d, most = fmaxf(most, d);
            }
            v[c] = a, up[c] = down;
        }
    }
}

typedef float4 Rows[2][RUN_WARPS][2][32]; // the first and the last row of each warp, in turns

// A sweep of a tile. The weight is in shared memory, and read behind the barrier: another thread writes it.
template <int EDGES, bool MEASURE>
__device__ __forceinline__ void sweep_rows(Piece &p, Rows &rows, int turn, const float &weight, float &sum,
    float &most) {
    const int lane = lane_id(), warp = threadIdx.x / 32;
    const float4 first = make_float4(p.v[0][0], p.v[0][1], p.v[0][2], p.v[0][3]);
    const float4 last = make_float4(p.v[SWEEP_ROWS - 1][0], p.v[SWEEP_ROWS - 1][1], p.v[SWEEP_ROWS - 1][2],
                                    p.v[SWEEP_ROWS - 1][3]);
    rows[turn][warp][0][lane] = first, rows[turn][warp][1][lane] = last;
    __syncthreads();
    if (p.y >= p.height || p.y + SWEEP_ROWS <= 0) return; // of the image a warp has nothing
    sweep<EDGES, MEASURE>(p, warp > 0 ? rows[turn][warp - 1][1][lane] : first,
                          warp < RUN_WARPS - 1 ? rows[turn][warp + 1][0][lane] : last, weight, sum, most);
}

// So many sweeps, and one that is measured, in the end. Behind an odd number of them, and before other ones, come
// barriers.
template <int EDGES>
__device__ __forceinline__ void sweep_all(Piece &p, Rows &rows, const float *weights, int sweeps, bool measure,
    float &sum, float &most) {
    float none = 0;
#pragma unroll 1
    for (int t = 1; t <= sweeps; t++)
        sweep_rows<EDGES, false>(p, rows, t & 1, weights[(t - 1) % SWEEP_HALO], none, none);
    if (measure) sweep_rows<EDGES, true>(p, rows, 0, weights[SWEEP_HALO - 1], sum, most);
}

// The next cycle is of the next level where this one is done, and the last one says how the solve stands. By a thread.
__device__ inline void next_cycle(const SweepSolve &s, double middle, double global) {
    SweepState &st = *s.state;
    const float change = __uint_as_float(__ldcg(&st.change));
    double sum = 0; // of the weights of half a cycle, as on the CPU: their sums are exact
#pragma unroll
    for (int t = 0; t < SWEEPS_IN_CHECK / 2; t++) sum += s.weights[t % SWEEP_HALO];
    const double fall = fabs(middle - global) / sum;
    const bool settled = s.threshold > 0 && fmin(fall, global) <= (double)s.threshold;
    st.tickets = st.change = 0;
    if (st.level > 0) {
        const u32 most = PYRAMID_SWEEPS / (s.threshold > 0 ? SWEEPS_IN_CHECK : SWEEPS_IN_CYCLE);
        st.level_cycles++;
        if (settled || (s.threshold == 0 && change <= s.tolerance / PYRAMID_SHARE) || st.level_cycles == most)
            st.level--, st.level_cycles = 0;
        return;
    }
    st.level_cycles = 1;
    if (s.threshold > 0) {
        st.update = change, st.difference = (float)global, st.fall = (float)fall, st.cycles++;
        if (settled) st.done = 2;
    } else {
        estimate(s, st, change);
    }
    if (!st.done && st.cycles == st.stop_at) st.done = 3;
}

// Loads and stores of four pixels from column x on; those that an image of so many columns does not have are 0.
__device__ __forceinline__ float4 load4(const float *row, int x, int width, bool whole) {
    if (whole) return *(const float4 *)(row + x);
    float4 v;
    v.x = x >= 0 && x < width ? row[x] : 0, v.y = x + 1 >= 0 && x + 1 < width ? row[x + 1] : 0;
    v.z = x + 2 >= 0 && x + 2 < width ? row[x + 2] : 0, v.w = x + 3 >= 0 && x + 3 < width ? row[x + 3] : 0;
    return v;
}
__device__ __forceinline__ void store4(float *row, int x, int width, bool whole, float4 v) {
    if (whole) {
        *(float4 *)(row + x) = v;
        return;
    }
    if (x >= 0 && x < width) row[x] = v.x;
    if (x + 1 >= 0 && x + 1 < width) row[x + 1] = v.y;
    if (x + 2 >= 0 && x + 2 < width) row[x + 2] = v.z;
    if (x + 3 >= 0 && x + 3 < width) row[x + 3] = v.w;
}

// The sum of a block's values in thread 0.
__device__ __forceinline__ double block_sum(double v) {
    __shared__ double sums[RUN_WARPS];
    v = warp_sum(v);
    __syncthreads();
    if (lane_id() == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int w = 0; w < RUN_WARPS; w++) v += sums[w];
    return v;
}

// A tile of a channel, in one launch of those of a cycle.
__device__ __forceinline__ void sweep_tile(const SweepSolve &s, const SweepPyramid &p, u32 pass, u32 passes,
    bool whole, int across) {
    __shared__ Rows rows;
    __shared__ float weights[SWEEP_HALO]; // an index that is not constant would put s into local memory
    if (threadIdx.x == 0)
#pragma unroll
        for (int t = 0; t < SWEEP_HALO; t++) weights[t] = s.weights[t];
    const u32 k = s.state->level;
    const SweepImage l = p.at[k];
    const int lane = lane_id(), warp = threadIdx.x / 32, halo = whole ? 0 : SWEEP_HALO;
    const int x0 = (int)(blockIdx.x % across) * (SWEEP_WIDTH - 2 * halo) - halo, x = x0 + lane * 4;
    const int y0 = (int)(blockIdx.x / across) * (RUN_HEIGHT - 2 * halo) - halo, y = y0 + warp * SWEEP_ROWS;
    const u64 n = (u64)l.width * l.height;
    const bool odd = pass & 1 && !whole, four = !(l.width & 3) && x >= 0 && x < l.width;
    const float *from = (odd ? l.spare : l.x) + blockIdx.y * n;
    float *to = (odd || whole ? l.x : l.spare) + blockIdx.y * n, *old = s.old + blockIdx.y * n;
    // What comes to something.
    const int columns = halo / 4, lines = halo / SWEEP_ROWS;
    const bool own =
        whole || (lane >= columns && lane < 32 - columns && warp >= lines && warp < RUN_WARPS - lines);
    const bool keeps = s.threshold == 0 && own && (whole || pass == 0),
               compares = s.threshold == 0 && own && pass == passes - 1;
    const bool grows = k + 1 < s.levels && s.state->level_cycles == 0 && (whole || pass == 0);
    const bool border = whole || x0 < 0 || y0 < 0 || x0 + SWEEP_WIDTH > l.width || y0 + RUN_HEIGHT > l.height;
    const int edges = s.walls || (border && l.width & 3) ? WALLS : border ? BORDER : OPEN;
    Piece q;
    q.y = y, q.height = l.height, q.first = x == 0, q.last = x + 4 == l.width;
    float4 v[SWEEP_ROWS];
    u32 open[SWEEP_ROWS]; // a byte a pixel
    if (l.width & 3) {
#pragma unroll
        for (int r = 0; r < SWEEP_ROWS; r++) {
            v[r] = make_float4(0, 0, 0, 0), open[r] = 0;
            if (y + r < 0 || y + r >= l.height) continue;
            const u64 row = (u64)(y + r) * l.width;
            v[r] = load4(from + row, x, l.width, false);
            for (int c = 0; c < 4; c++)
                if (x + c >= 0 && x + c < l.width) open[r] |= (u32)l.open[row + x + c] << 8 * c;
        }
    } else { // all loads are under way at the same time
        const int column = min(max(x, 0), l.width - 4);
#pragma unroll
        for (int r = 0; r < SWEEP_ROWS; r++) {
            const u64 at = (u64)min(max(y + r, 0), l.height - 1) * l.width + column;
            v[r] = *(const float4 *)(from + at), open[r] = *(const u32 *)(l.open + at);
        }
#pragma unroll
        for (int r = 0; r < SWEEP_ROWS; r++)
            if (x != column || y + r < 0 || y + r >= l.height) v[r] = make_float4(0, 0, 0, 0), open[r] = 0;
    }
#pragma unroll
    for (int r = 0; r < SWEEP_ROWS; r++) {
        q.v[r][0] = v[r].x, q.v[r][1] = v[r].y, q.v[r][2] = v[r].z, q.v[r][3] = v[r].w;
        u32 nibbles = 0;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const u32 o = open[r] >> 8 * c & 15;
            if (edges == OPEN) { // four edges or none, but for pixels that come to nothing
                q.inv[r][c] = o ? 0.25f : 0;
                continue;
            }
            const int d = degree(o);
            q.inv[r][c] = d == 4 ? 0.25f : d == 3 ? 1.f / 3 : d == 2 ? 0.5f : (float)d;
            nibbles |= o << 4 * c;
        }
        q.open[r / 2] = r % 2 ? q.open[r / 2] | nibbles << 16 : nibbles;
    }
    if (grows) {
        const SweepImage g = p.at[k + 1];
        const float *coarse = g.x + blockIdx.y * (u64)g.width * g.height;
#pragma unroll
        for (int r = 0; r < SWEEP_ROWS; r++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (q.inv[r][c] != 0) q.v[r][c] = coarse[(u64)((y + r) / 2) * g.width + (x + c) / 2];
    }
    if (keeps)
#pragma unroll
        for (int r = 0; r < SWEEP_ROWS; r++)
            if (y + r >= 0 && y + r < l.height)
                store4(old + (u64)(y + r) * l.width, x, l.width, four,
                    make_float4(q.v[r][0], q.v[r][1], q.v[r][2], q.v[r][3]));
    before_next();

    float most = 0;
    // With a threshold, by how much the last sweep changes the image, before the middle of a cycle and before its end.
    const bool later = pass >= passes / 2, check = s.threshold > 0,
               measure = check && (whole || pass % (passes / 2) == passes / 2 - 1);
    const int sweeps = !whole ? SWEEP_HALO : check ? SWEEPS_IN_CHECK / 2 : SWEEPS_IN_CYCLE;
    for (int half = check && whole ? 0 : later; half <= later; half++) {
        float sum = 0;
        most = 0;
        if (edges == OPEN) sweep_all<OPEN>(q, rows, weights, sweeps - measure, measure, sum, most);
        else if (edges == BORDER) sweep_all<BORDER>(q, rows, weights, sweeps - measure, measure, sum, most);
        else sweep_all<WALLS>(q, rows, weights, sweeps - measure, measure, sum, most);
        if (!measure) break;
        const double total = block_sum(own ? sum : 0);
        if (threadIdx.x == 0) s.sums[((u64)half * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = total;
        if (!own) most = 0;
    }
    if (own)
#pragma unroll
        for (int r = 0; r < SWEEP_ROWS; r++) {
            if (y + r < 0 || y + r >= l.height) continue;
            const u64 row = (u64)(y + r) * l.width;
            store4(to + row, x, l.width, four, make_float4(q.v[r][0], q.v[r][1], q.v[r][2], q.v[r][3]));
            if (!compares) continue;
            const float4 v = load4(old + row, x, l.width, four); // beyond the image all is 0
            most = fmaxf(most, fmaxf(fmaxf(fabsf(q.v[r][0] - v.x), fabsf(q.v[r][1] - v.y)),
                                     fmaxf(fabsf(q.v[r][2] - v.z), fabsf(q.v[r][3] - v.w))));
        }
    if (pass == passes - 1) ::most(&s.state->change, most);
}

// One of the passes of a cycle of the level that is at work, to spare and back. A row of the grid for each channel; it
// has as many blocks as the image has tiles, of which a smaller level leaves some without work.
extern "C" __global__ void __launch_bounds__(SWEEP_RUN_THREADS, SWEEP_BLOCKS)
    diffusion_sweeps_run(SweepSolve s, SweepPyramid p, u32 pass, u32 passes) {
    __shared__ bool last;
    after_prior();
    SweepState &st = *s.state;
    if (st.done) return;
    const int width = p.at[st.level].width, height = p.at[st.level].height;
    const bool whole = width <= SWEEP_WIDTH && height <= RUN_HEIGHT, end = pass == passes - 1;
    const int each = whole ? SWEEP_WIDTH : SWEEP_WIDTH - 2 * SWEEP_HALO,
              rows = whole ? RUN_HEIGHT : RUN_HEIGHT - 2 * SWEEP_HALO;
    const int across = (width + each - 1) / each, tiles = across * ((height + rows - 1) / rows);
    if (blockIdx.x < tiles && (!whole || end)) sweep_tile(s, p, pass, passes, whole, across);
    if (!end) return;
    // All blocks have seen how the solve stood before the one that ends last changes that.
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(&st.tickets, 1) == gridDim.x * gridDim.y - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double global[2] = {0, 0};
    if (s.threshold > 0)
    {
        const double *of = s.sums, *end_of = s.sums + (u64)gridDim.y * gridDim.x;
        for (u32 c = 0; c < gridDim.y; c++)
            for (u32 i = c * gridDim.x + threadIdx.x; i < c * gridDim.x + tiles; i += SWEEP_RUN_THREADS)
                global[0] += __ldcg(&of[i]), global[1] += __ldcg(&end_of[i]);
        global[0] = block_sum(global[0]), global[1] = block_sum(global[1]);
    }
    if (threadIdx.x == 0) next_cycle(s, global[0], global[1]);
}

__device__ __forceinline__ int mirrored(int a, int n) {
    a = max(a, -a - 1);
    return max(min(a, 2 * n - 1 - a), 0);
}

extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
    diffusion_sweeps_far(SweepSolve s, SweepImage l, const float *from, float *to, u32 first, u32 last) {
    after_prior();
    if (s.state->done) return;
    const u64 n = (u64)l.width * l.height, i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    float change = 0;
    if (i < n) {
        const int w = l.width, x = (int)(i % w), y = (int)(i / w);
        const u32 open = l.open[i];
        int reach = 1;
        if (open && s.state->cycles < DIFFUSION_FAR_CYCLES) {
            const int j = (int)s.nearest[i], dx = x - j % w, dy = y - j / w;
            reach = (int)(1.f / (1u << s.state->cycles) * (float)sqrt((double)((i64)dx * dx + (i64)dy * dy)));
        }
        u64 far[4];
        if (reach > 1) {
            far[0] = (u64)y * w + mirrored(x + reach, w), far[1] = (u64)y * w + mirrored(x - reach, w);
            far[2] = (u64)mirrored(y + reach, l.height) * w + x, far[3] = (u64)mirrored(y - reach, l.height) * w + x;
        }
        for (u32 c = 0; c < s.channels; c++) {
            const float *a = from + c * n;
            const float own = a[i];
            float v = own;
            if (open && reach > 1) {
                v += 0.25f * ((a[far[0]] - own) + (a[far[1]] - own) + (a[far[2]] - own) + (a[far[3]] - own));
            } else if (open) {
                float f = 0;
                if (open & OPEN_RIGHT) f += a[i + 1] - own;
                if (open & OPEN_LEFT) f += a[i - 1] - own;
                if (open & OPEN_DOWN) f += a[i + w] - own;
                if (open & OPEN_UP) f += a[i - w] - own;
                v += inverse(open) * f;
            }
            if (first) s.old[c * n + i] = own;
            to[c * n + i] = v;
            if (last) change = fmaxf(change, fabsf(v - s.old[c * n + i]));
        }
    }
    if (last) most(&s.state->change, change);
}

// The values of the nearest fixed pixels, for a start.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) diffusion_sweeps_spread(SweepSolve s, SweepImage l) {
    after_prior();
    if (s.state->done) return;
    const u64 n = (u64)l.width * l.height, i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (i >= n || !l.open[i]) return;
    for (u32 c = 0; c < s.channels; c++) l.x[c * n + i] = l.x[c * n + s.nearest[i]];
}

// The largest value.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) diffusion_sweeps_peak(SweepSolve s, SweepImage l) {
    after_prior();
    if (s.state->done) return;
    const u64 n = (u64)l.width * l.height, i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    float largest = 0;
    for (u32 c = 0; c < s.channels && i < n; c++) largest = fmaxf(largest, fabsf(l.x[c * n + i]));
    most(&s.state->peak, largest);
}

// The values of a level from those of the one above: the mean of the fixed pixels where it is fixed, and of all
// elsewhere.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
    diffusion_sweeps_shrink(SweepSolve s, SweepImage fine, SweepImage l) {
    after_prior();
    if (s.state->done) return;
    const u64 n = (u64)l.width * l.height, above = (u64)fine.width * fine.height,
              i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (i >= n) return;
    const int x = (int)(i % l.width), y = (int)(i / l.width);
    const bool fixed = l.flags[i] & DIFFUSION_FIXED;
    for (u32 c = 0; c < s.channels; c++) {
        float sum = 0, count = 0;
        for (int b = 2 * y; b < min(2 * y + 2, fine.height); b++)
            for (int a = 2 * x; a < min(2 * x + 2, fine.width); a++) {
                const u64 at = (u64)b * fine.width + a;
                if (fixed && !(fine.flags[at] & DIFFUSION_FIXED)) continue;
                sum += fine.x[c * above + at];
                count++;
            }
        l.x[c * n + i] = sum / count;
    }
}

extern "C" __global__ void diffusion_sweeps_step(SweepSolve s) {
    after_prior();
    SweepState &st = *s.state;
    if (st.done) return;
    const float update = __uint_as_float(st.change);
    st.change = 0;
    estimate(s, st, update);
}

extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) diffusion_sweeps_last(SweepSolve s, SweepImage l) {
    after_prior();
    if (s.state->done == 1) return;
    const u64 n = (u64)l.width * l.height, i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    float largest = 0;
    if (i < n) {
        const u32 open = l.open[i];
        for (u32 c = 0; c < s.channels && open; c++) {
            const float *a = l.x + c * n;
            const float own = a[i];
            float f = 0;
            if (open & OPEN_RIGHT) f += a[i + 1] - own;
            if (open & OPEN_LEFT) f += a[i - 1] - own;
            if (open & OPEN_DOWN) f += a[i + l.width] - own;
            if (open & OPEN_UP) f += a[i - l.width] - own;
            largest = fmaxf(largest, fabsf(f));
        }
    }
    most(&s.state->residual, largest);
}

extern "C" __global__ void diffusion_sweeps_status(SweepSolve s) {
    after_prior();
    const SweepState &st = *s.state;
    if (st.done == 1) return;
    SweepStatus out;
    out.cycles = st.cycles, out.converged = st.done == 2;
    out.update = st.update, out.ratio = st.ratio, out.estimate = st.estimate;
    out.residual = __uint_as_float(st.residual);
    out.difference = st.difference, out.fall = st.fall;
    *s.status = out;
}
