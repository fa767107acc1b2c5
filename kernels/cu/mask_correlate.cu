// mask_correlate adds up products of pixels at lags from each other inside prepared regions, of a frame and itself or of
// two frames. Pairs of channels that are the same one of a single channel have the same sums.
//
// Which pixels are inside is in bitmaps, as mask_cooccurrence_mark draws them; where all lags are (0,0) they aren't
// needed. Blocks share the items of all regions evenly, in runs, so that neighbours in rows meet in the caches.
//
// mask_correlate_gray8: a block has CORRELATE_LAGS lags, a warp takes an item, a lane four pixels at a time. Each lane
// makes 32 bits of each lag's partners, so that votes say for 256 pixels at a time whether all partners of all lags are
// inside: then sums of the first pixels are the same for all lags, and only those that the partner is in are added up, by
// three dot products of four bytes. Elsewhere first pixels without a partner are added up to be subtracted. Sums of a
// lane have 32 bits and are merged after CORRELATE_ITEMS items at the latest, and at the end of a block's part of a region.
// mask_correlate_still8 is for one channel of one byte at (0,0): STILL_GROUP lanes take an item, as mask_reduce does.
// The others have a lag and a pair of channels a block, and take a pixel a lane, in 64 bits.
//
// Bytes moved: each covered pixel once, and again from the caches for each lag. Complexity: covered pixels times lags.

#include "abi/mask_correlate.cuh"
#include "bitmap.cuh"
#include "collective.cuh"

#define ONES 0x01010101u

// Bytes [0, n) of a word, n from 0 on.
__device__ __forceinline__ u32 low_bytes(int n) { return n >= 4 ? ~0u : (1u << 8 * n) - 1; }

// The word that holds the byte at p, and at which bit it does.
__device__ __forceinline__ const u32 *aligned(const unsigned char *p, u32 &shift) {
    const u32 off = (u32)(u64)p & 3;
    shift = 8 * off;
    asm("" : "+r"(shift)); // else it is made again of the address wherever it is used
    return (const u32 *)(p - off);
}

// Four pixels from a bit of a word on, of which the bits of want are needed: none is read of a word that has none of them.
__device__ __forceinline__ u32 four_pixels(const u32 *at, u32 shift, u32 want) {
    const u32 off = shift / 8, lo = want & 15u >> off ? __ldg(at) : 0, hi = want >> (4 - off) ? __ldg(at + 1) : 0;
    return __funnelshift_r(lo, hi, shift);
}

// The sum of a lane's v in a warp.
__device__ __forceinline__ u64 total(u32 v) { return warp_sum(v & 0xffff) + ((u64)warp_sum(v >> 16) << 16); }
__device__ __forceinline__ u64 total(u64 v) { return warp_sum(v); }

// Puts the sums of a warp's lanes into shared memory, into six places of its own: to add to 64 bits there takes a loop, in
// which warps would wait for each other.
template <class T> __device__ __forceinline__ void gather(u64 *part, T pairs, T a, T b, T sq_a, T sq_b, T product) {
    const T v[6] = {pairs, a, b, sq_a, sq_b, product};
#pragma unroll
    for (int k = 0; k < 6; k++) {
        const u64 t = total(v[k]);
        if (lane_id() == 0) part[k] = t;
    }
}

// Shares the items of all regions among the blocks of a row: calls part(region, start, end) with at most so many items of
// a region.
template <class Part> __device__ __forceinline__ void share(const CorrelateArgs &g, u32 most, Part part) {
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], all = prefix[g.count] - p0, each = all / gridDim.x;
    const u32 more = (u32)(all - each * gridDim.x);
    u64 i = p0 + each * blockIdx.x + min(blockIdx.x, more);
    const u64 end = i + each + (blockIdx.x < more);
    if (i >= end) return;
    for (u32 r = region_of(prefix, g.count, i); i < end; r++) {
        const u64 from = prefix[r], to = prefix[r + 1], stop = to < end ? to : end;
        while (i < stop) { // an empty region has none
            const u64 next = stop - i > most ? i + most : stop;
            part(r, i - from, next - from);
            i = next;
        }
    }
}

__device__ __forceinline__ PairSums *result(const CorrelateArgs &g, u32 r, u32 series, u32 lag) {
    return g.sums + ((u64)(g.out + r) * g.series + series) * g.slots + g.to[lag];
}

// Is the row of an item among those that are summed up?
__device__ __forceinline__ bool counts(const CorrelateArgs &g, int y) {
    return y >= g.row0 && y < g.row0 + g.rows && y >= g.from_row && y < g.to_row;
}

// The same where both words may be read.
__device__ __forceinline__ u32 next_four(const u32 *at, u32 shift) { return __funnelshift_r(__ldg(at), __ldg(at + 1), shift); }

extern "C" __global__ void __launch_bounds__(CORRELATE_THREADS, CORRELATE_BLOCKS) mask_correlate_gray8(CorrelateArgs g) {
    const int N = CORRELATE_LAGS, WARPS = CORRELATE_THREADS / 32;
    __shared__ u64 sums[WARPS][N][6];
    __shared__ u32 partners[WARPS][N][32]; // of a warp's item: a bit for each pixel whose partner is inside
    after_prior();
    const u32 lag0 = blockIdx.y * N;
    const int lags = (int)min(g.lags - lag0, (u32)N), lane = (int)lane_id();
    u32(*const words)[32] = partners[threadIdx.x / 32];
    share(g, CORRELATE_ITEMS * WARPS, [&](u32 r, u64 start, u64 end) {
        const Bitmap map(g, g.first + r);
        const Item *items = g.p.items + g.p.regions[g.first + r].item0;
        u32 n_all = 0, a_all = 0, aa_all = 0; // of all first pixels
        u32 n_no[N], a_no[N], aa_no[N];       // of those without a partner
        u32 b[N], bb[N], ab[N];
#pragma unroll
        for (int l = 0; l < N; l++) n_no[l] = a_no[l] = aa_no[l] = b[l] = bb[l] = ab[l] = 0;
        for (u64 i = start + (threadIdx.x >> 5); i < end; i += WARPS) {
            const Item it = items[i];
            const int y = item_y(it), x0 = item_x(it), n = item_n(it);
            if (!counts(g, y)) continue;
            // A lane's words: those of its first four pixels, and at which bit these begin.
            const unsigned char *p = g.frame + (u64)(y - g.row0) * g.stride + x0;
            const u32 own = bits_below(min(max(n - 32 * lane, 0), 32));
            u32 shift, shifts[N], whole = p + n + 4 <= g.frame_end ? ~0u : 0;
            const u32 *first = aligned(p, shift) + lane, *second[N];
#pragma unroll
            for (int l = 0; l < N; l++) {
                const int k = (int)lag0 + min(l, lags - 1), y2 = y + g.dy[k]; // lags that aren't there are the last
                p = g.other + (i64)(y2 - g.row0) * (i64)g.other_stride + x0 + g.dx[k];
                second[l] = aligned(p, shifts[l]) + lane;
                u32 word = 0;
                if (y2 >= map.y0 && y2 < map.y1) {
                    const int at = x0 + g.dx[k] - map.x0 + 32 * lane, w = at >> 5;
                    const u32 *row = map.row(y2);
                    const u32 lo = (u32)w < (u32)map.row_words ? row[w] : 0;
                    const u32 hi = (u32)(w + 1) < (u32)map.row_words ? row[w + 1] : 0;
                    word = __funnelshift_r(lo, hi, at & 31) & own;
                }
                words[l][lane] = word;
                whole &= p + n + 4 <= g.other_end ? __ballot_sync(~0u, word == own) : 0;
            }
            __syncwarp();
            int k = 0;
            const auto step = [&](int chunks) {
                k += chunks;
                first += 32 * chunks;
#pragma unroll
                for (int l = 0; l < N; l++) second[l] += 32 * chunks;
            };
#pragma unroll 1
            while (128 * k < n) {
                if ((whole >> 4 * k & 255) == 255 && n >= 128 * (k + 2)) {
#pragma unroll
                    for (int c = 0; c < 64; c += 32) {
                        const u32 a = next_four(first + c, shift);
                        a_all = __dp4a(a, ONES, a_all);
                        aa_all = __dp4a(a, a, aa_all);
#pragma unroll
                        for (int l = 0; l < N; l++) {
                            const u32 v = next_four(second[l] + c, shifts[l]);
                            b[l] = __dp4a(v, ONES, b[l]);
                            bb[l] = __dp4a(v, v, bb[l]);
                            ab[l] = __dp4a(a, v, ab[l]);
                        }
                    }
                    n_all += 8;
                    step(2);
                } else {
                    const int left = min(max(n - 128 * k - 4 * lane, 0), 4);
                    const u32 a = four_pixels(first, shift, (1u << left) - 1) & low_bytes(left);
                    n_all += left;
                    a_all = __dp4a(a, ONES, a_all);
                    aa_all = __dp4a(a, a, aa_all);
#pragma unroll
                    for (int l = 0; l < N; l++) {
                        const u32 both = words[l][4 * k + lane / 8] >> lane % 8 * 4 & 15;
                        const u32 m = (both * 0x00204081u & ONES) * 255, no = a & ~m;
                        const u32 v = four_pixels(second[l], shifts[l], both) & m;
                        n_no[l] += left - __popc(both);
                        a_no[l] = __dp4a(no, ONES, a_no[l]);
                        aa_no[l] = __dp4a(no, no, aa_no[l]);
                        b[l] = __dp4a(v, ONES, b[l]);
                        bb[l] = __dp4a(v, v, bb[l]);
                        ab[l] = __dp4a(a, v, ab[l]);
                    }
                    step(1);
                }
            }
            __syncwarp(); // before the next item's words
        }
#pragma unroll
        for (int l = 0; l < N; l++) {
            if (l >= lags) continue;
            gather(sums[threadIdx.x / 32][l], n_all - n_no[l], a_all - a_no[l], b[l], aa_all - aa_no[l], bb[l], ab[l]);
        }
        __syncthreads();
        if (threadIdx.x < lags * 6) {
            const int l = threadIdx.x / 6, k = threadIdx.x % 6;
            u64 v = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) v += sums[w][l][k];
            if (v)
                for (u32 c = 0; c < g.series; c++) atomicAdd((u64 *)result(g, r, c, lag0 + l) + k, v);
        }
        __syncthreads();
    });
}

extern "C" __global__ void __launch_bounds__(STILL_THREADS) mask_correlate_still8(CorrelateArgs g) {
    const int GROUPS = STILL_THREADS / STILL_GROUP;
    __shared__ u64 sums[STILL_THREADS / 32][6];
    after_prior();
    const int at = 4 * (threadIdx.x % STILL_GROUP);
    // A group's lane has 4 pixels of STILL_GROUP * 4, of an item of 1024: 32 products of 4.
    share(g, CORRELATE_ITEMS / 4 * GROUPS, [&](u32 r, u64 start, u64 end) {
        const Item *items = g.p.items + g.p.regions[g.first + r].item0;
        u32 pairs = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0;
        for (u64 i = start + threadIdx.x / STILL_GROUP; i < end; i += GROUPS) {
            const Item it = items[i];
            const int y = item_y(it), n = item_n(it);
            if (!counts(g, y)) continue;
            u32 shift, other;
            const u32 *pa = aligned(g.frame + (u64)(y - g.row0) * g.stride + item_x(it), shift);
            const u32 *pb = aligned(g.other + (u64)(y - g.row0) * g.other_stride + item_x(it), other);
#pragma unroll 2
            for (int x = at; x < n; x += 4 * STILL_GROUP) {
                const int left = min(n - x, 4);
                const u32 some = (1u << left) - 1, keep = low_bytes(left);
                const u32 v = four_pixels(pa + x / 4, shift, some) & keep, w = four_pixels(pb + x / 4, other, some) & keep;
                pairs += left;
                a = __dp4a(v, ONES, a);
                b = __dp4a(w, ONES, b);
                aa = __dp4a(v, v, aa);
                bb = __dp4a(w, w, bb);
                ab = __dp4a(v, w, ab);
            }
        }
        gather(sums[threadIdx.x / 32], pairs, a, b, aa, bb, ab);
        __syncthreads();
        if (threadIdx.x < 6) {
            u64 v = 0;
#pragma unroll
            for (int w = 0; w < STILL_THREADS / 32; w++) v += sums[w][threadIdx.x];
            for (u32 l = 0; v && l < g.lags; l++)
                for (u32 c = 0; c < g.series; c++) atomicAdd((u64 *)result(g, r, c, l) + threadIdx.x, v);
        }
        __syncthreads();
    });
}

template <int BYTES> __device__ __forceinline__ u64 sample(const unsigned char *p) {
    return BYTES == 2 ? *(const unsigned short *)p : *p;
}

template <int BYTES> __device__ __forceinline__ void correlate(const CorrelateArgs &g) {
    const int WARPS = CORRELATE_THREADS / 32;
    __shared__ u64 sums[WARPS][6];
    after_prior();
    const u32 lag = blockIdx.y % g.lags, series = blockIdx.y / g.lags;
    const int dx = g.dx[lag], dy = g.dy[lag];
    share(g, ~0u, [&](u32 r, u64 start, u64 end) {
        const Item *items = g.p.items + g.p.regions[g.first + r].item0;
        const Bitmap map(g, g.first + r);
        u64 pairs = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0;
        for (u64 i = start + (threadIdx.x >> 5); i < end; i += WARPS) {
            const Item it = items[i];
            const int y = item_y(it), y2 = y + dy, x0 = item_x(it), x1 = x0 + item_n(it);
            if (!counts(g, y) || y2 < map.y0 || y2 >= map.y1) continue;
            const unsigned char *pa = g.frame + (u64)(y - g.row0) * g.stride + g.a_at[series];
            const unsigned char *pb = g.other + (u64)(y2 - g.row0) * g.other_stride + g.b_at[series];
            for (int x = x0 + (int)lane_id(); x < x1; x += 32) {
                const int x2 = x + dx;
                if (g.bits) {
                    if (x2 < map.x0 || x2 >= map.x1) continue;
                    if (!(map.row(y2)[(x2 - map.x0) >> 5] >> ((x2 - map.x0) & 31) & 1)) continue;
                }
                const u64 v = sample<BYTES>(pa + (u64)x * g.pixel), w = sample<BYTES>(pb + (u64)x2 * g.pixel);
                pairs++;
                a += v;
                b += w;
                aa += v * v;
                bb += w * w;
                ab += v * w;
            }
        }
        gather(sums[threadIdx.x / 32], pairs, a, b, aa, bb, ab);
        __syncthreads();
        if (threadIdx.x < 6) {
            u64 v = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) v += sums[w][threadIdx.x];
            if (v) atomicAdd((u64 *)result(g, r, series, lag) + threadIdx.x, v);
        }
        __syncthreads();
    });
}

extern "C" __global__ void __launch_bounds__(CORRELATE_THREADS) mask_correlate_8(CorrelateArgs g) { correlate<1>(g); }

extern "C" __global__ void __launch_bounds__(CORRELATE_THREADS) mask_correlate_16(CorrelateArgs g) { correlate<2>(g); }
