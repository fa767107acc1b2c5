// Diffusion by the methods of the seed: all pixels at once, again and again. See kernels/cpu/diffusion_sweeps.go for what is computed; the
// arithmetic is the same, pixel by pixel. diffusion_label.cu comes first.
//
// The set-up, beside labels:
// diffusion_sweeps_flags    the flags of an image of half the sides, a thread a pixel; 1.25 bytes a pixel of the finer one
// diffusion_sweeps_columns  for the variable stencil: the nearest fixed pixel in each column, a thread a column
// diffusion_sweeps_nearest  and the nearest of all: columns farther and farther away, until none can be nearer. Time grows with the distance
// diffusion_sweeps_finish   the header
//
// A solve is _begin, diffusion_label_mean and _fill, _peak, a start, then for each cycle
// _run     8 sweeps of 64x64 pixels on chip, of which those within 8 pixels of the edge come to nothing; 64 sweeps where an image is
//          not larger than that. 21 bytes a value for 8 sweeps
// _far     one sweep with the variable stencil: 20 bytes a value
// _step    the estimate, and whether that is all
// and _last and _status. Starts of pyramids are _shrink for all levels, then for each a _grow, and _run and _level_step so many times
// that it may take; those that are not needed return at once. Maxima are kept by atomics, and don't depend on the order.

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
    diffusion_sweeps_flags(const u8 *fine, u8 *to, int fine_width, int fine_height, int width, int height, u32 greedy, u32 pad) {
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

extern "C" __global__ void diffusion_sweeps_finish(DiffusionHeader *head, u32 *counts, u32 width, u32 height, u32 walls, u32 method) {
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
    if (h.magic != DIFFUSION_MAGIC || h.width != (u32)l.width || h.height != (u32)l.height || h.barriers != s.walls || h.method != s.method) {
        report(s.fault, FAULT_DIFFUSION_SOLVE_SETUP, h.magic);
        return;
    }
    if (s.start == 2 && (st.magic != DIFFUSION_MAGIC || st.channels != s.channels)) {
        report(s.fault, FAULT_DIFFUSION_SOLVE_START, st.magic);
        return;
    }
    st.done = st.level_done = st.change = st.residual = 0;
    if (s.start == 2) return;
    st.magic = DIFFUSION_MAGIC, st.channels = s.channels, st.cycles = 0;
    st.update = st.ratio = st.estimate = 0;
    st.peak = 0;
}

__device__ __forceinline__ float inverse(u32 open) { return 1.f / (float)max(degree(open), 1); }

// most keeps the largest of values that are not negative.
__device__ __forceinline__ void most(u32 *to, float v) {
    const u32 bits = warp_max(__float_as_uint(v));
    if (lane_id() == 0 && bits) atomicMax(to, bits);
}

// run sweeps from one image to another. first: it keeps what was there in old; last: it compares with that. A row of the grid for each
// channel.
extern "C" __global__ void __launch_bounds__(SWEEP_RUN_THREADS)
    diffusion_sweeps_run(SweepSolve s, SweepImage l, const float *from, float *to, u32 sweeps, u32 first, u32 last,
                         u32 level) {
    __shared__ float v[2][SWEEP_REGION * SWEEP_REGION];
    after_prior();
    if (s.state->done || (level && s.state->level_done)) return;
    const bool whole = l.width <= SWEEP_REGION && l.height <= SWEEP_REGION;
    const int halo = whole ? 0 : SWEEP_HALO, inner = SWEEP_REGION - 2 * halo;
    const int across = (l.width + inner - 1) / inner;
    const int x = (int)(blockIdx.x % across) * inner - halo + (int)(threadIdx.x % SWEEP_REGION);
    const int y = (int)(blockIdx.x / across) * inner - halo + (int)(threadIdx.x / SWEEP_REGION);
    const u64 plane = (u64)blockIdx.y * l.width * l.height;
    const int cx = threadIdx.x % SWEEP_REGION;
    constexpr int EACH = SWEEP_REGION * SWEEP_REGION / SWEEP_RUN_THREADS, ROWS = SWEEP_RUN_THREADS / SWEEP_REGION;
    u32 open[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int yy = y + k * ROWS, cy = threadIdx.x / SWEEP_REGION + k * ROWS;
        const bool in = x >= 0 && x < l.width && yy >= 0 && yy < l.height;
        const u64 i = (u64)yy * l.width + x;
        open[k] = in ? l.open[i] & 15 : 0;
        // What lies beyond the region is not there to take from.
        if (cx == 0) open[k] &= ~OPEN_LEFT;
        if (cx == SWEEP_REGION - 1) open[k] &= ~OPEN_RIGHT;
        if (cy == 0) open[k] &= ~OPEN_UP;
        if (cy == SWEEP_REGION - 1) open[k] &= ~OPEN_DOWN;
        const float a = in ? from[plane + i] : 0;
        v[0][cy * SWEEP_REGION + cx] = a;
        v[1][cy * SWEEP_REGION + cx] = a;
        if (first && in && cx >= halo && cx < SWEEP_REGION - halo && cy >= halo && cy < SWEEP_REGION - halo)
            s.old[plane + i] = a;
    }
    __syncthreads();
    for (u32 t = 0; t < sweeps; t++) {
        const float *a = v[t & 1];
        float *b = v[~t & 1];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (!open[k]) continue;
            const int at = ((int)(threadIdx.x / SWEEP_REGION) + k * ROWS) * SWEEP_REGION + cx;
            const float own = a[at];
            float f = 0;
            if (open[k] & OPEN_RIGHT) f += a[at + 1] - own;
            if (open[k] & OPEN_LEFT) f += a[at - 1] - own;
            if (open[k] & OPEN_DOWN) f += a[at + SWEEP_REGION] - own;
            if (open[k] & OPEN_UP) f += a[at - SWEEP_REGION] - own;
            b[at] = own + inverse(open[k]) * f;
        }
        __syncthreads();
    }
    float change = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int yy = y + k * ROWS, cy = threadIdx.x / SWEEP_REGION + k * ROWS;
        if (x < 0 || x >= l.width || yy < 0 || yy >= l.height || cx < halo || cx >= SWEEP_REGION - halo || cy < halo ||
            cy >= SWEEP_REGION - halo)
            continue;
        const u64 i = plane + (u64)yy * l.width + x;
        const float a = v[sweeps & 1][cy * SWEEP_REGION + cx];
        to[i] = a;
        if (last) change = fmaxf(change, fabsf(a - s.old[i]));
    }
    if (last) most(&s.state->change, change);
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

// The values of a level from those of the one above: the mean of the fixed pixels where it is fixed, and of all elsewhere.
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

// The pixels of a level that have an equation get the values of the one below.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
    diffusion_sweeps_grow(SweepSolve s, SweepImage l, SweepImage coarse) {
    after_prior();
    if (blockIdx.x == 0 && threadIdx.x == 0) s.state->level_done = s.state->change = 0;
    if (s.state->done) return;
    const u64 n = (u64)l.width * l.height, below = (u64)coarse.width * coarse.height,
              i = (u64)blockIdx.x * SWEEP_THREADS + threadIdx.x;
    if (i >= n || !l.open[i]) return;
    const u64 from = i / l.width / 2 * coarse.width + i % l.width / 2;
    for (u32 c = 0; c < s.channels; c++) l.x[c * n + i] = coarse.x[c * below + from];
}

extern "C" __global__ void diffusion_sweeps_level_step(SweepSolve s) {
    after_prior();
    SweepState &st = *s.state;
    if (st.done || st.level_done) return;
    st.level_done = __uint_as_float(st.change) <= s.tolerance / PYRAMID_SHARE;
    st.change = 0;
}

__device__ inline float power_sum(float p) {
    p = fmaxf(p, LEAST_POWER);
    return p / (p - 1);
}

// The same roundings as on the CPU, so that both take as many cycles: no product and sum become one.
extern "C" __global__ void diffusion_sweeps_step(SweepSolve s) {
    after_prior();
    SweepState &st = *s.state;
    if (st.done) return;
    const float update = __uint_as_float(st.change);
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
    st.update = update, st.change = 0, st.ratio = ratio, st.cycles = k;
    st.estimate = __fadd_rn(SWEEP_CAUTION * update * left, SWEEP_ROUNDING * (float)k * __uint_as_float(st.peak));
    if (st.estimate <= s.tolerance) st.done = 2;
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
    DiffusionStatus out;
    out.cycles = st.cycles, out.converged = st.done == 2;
    out.update = st.update, out.ratio = st.ratio, out.estimate = st.estimate, out.residual = __uint_as_float(st.residual), out.pad = 0;
    *s.status = out;
}
