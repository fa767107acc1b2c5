// mask_color reduces what is derived from the colour of the pixels of prepared regions: like mask_reduce, but each kernel
// takes one space, with all channels of it from one read of a pixel. driver.Colors defines the conversions, all of them in
// integers; cpu/mask_color.go is the twin.
//
// Phases: a block brings the tables that its space needs into shared memory, while mask_reduce_clear runs. Blocks stay for
// the whole launch and share the items of all regions evenly; a warp takes an item, four pixels a lane at a time, of which
// the next four are on their way. Sums stay in registers, histograms in shared memory; both are merged by atomics once for
// each region that a block touches. Integer sums and keyed extrema do not depend on the order. Kernels named _a do extrema
// and moments, too, those named _ah histograms.
//
// Bytes moved: each covered pixel once a space, 8 bytes an item, results once a block and region. What bounds Lab: a pixel
// takes three words of 64 bits from a table that is there in copies, so that lanes don't wait for each other, and three from
// the table of roots.

#include "abi/mask_color.cuh"
#include "collective.cuh"
#include "colortables.cuh"

enum Space { RGB, ALPHA, GRAY601, GRAY709, HSV, LAB, MATRIX };
template <int SPACE> __device__ constexpr int channels_of() {
    return SPACE == ALPHA || SPACE == GRAY601 || SPACE == GRAY709 ? 1 : 3;
}
// From samples of a channel to bins of its histogram.
template <int SPACE> __device__ constexpr int shift_of(int c) {
    return SPACE == LAB || SPACE == MATRIX ? 8 : SPACE == HSV && c > 0 ? 7 : 0;
}

#define ROOTS 2049
#define NO_HUE 255
#define HIST_COPIES 4

// What conversions look at: tables in shared memory, and where the samples of a pixel are.
struct Colors {
    const u64 *parts;       // of the lane's copy
    const u32 *roots;       // or reciprocals
    u32 copies;             // as a power of two
    u32 red, green, blue;   // selectors of __byte_perm
};

__device__ __forceinline__ u32 cubic(const Colors &c, u32 t) {
    const u32 e = c.roots[t >> 9];
    return (e >> 15) + (((t & 511) * (e & 0x7fff) + 16384) >> 15);
}

// The samples of a pixel, whose bytes px holds in its low ones.
template <int SPACE> __device__ __forceinline__ void convert(const Colors &c, const ColorArgs &g, u32 px, u32 *v) {
    const u32 r = __byte_perm(px, 0, c.red);
    if (SPACE == ALPHA) { // the selector of red is that of alpha
        v[0] = r;
        return;
    }
    const u32 gr = __byte_perm(px, 0, c.green), b = __byte_perm(px, 0, c.blue);
    if (SPACE == RGB) v[0] = r, v[1] = gr, v[2] = b;
    if (SPACE == GRAY601) v[0] = (299 * r + 587 * gr + 114 * b + 500) / 1000;
    if (SPACE == GRAY709) v[0] = (2126 * r + 7152 * gr + 722 * b + 5000) / 10000;
    if (SPACE == MATRIX) {
        const int4 rows[3] = {g.x, g.y, g.z};
#pragma unroll
        for (int k = 0; k < 3; k++)
            v[k] = (u32)(rows[k].w + rows[k].x * (int)r + rows[k].y * (int)gr + rows[k].z * (int)b) >> 14;
    }
    if (SPACE == HSV) {
        const u32 most = max(r, max(gr, b)), d = most - min(r, min(gr, b));
        const int x = most == r ? (int)(gr - b) : most == gr ? (int)(b - r) : (int)(r - gr);
        const u32 k = most == r ? 240 : most == gr ? 80 : 160;
        const u32 hue = __umulhi((u32)(80 * x) + (2 * k + 1) * d, c.roots[d]);
        v[0] = d == 0 ? NO_HUE : hue >= 240 ? hue - 240 : hue;
        v[1] = __umulhi(25600 * d + most, c.roots[most]);
        v[2] = (25600 * most + 255) / 510;
    }
    if (SPACE == LAB) {
        const u64 t = c.parts[r << c.copies] + c.parts[(256 + gr) << c.copies] + c.parts[(512 + b) << c.copies];
        const u32 lo = (u32)t, hi = (u32)(t >> 32);
        const u32 fx = cubic(c, lo & 0x1fffff), fy = cubic(c, __funnelshift_r(lo, hi, 21) & 0x1fffff), fz = cubic(c, hi >> 10);
        v[0] = (29 * fy + 62) / 125 - 4096;
        v[1] = 32768 + fx - fy;
        v[2] = (2 * fy + 163842 - 2 * fz) / 5;
    }
}

// Four bytes of the frame at an aligned address, of which those outside the frame are 0.
__device__ __forceinline__ u32 load4(const ColorArgs &g, const unsigned char *p) {
    if (p >= g.frame && p + 4 <= g.frame_end) return __ldg((const u32 *)p);
    u32 w = 0;
#pragma unroll 1
    for (int i = 0; i < 4; i++)
        if (p + i >= g.frame && p + i < g.frame_end) w |= (u32)p[i] << 8 * i;
    return w;
}

// Four pixels: their bytes, which begin in the first word at bit shift.
struct Four {
    u32 w[5];
    __device__ __forceinline__ void load(const ColorArgs &g, const unsigned char *p, bool safe, bool four, bool five) {
#pragma unroll
        for (int k = 0; k < 5; k++) {
            if (k == 3 && !four || k == 4 && !five) continue;
            w[k] = safe ? __ldg((const u32 *)p + k) : load4(g, p + 4 * k);
        }
    }
    __device__ __forceinline__ void split(u32 bytes, u32 shift, u32 *px) const {
        u32 a[4];
#pragma unroll
        for (int k = 0; k < 4; k++) a[k] = __funnelshift_r(w[k], w[k + 1], shift);
        if (bytes == 3) {
            px[0] = a[0];
            px[1] = __funnelshift_r(a[0], a[1], 24);
            px[2] = __funnelshift_r(a[1], a[2], 16);
            px[3] = a[2] >> 8;
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++) px[k] = a[k];
        }
    }
};

// What a lane has summed up of one channel.
struct ColorSums {
    u64 sum, sum_sq, min_key, max_key, sum_vx, sum_vy;
    __device__ __forceinline__ void clear() {
        sum = sum_sq = max_key = sum_vx = sum_vy = 0;
        min_key = ~0ull;
    }
};

// Of one item, whose pixels are 1024 at most: a lane has 32 of them. lo and hi hold a sample above its index, and above
// how far the index is from the last one.
struct ItemSums {
    u32 sum, sum_vi, lo, hi;
    __device__ __forceinline__ void clear() {
        sum = sum_vi = hi = 0;
        lo = ~0u;
    }
};
static_assert(ITEM_PIXELS == 1024, "an index has 10 bits");

template <int SPACE, bool ALL, bool BINS>
__device__ __forceinline__ void add(const Colors &c, const ColorArgs &g, u32 px, u32 index, ColorSums *a, ItemSums *t, u32 *bins) {
    const int N = channels_of<SPACE>();
    u32 v[3];
    convert<SPACE>(c, g, px, v);
#pragma unroll
    for (int k = 0; k < N; k++) {
        t[k].sum += v[k];
        a[k].sum_sq += (u64)v[k] * v[k];
        if (ALL) {
            t[k].sum_vi += v[k] * index;
            t[k].lo = min(t[k].lo, v[k] << 10 | index);
            t[k].hi = max(t[k].hi, v[k] << 10 | (1023 - index));
        }
        if (BINS) {
            const int shift = shift_of<SPACE>(k);
            const u32 bin = shift ? (v[k] + (1 << shift >> 1)) >> shift : v[k];
            atomicAdd(&bins[(k * 256 + bin) * HIST_COPIES], 1);
        }
    }
}

template <int SPACE, bool ALL, bool BINS>
__device__ __forceinline__ void color_item(const Colors &c, const ColorArgs &g, Item it, ColorSums *a, u64 *place, u32 *bins) {
    const int N = channels_of<SPACE>();
    const int n = item_n(it), x0 = item_x(it), y = item_y(it), lane = lane_id();
    if (!g.whole && (y < g.row0 || y >= g.row0 + g.rows)) return;
    if (lane == 0) {
        place[0] += n;
        if (ALL) {
            place[1] += (u64)n * (u32)x0 + (u64)n * (u32)(n - 1) / 2;
            place[2] += (u64)n * (u32)y;
        }
    }
    const unsigned char *p = g.frame + (u64)(y - g.row0) * g.stride + (u64)x0 * g.bytes;
    const u32 shift = ((u32)(u64)p & 3) * 8;
    p -= shift / 8;
    const bool safe = p >= g.frame && p + (u64)n * g.bytes + 32 <= g.frame_end;
    const bool four = g.bytes == 4 || shift, five = g.bytes == 4 && shift;
    ItemSums t[N];
#pragma unroll
    for (int k = 0; k < N; k++) t[k].clear();
    Four next;
    next.w[3] = next.w[4] = 0;
    int j = 4 * lane;
    if (j < n) next.load(g, p + (u32)j * g.bytes, safe, four, five);
    for (; j < n; j += 128) {
        u32 px[4];
        next.split(g.bytes, shift, px);
        if (j + 128 < n) next.load(g, p + (u32)(j + 128) * g.bytes, safe, four, five);
        if (j + 4 <= n) {
#pragma unroll
            for (int k = 0; k < 4; k++) add<SPACE, ALL, BINS>(c, g, px[k], j + k, a, t, bins);
        } else {
#pragma unroll 1
            for (int k = 0; k < n - j; k++) add<SPACE, ALL, BINS>(c, g, k == 0 ? px[0] : k == 1 ? px[1] : px[2], j + k, a, t, bins);
        }
    }
    const u32 pos = (u32)y * (u32)g.p.width + (u32)x0;
#pragma unroll
    for (int k = 0; k < N; k++) {
        a[k].sum += t[k].sum;
        if (!ALL || t[k].lo == ~0u) continue; // a lane without pixels
        a[k].sum_vx += t[k].sum_vi + (u64)t[k].sum * (u32)x0;
        a[k].sum_vy += (u64)t[k].sum * (u32)y;
        const u64 l = (u64)(t[k].lo >> 10) << 32 | pos + (t[k].lo & 1023);
        const u64 h = (u64)(t[k].hi >> 10) << 32 | (u32)~(pos + 1023 - (t[k].hi & 1023));
        if (l < a[k].min_key) a[k].min_key = l;
        if (h > a[k].max_key) a[k].max_key = h;
    }
}

// Merges the lanes' sums of region r into the results, by a block of W warps.
template <int W, int SPACE, bool ALL, bool BINS>
__device__ __forceinline__ void merge(const ColorArgs &g, u32 r, ColorSums *a, u64 *place, u32 *bins) {
    const int N = channels_of<SPACE>(), EACH = ALL ? 6 : 2, PLACES = ALL ? 3 : 1, K = PLACES + N * EACH;
    __shared__ u64 part[K][W];
    const u32 lane = lane_id(), warp = threadIdx.x >> 5;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int f = (k - PLACES) % EACH;
        u64 v;
        if (k < PLACES)
            v = place[k < 3 ? k : 0];
        else {
            const ColorSums &s = a[(k - PLACES) / EACH];
            v = f == 0 ? s.sum : f == 1 ? s.sum_sq : f == 2 ? s.min_key : f == 3 ? ~s.max_key : f == 4 ? s.sum_vx : s.sum_vy;
        }
        v = k >= PLACES && (f == 2 || f == 3) ? warp_min(v) : warp_sum(v);
        if (lane == 0) part[k][warp] = v;
    }
    after_prior();
    __syncthreads();
    for (int k = warp; k < K; k += W) {
        const int f = (k - PLACES) % EACH;
        const bool key = k >= PLACES && (f == 2 || f == 3);
        u64 v = lane < W ? part[k][lane] : key ? ~0ull : 0;
        v = key ? warp_min(v) : warp_sum(v);
        if (lane != 0) continue;
        u64 *out = (u64 *)(g.stats + (u64)r * g.channels + g.channel);
        if (k < PLACES) {
            // Of all channels of the kernel: count, and the sums of columns and rows.
            if (v && (k == 0 || g.what & MASK_MOMENTS))
                for (int c = 0; c < N; c++) atomicAdd(out + 10 * c + (k == 0 ? 0 : 4 + k), v);
            continue;
        }
        out += 10 * ((k - PLACES) / EACH);
        if (f < 2) {
            if (v) atomicAdd(out + 1 + f, v);
        } else if (f == 2) {
            if (g.what & MASK_EXTREMA) atomicMin(out + 3, v);
        } else if (f == 3) {
            if (g.what & MASK_EXTREMA) atomicMax(out + 4, ~v);
        } else if (v && g.what & MASK_MOMENTS)
            atomicAdd(out + 3 + f, v);
    }
    if (BINS) {
        u32 *hist = g.hist + ((u64)r * g.channels + g.channel) * 256;
        for (u32 b = threadIdx.x; b < N * 256; b += W * 32) {
            uint4 *at = (uint4 *)bins + b;
            const uint4 n = *at;
            const u32 v = n.x + n.y + n.z + n.w;
            if (!v) continue;
            atomicAdd(&hist[b], v);
            *at = make_uint4(0, 0, 0, 0);
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++) a[k].clear();
    place[0] = place[1] = place[2] = 0;
}
static_assert(HIST_COPIES == 4, "copies are read as one");

template <int W, int SPACE, bool ALL, bool BINS> __device__ __forceinline__ void color(const ColorArgs &g) {
    const int N = channels_of<SPACE>();
    extern __shared__ __align__(16) u64 shared[];
    u64 *parts = shared;
    u32 *roots = (u32 *)(parts + (SPACE == LAB ? 768 << g.copies : 0));
    u32 *bins = roots + (SPACE == LAB ? (ROOTS + 3) / 4 * 4 : SPACE == HSV ? 256 : 0);
    if (SPACE == LAB) {
        for (u32 i = threadIdx.x; i < 768u << g.copies; i += W * 32) parts[i] = COLOR_PARTS[i >> g.copies];
        for (u32 i = threadIdx.x; i < ROOTS; i += W * 32) roots[i] = COLOR_ROOTS[i];
    }
    if (SPACE == HSV)
        for (u32 d = threadIdx.x; d < 256; d += W * 32) roots[d] = d ? (u32)(((1ull << 32) + 2 * d - 1) / (2 * d)) : 0;
    if (BINS)
        for (u32 i = threadIdx.x; i < N * 256; i += W * 32) ((uint4 *)bins)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (!g.cleared) after_prior();

    Colors c;
    c.parts = parts + (lane_id() & ((1u << g.copies) - 1));
    c.roots = roots;
    c.copies = g.copies;
    c.red = 0x4440 | (SPACE == ALPHA ? g.order >> 24 : g.order & 255);
    c.green = 0x4440 | (g.order >> 8 & 255);
    c.blue = 0x4440 | (g.order >> 16 & 255);
    u32 *own = bins + (lane_id() & (HIST_COPIES - 1));
    ColorSums a[N];
    u64 place[3] = {0, 0, 0};
#pragma unroll
    for (int k = 0; k < N; k++) a[k].clear();
    const u32 warp = threadIdx.x >> 5;

    if (g.count == 1) {
        // Item by item, so that blocks have as many of each length, and of a strip.
        const Item *items = g.p.items + g.p.regions[g.first].item0;
        const u32 total = g.p.counts[g.first];
        if (blockIdx.x < total) {
            for (u64 m = blockIdx.x + (u64)warp * gridDim.x; m < total; m += (u64)W * gridDim.x)
                color_item<SPACE, ALL, BINS>(c, g, items[m], a, place, own);
            merge<W, SPACE, ALL, BINS>(g, 0, a, place, bins);
        } else
            after_prior();
        return;
    }
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], total = prefix[g.count] - p0;
    const u64 each = total / gridDim.x, more = total - each * gridDim.x;
    u64 i = p0 + each * blockIdx.x + min((u64)blockIdx.x, more);
    const u64 end = i + each + (blockIdx.x < more);
    if (i >= end) {
        after_prior();
        return;
    }
    // The last region whose prefix is at or before i (empty ones share their prefix with the next).
    u32 lo = 0, hi = g.count;
    while (hi - lo > 1) {
        u32 mid = (lo + hi) / 2;
        if (prefix[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    for (u32 r = lo; i < end; r++) {
        const u64 from = prefix[r], to = prefix[r + 1], stop = to < end ? to : end;
        if (from == to) continue;
        const Item *items = g.p.items + g.p.regions[g.first + r].item0;
        for (u64 m = i - from + warp; m < stop - from; m += W)
            color_item<SPACE, ALL, BINS>(c, g, items[m], a, place, own);
        merge<W, SPACE, ALL, BINS>(g, r, a, place, bins);
        i = stop;
    }
}

#define COLOR(name, space)                                                                           \
    extern "C" __global__ void __launch_bounds__(COLOR_THREADS, 1) name(ColorArgs g) {               \
        color<COLOR_THREADS / 32, space, false, false>(g);                                           \
    }                                                                                                \
    extern "C" __global__ void __launch_bounds__(COLOR_ALL_THREADS, 1) name##_a(ColorArgs g) {       \
        color<COLOR_ALL_THREADS / 32, space, true, false>(g);                                        \
    }                                                                                                \
    extern "C" __global__ void __launch_bounds__(COLOR_ALL_THREADS, 1) name##_ah(ColorArgs g) {      \
        color<COLOR_ALL_THREADS / 32, space, true, true>(g);                                         \
    }

COLOR(mask_color_rgb, RGB)
COLOR(mask_color_alpha, ALPHA)
COLOR(mask_color_gray, GRAY601)
COLOR(mask_color_gray709, GRAY709)
COLOR(mask_color_hsv, HSV)
COLOR(mask_color_lab, LAB)
COLOR(mask_color_matrix, MATRIX)
