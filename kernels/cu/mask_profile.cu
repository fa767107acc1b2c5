// mask_profile adds up samples by bins along rows, along columns, by the distance from a centre, and along a line, inside
// prepared regions.
//
// A warp takes an item, which is a run of pixels of a row. Along rows all of it is in one bin: lanes add up words of four
// bytes, or samples, and one of them adds the sum of the warp to the result. Along the others a lane takes a pixel and
// finds its bin: an estimate in double precision is one off at most, and exact integers decide. Counters of a block, 32 bits
// for the sum and 32 for the count of each bin, are in shared memory and are added to the results once for each region that
// the block touches. Where a sum runs over, its 2^32 go to the result at once, so that there is no bound on how many pixels a
// block may add; a count has room for all. Regions with more bins than a block has counters for, or few items, are added up
// in the results. Lanes of a warp that have the same bin, as neighbours along a radius or a line do, are added up first:
// those beside each other, by a sum of the lanes before.
//
// Bytes moved: each covered pixel once, and the bins of a region once a block. Complexity: covered pixels, for a line times
// segments.

#include "abi/mask_profile.cuh"
#include "bitmap.cuh"
#include "collective.cuh"

enum Axis { COLUMNS, RADIUS, LINE };

// Is the row of an item among those that are added up?
__device__ __forceinline__ bool counts(const ProfileArgs &g, int y) {
    return y >= g.row0 && y < g.row0 + g.rows && y >= g.from_row && y < g.to_row;
}

template <int BYTES> __device__ __forceinline__ u32 sample(const unsigned char *px) {
    return BYTES == 2 ? __ldg((const unsigned short *)px) : __ldg(px);
}

// A sum and a count to a bin in the results.
__device__ __forceinline__ void add(ProfileBin *to, u64 sum, u64 count) {
    if (sum) atomicAdd(&to->sum, sum);
    atomicAdd(&to->count, count);
}

// The bins of a region in the channel of the launch; null where it has none.
__device__ __forceinline__ ProfileBin *bins_of(const ProfileArgs &g, const ProfilePlace &place) {
    const u64 n = (u64)place.bins * g.channels;
    if (n == 0 || place.first > g.all || n > g.all - place.first) return 0;
    return g.bins + place.first + (u64)g.channel * place.bins;
}

// Shares the items of all regions among blocks: calls part(region, start, end, step) for items start + k * step < end of
// a region. A region alone is shared item by item, so that blocks have as many of each length.
template <class Part> __device__ __forceinline__ void share(const ProfileArgs &g, Part part) {
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], all = prefix[g.count] - p0;
    if (g.count == 1) {
        part(0u, (u64)blockIdx.x, all, (u64)gridDim.x);
        return;
    }
    const u64 each = all / gridDim.x;
    const u32 more = (u32)(all - each * gridDim.x);
    u64 i = p0 + each * blockIdx.x + min(blockIdx.x, more);
    const u64 end = i + each + (blockIdx.x < more);
    if (i >= end) return;
    for (u32 r = region_of(prefix, g.count, i); i < end; r++) {
        const u64 from = prefix[r], to = prefix[r + 1], stop = to < end ? to : end;
        if (from == to) continue;
        part(r, i - from, stop - from, (u64)1);
        i = stop;
    }
}

template <int BYTES, bool GRAY> __device__ __forceinline__ void profile_rows(const ProfileArgs &g) {
    after_prior();
    share(g, [&](u32 r, u64 start, u64 end, u64 step) {
        const ProfilePlace place = g.places[g.first + r];
        ProfileBin *bins = bins_of(g, place);
        if (!bins) return;
        const Item *items = g.p.items + g.p.regions[g.first + r].item0;
        for (u64 i = start + (threadIdx.x >> 5) * step; i < end; i += step * (PROFILE_ROW_THREADS / 32)) {
            const Item it = items[i];
            const int y = item_y(it), n = item_n(it);
            if (!counts(g, y) || y < place.origin) continue;
            const u32 b = (u32)((i64)y - place.origin) / (u32)g.step;
            if (b >= place.bins) continue;
            const unsigned char *px = g.frame + (u64)(y - g.row0) * g.stride + (u64)item_x(it) * g.pixel;
            u32 sum = 0; // of ITEM_PIXELS samples at most
            if (GRAY) {
                const int off = (int)((u64)px & 3), words = (off + n + 3) / 4;
                const u32 *at = (const u32 *)(px - off);
#pragma unroll 4
                for (int w = lane_id(); w < words; w += 32) {
                    u32 four = __ldg(at + w);
                    if (w == 0) four &= ~0u << 8 * off;
                    if (w == words - 1) four &= ~0u >> 8 * (4 * words - off - n);
                    sum = __dp4a(four, 0x01010101u, sum);
                }
            } else {
#pragma unroll 4
                for (int x = lane_id(); x < n; x += 32) sum += sample<BYTES>(px + g.at + (u64)x * g.pixel);
            }
            sum = warp_sum(sum);
            if (lane_id() == 0) add(&bins[b], sum, n);
        }
    });
}

// The bins of the pixel at column x and row y; one that no region has where there is none.

__device__ __forceinline__ u32 column_bin(const ProfileArgs &g, int origin, int x) {
    return x < origin ? ~0u : (u32)((i64)x - origin) / (u32)g.step;
}

__device__ __forceinline__ u32 radius_bin(const ProfileArgs &g, int origin, int x, int y) {
    const i64 dx = (i64)x * 256 + 128 - g.centre_x, dy = (i64)y * 256 + 128 - g.centre_y;
    const u64 square = (u64)(dx * dx + dy * dy), step = (u64)g.step; // square is below 2^62
    u64 b = (u64)(sqrt((double)square) / (double)g.step);
    if (b * b * step * step > square)
        b--;
    else if ((b + 1) * (b + 1) * step * step <= square)
        b++;
    const i64 at = (i64)b - origin;
    return at < 0 || at > 0x7fffffff ? ~0u : (u32)at;
}

__device__ __forceinline__ u32 line_bin(const ProfileArgs &g, int origin, int x, int y) {
    for (u32 k = 0; k < g.segments; k++) {
        const ProfileSegment &s = g.segment[k];
        const i64 cx = (i64)x * 256 + 128 - s.x, cy = (i64)y * 256 + 128 - s.y;
        const i64 dot = cx * s.d_x + cy * s.d_y, aside = cx * s.d_y - cy * s.d_x;
        const i64 length = (i64)s.d_x * s.d_x + (i64)s.d_y * s.d_y;
        if (dot < 0 || dot >= length || aside < s.low || aside >= s.high) continue;
        const i64 all = dot * s.bins; // below 2^63
        i64 b = (i64)((double)all / (double)length);
        const i64 rest = all - b * length;
        if (rest < 0)
            b--;
        else if (rest >= length)
            b++;
        const i64 at = b + s.first - origin;
        return at < 0 ? ~0u : (u32)at;
    }
    return ~0u;
}

// The first of the lanes of a bin that are beside each other gets what they have together, and the others no bin.
__device__ __forceinline__ void add_neighbours(u32 &b, u32 &v, u32 &n) {
    const u32 left = __shfl_up_sync(~0u, b, 1);
    const bool head = lane_id() == 0 || left != b;
    const u32 behind = __ballot_sync(~0u, head) & ~bits_below((int)lane_id() + 1), upto = warp_scan(v);
    const int last = behind ? __ffs(behind) - 2 : 31; // lane of the same bin
    v = __shfl_sync(~0u, upto, last) - upto + v;
    n = (u32)last - lane_id() + 1;
    if (!head) b = ~0u;
}

// A block's part of one region. table has sums, and behind them counts.
template <Axis AXIS, int BYTES>
__device__ __forceinline__ void profile_run(const ProfileArgs &g, u32 r, u64 start, u64 end, u64 step, u32 *table) {
    const ProfilePlace place = g.places[g.first + r];
    ProfileBin *bins = bins_of(g, place);
    if (!bins) return;
    const Item *items = g.p.items + g.p.regions[g.first + r].item0;
    const bool direct = place.bins > g.room || (end - start) / step < PROFILE_ITEMS;
    for (u64 i = start + (threadIdx.x >> 5) * step; i < end; i += step * (PROFILE_THREADS / 32)) {
        const Item it = items[i];
        const int y = item_y(it), x0 = item_x(it), x1 = x0 + item_n(it);
        if (!counts(g, y)) continue;
        const unsigned char *row = g.frame + (u64)(y - g.row0) * g.stride + g.at;
        for (int x = x0; x < x1; x += 32 * PROFILE_PIXELS) {
            u32 b[PROFILE_PIXELS], v[PROFILE_PIXELS], n[PROFILE_PIXELS], old[PROFILE_PIXELS];
#pragma unroll
            for (int k = 0; k < PROFILE_PIXELS; k++) {
                const int at = x + 32 * k + (int)lane_id();
                v[k] = at < x1 ? sample<BYTES>(row + (u64)at * g.pixel) : 0;
            }
#pragma unroll
            for (int k = 0; k < PROFILE_PIXELS; k++) {
                const int at = x + 32 * k + (int)lane_id();
                b[k] = at >= x1           ? ~0u
                       : AXIS == COLUMNS  ? column_bin(g, place.origin, at)
                       : AXIS == RADIUS   ? radius_bin(g, place.origin, at, y)
                                          : line_bin(g, place.origin, at, y);
                n[k] = 1;
                if (AXIS != COLUMNS || g.step > 1) add_neighbours(b[k], v[k], n[k]);
                if (b[k] >= place.bins) b[k] = ~0u;
            }
            if (direct) {
#pragma unroll
                for (int k = 0; k < PROFILE_PIXELS; k++)
                    if (b[k] != ~0u) add(&bins[b[k]], v[k], n[k]);
                continue;
            }
#pragma unroll
            for (int k = 0; k < PROFILE_PIXELS; k++) {
                old[k] = 0;
                if (b[k] == ~0u) continue;
                atomicAdd(&table[g.room + b[k]], n[k]);
                old[k] = atomicAdd(&table[b[k]], v[k]);
            }
#pragma unroll
            for (int k = 0; k < PROFILE_PIXELS; k++)
                if (old[k] > ~v[k]) atomicAdd(&bins[b[k]].sum, 1ull << 32);
        }
    }
    if (direct) return;
    __syncthreads();
    for (u32 b = threadIdx.x; b < place.bins; b += PROFILE_THREADS) {
        const u32 n = table[g.room + b];
        if (!n) continue;
        add(&bins[b], table[b], n);
        table[b] = table[g.room + b] = 0;
    }
    __syncthreads();
}

template <Axis AXIS, int BYTES> __device__ __forceinline__ void profile(const ProfileArgs &g) {
    extern __shared__ __align__(16) u32 table[];
    for (u32 k = threadIdx.x; k < 2 * g.room; k += PROFILE_THREADS) table[k] = 0;
    __syncthreads();
    after_prior();
    share(g, [&](u32 r, u64 start, u64 end, u64 step) { profile_run<AXIS, BYTES>(g, r, start, end, step, table); });
}

#define ROW_PROFILE(name, bytes, gray) \
    extern "C" __global__ void __launch_bounds__(PROFILE_ROW_THREADS) name(ProfileArgs g) { profile_rows<bytes, gray>(g); }
#define PROFILE(name, axis, bytes) \
    extern "C" __global__ void __launch_bounds__(PROFILE_THREADS) name(ProfileArgs g) { profile<axis, bytes>(g); }

ROW_PROFILE(mask_profile_rows_gray8, 1, true)
ROW_PROFILE(mask_profile_rows_8, 1, false)
ROW_PROFILE(mask_profile_rows_16, 2, false)
PROFILE(mask_profile_columns_8, COLUMNS, 1)
PROFILE(mask_profile_columns_16, COLUMNS, 2)
PROFILE(mask_profile_radius_8, RADIUS, 1)
PROFILE(mask_profile_radius_16, RADIUS, 2)
PROFILE(mask_profile_line_8, LINE, 1)
PROFILE(mask_profile_line_16, LINE, 2)
