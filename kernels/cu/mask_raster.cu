// mask_raster writes the pixels of regions into an image.
//
// One region (the usual case) goes from its edges to bytes in one launch that writes every byte of the image once:
// a block takes RASTER_ROWS rows, finds their spans (spans.cuh), and writes 16 bytes a lane. Several regions are
// written from their items over an image that was cleared before: 255 where any has the pixel, or the greatest label.
//
// Bytes moved: one a pixel written, 16 an edge and block it is read by (from L2). Complexity: pixels/16 stores, and
// edges*rows/RASTER_ROWS tests. RASTER_ROWS is 4, so that two warps share a row: with 8 a frame of 1440 rows makes 180
// blocks for 132 multiprocessors, with 2 the edges are read twice as often.
//
// Berényi's four methods write the same bytes from a grid of tiles. Source: Berényi, Parallel image reductions over
// polygon masks, GPU Day 2024.

#include "abi/mask_raster.cuh"
#include "tiles.cuh"

#define WARPS_PER_ROW (WARPS / RASTER_ROWS)

// 16 bits to 16 bytes of 0 or 255.
__device__ __forceinline__ uint4 expand(u32 m) {
    uint4 v;
    v.x = (((m & 15) * 0x00204081u) & 0x01010101u) * 255u;
    v.y = (((m >> 4 & 15) * 0x00204081u) & 0x01010101u) * 255u;
    v.z = (((m >> 8 & 15) * 0x00204081u) & 0x01010101u) * 255u;
    v.w = (((m >> 12 & 15) * 0x00204081u) & 0x01010101u) * 255u;
    return v;
}

// Stores the 16 pixels from x on (x may be negative, and reach past the width, at the ends of a row).
__device__ __forceinline__ void store16(unsigned char *row, int x, int width, u32 m) {
    if (x >= 0 && x + 16 <= width) {
        *(uint4 *)(row + x) = expand(m);
        return;
    }
    for (int i = 0; i < 16; i++)
        if (x + i >= 0 && x + i < width) row[x + i] = m >> i & 1 ? 255 : 0;
}

extern "C" __global__ void __launch_bounds__(MASK_THREADS) mask_raster_row_spans(View p, PreparedRegion r,
                                                                            unsigned char *dst, u64 stride) {
    __shared__ BandShared s;
    __shared__ int dense[RASTER_ROWS];
    after_prior();
    const Edge *edges = p.edges + r.edge0;
    const int width = p.width, warp = threadIdx.x >> 5, lane = lane_id();
    const int row = warp / WARPS_PER_ROW, part = warp % WARPS_PER_ROW;
    const int ty = blockIdx.x * RASTER_ROWS, y = ty + row;
    const bool some = ty < r.y1 && ty + RASTER_ROWS > r.y0;
    if (some) band_candidates(s, edges, r.edges, ty * 256 + 128, (ty + RASTER_ROWS - 1) * 256 + 128);

    unsigned char *out = dst + (u64)y * stride;
    const int mis = (int)((u64)out & 15);
    int spans = 0;
    if (some && y >= r.y0 && y < r.y1) spans = row_spans(s, edges, r.edges, r.fill, y * 256 + 128, width);
    if (part == 0 && lane == 0) dense[row] = spans < 0;
    if (y < p.height && spans >= 0) {
        int q0 = 0;
        for (int base = part * 512 - mis; base < width; base += 512 * WARPS_PER_ROW) {
            int x = base + lane * 16;
            u32 m = 0;
            while (q0 < spans && s.end[warp][q0] <= base) q0++;
            for (int q = q0; q < spans && s.start[warp][q] < base + 512; q++) {
                int a = max(s.start[warp][q] - x, 0), b = min(s.end[warp][q] - x, 16);
                if (a < b) m |= (0xffffu >> (16 - (b - a))) << a;
            }
            if (x < width) store16(out, x, width, m);
        }
    }
    if (!some) return;
    __syncthreads();
    for (int k = 0; k < RASTER_ROWS; k++) {
        if (!dense[k]) continue;
        unsigned char *o = dst + (u64)(ty + k) * stride;
        for (int x0 = 0; x0 < width; x0 += BAND_WINDOW) {
            dense_window(s, edges, r.edges, r.fill, (ty + k) * 256 + 128, width, x0);
            for (int i = threadIdx.x; i < BAND_WINDOW && x0 + i < width; i += MASK_THREADS)
                o[x0 + i] = s.bits[i >> 5] >> (i & 31) & 1 ? 255 : 0;
            __syncthreads();
        }
    }
}

// Raises a label: the greater one wins, whatever the order.
__device__ __forceinline__ void raise_label(unsigned short *at, u32 label) {
#if __CUDA_ARCH__ >= 700
    for (unsigned short old = *at; old < label;) {
        const unsigned short seen = atomicCAS(at, old, (unsigned short)label);
        if (seen == old) break;
        old = seen;
    }
#else
    u32 *word = (u32 *)((u64)at & ~3ull);
    const u32 shift = ((u64)at & 2) * 8;
    for (u32 old = *word; (old >> shift & 0xffff) < label;) {
        const u32 seen = atomicCAS(word, old, (old & ~(0xffffu << shift)) | label << shift);
        if (seen == old) break;
        old = seen;
    }
#endif
}

// Writes regions [first, first+count) from their items, a region by the blocks of a column of the grid; labels is 0 for a
// mask. The image is cleared before.
extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_raster_items(View p, u32 first, u32 count, unsigned char *dst, u64 stride, u32 labels, u32 pad) {
    after_prior();
    const u32 lane = lane_id();
    for (u32 g = first + blockIdx.x; g < first + count; g += gridDim.x) {
        const Item *items = p.items + p.regions[g].item0;
        const u32 n = p.counts[g];
        for (u32 i = blockIdx.y * WARPS + (threadIdx.x >> 5); i < n; i += gridDim.y * WARPS) {
            const Item it = items[i];
            unsigned char *row = dst + (u64)item_y(it) * stride;
            for (int x = item_x(it) + lane, end = item_x(it) + item_n(it); x < end; x += 32) {
                if (labels)
                    raise_label((unsigned short *)row + x, g + 1);
                else
                    row[x] = 255;
            }
        }
    }
}

// One region by Berényi's methods: a block a tile, a thread a pixel.
template <bool TILED, bool FILTERED>
__device__ __forceinline__ void raster_tiles(const View &p, const PreparedRegion &r, unsigned char *dst, u64 stride) {
    __shared__ TileShared s;
    after_prior();
    const Edge *edges = p.edges + r.edge0;
    const int tx = blockIdx.x * TILE_WIDTH, ty = blockIdx.y * TILE_HEIGHT;
    const int x = tx + lane_id(), y = ty + (threadIdx.x >> 5);
    int state = tile_begin<TILED, FILTERED>(s, edges, r.edges, r.fill, tx, ty);
    if (x >= p.width || y >= p.height) return;
    bool in = state < 0 ? pixel_inside<FILTERED>(s, edges, r.edges, r.fill, x, y) : state != 0;
    dst[(u64)y * stride + x] = in ? 255 : 0;
}

extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_raster_naive(View p, PreparedRegion r, unsigned char *dst, u64 stride) {
    raster_tiles<false, false>(p, r, dst, stride);
}
extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_raster_tiled(View p, PreparedRegion r, unsigned char *dst, u64 stride) {
    raster_tiles<true, false>(p, r, dst, stride);
}
extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_raster_edge_filtered(View p, PreparedRegion r, unsigned char *dst, u64 stride) {
    raster_tiles<false, true>(p, r, dst, stride);
}
extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_raster_tiled_edge_filtered(View p, PreparedRegion r, unsigned char *dst, u64 stride) {
    raster_tiles<true, true>(p, r, dst, stride);
}
