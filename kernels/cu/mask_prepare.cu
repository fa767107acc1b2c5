// mask_prepare finds the pixels of regions and writes them as items: runs of at most ITEM_PIXELS pixels in one row.
//
// Phases: (1) a block a band of BAND_ROWS rows finds spans, cuts them at multiples of ITEM_PIXELS and takes room for
// them with one atomic a band from its region's slots, so that the order of items within a region is not fixed
// (what is computed from them does not depend on it); (2) one block sums the regions' counts, so that the reduction
// can divide all items evenly among its blocks.
//
// Bytes moved: 16 bytes an edge and band it reaches, 8 bytes an item. Complexity: edges*bands/MASK_THREADS tests,
// crossings, and columns of dense rows. Berényi's four methods visit every pixel of the region's bounds instead
// (bytes are the same); they are there to be compared with.
//
// Sources: Berényi, Parallel image reductions over polygon masks, GPU Day 2024, for NAIVE, TILED, EDGE_FILTERED and
// TILED_EDGE_FILTERED.

#include "abi/mask_prepare.cuh"
#include "spans.cuh"

__device__ __forceinline__ int pieces(int a, int b) {
    return b > a ? (b - 1) / ITEM_PIXELS - a / ITEM_PIXELS + 1 : 0;
}

__device__ __forceinline__ void put_pieces(Item *out, int y, int a, int b) {
    while (a < b) {
        int e = min(b, (a / ITEM_PIXELS + 1) * ITEM_PIXELS);
        *out++ = make_item(a, y, e - a);
        a = e;
    }
}

extern "C" __global__ void __launch_bounds__(MASK_THREADS) mask_prepare_row_spans(View p) {
    __shared__ BandShared s;
    __shared__ int need[WARPS], dense[WARPS];
    __shared__ u32 base;
    after_prior();
    const Band band = p.bands[blockIdx.x];
    const PreparedRegion r = p.regions[band.region];
    const Edge *edges = p.edges + r.edge0;
    const int warp = threadIdx.x >> 5, width = p.width;
    const u32 lane = lane_id();
    const int rows = min(BAND_ROWS, r.y1 - band.y), yc0 = band.y * 256 + 128;
    band_candidates(s, edges, r.edges, yc0, yc0 + (rows - 1) * 256);

    int spans = 0;
    if (warp < rows) spans = row_spans(s, edges, r.edges, r.fill, yc0 + warp * 256, width);
    int a = 0, b = 0;
    if ((int)lane < spans) a = s.start[warp][lane], b = s.end[warp][lane];
    const int n = pieces(a, b), inc = warp_scan(n);
    if (lane == 31) {
        need[warp] = inc;
        dense[warp] = spans < 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < WARPS; i++) {
            int v = need[i];
            need[i] = sum;
            sum += v;
        }
        base = sum ? atomicAdd(&p.counts[band.region], sum) : 0;
    }
    __syncthreads();
    if (n) put_pieces(p.items + r.item0 + base + need[warp] + inc - n, band.y + warp, a, b);

    for (int row = 0; row < rows; row++) {
        if (!dense[row]) continue; // the same for all threads
        for (int x0 = r.x0 & ~(BAND_WINDOW - 1); x0 < r.x1; x0 += BAND_WINDOW) {
            dense_window(s, edges, r.edges, r.fill, yc0 + row * 256, width, x0);
            if (threadIdx.x < BAND_WINDOW / 32) {
                const int w = threadIdx.x;
                u32 bits = s.bits[w], prev = w ? s.bits[w - 1] >> 31 : 0;
                for (u32 starts = bits & ~(bits << 1 | prev); starts; starts &= starts - 1) {
                    int from = w * 32 + __ffs(starts) - 1, q = w;
                    u32 gap = ~bits & ~((2u << (from & 31)) - 1);
                    if ((from & 31) == 31) gap = 0;
                    while (!gap && ++q < BAND_WINDOW / 32) gap = ~s.bits[q];
                    int to = gap ? q * 32 + __ffs(gap) - 1 : BAND_WINDOW;
                    put_pieces(p.items + r.item0 + atomicAdd(&p.counts[band.region], pieces(x0 + from, x0 + to)),
                               band.y + row, x0 + from, x0 + to);
                }
            }
            __syncthreads();
        }
    }
}

// Sums counts into prefix[0 .. regions], by one block.
extern "C" __global__ void __launch_bounds__(PREFIX_THREADS) mask_prepare_prefix(View p) {
    after_prior();
    const u32 n = p.region_count;
    u64 carry = 0;
    if (threadIdx.x == 0) p.prefix[0] = 0;
    for (u32 base = 0; base < n; base += PREFIX_THREADS) {
        u32 i = base + threadIdx.x;
        const u64 v = i < n ? p.counts[i] : 0;
        u64 all;
        const u64 before = block_scan<PREFIX_THREADS>(v, all);
        if (i < n) p.prefix[i + 1] = carry + before + v;
        carry += all;
    }
}

#include "tiles.cuh"

// The seed's methods: a warp takes a row of the band and walks along its tiles; a ballot gives 32 pixels at a time.
template <bool TILED, bool FILTERED> __device__ __forceinline__ void prepare_tiles(const View &p) {
    __shared__ TileShared s;
    after_prior();
    const Band band = p.bands[blockIdx.x];
    const PreparedRegion r = p.regions[band.region];
    const Edge *edges = p.edges + r.edge0;
    const int warp = threadIdx.x >> 5, y = band.y + warp;
    const u32 lane = lane_id();
    int open = -1; // first column of the run that is open
    for (int tx = r.x0 & ~(TILE_WIDTH - 1); tx < r.x1; tx += TILE_WIDTH) {
        int state = tile_begin<TILED, FILTERED>(s, edges, r.edges, r.fill, tx, band.y);
        for (int x0 = tx; x0 < tx + TILE_WIDTH; x0 += 32) {
            int x = x0 + lane;
            bool in = state < 0 ? pixel_inside<FILTERED>(s, edges, r.edges, r.fill, x, y) : state != 0;
            u32 bits = __ballot_sync(~0u, in && x >= r.x0 && x < r.x1 && y < r.y1);
            if (lane == 0) {
                for (int at = 0; at < 32;) {
                    u32 rest = (open < 0 ? bits : ~bits) >> at;
                    if (!rest) break;
                    at += __ffs(rest) - 1;
                    if (open < 0) {
                        open = x0 + at;
                    } else {
                        put_pieces(p.items + r.item0 + atomicAdd(&p.counts[band.region], pieces(open, x0 + at)), y, open,
                                   x0 + at);
                        open = -1;
                    }
                }
            }
        }
        __syncthreads();
    }
    if (lane == 0 && open >= 0)
        put_pieces(p.items + r.item0 + atomicAdd(&p.counts[band.region], pieces(open, r.x1)), y, open, r.x1);
}

extern "C" __global__ void __launch_bounds__(MASK_THREADS) mask_prepare_naive(View p) {
    prepare_tiles<false, false>(p);
}
extern "C" __global__ void __launch_bounds__(MASK_THREADS) mask_prepare_tiled(View p) {
    prepare_tiles<true, false>(p);
}
extern "C" __global__ void __launch_bounds__(MASK_THREADS) mask_prepare_edge_filtered(View p) {
    prepare_tiles<false, true>(p);
}
extern "C" __global__ void __launch_bounds__(MASK_THREADS) mask_prepare_tiled_edge_filtered(View p) {
    prepare_tiles<true, true>(p);
}
