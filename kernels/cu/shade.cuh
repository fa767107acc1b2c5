// Triangles in rows of pixels: what Shade and Hold share.
//
// Spans follow from the crossing rule, in whole numbers: the first column whose centre is not left of where an edge crosses
// the row of centres. A double holds both sides of that division exactly, and its quotient is never rounded past a whole
// number, as it has 53 bits and 21 + 21 + 1 would do. They are read and written as words at multiples of 4, with the bytes
// beyond them masked out.
#pragma once

#include "abi/shade.cuh"
#include "collective.cuh"
#include "fault.cuh"

#define WARPS (SHADE_THREADS / 32)
#define ROWS 4 // that are read together, so that they are waited for together

struct ShadeState;
struct ShadeSplit;

// Corners by y.
struct Corners {
    int2 a, b, c;
};

__device__ __forceinline__ Corners corners(const Shading &v, u32 i) {
    Corners t;
    t.a = v.points[v.triangles[3 * i]], t.b = v.points[v.triangles[3 * i + 1]], t.c = v.points[v.triangles[3 * i + 2]];
    int2 s;
    if (t.a.y > t.b.y) s = t.a, t.a = t.b, t.b = s;
    if (t.b.y > t.c.y) s = t.b, t.b = t.c, t.c = s;
    if (t.a.y > t.b.y) s = t.a, t.a = t.b, t.b = s;
    return t;
}

__device__ __forceinline__ int left(const Corners &t) { return min(t.a.x, min(t.b.x, t.c.x)); }
__device__ __forceinline__ int right(const Corners &t) { return max(t.a.x, max(t.b.x, t.c.x)); }

// How many rows a task has.
__device__ __forceinline__ int task_rows(const Corners &t) {
    return min(max(SHADE_TASK_PIXELS / max(right(t) - left(t), 1), 1), SHADE_TASK_ROWS);
}

// The first column whose centre is not left of where the edge from p down to q crosses row y.
__device__ __forceinline__ int crossing(int2 p, int2 q, int y) {
    const int dx = q.x - p.x, dy = q.y - p.y;
    const i64 num = (i64)dx * (2 * (y - p.y) + 1) - dy;
    return p.x + (int)ceil((double)num / (double)(2 * dy));
}

// The columns [x, y) of a row that a triangle covers; none outside of it.
__device__ __forceinline__ int2 span(const Corners &t, int y) {
    if (y < t.a.y || y >= t.c.y) return make_int2(0, 0);
    const bool upper = y < t.b.y;
    const int p = crossing(t.a, t.c, y), q = crossing(upper ? t.a : t.b, upper ? t.b : t.c, y);
    return make_int2(min(p, q), max(p, q));
}

template <int KIND> struct Sample {
    typedef u32 sum; // over 32 rows, or SHADE_TASK_PIXELS, whichever is more
};
template <> struct Sample<16> {
    typedef u64 sum;
};

template <int KIND> __device__ __forceinline__ int pixel_bytes() { return KIND == 16 ? 2 : KIND; }

// A part of a row, as words from first on: bytes [before, end).
struct Words {
    const u32 *first;
    u32 before, end;
};

template <int KIND> __device__ __forceinline__ Words words_of(const unsigned char *row, int lo, int hi) {
    const int bytes = pixel_bytes<KIND>();
    const u64 from = (u64)row + (u64)lo * bytes;
    Words w;
    w.first = (const u32 *)(from & ~3ull), w.before = (u32)(from & 3);
    w.end = lo < hi ? w.before + (u32)(hi - lo) * bytes : 0;
    return w;
}

// Adds word w of a part, which is v.
template <int KIND>
__device__ __forceinline__ void add_word(const Words &p, u32 w, u32 v, typename Sample<KIND>::sum s[4]) {
    if (w == 0) v &= ~0u << 8 * p.before;
    if (w * 4 + 4 > p.end) v &= ~0u >> 8 * (w * 4 + 4 - p.end);
    if (KIND == 1) {
        s[0] += __dp4a(v, 0x01010101u, 0u);
    } else if (KIND == 2) {
        s[0] += __dp4a(v, p.before & 1 ? 0x01000100u : 0x00010001u, 0u);
        s[1] += __dp4a(v, p.before & 1 ? 0x00010001u : 0x01000100u, 0u);
    } else if (KIND == 3) {
        const u32 k = (p.before + w * 2) % 3; // the byte that is the first of a pixel; 3 is as well where k is 0
        s[0] += __dp4a(v, 0x01000001u << 8 * k, 0u);
        s[1] += __dp4a(v, 0x01000001u << 8 * (k == 2 ? 0 : k + 1), 0u);
        s[2] += __dp4a(v, 0x01000001u << 8 * (k == 0 ? 2 : k - 1), 0u);
    } else if (KIND == 4) {
#pragma unroll
        for (u32 c = 0; c < 4; c++) s[c] += v >> 8 * (p.before + c & 3) & 255;
    } else {
        s[0] += (v & 0xffff) + (v >> 16);
    }
}

// Writes a colour, 8 bytes of pixels one behind the other, to the pixels [lo, hi) of a row.
template <int WIDTH>
__device__ __forceinline__ void paint_span(unsigned char *row, int lo, int hi, u32 lane, u32 bytes, u64 color) {
    const u64 from = (u64)row + (u64)lo * bytes, first = from & ~3ull;
    const u32 before = (u32)(from & 3), end = before + (u32)(hi - lo) * bytes;
    for (u32 w = lane; w * 4 < end; w += WIDTH) {
        const u32 phase = bytes == 3 ? (w + 3 - before) % 3 : 4 - before & 3;
        const u32 v = (u32)(color >> 8 * phase);
        if (w * 4 >= before && w * 4 + 4 <= end) {
            ((u32 *)first)[w] = v;
            continue;
        }
#pragma unroll
        for (u32 k = 0; k < 4; k++)
            if (w * 4 + k >= before && w * 4 + k < end) ((unsigned char *)first)[w * 4 + k] = (unsigned char)(v >> 8 * k);
    }
}

// Sums over groups of WIDTH lanes, in each of them.
template <int WIDTH> __device__ __forceinline__ u32 group_sum(u32 v) {
    if (WIDTH == 32) v = (u32)warp_sum((int)v);
#pragma unroll
    for (int o = WIDTH == 32 ? 0 : WIDTH / 2; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
template <int WIDTH> __device__ __forceinline__ u64 group_sum(u64 v) {
#pragma unroll
    for (int o = WIDTH / 2; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// Adds the rows [from, to) of a triangle, no more than a task has, and of them the columns [x0, x1), to the totals that each
// lane of the group has. Other groups of the warp have others, or none.
template <int WIDTH, int KIND>
__device__ __forceinline__ void sum_rows(const Shading &v, const Corners &t, int from, int to, int x0, int x1,
                                         ShadeTotals &out) {
    const u32 lane = lane_id() & (WIDTH - 1);
    typename Sample<KIND>::sum s[4] = {0, 0, 0, 0};
    u32 pixels = 0;
    for (int y = from; __any_sync(~0u, y < to); y += WIDTH) {
        int2 own = y + (int)lane < to ? span(t, y + (int)lane) : make_int2(0, 0);
        own.x = max(own.x, x0), own.y = min(own.y, x1);
        pixels += max(own.y - own.x, 0);
        for (int r = 0; r < WIDTH; r += ROWS) {
            if (!__any_sync(~0u, y + r < to)) break;
            Words p[ROWS];
            u32 end = 0;
#pragma unroll
            for (int k = 0; k < ROWS; k++) {
                const int lo = __shfl_sync(~0u, own.x, r + k, WIDTH), hi = __shfl_sync(~0u, own.y, r + k, WIDTH);
                p[k] = words_of<KIND>(v.src + (u64)(y + r + k) * v.src_stride, lo, hi);
                end = max(end, p[k].end);
            }
            for (u32 w = lane; w * 4 < end; w += WIDTH) {
                u32 value[ROWS];
#pragma unroll
                for (int k = 0; k < ROWS; k++) value[k] = w * 4 < p[k].end ? __ldg(p[k].first + w) : 0;
#pragma unroll
                for (int k = 0; k < ROWS; k++)
                    if (w * 4 < p[k].end) add_word<KIND>(p[k], w, value[k], s);
            }
        }
    }
    out.pixels += group_sum<WIDTH>(pixels);
#pragma unroll
    for (int c = 0; c < 4; c++)
        if (c < (KIND == 16 ? 1 : KIND)) out.sums[c] += group_sum<WIDTH>(s[c]);
}

template <int WIDTH>
__device__ __forceinline__ void paint_rows(const Shading &v, const Corners &t, int from, int to, int x0, int x1, u64 color) {
    const u32 lane = lane_id() & (WIDTH - 1);
    for (int y = from; __any_sync(~0u, y < to); y += WIDTH) {
        int2 own = y + (int)lane < to ? span(t, y + (int)lane) : make_int2(0, 0);
        own.x = max(own.x, x0), own.y = min(own.y, x1);
        for (int r = 0; r < WIDTH; r++) {
            if (!__any_sync(~0u, y + r < to)) break;
            const int lo = __shfl_sync(~0u, own.x, r, WIDTH), hi = __shfl_sync(~0u, own.y, r, WIDTH);
            if (lo < hi) paint_span<WIDTH>(v.dst + (u64)(y + r) * v.dst_stride, lo, hi, lane, v.pixel_bytes, color);
        }
    }
}

// 8 bytes of pixels of a colour.
__device__ __forceinline__ u64 repeat(u32 color, u32 bytes) {
    if (bytes == 1) return color * 0x0101010101010101ull;
    if (bytes == 2) return color * 0x0001000100010001ull;
    if (bytes == 3) return color | (u64)color << 24 | (u64)color << 48;
    return color | (u64)color << 32;
}

__device__ __forceinline__ u32 channels(const Shading &v) { return v.kind == 16 ? 1 : v.kind; }
