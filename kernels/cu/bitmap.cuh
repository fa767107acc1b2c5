// Bitmaps of regions: which pixels are inside. mask_cooccurrence_mark draws them, and mask_correlate reads them, too.
#pragma once

#include "common.cuh"

// The rows and columns of a region that its bitmap has, of the arguments of a launch. x0 is a multiple of 32.
struct Bitmap {
    u32 *words;
    int x0, x1, y0, y1, row_words;
    template <class Args> __device__ __forceinline__ Bitmap(const Args &g, u32 region) {
        const PreparedRegion r = g.p.regions[region];
        x0 = r.x0 & ~31;
        x1 = r.x1;
        y0 = max(r.y0, g.row0);
        y1 = min(r.y1, g.row0 + g.rows);
        row_words = (x1 - x0 + 31) / 32;
        words = g.bits + (region - g.first) * g.slot;
    }
    __device__ __forceinline__ u32 *row(int y) const { return words + (u64)(y - y0) * row_words; }
};

// The last of count regions whose prefix is at or before i; empty ones share their prefix with the next.
__device__ __forceinline__ u32 region_of(const u64 *prefix, u32 count, u64 i) {
    u32 lo = 0, hi = count;
    while (hi - lo > 1) {
        const u32 mid = (lo + hi) / 2;
        if (prefix[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

// Bits below n, where n is 0 to 32.
__device__ __forceinline__ u32 bits_below(int n) { return n >= 32 ? ~0u : (1u << n) - 1; }
