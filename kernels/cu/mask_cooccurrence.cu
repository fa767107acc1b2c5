// mask_cooccurrence counts pairs of grey levels at offsets inside prepared regions.
//
// Items of a region are in no order, so that the partner of a pixel can't be looked up among them. So phase (1),
// mask_cooccurrence_mark, draws each region into a bitmap of its own, within its bounds and the rows of the frame: a warp
// a run of items, a lane a word. In phase (2) blocks share the items of all regions evenly, a warp takes an item, and a lane a
// pixel and all of its partners: the bit says whether one counts. Counters of a block are in shared memory and are added to
// the results once for each region that the block touches; the kernels named _global count in the results at once, where
// not even the counters of one offset fit. Integer counts do not depend on the order.
//
// Bytes moved: each covered pixel once, and again from the caches for each offset; a bit a pixel of the bounds, written
// twice and read from the caches; the results once a block and region. Complexity: covered pixels times offsets.

#include "abi/mask_cooccurrence.cuh"
#include "bitmap.cuh"
#include "collective.cuh"

// Sets the bits of the pixels of all items. The bitmaps are cleared before.
extern "C" __global__ void __launch_bounds__(PAIR_MARK_THREADS) mask_cooccurrence_mark(PairArgs g) {
    after_prior();
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], last = prefix[g.count], warps = (u64)gridDim.x * (PAIR_MARK_THREADS / 32);
    const u64 each = (last - p0 + warps - 1) / warps;
    u64 i = p0 + each * (blockIdx.x * (u64)(PAIR_MARK_THREADS / 32) + (threadIdx.x >> 5));
    const u64 end = i + each < last ? i + each : last;
    if (i >= end) return;
    const int lane = lane_id();
    for (u32 r = region_of(prefix, g.count, i); i < end; i++) {
        while (i >= prefix[r + 1]) r++;
        const Bitmap map(g, g.first + r);
        const Item it = g.p.items[g.p.regions[g.first + r].item0 + (i - prefix[r])];
        const int y = item_y(it), from = item_x(it) - map.x0, to = from + item_n(it);
        if (y < map.y0 || y >= map.y1) continue;
        u32 *row = map.row(y);
        for (int w = from / 32 + lane; w * 32 < to; w += 32) {
            const u32 m = bits_below(min(to - w * 32, 32)) & ~bits_below(max(from - w * 32, 0));
            if (m == ~0u)
                row[w] = m;
            else
                atomicOr(&row[w], m); // items of a row may share a word
        }
    }
}

template <int BYTES> __device__ __forceinline__ u32 level_of(const PairArgs &g, const unsigned char *px) {
    const u32 v = BYTES == 2 ? *(const unsigned short *)px : *px;
    return min(v * g.levels >> g.sample_bits, g.levels - 1);
}

// Items start + k * step < end of a region, by the warps of a block, into counters of the launch's offsets.
template <int BYTES>
__device__ __forceinline__ void count_items(const PairArgs &g, u32 region, u64 start, u64 end, u64 step, u32 *table) {
    const Bitmap map(g, region);
    const Item *items = g.p.items + g.p.regions[region].item0;
    const u32 cells = g.levels * g.levels;
    for (u64 i = start + (threadIdx.x >> 5) * step; i < end; i += step * (PAIR_THREADS / 32)) {
        const Item it = items[i];
        const int y = item_y(it), x0 = item_x(it), x1 = x0 + item_n(it);
        if (y < map.y0 || y >= map.y1 || y < g.from_row || y >= g.to_row) continue;
        const unsigned char *row = g.frame + (u64)(y - g.row0) * g.stride + g.at;
        for (int x = x0 + (int)lane_id(); x < x1; x += 32) {
            const u32 a = level_of<BYTES>(g, row + (u64)x * g.pixel) * g.levels;
#pragma unroll 4
            for (u32 k = 0; k < g.offsets; k++) {
                const int x2 = x + g.dx[k], y2 = y + g.dy[k];
                if (y2 < map.y0 || y2 >= map.y1 || x2 < map.x0 || x2 >= map.x1) continue;
                const u32 word = map.row(y2)[(x2 - map.x0) >> 5];
                const u32 b = level_of<BYTES>(g, g.frame + (u64)(y2 - g.row0) * g.stride + g.at + (u64)x2 * g.pixel);
                if (word >> ((x2 - map.x0) & 31) & 1) atomicAdd(&table[k * cells + a + b], 1u);
            }
        }
    }
}

// The word at an aligned address, 0 where no byte of it is the frame's.
__device__ __forceinline__ u32 frame_word(const PairArgs &g, const unsigned char *p) {
    return p + 4 > g.frame && p < g.frame_end ? __ldg((const u32 *)p) : 0;
}

// Four pixels of one byte from any address on.
__device__ __forceinline__ u32 four_pixels(const PairArgs &g, const unsigned char *p) {
    const u32 off = (u32)(u64)p & 3;
    const unsigned char *at = p - off;
    const u32 lo = frame_word(g, at), hi = off ? frame_word(g, at + 4) : 0;
    return __funnelshift_r(lo, hi, off * 8);
}

// Bits i to i+3 of a row of a bitmap; those outside of it are 0.
__device__ __forceinline__ u32 four_bits(const u32 *row, int words, int i) {
    const int w = i >> 5;
    const u32 lo = w >= 0 && w < words ? row[w] : 0, hi = w + 1 >= 0 && w + 1 < words ? row[w + 1] : 0;
    return __funnelshift_r(lo, hi, i & 31) & 15;
}

// count_items for pixels of one byte: four at a time by a lane.
__device__ __forceinline__ void count_bytes(const PairArgs &g, u32 region, u64 start, u64 end, u64 step, u32 *table) {
    const Bitmap map(g, region);
    const Item *items = g.p.items + g.p.regions[region].item0;
    const u32 levels = g.levels, cells = levels * levels;
    for (u64 i = start + (threadIdx.x >> 5) * step; i < end; i += step * (PAIR_THREADS / 32)) {
        const Item it = items[i];
        const int y = item_y(it), x0 = item_x(it), x1 = x0 + item_n(it);
        if (y < map.y0 || y >= map.y1 || y < g.from_row || y >= g.to_row) continue;
        const unsigned char *row = g.frame + (u64)(y - g.row0) * g.stride;
        const int from = x0 - (int)((u64)(row + x0) & 3); // so that the first pixels are a word
        for (int x = from + 4 * (int)lane_id(); x < x1; x += 128) {
            const u32 first = frame_word(g, row + x);
            const u32 counted = 15u >> max(x + 4 - x1, 0) & 15u << max(x0 - x, 0);
            u32 a[4];
#pragma unroll
            for (int p = 0; p < 4; p++) a[p] = ((first >> 8 * p & 255) * levels >> 8) * levels;
#pragma unroll 1
            for (u32 k = 0; k < g.offsets; k++) {
                const int x2 = x + g.dx[k], y2 = y + g.dy[k];
                if (y2 < map.y0 || y2 >= map.y1) continue;
                const u32 both = counted & four_bits(map.row(y2), map.row_words, x2 - map.x0);
                if (!both) continue;
                const u32 second = four_pixels(g, row + ((i64)g.dy[k] * (i64)g.stride + g.dx[k] + x));
                u32 *t = table + k * cells;
#pragma unroll
                for (int p = 0; p < 4; p++)
                    if (both >> p & 1) atomicAdd(&t[a[p] + ((second >> 8 * p & 255) * levels >> 8)], 1u);
            }
        }
    }
}

// A block's part of one region: items start + k * step < end.
template <int BYTES, bool SHARED, bool GRAY>
__device__ __forceinline__ void count_run(const PairArgs &g, u32 r, u64 start, u64 end, u64 step, u32 *table) {
    const u32 n = g.offsets * g.levels * g.levels;
    u32 *out = g.counts + (((u64)(g.out + r) * g.channels + g.channel) * g.all_offsets + g.offset0) * g.levels * g.levels;
    const bool direct = !SHARED || (end - start) / step < PAIR_ITEMS;
    if (GRAY)
        count_bytes(g, g.first + r, start, end, step, direct ? out : table);
    else
        count_items<BYTES>(g, g.first + r, start, end, step, direct ? out : table);
    if (direct) return;
    __syncthreads();
    for (u32 k = threadIdx.x; k < n; k += PAIR_THREADS) {
        const u32 v = table[k];
        if (!v) continue;
        table[k] = 0;
        atomicAdd(&out[k], v);
    }
    __syncthreads();
}

template <int BYTES, bool SHARED, bool GRAY> __device__ __forceinline__ void count_pairs(const PairArgs &g) {
    extern __shared__ __align__(16) u32 table[];
    if (SHARED) {
        for (u32 k = threadIdx.x; k < g.offsets * g.levels * g.levels; k += PAIR_THREADS) table[k] = 0;
        __syncthreads();
    }
    after_prior();
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], total = prefix[g.count] - p0;
    if (g.count == 1) { // item by item, so that blocks have as many of each length
        count_run<BYTES, SHARED, GRAY>(g, 0, blockIdx.x, total, gridDim.x, table);
        return;
    }
    const u64 each = total / gridDim.x;
    const u32 more = (u32)(total - each * gridDim.x);
    u64 i = p0 + each * blockIdx.x + min(blockIdx.x, more);
    const u64 end = i + each + (blockIdx.x < more);
    if (i >= end) return;
    for (u32 r = region_of(prefix, g.count, i); i < end; r++) {
        const u64 from = prefix[r], to = prefix[r + 1], stop = to < end ? to : end;
        if (from == to) continue;
        count_run<BYTES, SHARED, GRAY>(g, r, i - from, stop - from, 1, table);
        i = stop;
    }
}

#define PAIRS(name, bytes, shared, gray) \
    extern "C" __global__ void __launch_bounds__(PAIR_THREADS, PAIR_BLOCKS) name(PairArgs g) { count_pairs<bytes, shared, gray>(g); }

PAIRS(mask_cooccurrence_gray8, 1, true, true)
PAIRS(mask_cooccurrence_8, 1, true, false)
PAIRS(mask_cooccurrence_16, 2, true, false)
PAIRS(mask_cooccurrence_gray8_global, 1, false, true)
PAIRS(mask_cooccurrence_8_global, 1, false, false)
PAIRS(mask_cooccurrence_16_global, 2, false, false)
