// mask_reduce reduces the pixels of prepared regions: count, sum, sum of squares, extrema with positions, moments and
// histograms, in one pass.
//
// Phases: mask_reduce_clear sets the results to those of no pixel (not when strips accumulate, nor before the kernels
// named _each, which give every region, small ones, a block of its own). Then persistent blocks divide the items of all
// regions evenly, whichever region they belong to: a block walks over its share region by region, eight lanes an item
// (128 bytes at a time, four loads in flight), keeps sums in registers and the histogram in shared memory, and merges
// once for each region it touches: by plain stores where the region is its own, by atomics where blocks share it.
// Integer sums and keyed extrema do not depend on the order.
//
// Bytes moved: each covered pixel once, 8 bytes an item, results once a block and region. Complexity: covered pixels.
// Items have 1024 pixels at most, so that the shares of 132 * 4 blocks of a 10240x4096 frame (about 20,000 items)
// differ by a few percent. Eight lanes take an item, four where all regions are small: rows of 64 pixels would leave more
// of them idle (1000 regions took 24 us with eight, 19 us with four, on an H200).

#include <cuda_fp16.h>

#include "common.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define SHARED_LEVELS 4096 // 16 KB: 16-bit formats of up to 12 bits collect their histogram on chip
#define REPLICAS 8         // copies of an 8-bit histogram, side by side: 8 KB; 32 of them were 10 % slower to merge

struct ReduceArgs {
    View p;
    const unsigned char *frame;
    MaskStats *stats;
    u32 *hist;
    u64 stride;
    u32 first, count;
    int row0, rows;
    u32 channels, order, levels, what, whole; // order: a byte a channel; whole: the frame is the whole image
    u32 pad;
};
static_assert(sizeof(ReduceArgs) == 136, "ReduceArgs");

#define WHAT_EXTREMA 2u
#define WHAT_MOMENTS 4u
#define WHAT_HISTOGRAM 8u

// Results of no pixel.
extern "C" __global__ void mask_reduce_clear(MaskStats *stats, u64 n, uint4 *hist, u64 hist_vecs) {
    const u64 i0 = (u64)blockIdx.x * blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x;
    for (u64 i = i0; i < n * 10; i += step) ((u64 *)stats)[i] = i % 10 == 3 ? ~0ull : 0ull;
    for (u64 i = i0; i < hist_vecs; i += step) hist[i] = make_uint4(0, 0, 0, 0);
}

// What a lane has summed up.
struct Sums {
    u64 count, sum, sumsq, min_key, max_key, sum_x, sum_y, sum_vx, sum_vy;
    __device__ void clear() {
        count = sum = sumsq = max_key = sum_x = sum_y = sum_vx = sum_vy = 0;
        min_key = ~0ull;
    }
};

// Sum and least of a value a lane. Machines of compute capability 8 add 32 bits in one instruction: a sum then goes in
// pieces of 27 bits, which 32 lanes can't overflow. (Their instruction for the least of unsigned values, as nvcc 11.8
// emits it for sm_90, was seen to pass over zeros on an H200.)
__device__ __forceinline__ u64 sum_warp(u64 v) {
#if __CUDA_ARCH__ >= 800
    const u32 mask = (1u << 27) - 1;
    return (u64)__reduce_add_sync(~0u, (u32)v & mask) + ((u64)__reduce_add_sync(~0u, (u32)(v >> 27) & mask) << 27) +
           ((u64)__reduce_add_sync(~0u, (u32)(v >> 54)) << 54);
#else
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
#endif
}

__device__ __forceinline__ u64 min_warp(u64 v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        const u64 w = __shfl_xor_sync(~0u, v, o);
        v = w < v ? w : v;
    }
    return v;
}

// Bytes [0, n) of a word, where n may be below 0 or above 4: PTX shifts by more than 31 give 0.
__device__ __forceinline__ u32 low_bytes(int n) {
    u32 high;
    asm("shl.b32 %0, %1, %2;" : "=r"(high) : "r"(~0u), "r"(8 * max(n, 0)));
    return ~high;
}

// Finds the pixel of an extremum in the item that has it (which of the two: 0 the least, 1 the greatest), by a warp;
// part[0] gets the exact key. The item's bytes are read at once: one wait, not one a pixel.
__device__ __forceinline__ void resolve(u64 (&part)[WARPS][9], int which, const ReduceArgs &g) {
    const u32 lane = lane_id();
    u64 t = part[lane & (WARPS - 1)][3 + which];
#pragma unroll
    for (int o = WARPS / 2; o; o >>= 1) {
        u64 w = __shfl_xor_sync(~0u, t, o);
        t = (which ? w > t : w < t) ? w : t;
    }
    __syncwarp();
    if (t != (which ? 0ull : ~0ull)) {
        const u32 value = (u32)(t >> 32), at = which ? ~(u32)t : (u32)t, width = (u32)g.p.width, x = at % width;
        const unsigned char *px = g.frame + (u64)(at / width - (u32)g.row0) * g.stride + x;
        const int mis = (int)((u64)px & 15), n = (int)min(width - x, (u32)ITEM_PIXELS);
        u32 found = 0xffff;
        for (int v = lane; v * 16 - mis < n; v += 32) {
            const uint4 raw = __ldg((const uint4 *)(px - mis) + v);
            const u32 w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
            for (int k = 3; k >= 0; k--) {
                const int i = v * 16 - mis + 4 * k;
                const u32 eq = __vcmpeq4(w[k], value * 0x01010101u) & low_bytes(n - i) & ~low_bytes(-i);
                if (eq) found = min(found, (u32)(i + (__ffs(eq) - 1) / 8));
            }
        }
#pragma unroll
        for (int o = 16; o; o >>= 1) found = min(found, __shfl_xor_sync(~0u, found, o));
        t = (u64)value << 32 | (which ? ~(at + found) : at + found);
    }
    if (lane == 0) part[0][3 + which] = t;
}

// Merges the lanes' sums into *out, by the block. With `near` keys hold the position of the first pixel of the item
// that has the extremum: items are disjoint runs of rows, so that the one with the least position is the right one,
// and only it has to be looked at again.
__device__ __forceinline__ void flush(Sums &a, MaskStats *out, bool own, const ReduceArgs &g, bool near) {
    const u32 what = g.what;
    __shared__ u64 part[WARPS][9];
    const u32 lane = lane_id(), warp = threadIdx.x >> 5;
    u64 v[9] = {a.count, a.sum, a.sumsq, a.min_key, a.max_key, a.sum_x, a.sum_y, a.sum_vx, a.sum_vy};
    const bool moments = what & WHAT_MOMENTS;
#pragma unroll
    for (int k = 0; k < 9; k++) {
        if (k >= 5 && !moments) break;
        const u64 t = k == 3 ? min_warp(v[k]) : k == 4 ? ~min_warp(~v[k]) : sum_warp(v[k]);
        if (lane == 0) part[warp][k] = t;
    }
    __syncthreads();
    if (near && warp < 2 && (what & WHAT_EXTREMA)) resolve(part, warp, g);
    __syncthreads();
    if (threadIdx.x < 10) {
        const int k = threadIdx.x;
        const bool key = k == 3 || k == 4, wanted = k < 3 || (key ? what & WHAT_EXTREMA : k < 9 && moments);
        u64 t = k == 3 ? ~0ull : 0ull;
        if (wanted) {
            t = part[0][k];
            for (int w = 1; w < WARPS && !(key && near); w++) {
                u64 p = part[w][k];
                t = k == 3 ? (p < t ? p : t) : k == 4 ? (p > t ? p : t) : t + p;
            }
        }
        u64 *o = (u64 *)out + k;
        if (own)
            *o = t; // what was not asked for, too: nothing was cleared before
        else if (wanted && k == 3)
            atomicMin(o, t);
        else if (wanted && k == 4)
            atomicMax(o, t);
        else if (wanted && t)
            atomicAdd(o, t);
    }
    __syncthreads();
    a.clear();
}

// One sample.
template <bool HIST, bool MOMENTS>
__device__ __forceinline__ void sample(Sums &a, u32 v, u32 pos, int x, int y, u32 *bin) {
    a.sum += v;
    a.sumsq += (u64)v * v;
    u64 lo = (u64)v << 32 | pos, hi = (u64)v << 32 | (u32)~pos;
    if (lo < a.min_key) a.min_key = lo;
    if (hi > a.max_key) a.max_key = hi;
    if (MOMENTS) {
        a.sum_vx += (u64)v * (u32)x;
        a.sum_vy += (u64)v * (u32)y;
    }
    if (HIST) atomicAdd(bin, 1u);
}

// Running extrema of a lane over one item, as 16-bit pairs. Pairs of bytes are compared as half floats where the
// machine does that in one instruction: a byte is a denormal half, and denormals are ordered as their bits are.
struct Extrema {
    u32 lo_even, lo_odd, hi_even, hi_odd;
    __device__ __forceinline__ void clear() {
        lo_even = lo_odd = 0x00ff00ff;
        hi_even = hi_odd = 0;
    }
    static __device__ __forceinline__ u32 min_pairs(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
        __half2 r = __hmin2(*(__half2 *)&a, *(__half2 *)&b);
        return *(u32 *)&r;
#else
        return __vminu4(a, b);
#endif
    }
    static __device__ __forceinline__ u32 max_pairs(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
        __half2 r = __hmax2(*(__half2 *)&a, *(__half2 *)&b);
        return *(u32 *)&r;
#else
        return __vmaxu4(a, b);
#endif
    }
    // Four bytes; those outside m do not count.
    template <bool FULL> __device__ __forceinline__ void add(u32 w, u32 m) {
        const u32 l = FULL ? w : w | ~m, h = FULL ? w : w & m;
        lo_even = min_pairs(lo_even, l & 0x00ff00ff);
        lo_odd = min_pairs(lo_odd, __byte_perm(l, 0, 0x4341));
        hi_even = max_pairs(hi_even, h & 0x00ff00ff);
        hi_odd = max_pairs(hi_odd, __byte_perm(h, 0, 0x4341));
    }
    __device__ __forceinline__ u32 lo() const {
        u32 v = min_pairs(lo_even, lo_odd);
        return min(v & 0xffff, v >> 16);
    }
    __device__ __forceinline__ u32 hi() const {
        u32 v = max_pairs(hi_even, hi_odd);
        return max(v & 0xffff, v >> 16);
    }
};

// What a lane sums up over one item; 32 bits hold 1024 pixels of 8 bits.
struct ItemSums {
    u32 sum, sumsq, sum_vi; // sum_vi: v times the pixel's index in the item
    Extrema x;
};

// Sixteen gray pixels, of which those in [from, to) count; index is that of the first in its item (it may be
// negative, and wraps around consistently in 32 bits).
template <bool FULL, bool HIST, bool MOMENTS>
__device__ __forceinline__ void vector8(ItemSums &t, const uint4 &raw, int from, int to, int index, u32 *hist) {
    const u32 w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const u32 m = FULL ? ~0u : low_bytes(to - 4 * k) & ~low_bytes(from - 4 * k), v = w[k] & m;
        if (MOMENTS) {
            const u32 ws = __dp4a(v, 0x01010101u, 0u);
            t.sum += ws;
            t.sum_vi = __dp4a(v, 0x03020100u, t.sum_vi) + ws * (u32)(index + 4 * k);
        } else {
            t.sum = __dp4a(v, 0x01010101u, t.sum);
        }
        t.sumsq = __dp4a(v, v, t.sumsq);
        t.x.add<FULL>(w[k], m);
        if (HIST) {
#pragma unroll
            for (int b = 0; b < 4; b++)
                if (FULL || (m >> (8 * b) & 1)) atomicAdd(&hist[(v >> (8 * b) & 255) * REPLICAS], 1u);
        }
    }
}

enum Kind { GRAY8, GRAY16, ANY8 };

// One item by GROUP lanes; channel c of ANY8 is at byte `offset` of the pixel.
template <int GROUP, int KIND, bool HIST, bool MOMENTS>
__device__ __forceinline__ void reduce_item(Sums &a, const ReduceArgs &g, Item it, int width, u32 *hist, u32 offset) {
    const int x0 = item_x(it), y = item_y(it), n = item_n(it), l = lane_id() & (GROUP - 1);
    if (!g.whole && (y < g.row0 || y >= g.row0 + g.rows)) return;
    const u32 pos0 = (u32)y * (u32)width + (u32)x0;
    if (l == 0) {
        a.count += n;
        if (MOMENTS) {
            a.sum_x += (u64)n * (u32)x0 + (u64)n * (u32)(n - 1) / 2;
            a.sum_y += (u64)n * (u32)y;
        }
    }
    const unsigned char *row = g.frame + (u64)(y - g.row0) * g.stride;
    if (KIND == GRAY8) {
        // A head and a tail that share their 16 bytes with other pixels, by lanes 0 and 1, and whole vectors between.
        const unsigned char *p = row + x0;
        const int mis = (int)((u64)p & 15), head = min((16 - mis) & 15, n), vecs = (n - head) >> 4;
        const int tail = n - head - vecs * 16;
        const uint4 *v = (const uint4 *)(p + head);
        ItemSums t;
        t.sum = t.sumsq = t.sum_vi = 0;
        t.x.clear();
        if (l == 0 ? head > 0 : l == 1 && tail > 0) {
            const int j = l ? head + vecs * 16 : -mis;
            vector8<false, HIST, MOMENTS>(t, __ldg((const uint4 *)(p + j)), -j, (l ? n : head) - j, j, hist);
        }
        for (int i = l; i < vecs; i += 4 * GROUP) {
            uint4 r[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (i + k * GROUP < vecs) r[k] = __ldg(v + i + k * GROUP);
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (i + k * GROUP < vecs)
                    vector8<true, HIST, MOMENTS>(t, r[k], 0, 16, head + (i + k * GROUP) * 16, hist);
        }
        a.sum += t.sum;
        a.sumsq += t.sumsq;
        if (MOMENTS) {
            a.sum_vx += t.sum_vi + (u64)t.sum * (u32)x0;
            a.sum_vy += (u64)t.sum * (u32)y;
        }
        // Keys carry the position of the item's first pixel; flush finds the pixel in the item that won. A lane
        // without pixels has lo = 255 and hi = 0, which can only tie with a lane of the same item that has some.
        const u64 kmin = (u64)t.x.lo() << 32 | pos0, kmax = (u64)t.x.hi() << 32 | (u32)~pos0;
        if (kmin < a.min_key) a.min_key = kmin;
        if (kmax > a.max_key) a.max_key = kmax;
        return;
    }
    const u32 mask = g.levels - 1;
    if (KIND == GRAY16) {
        const unsigned short *p = (const unsigned short *)row + x0;
        const int mis = (int)((u64)p & 15) >> 1, vecs = (mis + n + 7) >> 3;
        const uint4 *v = (const uint4 *)(p - mis);
        for (int i = l; i < vecs; i += 2 * GROUP) {
            uint4 r[2];
#pragma unroll
            for (int k = 0; k < 2; k++)
                if (i + k * GROUP < vecs) r[k] = __ldg(v + i + k * GROUP);
#pragma unroll
            for (int k = 0; k < 2; k++) {
                if (i + k * GROUP >= vecs) continue;
                const u32 w[4] = {r[k].x, r[k].y, r[k].z, r[k].w};
#pragma unroll
                for (int b = 0; b < 8; b++) {
                    int j = (i + k * GROUP) * 8 - mis + b;
                    if (j >= 0 && j < n)
                        {
                        const u32 s = w[b >> 1] >> (16 * (b & 1)) & 0xffff;
                        sample<HIST, MOMENTS>(a, s, pos0 + j, x0 + j, y, hist + (s & mask));
                    }
                }
            }
        }
        return;
    }
    const unsigned char *p = row + (u64)x0 * g.channels + offset;
    for (int j = l; j < n; j += GROUP) {
        const u32 s = p[(u64)j * g.channels];
        sample<HIST, MOMENTS>(a, s, pos0 + j, x0 + j, y, hist + s * REPLICAS);
    }
}

// Items [at, at + n) of region r, by the block. ON_CHIP is a compile-time choice so that the atomics are known to be
// those of shared memory.
template <int GROUP, int KIND, bool HIST, bool MOMENTS, bool ON_CHIP>
__device__ __forceinline__ void reduce_run(const ReduceArgs &g, u32 r, u64 at, u32 n, bool own, u32 *bins) {
    const Item *mine = g.p.items + g.p.regions[g.first + r].item0 + at;
    const u32 replicas = KIND == GRAY16 ? 1 : REPLICAS;
    Sums a;
    for (u32 c = 0; c < g.channels; c++) {
        a.clear();
        const u64 slot = (u64)r * g.channels + c;
        u32 *out = HIST ? g.hist + slot * g.levels : 0;
        for (u32 j = threadIdx.x / GROUP; j < n; j += THREADS / GROUP)
            reduce_item<GROUP, KIND, HIST, MOMENTS>(a, g, mine[j], g.p.width,
                                             ON_CHIP ? bins + (KIND == GRAY16 ? 0 : lane_id() & (REPLICAS - 1)) : out,
                                             g.order >> (8 * c) & 255);
        if (ON_CHIP) {
            __syncthreads();
            for (u32 b = threadIdx.x; b < g.levels; b += THREADS) {
                u32 v = 0;
                for (u32 i = 0; i < replicas; i++) { // each lane starts at its own bank
                    u32 *bin = &bins[b * replicas + ((i + threadIdx.x) & (replicas - 1))];
                    v += *bin;
                    *bin = 0;
                }
                if (own)
                    out[b] = v;
                else if (v)
                    atomicAdd(&out[b], v);
            }
        }
        flush(a, g.stats + slot, own, g, KIND == GRAY8);
    }
}

template <int KIND, bool HIST, bool MOMENTS, bool ON_CHIP> __device__ __forceinline__ void reduce(const ReduceArgs &g) {
    extern __shared__ u32 bins[];
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], total = prefix[g.count] - p0;
    // Even shares; 64-bit division only where there are that many items.
    const u64 each = total >> 32 ? total / gridDim.x : (u32)total / gridDim.x;
    const u32 more = (u32)(total - each * gridDim.x);
    u64 i = p0 + each * blockIdx.x + min(blockIdx.x, more);
    const u64 end = i + each + (blockIdx.x < more);
    if (i >= end) return;
    const u32 replicas = KIND == GRAY16 ? 1 : REPLICAS;
    if (ON_CHIP) {
        for (u32 b = threadIdx.x; b < g.levels * replicas; b += THREADS) bins[b] = 0;
        __syncthreads();
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
        const bool own = i == from && stop == to && g.what >> 31;
        reduce_run<8, KIND, HIST, MOMENTS, ON_CHIP>(g, r, i - from, (u32)(stop - i), own, bins);
        i = stop;
    }
}

// A block a region: for many small ones. Without Accumulate the results are then written by plain stores, and nothing
// has to be cleared first. Not for histograms that are not collected on chip.
template <int KIND, bool HIST, bool MOMENTS, bool ON_CHIP>
__device__ __forceinline__ void reduce_each(const ReduceArgs &g) {
    extern __shared__ u32 bins[];
    if (ON_CHIP) {
        for (u32 b = threadIdx.x; b < g.levels * (KIND == GRAY16 ? 1 : REPLICAS); b += THREADS) bins[b] = 0;
        __syncthreads();
    }
    for (u32 r = blockIdx.x; r < g.count; r += gridDim.x)
        reduce_run<4, KIND, HIST, MOMENTS, ON_CHIP>(g, r, 0, g.p.counts[g.first + r], g.what >> 31, bins);
}

// Four blocks a multiprocessor, measured on an H200 at 10240x4096: two take 10 % longer, eight 20 %.
#define KERNEL(name, kind, hist, moments)                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) name(ReduceArgs g) {                            \
        if (kind == GRAY16 && hist && g.levels > SHARED_LEVELS)                                                        \
            reduce<kind, hist, moments, false>(g);                                                                     \
        else                                                                                                           \
            reduce<kind, hist, moments, hist>(g);                                                                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) name##_each(ReduceArgs g) {                               \
        reduce_each<kind, hist, moments, hist>(g);                                                                     \
    }

KERNEL(mask_reduce_gray8, GRAY8, false, false)
KERNEL(mask_reduce_gray8_m, GRAY8, false, true)
KERNEL(mask_reduce_gray8_h, GRAY8, true, false)
KERNEL(mask_reduce_gray8_hm, GRAY8, true, true)
KERNEL(mask_reduce_gray16, GRAY16, false, false)
KERNEL(mask_reduce_gray16_m, GRAY16, false, true)
KERNEL(mask_reduce_gray16_h, GRAY16, true, false)
KERNEL(mask_reduce_gray16_hm, GRAY16, true, true)
KERNEL(mask_reduce_any8, ANY8, false, false)
KERNEL(mask_reduce_any8_m, ANY8, false, true)
KERNEL(mask_reduce_any8_h, ANY8, true, false)
KERNEL(mask_reduce_any8_hm, ANY8, true, true)
