// mask_reduce reduces the pixels of prepared regions: count, sum, sum of squares, extrema with positions, moments and
// histograms, in one pass.
//
// Phases: mask_reduce_clear sets the results to those of no pixel (not when strips accumulate, nor before the kernels
// named _each); the reduction begins while that runs, and waits for it before it merges. Blocks stay for the whole
// launch and share the items of all regions evenly: item by item where there is one region, else in runs that begin and
// end in any region. REDUCE_GROUP lanes take an item, 128 bytes at a time with four loads of each lane on their way;
// sums stay in registers and the histogram in shared memory. Both are merged once for each region that a block touches:
// by plain stores where the region is its own, by atomics where blocks share it. Until then an extremum has the
// position of its item: the item that won is read again to find the pixel. The kernels named _each give every region,
// small ones, a block of its own. Those named _wide collect histograms of more than SHARED_LEVELS bins in counters of
// 16 bits; those named _global count in the results, where blocks can't have that much shared memory. Integer sums and
// keyed extrema do not depend on the order.
//
// Bytes moved: each covered pixel once, 8 bytes an item, results once a block and region. Complexity: covered pixels.
//
// What bounds it on an H200: a frame of 2880x1440 the waits, one behind the other, from the start of the launch to the
// merged results (3 of 6 us with no pixel read at all); a histogram the rate of atomics in shared memory, three cycles
// a warp (bytes counted by each thread for itself are no faster); 10240x4096 without one the loads on their way.

#include <cuda_fp16.h>

#include "abi/mask_reduce.cuh"
#include "collective.cuh"

// Results of no pixel.
extern "C" __global__ void mask_reduce_clear(MaskStats *stats, u64 n, uint4 *hist, u64 hist_vecs) {
    after_prior();
    before_next();
    const u64 i0 = (u64)blockIdx.x * blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x;
    for (u64 i = i0; i < n * 10; i += step) ((u64 *)stats)[i] = i % 10 == 3 ? ~0ull : 0ull;
    for (u64 i = i0; i < hist_vecs; i += step) hist[i] = make_uint4(0, 0, 0, 0);
}

// What a lane has summed up.
struct Sums {
    u64 count, sum, sum_sq, min_key, max_key, sum_x, sum_y, sum_vx, sum_vy;
    __device__ __forceinline__ void clear() {
        count = sum = sum_sq = max_key = sum_x = sum_y = sum_vx = sum_vy = 0;
        min_key = ~0ull;
    }
    __device__ __forceinline__ void extremum(u32 lo, u32 hi, u32 pos) {
        const u64 l = (u64)lo << 32 | pos, h = (u64)hi << 32 | (u32)~pos;
        if (l < min_key) min_key = l;
        if (h > max_key) max_key = h;
    }
};

// Bytes [0, n) of a word, where n may be below 0 or above 4: PTX shifts by more than 31 give 0.
__device__ __forceinline__ u32 low_bytes(int n) {
    u32 high;
    asm("shl.b32 %0, %1, %2;" : "=r"(high) : "r"(~0u), "r"(8 * max(n, 0)));
    return ~high;
}

// Sixteen bytes of the frame at an aligned address, of which those outside the frame are 0.
__device__ __forceinline__ uint4 load16(const ReduceArgs &g, const unsigned char *p) {
    if (p >= g.frame && p + 16 <= g.frame_end) return __ldg((const uint4 *)p);
    u32 w[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        const u32 b = p + i >= g.frame && p + i < g.frame_end ? p[i] : 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i >> 2 == k) w[k] |= b << (i & 3) * 8;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

// The first byte, of those from `from` on, of the sixteen at which the value stands; 16 or more where there is none.
template <int BYTES> __device__ __forceinline__ int find_in(const uint4 &raw, u32 value, int from, int to) {
    const u32 w[4] = {raw.x, raw.y, raw.z, raw.w}, one = BYTES == 1 ? 0x01010101u : 0x00010001u;
    int at = 16;
#pragma unroll
    for (int k = 3; k >= 0; k--) {
        // Zero where equal; the lowest zero is found exactly.
        const u32 x = (w[k] ^ value * one) | ~(low_bytes(to - 4 * k) & ~low_bytes(from - 4 * k));
        const u32 zero = (x - one) & ~x & one << (8 * BYTES - 1);
        if (zero) at = 4 * k + (__ffs(zero) - 1) / 8 / BYTES * BYTES;
    }
    return at;
}

// Merges the lanes' sums into *out, by a block of W warps. Where BYTES is not 0 keys hold the position of the first pixel
// of the item that has the extremum: items are disjoint runs of rows, so that the one with the least position is the right
// one, and only it has to be looked at again.
template <int W, int BYTES, bool MOMENTS>
__device__ __forceinline__ void flush(Sums &a, MaskStats *out, bool own, const ReduceArgs &g) {
    const int N = MOMENTS ? 9 : 5;
    __shared__ u64 part[9][W], key[2];
    __shared__ u32 found[2];
    const u32 lane = lane_id(), warp = threadIdx.x >> 5;
    const u64 v[9] = {a.count, a.sum, a.sum_sq, a.min_key, a.max_key, a.sum_x, a.sum_y, a.sum_vx, a.sum_vy};
    u64 t[N];
#pragma unroll
    for (int k = 0; k < N; k++) t[k] = k == 3 ? warp_min(v[k]) : k == 4 ? ~warp_min(~v[k]) : warp_sum(v[k]);
    if (lane == 0) {
#pragma unroll
        for (int k = 0; k < N; k++) part[k][warp] = t[k];
    }
    __syncthreads();
    const bool extrema = g.what & MASK_EXTREMA;
    if (threadIdx.x < 2) found[threadIdx.x] = ~0u;
    for (u32 t = threadIdx.x; t < (N * W + 31) / 32 * 32; t += W * 32) {
        const int k = t / W;
        u64 s = k < N ? part[k][t % W] : 0;
        if (k == 4) s = ~s;
#pragma unroll
        for (int o = W / 2; o; o >>= 1) {
            const u64 u = __shfl_xor_sync(~0u, s, o);
            s = k == 3 || k == 4 ? (u < s ? u : s) : s + u;
        }
        if (t % W || k >= N) continue;
        if (k == 4) s = ~s;
        u64 *o = (u64 *)out + k;
        if (k == 3 || k == 4) {
            if (BYTES)
                key[k - 3] = s;
            else if (own)
                *o = extrema ? s : k == 3 ? ~0ull : 0ull;
            else if (extrema && k == 3)
                atomicMin(o, s);
            else if (extrema)
                atomicMax(o, s);
        } else if (own)
            *o = s;
        else if (s)
            atomicAdd(o, s);
    }
    // What was not asked for, too: nothing was cleared before.
    if (own && threadIdx.x >= N && threadIdx.x < 10) ((u64 *)out)[threadIdx.x] = 0;
    __syncthreads();
    if (!BYTES || !extrema) {
        if (BYTES && own && threadIdx.x < 2) ((u64 *)out)[3 + threadIdx.x] = threadIdx.x ? 0ull : ~0ull;
    } else {
        // The item that has the extremum is read again, all of it at once: the first half of the block looks for the
        // least, the second for the greatest.
        const u32 which = threadIdx.x / (W * 16), t = threadIdx.x % (W * 16);
        const u64 s = key[which];
        const bool some = s != (which ? 0ull : ~0ull);
        const u32 value = (u32)(s >> 32), at = which ? ~(u32)s : (u32)s;
        if (some) {
            const u32 width = (u32)g.p.width, x = at % width;
            const unsigned char *px = g.frame + (u64)(at / width - (u32)g.row0) * g.stride + (u64)x * (BYTES ? BYTES : 1);
            const int mis = (int)((u64)px & 15), n = (int)min(width - x, (u32)ITEM_PIXELS) * BYTES;
            for (int v = (int)t * 16 - mis; v < n; v += W * 16 * 16) {
                const int i = find_in<BYTES ? BYTES : 1>(load16(g, px + v), value, -v, n - v);
                if (i < 16) {
                    atomicMin(&found[which], (u32)(v + i));
                    break;
                }
            }
        }
        __syncthreads();
        if (t == 0) {
            const u32 pos = at + found[which] / (BYTES ? BYTES : 1);
            const u64 exact = some ? (u64)value << 32 | (which ? ~pos : pos) : s;
            u64 *o = (u64 *)out + 3 + which;
            if (own)
                *o = exact;
            else if (which == 0)
                atomicMin(o, exact);
            else
                atomicMax(o, exact);
        }
    }
    a.clear();
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

// Where histograms are collected.
enum Bins {
    NO_BINS,
    GLOBAL, // in the results
    PACKED, // in counters of 16 bits in shared memory, two in a word
    COPIES  // COPIES + n: n counters of 32 bits a bin in shared memory, lanes spread over them
};
__device__ constexpr u32 copies_of(int bins) { return bins > COPIES ? bins - COPIES : 1; }

// Adds n samples, 0 or more, to a bin of a histogram. hist is that of the lane's copy.
template <int BINS> __device__ __forceinline__ void count_samples(u32 *hist, u32 bin, u32 n) {
    if (BINS > COPIES) atomicAdd(&hist[bin * copies_of(BINS)], n);
    if (BINS == GLOBAL && n) atomicAdd(&hist[bin], n);
    if (BINS == PACKED) atomicAdd(&hist[bin >> 1], n << (bin & 1) * 16);
}

// Sums of a lane over one item of bytes; 32 bits hold 1024 pixels.
struct Sums8 {
    u32 sum, sum_sq, sum_vi; // sum_vi: v times the pixel's index in the item
    Extrema x;
    __device__ __forceinline__ void clear() {
        sum = sum_sq = sum_vi = 0;
        x.clear();
    }
    // Sixteen pixels, of which those in [from, to) count; index is that of the first in its item (it may be negative,
    // and wraps around consistently in 32 bits).
    template <bool FULL, int BINS, bool MOMENTS>
    __device__ __forceinline__ void add(const uint4 &raw, int from, int to, int index, u32 *hist, u32) {
        const u32 w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const u32 m = FULL ? ~0u : low_bytes(to - 4 * k) & ~low_bytes(from - 4 * k), v = w[k] & m;
            if (MOMENTS) {
                const u32 ws = __dp4a(v, 0x01010101u, 0u);
                sum += ws;
                sum_vi = __dp4a(v, 0x03020100u, sum_vi) + ws * (u32)(index + 4 * k);
            } else {
                sum = __dp4a(v, 0x01010101u, sum);
            }
            sum_sq = __dp4a(v, v, sum_sq);
            x.add<FULL>(w[k], m);
            if (BINS != NO_BINS) {
#pragma unroll
                for (int b = 0; b < 4; b++) // to add nothing costs less than a branch
                    count_samples<BINS>(hist, v >> (8 * b) & 255, FULL ? 1 : m >> (8 * b) & 1);
            }
        }
    }
    // A lane without pixels has lo = 255 and hi = 0, which can only tie with a lane of the same item that has some.
    template <bool MOMENTS> __device__ __forceinline__ void end(Sums &a, u32 pos, int x0, int y) const {
        a.sum += sum;
        a.sum_sq += sum_sq;
        if (MOMENTS) {
            a.sum_vx += sum_vi + (u64)sum * (u32)x0;
            a.sum_vy += (u64)sum * (u32)y;
        }
        a.extremum(x.lo(), x.hi(), pos);
    }
};

// The same for samples of 16 bits.
struct Sums16 {
    u32 sum, lo, hi;
    u64 sum_sq, sum_vi;
    __device__ __forceinline__ void clear() {
        sum = hi = 0;
        sum_sq = sum_vi = 0;
        lo = 0xffff;
    }
    // Eight pixels at most; from, to and index are in pixels.
    template <bool FULL, int BINS, bool MOMENTS>
    __device__ __forceinline__ void add(const uint4 &raw, int from, int to, int index, u32 *hist, u32 mask) {
        const u32 w[4] = {raw.x, raw.y, raw.z, raw.w};
        // Where all are the same, as in what is dark or saturated, lanes would queue for one counter.
        const bool same = FULL && BINS == PACKED && w[0] == __funnelshift_l(w[0], w[0], 16) && w[1] == w[0] &&
                          w[2] == w[0] && w[3] == w[0];
        if (same) count_samples<BINS>(hist, w[0] & mask & 0xffff, 8);
        u32 s = 0, si = 0;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const u32 v = k & 1 ? w[k >> 1] >> 16 : w[k >> 1] & 0xffff;
            if (!FULL && (k < from || k >= to)) continue;
            s += v;
            if (MOMENTS) si += v * k;
            sum_sq += (u64)v * v;
            lo = min(lo, v);
            hi = max(hi, v);
            if (BINS != NO_BINS && !same) count_samples<BINS>(hist, v & mask, 1);
        }
        sum += s;
        if (MOMENTS) sum_vi += si + (i64)s * index;
    }
    template <bool MOMENTS> __device__ __forceinline__ void end(Sums &a, u32 pos, int x0, int y) const {
        a.sum += sum;
        a.sum_sq += sum_sq;
        if (MOMENTS) {
            a.sum_vx += sum_vi + (u64)sum * (u32)x0;
            a.sum_vy += (u64)sum * (u32)y;
        }
        a.extremum(lo, hi, pos);
    }
};

enum Kind { GRAY8, GRAY16, ANY8 };
template <int KIND> struct OfKind { typedef Sums8 Item; static const int BYTES = 1; };
template <> struct OfKind<GRAY16> { typedef Sums16 Item; static const int BYTES = 2; };

// Items start + k * step < end of a list, by a group of lanes.
template <int LANES, int KIND, int BINS, bool MOMENTS>
__device__ __forceinline__ void reduce_items(Sums &a, const ReduceArgs &g, const Item *items, u64 start, u64 end, u64 step,
                                             u32 *hist, u32 offset) {
    typedef typename OfKind<KIND>::Item T;
    const int BYTES = OfKind<KIND>::BYTES, PER = 16 / BYTES; // pixels a vector
    const int AHEAD = LANES == EACH_GROUP ? 1 : 4;           // vectors a lane on their way
    const int l = lane_id() & (LANES - 1);
    const u32 mask = g.levels - 1;
    Item next = start < end ? items[start] : 0;
    while (start < end) {
        const Item it = next;
        start += step;
        if (start < end) next = items[start];
        const int n = item_n(it), x0 = item_x(it), y = item_y(it);
        if (!g.whole && (y < g.row0 || y >= g.row0 + g.rows)) continue;
        const u32 pos = (u32)y * (u32)g.p.width + (u32)x0;
        if (l == 0) {
            a.count += n;
            if (MOMENTS) {
                a.sum_x += (u64)n * (u32)x0 + (u64)n * (u32)(n - 1) / 2;
                a.sum_y += (u64)n * (u32)y;
            }
        }
        const unsigned char *p = g.frame + (u64)(y - g.row0) * g.stride;
        if (KIND == ANY8) {
            p += (u64)x0 * g.channels + offset;
            for (int j = l; j < n; j += LANES) {
                const u32 v = p[(u64)j * g.channels];
                a.sum += v;
                a.sum_sq += v * v;
                a.extremum(v, v, pos + j);
                if (MOMENTS) {
                    a.sum_vx += (u64)v * (u32)(x0 + j);
                    a.sum_vy += (u64)v * (u32)y;
                }
                count_samples<BINS>(hist, v, 1);
            }
            continue;
        }
        // A head and a tail that share their 16 bytes with other pixels, by lanes 0 and 1, and whole vectors between.
        p += (u64)x0 * BYTES;
        const int mis = (int)((u64)p & 15), head = min(((16 - mis) & 15) / BYTES, n), vecs = (n - head) / PER;
        const int tail = n - head - vecs * PER;
        const uint4 *v = (const uint4 *)(p + head * BYTES);
        T t;
        t.clear();
        uint4 edge, r[AHEAD];
        const bool some = l == 0 ? head > 0 : l == 1 && tail > 0;
        const int first = l ? head + vecs * PER : -mis / BYTES;
        if (some) edge = load16(g, p + first * BYTES);
        int i = l;
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (i + k * LANES < vecs) r[k] = __ldg(v + i + k * LANES);
        if (some) t.template add<false, BINS, MOMENTS>(edge, -first, (l ? n : head) - first, first, hist, mask);
        while (i < vecs) {
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (i + k * LANES < vecs)
                    t.template add<true, BINS, MOMENTS>(r[k], 0, PER, head + (i + k * LANES) * PER, hist, mask);
            i += AHEAD * LANES;
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (i + k * LANES < vecs) r[k] = __ldg(v + i + k * LANES);
        }
        t.template end<MOMENTS>(a, pos, x0, y);
    }
}

// Items base + m * unit with m < n of region r, by a block of W warps.
template <int W, int LANES, int KIND, int BINS, bool MOMENTS>
__device__ __forceinline__ void reduce_run(const ReduceArgs &g, u32 r, u64 base, u64 unit, u64 n, bool own, u32 *bins) {
    const Item *items = g.p.items + (g.count == 1 ? g.item0 : g.p.regions[g.first + r].item0) + base;
    const u32 group = threadIdx.x / LANES, groups = W * 32 / LANES;
    Sums a;
    a.clear();
    for (u32 c = 0; c < g.channels; c++) {
        const u64 slot = (u64)r * g.channels + c;
        u32 *out = BINS == NO_BINS ? 0 : g.hist + slot * g.levels;
        u32 *hist = BINS > COPIES ? bins + (lane_id() & (copies_of(BINS) - 1)) : BINS == GLOBAL ? out : bins;
        if (BINS == GLOBAL) after_prior();
        const u32 offset = g.order >> (8 * c) & 255;
        if (BINS == PACKED) {
            // A counter takes 65,535 pixels, which WIDE_RUN items can't exceed. After each of those what has become
            // large is moved to the results, so that it takes as many again.
            const u32 LARGE = 65535 - WIDE_RUN * ITEM_PIXELS;
            for (u64 m = 0;; m += WIDE_RUN) {
                const u64 end = m + WIDE_RUN < n ? m + WIDE_RUN : n;
                reduce_items<LANES, KIND, BINS, MOMENTS>(a, g, items, (m + group) * unit, end * unit, groups * unit,
                                                         hist, offset);
                if (end == n) break;
                __syncthreads();
                after_prior();
                for (u32 b = threadIdx.x; b < g.levels / 8; b += W * 32) {
                    const uint4 v = ((const uint4 *)bins)[b];
                    const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        if ((w[k] & 0xffff) <= LARGE && w[k] >> 16 <= LARGE) continue;
                        atomicAdd(&out[b * 8 + k * 2], w[k] & 0xffff);
                        atomicAdd(&out[b * 8 + k * 2 + 1], w[k] >> 16);
                        bins[b * 4 + k] = 0;
                    }
                }
                __syncthreads();
            }
        } else {
            reduce_items<LANES, KIND, BINS, MOMENTS>(a, g, items, group * unit, n * unit, groups * unit, hist, offset);
        }
        after_prior();
        if (BINS > COPIES) {
            const u32 copies = copies_of(BINS);
            __syncthreads();
            for (u32 b = threadIdx.x; b < g.levels; b += W * 32) {
                u32 v = 0;
#pragma unroll
                for (u32 i = 0; i < copies; i++) { // each lane starts at its own bank
                    u32 *bin = &bins[b * copies + ((i + threadIdx.x) & (copies - 1))];
                    v += *bin;
                    *bin = 0;
                }
                if (own)
                    out[b] = v;
                else if (v)
                    atomicAdd(&out[b], v);
            }
        }
        if (BINS == PACKED) {
            __syncthreads();
            const u32 words = g.levels / 2;
            for (u32 k = threadIdx.x; k < words; k += W * 32) {
                const u32 b = (k + blockIdx.x * (W * 32)) & (words - 1); // blocks begin at different places
                const u32 v = bins[b];
                if (!v) continue;
                bins[b] = 0;
                // Two counts in one go: they are below 2^32, the one does not carry into the other.
                atomicAdd((u64 *)out + b, (u64)(v >> 16) << 32 | (v & 0xffff));
            }
        }
        flush<W, KIND == ANY8 ? 0 : OfKind<KIND>::BYTES, MOMENTS>(a, g.stats + slot, own, g);
        __syncthreads();
    }
}

template <int W> __device__ __forceinline__ void zero_bins(u32 *bins, u32 words) {
    for (u32 b = threadIdx.x; b < words / 4; b += W * 32) ((uint4 *)bins)[b] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

template <int W, int KIND, int BINS, bool MOMENTS> __device__ __forceinline__ void reduce(const ReduceArgs &g) {
    extern __shared__ __align__(16) u32 bins[];
    if (!g.cleared) after_prior();
    if (BINS != NO_BINS && BINS != GLOBAL) zero_bins<W>(bins, BINS == PACKED ? g.levels / 2 : g.levels * copies_of(BINS));
    const int LANES = BINS == PACKED ? WIDE_GROUP : REDUCE_GROUP;
    if (g.count == 1) {
        // Item by item, so that blocks have as many of each length, and of a strip.
        const u32 total = g.p.counts[g.first], mine = (total + gridDim.x - 1 - blockIdx.x) / gridDim.x;
        if (mine > 0)
            reduce_run<W, LANES, KIND, BINS, MOMENTS>(g, 0, blockIdx.x, gridDim.x, mine, gridDim.x == 1 && g.cleared, bins);
        else
            after_prior();
        return;
    }
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], total = prefix[g.count] - p0;
    // Even shares; 64-bit division only where there are that many items.
    const u64 each = total >> 32 ? total / gridDim.x : (u32)total / gridDim.x;
    const u32 more = (u32)(total - each * gridDim.x);
    u64 i = p0 + each * blockIdx.x + min(blockIdx.x, more);
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
        const bool own = i == from && stop == to && g.cleared;
        if (BINS == PACKED && stop - i < WIDE_ITEMS)
            reduce_run<W, REDUCE_GROUP, KIND, GLOBAL, MOMENTS>(g, r, i - from, 1, stop - i, own, bins);
        else
            reduce_run<W, LANES, KIND, BINS, MOMENTS>(g, r, i - from, 1, stop - i, own, bins);
        i = stop;
    }
}

// A block a region: for many small ones. Without Accumulate the results are then written by plain stores, and nothing
// has to be cleared first. Not for histograms that are not collected on chip.
template <int W, int KIND, int BINS, bool MOMENTS> __device__ __forceinline__ void reduce_each(const ReduceArgs &g) {
    extern __shared__ __align__(16) u32 bins[];
    after_prior();
    if (BINS != NO_BINS) zero_bins<W>(bins, g.levels * copies_of(BINS));
    for (u32 r = blockIdx.x; r < g.count; r += gridDim.x)
        reduce_run<W, EACH_GROUP, KIND, BINS, MOMENTS>(g, r, 0, 1, g.p.counts[g.first + r], g.cleared, bins);
}

#define REDUCTION(name, kind, bins, each_bins, moments)                                                         \
    extern "C" __global__ void __launch_bounds__(REDUCE_THREADS, 1) name(ReduceArgs g) {                        \
        reduce<REDUCE_THREADS / 32, kind, bins, moments>(g);                                                    \
    }                                                                                                           \
    extern "C" __global__ void __launch_bounds__(EACH_THREADS, 1024 / EACH_THREADS) name##_each(ReduceArgs g) { \
        reduce_each<EACH_THREADS / 32, kind, each_bins, moments>(g);                                            \
    }

REDUCTION(mask_reduce_gray8, GRAY8, NO_BINS, NO_BINS, false)
REDUCTION(mask_reduce_gray8_m, GRAY8, NO_BINS, NO_BINS, true)
REDUCTION(mask_reduce_gray8_h, GRAY8, COPIES + REPLICAS, COPIES + EACH_REPLICAS, false)
REDUCTION(mask_reduce_gray8_hm, GRAY8, COPIES + REPLICAS, COPIES + EACH_REPLICAS, true)
REDUCTION(mask_reduce_gray16, GRAY16, NO_BINS, NO_BINS, false)
REDUCTION(mask_reduce_gray16_m, GRAY16, NO_BINS, NO_BINS, true)
REDUCTION(mask_reduce_gray16_h, GRAY16, COPIES + 1, COPIES + 1, false)
REDUCTION(mask_reduce_gray16_hm, GRAY16, COPIES + 1, COPIES + 1, true)
REDUCTION(mask_reduce_any8, ANY8, NO_BINS, NO_BINS, false)
REDUCTION(mask_reduce_any8_m, ANY8, NO_BINS, NO_BINS, true)
REDUCTION(mask_reduce_any8_h, ANY8, COPIES + REPLICAS, COPIES + EACH_REPLICAS, false)
REDUCTION(mask_reduce_any8_hm, ANY8, COPIES + REPLICAS, COPIES + EACH_REPLICAS, true)

extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1) mask_reduce_wide_h(ReduceArgs g) {
    reduce<WIDE_THREADS / 32, GRAY16, PACKED, false>(g);
}
extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1) mask_reduce_wide_hm(ReduceArgs g) {
    reduce<WIDE_THREADS / 32, GRAY16, PACKED, true>(g);
}
extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1) mask_reduce_global_h(ReduceArgs g) {
    reduce<WIDE_THREADS / 32, GRAY16, GLOBAL, false>(g);
}
extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1) mask_reduce_global_hm(ReduceArgs g) {
    reduce<WIDE_THREADS / 32, GRAY16, GLOBAL, true>(g);
}
