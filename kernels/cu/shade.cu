// shade paints triangles in one colour each, the mean of the pixels that they cover or the one at their centroid.
//
// Per triangle: a group of 8, 16 or 32 lanes takes one after the other: the lanes find the spans of as many rows, go
// along each span together for the sums, and again for the pixels. Triangles of more than 32 rows or SHADE_TASK_PIXELS
// (of their box) are cut into tasks of a warp each, so that none keeps the others waiting: one launch does the whole
// triangles and sums up the tasks, the last task of a triangle makes its colour, and another launch paints them.
//
// Per tile: triangles are listed for tiles of SHADE_TILE columns and rows (count, scan, fill), a block of threads takes
// a tile, its warps the triangles listed for it. Those for which the lists have no room are done per triangle.
//
// Bytes moved: those of the pixels read and written; tasks read them once more. Complexity: pixels, and some 300
// instructions a row of a triangle.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter (per triangle); Yang, Low poly in CUDA, 2018 (per
// tile).

#include "abi/shade.cuh"
#include "shade.cuh"

// What is done with a triangle.
#define WHOLE 0 // by a group of lanes
#define CUT 1   // in tasks
#define TILED 2 // tile by tile



// Byte c of the colour of a triangle.
__device__ __forceinline__ u32 color_byte(const Shading &v, const Corners &t, const ShadeTotals &all, u32 c) {
    if (all.pixels == 0) { // or it is to be the one at the centroid
        const int x = min((t.a.x + t.b.x + t.c.x) / 3, v.width - 1), y = min((t.a.y + t.b.y + t.c.y) / 3, v.height - 1);
        return v.src[(u64)y * v.src_stride + (u64)x * v.pixel_bytes + c];
    }
    const bool wide = v.kind == 16;
    u64 sum = wide || c == 0 ? all.sums[0] : c == 1 ? all.sums[1] : c == 2 ? all.sums[2] : all.sums[3];
    sum += all.pixels / 2;
    const u32 mean = sum >> 32 ? (u32)(sum / all.pixels) : (u32)sum / (u32)all.pixels; // pixels are no more than 2^29
    return wide && c == 1 ? mean >> 8 : mean & 255;
}

// Makes the colour of triangle i, where a group has one, writes it to its place, and returns it, repeated.
template <int WIDTH>
__device__ __forceinline__ u64 make_color(const Shading &v, const Corners &t, const ShadeTotals &all, u32 i,
                                          bool some) {
    const u32 lane = lane_id() & (WIDTH - 1);
    u32 byte = 0;
    if (some && lane < v.pixel_bytes) {
        byte = color_byte(v, t, all, lane);
        v.colors[(u64)i * v.pixel_bytes + lane] = (unsigned char)byte;
    }
    u32 color = 0;
#pragma unroll
    for (u32 c = 0; c < 4; c++) color |= __shfl_sync(~0u, byte, c, WIDTH) << 8 * c;
    return repeat(color, v.pixel_bytes);
}

// The colour that was made before, repeated.
__device__ __forceinline__ u64 read_color(const Shading &v, u32 i) {
    const unsigned char *p = v.colors + (u64)i * v.pixel_bytes;
    u32 color = 0;
    for (u32 c = 0; c < v.pixel_bytes; c++) color |= (u32)p[c] << 8 * c;
    return repeat(color, v.pixel_bytes);
}

// Adds totals that all lanes of a warp have.
__device__ __forceinline__ void add_totals(ShadeTotals *to, const ShadeTotals &t, u32 channels) {
    const u32 lane = lane_id();
    const u64 own = lane == 0 ? t.pixels : lane == 1 ? t.sums[0] : lane == 2 ? t.sums[1] : lane == 3 ? t.sums[2] : t.sums[3];
    if (lane <= channels && own) atomicAdd(&to->pixels + lane, own);
}

// Tiles that a triangle may touch: columns [x, y).
__device__ __forceinline__ int2 tiles(int lo, int hi) {
    return make_int2(lo / SHADE_TILE, (hi + SHADE_TILE - 1) / SHADE_TILE);
}

// A thread looks at a point, and at a triangle: whether they are right, and what is to be done with it.
extern "C" __global__ void __launch_bounds__(SHADE_THREADS) shade_prepare(Shading v) {
    after_prior();
    const u32 step = gridDim.x * SHADE_THREADS, from = blockIdx.x * SHADE_THREADS + threadIdx.x;
    const u32 count = *v.count;
    if (count > v.max) {
        if (from == 0) v.state->bad = 1, report(v.fault, FAULT_SHADE_COUNT, count);
        return;
    }
    for (u32 i = from; i < v.n; i += step) {
        const int2 p = v.points[i];
        if (p.x < 0 || p.x > v.width || p.y < 0 || p.y > v.height) v.state->bad = 1, report(v.fault, FAULT_SHADE_POINT, i);
    }
    for (u32 i = from; i < count; i += step) {
        const u32 *at = v.triangles + 3 * (u64)i;
        if (at[0] >= v.n || at[1] >= v.n || at[2] >= v.n) {
            v.state->bad = 1, report(v.fault, FAULT_SHADE_TRIANGLE, i);
            continue;
        }
        const Corners t = corners(v, i);
        if (v.totals) {
            const int2 x = tiles(max(left(t), 0), min(right(t), v.width)), y = tiles(max(t.a.y, 0), min(t.c.y, v.height));
            const u32 some = (u32)max(x.y - x.x, 0) * (u32)max(y.y - y.x, 0);
            if (atomicAdd(&v.state->listed, (u64)some) + some <= v.list_room) {
                v.ways[i] = TILED;
                ShadeTotals zero = {0, {0, 0, 0, 0}};
                v.totals[i] = zero;
                for (int ty = y.x; ty < y.y; ty++)
                    for (int tx = x.x; tx < x.y; tx++) atomicAdd(v.starts + ty * v.tile_columns + tx, 1);
                continue;
            }
        }
        const int rows = task_rows(t), tasks = (t.c.y - t.a.y + rows - 1) / rows;
        if (tasks <= 1) {
            v.ways[i] = WHOLE;
            continue;
        }
        const u64 slot = atomicAdd(&v.state->tasks, (u64)tasks);
        if (slot + tasks > v.task_room) {
            // It will take long. The slots that are left are nobody's: the next ones get none either.
            for (u64 k = slot; k < v.task_room; k++) v.tasks[k] = make_uint2(~0u, 0);
            v.ways[i] = WHOLE;
            continue;
        }
        const u32 k = atomicAdd(&v.state->splits, 1);
        ShadeSplit s = {i, (u32)tasks, 0, 0, {0, {0, 0, 0, 0}}};
        v.splits[k] = s;
        for (int j = 0; j < tasks; j++) v.tasks[slot + j] = make_uint2(k, t.a.y + j * rows);
        v.ways[i] = CUT;
    }
}

// Sums up the tasks, a warp each; the last one of a triangle makes its colour.
template <int KIND> __device__ __forceinline__ void sum_tasks(const Shading &v, u32 warp, u32 warps) {
    const u32 tasks = (u32)min(v.state->tasks, (u64)v.task_room), lane = lane_id();
    for (u32 k = warp; k < tasks; k += warps) {
        const uint2 task = v.tasks[k];
        if (task.x == ~0u) continue;
        ShadeSplit *s = v.splits + task.x;
        const u32 i = s->triangle;
        const Corners t = corners(v, i);
        ShadeTotals all = {0, {0, 0, 0, 0}};
        if (v.centroid) {
            if ((int)task.y == t.a.y) make_color<32>(v, t, all, i, true);
            continue;
        }
        sum_rows<32, KIND>(v, t, task.y, min((int)task.y + task_rows(t), t.c.y), 0, v.width, all);
        add_totals(&s->totals, all, channels(v));
        __threadfence();
        __syncwarp();
        u32 ended = 0;
        if (lane == 0) ended = atomicAdd(&s->ended, 1) + 1;
        if (__shfl_sync(~0u, ended, 0) != s->tasks) continue;
        __threadfence();
        all.pixels = __ldcg(&s->totals.pixels);
#pragma unroll
        for (int c = 0; c < 4; c++) all.sums[c] = __ldcg(s->totals.sums + c);
        make_color<32>(v, t, all, i, true);
    }
}

// Sums up, colours and paints the whole triangles, a group of lanes each.
template <int WIDTH, int KIND> __device__ __forceinline__ void whole(const Shading &v, u32 warp, u32 warps) {
    const u32 count = *v.count, groups = 32 / WIDTH;
    for (u32 base = warp * groups; base < count; base += warps * groups) {
        const u32 i = base + lane_id() / WIDTH;
        const bool some = i < count && v.ways[i] == WHOLE;
        Corners t = {{0, 0}, {0, 0}, {0, 0}};
        if (some) t = corners(v, i);
        ShadeTotals all = {0, {0, 0, 0, 0}};
        if (!v.centroid) {
            const int rows = task_rows(t);
            for (int y = t.a.y; __any_sync(~0u, y < t.c.y); y += rows)
                sum_rows<WIDTH, KIND>(v, t, y, min(y + rows, t.c.y), 0, v.width, all);
        }
        const u64 color = make_color<WIDTH>(v, t, all, i, some);
        paint_rows<WIDTH>(v, t, t.a.y, t.c.y, 0, v.width, color);
    }
}

template <int WIDTH, int KIND> __device__ __forceinline__ void triangles(const Shading &v) {
    const u32 warp = (blockIdx.x * SHADE_THREADS + threadIdx.x) >> 5, warps = gridDim.x * WARPS;
    sum_tasks<KIND>(v, warp, warps);
    whole<WIDTH, KIND>(v, warp, warps);
}

template <int WIDTH> __device__ __forceinline__ void triangles_of_kind(const Shading &v) {
    after_prior();
    if (v.state->bad) return;
    switch (v.kind) {
    case 1: return triangles<WIDTH, 1>(v);
    case 2: return triangles<WIDTH, 2>(v);
    case 3: return triangles<WIDTH, 3>(v);
    case 4: return triangles<WIDTH, 4>(v);
    default: return triangles<WIDTH, 16>(v);
    }
}

// So many blocks a multiprocessor that loads are waited for together: measured on an H200 at 1920x1080 with 20,000 vertices (8
// lanes) 4 blocks take 81 us, 3 take 86 and 2 take 98; with 2,500 (16 lanes) 72, 68 and 86; at 15360x8640 (32 lanes) 764, 806 and 916.
extern "C" __global__ void __launch_bounds__(SHADE_THREADS, 4) shade_triangles_8(Shading v) { triangles_of_kind<8>(v); }
extern "C" __global__ void __launch_bounds__(SHADE_THREADS, 3) shade_triangles_16(Shading v) {
    triangles_of_kind<16>(v);
}
extern "C" __global__ void __launch_bounds__(SHADE_THREADS, 4) shade_triangles_32(Shading v) {
    triangles_of_kind<32>(v);
}

// Paints the tasks.
extern "C" __global__ void __launch_bounds__(SHADE_THREADS) shade_tasks(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 tasks = (u32)min(v.state->tasks, (u64)v.task_room);
    for (u32 k = (blockIdx.x * SHADE_THREADS + threadIdx.x) >> 5; k < tasks; k += gridDim.x * WARPS) {
        const uint2 task = v.tasks[k];
        if (task.x == ~0u) continue;
        const u32 i = v.splits[task.x].triangle;
        const Corners t = corners(v, i);
        paint_rows<32>(v, t, task.y, min((int)task.y + task_rows(t), t.c.y), 0, v.width, read_color(v, i));
    }
}

// The end of each list of a tile, from their lengths.
extern "C" __global__ void __launch_bounds__(SHADE_SCAN_THREADS) shade_scan(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 n = v.tile_columns * v.tile_rows, each = (n + SHADE_SCAN_THREADS - 1) / SHADE_SCAN_THREADS;
    const u32 from = min(threadIdx.x * each, n), to = min(from + each, n);
    u32 own = 0;
    for (u32 i = from; i < to; i++) own += v.starts[i];
    u32 all, sum = block_scan<SHADE_SCAN_THREADS>(own, all);
    for (u32 i = from; i < to; i++) v.starts[i] = sum += v.starts[i];
    if (threadIdx.x == 0) v.starts[n] = all;
}

// Lists triangles from the ends of the lists on, which become their starts.
extern "C" __global__ void __launch_bounds__(SHADE_THREADS) shade_list(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 count = *v.count;
    for (u32 i = blockIdx.x * SHADE_THREADS + threadIdx.x; i < count; i += gridDim.x * SHADE_THREADS) {
        if (v.ways[i] != TILED) continue;
        const Corners t = corners(v, i);
        const int2 x = tiles(left(t), right(t)), y = tiles(t.a.y, t.c.y);
        for (int ty = y.x; ty < y.y; ty++)
            for (int tx = x.x; tx < x.y; tx++) v.list[atomicSub(v.starts + ty * v.tile_columns + tx, 1) - 1] = i;
    }
}

template <int KIND> __device__ __forceinline__ void sum_tile(const Shading &v) {
    const int x0 = blockIdx.x % v.tile_columns * SHADE_TILE, y0 = blockIdx.x / v.tile_columns * SHADE_TILE;
    for (u32 k = v.starts[blockIdx.x] + (threadIdx.x >> 5), end = v.starts[blockIdx.x + 1]; k < end; k += WARPS) {
        const u32 i = v.list[k];
        const Corners t = corners(v, i);
        ShadeTotals all = {0, {0, 0, 0, 0}};
        sum_rows<32, KIND>(v, t, max(t.a.y, y0), min(t.c.y, y0 + SHADE_TILE), x0, x0 + SHADE_TILE, all);
        add_totals(v.totals + i, all, channels(v));
    }
}

extern "C" __global__ void __launch_bounds__(SHADE_THREADS, 4) shade_sum_tiles(Shading v) {
    after_prior();
    if (v.state->bad) return;
    switch (v.kind) {
    case 1: return sum_tile<1>(v);
    case 2: return sum_tile<2>(v);
    case 3: return sum_tile<3>(v);
    case 4: return sum_tile<4>(v);
    default: return sum_tile<16>(v);
    }
}

// The colours of the triangles that are done tile by tile, 8 lanes each.
extern "C" __global__ void __launch_bounds__(SHADE_THREADS) shade_colors(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 count = *v.count, warp = (blockIdx.x * SHADE_THREADS + threadIdx.x) >> 5;
    for (u32 base = warp * 4; base < count; base += gridDim.x * WARPS * 4) {
        const u32 i = base + lane_id() / 8;
        const bool some = i < count && v.ways[i] == TILED;
        Corners t = {{0, 0}, {0, 0}, {0, 0}};
        ShadeTotals all = {0, {0, 0, 0, 0}};
        if (some) t = corners(v, i), all = v.totals[i];
        make_color<8>(v, t, all, i, some);
    }
}

extern "C" __global__ void __launch_bounds__(SHADE_THREADS) shade_paint_tiles(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const int x0 = blockIdx.x % v.tile_columns * SHADE_TILE, y0 = blockIdx.x / v.tile_columns * SHADE_TILE;
    for (u32 k = v.starts[blockIdx.x] + (threadIdx.x >> 5), end = v.starts[blockIdx.x + 1]; k < end; k += WARPS) {
        const u32 i = v.list[k];
        const Corners t = corners(v, i);
        paint_rows<32>(v, t, max(t.a.y, y0), min(t.c.y, y0 + SHADE_TILE), x0, x0 + SHADE_TILE, read_color(v, i));
    }
}
