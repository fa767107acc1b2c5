// mask_correlate adds up products of pixels at lags from each other inside prepared regions, of a frame and itself or of
// two frames. Pairs of channels that are the same one of a single channel have the same sums.
//
// Which pixels are inside is in bitmaps, as mask_cooccurrence_mark draws them; where all lags are (0,0) they aren't
// needed. Blocks share the items of all regions evenly, in runs, so that neighbours in rows meet in the caches.
//
// mask_correlate_tiles8, for one channel of one byte and lags of up to CORRELATE_REACH: a block has CORRELATE_TILE_LAGS lags
// and tiles of 128 by CORRELATE_TILE pixels. Of a tile and what its lags reach it takes the pixels into shared memory, with
// zeros outside of the region. So products are dot products of four bytes, without a test: a warp has four rows, a lane
// four pixels in each. All other sums of a lag are those of all pixels less those of pixels without a partner, which are
// runs of ones in words of bits: a warp has a lag, a lane a row, and sums of words up to each four pixels give the sums of
// a run by its two ends, however long it is. For the second pixel of pairs the partner is that at the lag subtracted.
// mask_correlate_gray8, for longer lags: a block has CORRELATE_LAGS lags, a warp takes an item, a lane four pixels at a time. Each lane
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

// What a warp and a lane of mask_correlate_tiles8 know of the pixels without a partner.
struct Missing {
    u32 pairs, a, aa, b, bb;
};

extern "C" __global__ void __launch_bounds__(CORRELATE_TILE_THREADS, CORRELATE_TILE_BLOCKS)
    mask_correlate_tiles8(CorrelateArgs g) {
    const int N = CORRELATE_TILE_LAGS, H = CORRELATE_TILE, R = CORRELATE_REACH, WARPS = CORRELATE_TILE_THREADS / 32;
    const int LINE = 32 + 2 * R / 4 + 1; // words of a row of pixels, an odd number, so that lanes have rows without conflicts
    const int BITS = 7;                  // words of a row of bits, from the one before the tile on
    const int ENDS = 37;                 // sums of a row: nine for each 32 pixels, and one to make it odd
    const int EACH = N / WARPS;          // lags of a warp
    static_assert(WARPS == 8 && H == 4 * WARPS && N % WARPS == 0, "roles of warps");
    static_assert(R <= 32, "a row has one word of bits before the tile, and two behind it");
    __shared__ u32 second[(H + R) * LINE], first[H * LINE], both[2][(H + 2 * R) * BITS];
    __shared__ uint2 ends[2][H * ENDS];
    __shared__ u64 products[WARPS][N], whole[WARPS][3], missing[N][5];
    __shared__ int lag_dx[N], lag_dy[N];
    __shared__ struct {
        const u32 *words;
        int x0, row_words, y0, y1, across, top, bottom; // across: tiles in a row of them; of tiles rows [top, bottom)
        bool same;                                      // the first pixels are the second ones
    } box;                                              // of the region: see Bitmap
    __shared__ __attribute__((aligned(8))) unsigned char filled[2][WARPS]; // columns of bits that have no zero, by warp
    __shared__ int2 lag_at[N]; // by how many words a lag's pixels lie behind, and at which bit
    after_prior();
    const int lag0 = (int)blockIdx.y * N, lags = min((int)g.lags - lag0, N), t = threadIdx.x;
    const int lane = (int)lane_id(), warp = t / 32;
    // Lags that aren't there are at the tile itself.
    const int lag_x = lane < lags ? g.dx[lag0 + lane] : 0, lag_y = lane < lags ? g.dy[lag0 + lane] : 0;
    if (t < N) {
        lag_dx[t] = lag_x;
        lag_dy[t] = lag_y;
        lag_at[t] = make_int2(lag_y * LINE + (lag_x >> 2), 8 * (lag_x & 3));
    }
    // How far lags reach, up and left negative.
    const int left = warp_min(lag_x), right = warp_max(lag_x), up = warp_min(lag_y), down = warp_max(lag_y);
    const int reach = max(-up, down);

    u32 ab[N];
    Missing no[EACH];
    u32 pairs = 0, sum = 0, squares = 0; // of all pixels: of the first ones in half of the warps, of the second ones in others
#pragma unroll
    for (int l = 0; l < N; l++) ab[l] = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) no[k] = {0, 0, 0, 0, 0};
    u32 region = 0, taken = 0;
    bool same = false;
    const auto flush = [&] {
#pragma unroll
        for (int l = 0; l < N; l++) {
            const u64 v = total(ab[l]);
            if (lane == 0) products[warp][l] = v;
            ab[l] = 0;
        }
        const u64 p = total(pairs), s = total(sum), q = total(squares);
        if (lane == 0) whole[warp][0] = p, whole[warp][1] = s, whole[warp][2] = q;
        pairs = sum = squares = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const u64 v[5] = {total(no[k].pairs), total(no[k].a), total(no[k].b), total(no[k].aa), total(no[k].bb)};
#pragma unroll
            for (int i = 0; i < 5; i++)
                if (lane == 0) missing[warp + k * WARPS][i] = v[i];
            no[k] = {0, 0, 0, 0, 0};
        }
        __syncthreads();
        if (t < lags * 6) {
            const int l = t / 6, k = t % 6;
            u64 v = 0;
            if (k == 5) {
                for (int w = 0; w < WARPS; w++) v += products[w][l];
            } else {
                const int from = (k == 2 || k == 4) && !same ? WARPS / 2 : 0, what = (k + 1) / 2;
                for (int w = from; w < from + WARPS / 2; w++) v += whole[w][what];
                v -= missing[l][k];
            }
            if (v)
                for (u32 c = 0; c < g.series; c++) atomicAdd((u64 *)result(g, region, c, lag0 + l) + k, v);
        }
        __syncthreads();
        taken = 0;
    };

    u32 at_region = ~0u, turn = 0;
    for (u32 i = blockIdx.x; i < g.count * g.tiles; i += gridDim.x) {
        const u32 r = g.count == 1 ? 0 : i / g.tiles, tile = i - r * g.tiles;
        if (taken && (r != region || taken == 1024)) flush(); // sums of a thread have 32 bits
        if (r != at_region) {
            at_region = r;
            __syncthreads();
            if (t == 0) {
                const Bitmap map(g, g.first + r);
                const int across = max((map.row_words + 3) / 4, 1), top = max(map.y0, g.from_row + up);
                box.words = map.words, box.x0 = map.x0, box.row_words = map.row_words, box.y0 = map.y0, box.y1 = map.y1;
                box.across = across, box.top = top;
                box.bottom = map.row_words ? min(map.y1, g.to_row + down) : top;
                box.same = g.frame == g.other && g.stride == g.other_stride && g.from_row <= map.y0 && g.to_row >= map.y1;
            }
            __syncthreads();
        }
        const u32 ty = tile / (u32)box.across;
        const int tx = (int)(tile - ty * box.across), y = box.top + (int)ty * H, x = box.x0 + tx * 128;
        if (y >= box.bottom) continue;
        region = r;
        same = box.same;
        // Bits of two tiles in turn: some warps may be at the last one yet.
        turn ^= 1;
        u32 *const bits = both[turn];
        bool any = false, full = true;
        {
            const int col = lane % 8, w = 4 * tx + col - 1;
            const bool there = col < BITS && (u32)w < (u32)box.row_words, mine = col >= 1 && col <= 4;
            int at = y + t / 8 - reach;
            const u32 *p = box.words + (i64)(at - box.y0) * box.row_words + w;
            u32 *to = bits + t / 8 * BITS + col;
#pragma unroll 1
            for (int row = t / 8 - reach; row < H + reach; row += CORRELATE_TILE_THREADS / 8) {
                const u32 v = there && at >= box.y0 && at < box.y1 ? *p : 0;
                if (col < BITS) *to = v;
                any |= v && mine && (u32)row < (u32)H;
                full &= v == ~0u;
                at += CORRELATE_TILE_THREADS / 8;
                p += CORRELATE_TILE_THREADS / 8 * box.row_words;
                to += CORRELATE_TILE_THREADS / 8 * BITS;
            }
            u32 f = __ballot_sync(~0u, full); // by column
            f &= f >> 16;
            f &= f >> 8;
            if (lane == 0) filled[turn][warp] = (unsigned char)f;
        }
        if (!__syncthreads_or(any)) continue;
        taken++;
        // Takes rows from top on, so many, and their groups of four words from group0 to group1 into shared memory, where to
        // is that of row 0 and word 0 of the tile: zeros for pixels that aren't inside.
        const auto take = [&](u32 *to, const unsigned char *from, const unsigned char *end, u64 stride, int top, int rows,
                              int group0, int group1, bool firsts) {
            const int groups = group1 - group0;
            const u32 magic = 0xffffffffu / (u32)groups + 1; // the high half of its product with n < 2^16 is n / groups
            const bool straight = (((u64)from | stride) & 15) == 0;
            from += (u64)(y + top - g.row0) * stride + x;
#pragma unroll 2
            for (int k = t; k < rows * groups; k += CORRELATE_TILE_THREADS) {
                const int row = (int)__umulhi((u32)k, magic), group = k - row * groups + group0;
                u32 some = bits[(row + top + reach) * BITS + 1 + (group >> 1)] >> 16 * (group & 1) & 0xffff;
                if (firsts && !counts(g, y + top + row)) some = 0;
                uint4 v = make_uint4(0, 0, 0, 0);
                const unsigned char *const p = from + (u64)row * stride + 16 * group;
                if (some && straight && p + 16 <= end) {
                    v = __ldg((const uint4 *)p);
                } else if (some) {
                    u32 shift;
                    const u32 *const at = aligned(p, shift);
                    v.x = four_pixels(at, shift, some & 15), v.y = four_pixels(at + 1, shift, some >> 4 & 15);
                    v.z = four_pixels(at + 2, shift, some >> 8 & 15), v.w = four_pixels(at + 3, shift, some >> 12);
                }
                if (some != 0xffff) {
                    v.x &= ((some & 15) * 0x00204081u & ONES) * 255, v.y &= ((some >> 4 & 15) * 0x00204081u & ONES) * 255;
                    v.z &= ((some >> 8 & 15) * 0x00204081u & ONES) * 255, v.w &= ((some >> 12) * 0x00204081u & ONES) * 255;
                }
                u32 *const at = to + (row + top) * LINE + 4 * group;
                at[0] = v.x, at[1] = v.y, at[2] = v.z, at[3] = v.w;
            }
        };
        u32 *const own = second - up * LINE + R / 4; // the tile itself
        take(own, g.other, g.other_end, g.other_stride, up, H + down - up, left >> 4, 8 + ((right + 15) >> 4), false);
        const u32 *const mine = same ? own : first;
        if (!same) take(first, g.frame, g.frame_end, g.stride, 0, H, 0, 8, true);
        __syncthreads();

        // Sums of 32 pixels up to each four of them. Warps of the second half have those of the second pixels.
        const bool counted = same || counts(g, y + lane);
        if (warp < WARPS / 2 || !same) {
            const int of = warp / (WARPS / 2), w = warp % (WARPS / 2);
            const u32 *const at = (of ? own : mine) + lane * LINE + 8 * w;
            uint2 *const to = ends[of] + lane * ENDS + 9 * w, v = make_uint2(0, 0);
#pragma unroll
            for (int k = 0; k < 8; k++) {
                to[k] = v;
                v.x = __dp4a(at[k], ONES, v.x);
                v.y = __dp4a(at[k], at[k], v.y);
            }
            to[8] = v;
            sum += v.x;
            squares += v.y;
            if (counted && !of) pairs += __popc(bits[(lane + reach) * BITS + 1 + w]);
        }

        {
            u32 a[4];
#pragma unroll
            for (int k = 0; k < 4; k++) a[k] = mine[(4 * warp + k) * LINE + lane];
            if (__any_sync(~0u, (a[0] | a[1] | a[2] | a[3]) != 0)) {
                const u32 *const at = own + 4 * warp * LINE + lane;
#pragma unroll
                for (int l = 0; l < N; l++) {
                    const int2 lag = lag_at[l];
                    const u32 *const p = at + lag.x, shift = lag.y;
                    if (shift == 0) {
#pragma unroll
                        for (int k = 0; k < 4; k++) ab[l] = __dp4a(a[k], p[k * LINE], ab[l]);
                    } else {
#pragma unroll
                        for (int k = 0; k < 4; k++)
                            ab[l] = __dp4a(a[k], __funnelshift_r(p[k * LINE], p[k * LINE + 1], shift), ab[l]);
                    }
                }
            }
        }
        __syncthreads(); // sums up to each four pixels are there

        u32 inside[4];
        bool none[4]; // all pixels have partners, or there is no pixel
        u32 fill = same ? ((const u32 *)filled[turn])[0] & ((const u32 *)filled[turn])[1] : 0;
        fill &= fill >> 16;
        fill &= fill >> 8;
        fill &= fill >> 1 & fill >> 2; // with the words to both sides
#pragma unroll
        for (int w = 0; w < 4; w++) {
            inside[w] = bits[(lane + reach) * BITS + 1 + w];
            none[w] = fill >> w & 1 || !__any_sync(~0u, inside[w]);
        }
        if (none[0] && none[1] && none[2] && none[3]) continue;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int dx = lag_dx[warp + k * WARPS], dy = lag_dy[warp + k * WARPS];
            const u32 *after = bits + (lane + reach + dy) * BITS + 1 + (dx >> 5);
            const u32 *before = bits + (lane + reach - dy) * BITS + 1 + (-dx >> 5);
            const bool from = same || counts(g, y + lane - dy);
            u32 after_lo = *after, before_lo = *before;
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const u32 after_hi = after[w + 1], before_hi = before[w + 1];
                if (none[w]) {
                    after_lo = after_hi, before_lo = before_hi;
                    continue;
                }
                u32 a = inside[w] & ~__funnelshift_r(after_lo, after_hi, dx & 31);
                u32 b = inside[w] & ~(from ? __funnelshift_r(before_lo, before_hi, -dx & 31) : 0);
                if (!counted) a = 0;
                after_lo = after_hi, before_lo = before_hi;
                no[k].pairs += __popc(a);
                while (a | b) {
                    const bool firsts = a != 0;
                    const u32 m = firsts ? a : b;
                    const int begin = __ffs(m) - 1, end = begin + (~(m >> begin) ? __ffs(~(m >> begin)) - 1 : 32);
                    const u32 rest = m & ~bits_below(end);
                    if (firsts)
                        a = rest;
                    else
                        b = rest;
                    const uint2 *const sums = ends[firsts || same ? 0 : 1] + lane * ENDS + 9 * w;
                    const u32 *const px = (firsts ? mine : own) + lane * LINE + 8 * w;
                    const uint2 hi = sums[end / 4], lo = sums[begin / 4];
                    const u32 some_hi = px[end / 4] & ((1u << 8 * (end & 3)) - 1);
                    const u32 some_lo = px[begin / 4] & ((1u << 8 * (begin & 3)) - 1);
                    const u32 s = __dp4a(some_hi, ONES, hi.x) - __dp4a(some_lo, ONES, lo.x);
                    const u32 q = __dp4a(some_hi, some_hi, hi.y) - __dp4a(some_lo, some_lo, lo.y);
                    if (firsts)
                        no[k].a += s, no[k].aa += q;
                    else
                        no[k].b += s, no[k].bb += q;
                }
            }
        }
    }
    if (taken) flush();
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
