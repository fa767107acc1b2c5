// shade paints triangles in one colour each, the mean of the pixels that they cover or the one at their centroid.
//
// Per triangle: a group of 8, 16 or 32 lanes takes one after the other: the lanes find the spans of as many rows, go along
// each span together for the sums, and again for the pixels. Triangles of more than 32 rows or TASK_PIXELS (of their box) are cut
// into tasks of a warp each, so that none keeps the others waiting: one launch does the whole triangles and sums up the
// tasks, the last task of a triangle makes its colour, and another launch paints them.
//
// Per tile: triangles are listed for tiles of TILE columns and rows (count, scan, fill), a block of threads takes a tile, its
// warps the triangles listed for it. Those for which the lists have no room are done per triangle.
//
// Spans follow from the crossing rule, in whole numbers: the first column whose centre is not left of where an edge crosses
// the row of centres. A double holds both sides of that division exactly, and its quotient is never rounded past a whole
// number, as it has 53 bits and 21 + 21 + 1 would do.
//
// Bytes moved: those of the pixels read and written; tasks read them once more. Spans are read and written as words at
// multiples of 4, with the bytes beyond them masked out. Complexity: pixels, and some 300 instructions a row of a triangle.
//
// Source: seeds/000 (per triangle), seeds/001 (per tile).

#include "fault.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define SCAN_THREADS 1024
#define TILE 64
#define TASK_ROWS 32
#define ROWS 4 // that are read together, so that they are waited for together
// As many pixels as a warp sums up in some 5 us, and so few that sums of 16 bits fit in 32.
#define TASK_PIXELS 8192

// What is done with a triangle.
#define WHOLE 0 // by a group of lanes
#define CUT 1   // in tasks
#define TILED 2 // tile by tile

// Counters that the launches share; all are 0 at first.
struct State {
    u32 bad, splits; // bad: something is wrong with the input, and nothing is to be painted
    u64 tasks;       // asked for
    u64 listed;      // entries of lists that were asked for
};
#define STATE_BYTES 24
static_assert(sizeof(State) == STATE_BYTES, "State");

// Pixels and sums over their bytes in the order of memory, or over their samples of 16 bits.
struct Totals {
    u64 pixels, sums[4];
};

// A triangle that is cut, and how many of its tasks have ended.
struct Split {
    u32 triangle, tasks, ended, pad;
    Totals totals;
};
#define SPLIT_BYTES 56
static_assert(sizeof(Split) == SPLIT_BYTES, "Split");

// What all launches work on.
struct Shading {
    const unsigned char *src;
    unsigned char *dst;
    u64 src_stride, dst_stride;
    const int2 *points;
    const u32 *triangles; // three each
    const u32 *count;
    unsigned char *colors;
    u64 *fault;
    State *state;
    unsigned char *ways; // WHOLE, CUT or TILED of each triangle
    Split *splits;
    uint2 *tasks;   // split, and its first row; ~0 for none
    Totals *totals; // of triangles; 0 where these are not done tile by tile, and the same for what follows
    u32 *starts;    // of the lists of tiles, and the end of the last
    u32 *list;      // of triangles
    u32 n, max, task_room, list_room;
    int width, height, tile_columns, tile_rows;
    u32 kind, pixel_bytes; // kind: the same, and 16 for one sample of 16 bits
    u32 centroid, pad;
};

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
    return min(max(TASK_PIXELS / max(right(t) - left(t), 1), 1), TASK_ROWS);
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
    typedef u32 sum; // over 32 rows, or TASK_PIXELS, whichever is more
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
__device__ __forceinline__ void sum_rows(const Shading &v, const Corners &t, int from, int to, int x0, int x1, Totals &out) {
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

// Byte c of the colour of a triangle.
__device__ __forceinline__ u32 color_byte(const Shading &v, const Corners &t, const Totals &all, u32 c) {
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

// 8 bytes of pixels of a colour.
__device__ __forceinline__ u64 repeat(u32 color, u32 bytes) {
    if (bytes == 1) return color * 0x0101010101010101ull;
    if (bytes == 2) return color * 0x0001000100010001ull;
    if (bytes == 3) return color | (u64)color << 24 | (u64)color << 48;
    return color | (u64)color << 32;
}

// Makes the colour of triangle i, where a group has one, writes it to its place, and returns it, repeated.
template <int WIDTH>
__device__ __forceinline__ u64 make_color(const Shading &v, const Corners &t, const Totals &all, u32 i, bool some) {
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
__device__ __forceinline__ void add_totals(Totals *to, const Totals &t, u32 channels) {
    const u32 lane = lane_id();
    const u64 own = lane == 0 ? t.pixels : lane == 1 ? t.sums[0] : lane == 2 ? t.sums[1] : lane == 3 ? t.sums[2] : t.sums[3];
    if (lane <= channels && own) atomicAdd(&to->pixels + lane, own);
}

__device__ __forceinline__ u32 channels(const Shading &v) { return v.kind == 16 ? 1 : v.kind; }

// Tiles that a triangle may touch: columns [x, y).
__device__ __forceinline__ int2 tiles(int lo, int hi) { return make_int2(lo / TILE, (hi + TILE - 1) / TILE); }

// A thread looks at a point, and at a triangle: whether they are right, and what is to be done with it.
extern "C" __global__ void __launch_bounds__(THREADS) shade_prepare(Shading v) {
    after_prior();
    const u32 step = gridDim.x * THREADS, from = blockIdx.x * THREADS + threadIdx.x;
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
                Totals zero = {0, {0, 0, 0, 0}};
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
        Split s = {i, (u32)tasks, 0, 0, {0, {0, 0, 0, 0}}};
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
        Split *s = v.splits + task.x;
        const u32 i = s->triangle;
        const Corners t = corners(v, i);
        Totals all = {0, {0, 0, 0, 0}};
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
        Totals all = {0, {0, 0, 0, 0}};
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
    const u32 warp = (blockIdx.x * THREADS + threadIdx.x) >> 5, warps = gridDim.x * WARPS;
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
extern "C" __global__ void __launch_bounds__(THREADS, 4) shade_triangles_8(Shading v) { triangles_of_kind<8>(v); }
extern "C" __global__ void __launch_bounds__(THREADS, 3) shade_triangles_16(Shading v) { triangles_of_kind<16>(v); }
extern "C" __global__ void __launch_bounds__(THREADS, 4) shade_triangles_32(Shading v) { triangles_of_kind<32>(v); }

// Paints the tasks.
extern "C" __global__ void __launch_bounds__(THREADS) shade_tasks(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 tasks = (u32)min(v.state->tasks, (u64)v.task_room);
    for (u32 k = (blockIdx.x * THREADS + threadIdx.x) >> 5; k < tasks; k += gridDim.x * WARPS) {
        const uint2 task = v.tasks[k];
        if (task.x == ~0u) continue;
        const u32 i = v.splits[task.x].triangle;
        const Corners t = corners(v, i);
        paint_rows<32>(v, t, task.y, min((int)task.y + task_rows(t), t.c.y), 0, v.width, read_color(v, i));
    }
}

// The end of each list of a tile, from their lengths.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) shade_scan(Shading v) {
    __shared__ u32 sums[32];
    after_prior();
    if (v.state->bad) return;
    const u32 n = v.tile_columns * v.tile_rows, each = (n + SCAN_THREADS - 1) / SCAN_THREADS;
    const u32 from = min(threadIdx.x * each, n), to = min(from + each, n), lane = lane_id(), warp = threadIdx.x >> 5;
    u32 own = 0;
    for (u32 i = from; i < to; i++) own += v.starts[i];
    u32 sum = own;
    for (int o = 1; o < 32; o <<= 1) {
        const u32 before = __shfl_up_sync(~0u, sum, o);
        if (lane >= o) sum += before;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    for (u32 w = 0; w < warp; w++) sum += sums[w];
    sum -= own;
    for (u32 i = from; i < to; i++) v.starts[i] = sum += v.starts[i];
    if (threadIdx.x == SCAN_THREADS - 1) v.starts[n] = sum;
}

// Lists triangles from the ends of the lists on, which become their starts.
extern "C" __global__ void __launch_bounds__(THREADS) shade_list(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 count = *v.count;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
        if (v.ways[i] != TILED) continue;
        const Corners t = corners(v, i);
        const int2 x = tiles(left(t), right(t)), y = tiles(t.a.y, t.c.y);
        for (int ty = y.x; ty < y.y; ty++)
            for (int tx = x.x; tx < x.y; tx++) v.list[atomicSub(v.starts + ty * v.tile_columns + tx, 1) - 1] = i;
    }
}

template <int KIND> __device__ __forceinline__ void sum_tile(const Shading &v) {
    const int x0 = blockIdx.x % v.tile_columns * TILE, y0 = blockIdx.x / v.tile_columns * TILE;
    for (u32 k = v.starts[blockIdx.x] + (threadIdx.x >> 5), end = v.starts[blockIdx.x + 1]; k < end; k += WARPS) {
        const u32 i = v.list[k];
        const Corners t = corners(v, i);
        Totals all = {0, {0, 0, 0, 0}};
        sum_rows<32, KIND>(v, t, max(t.a.y, y0), min(t.c.y, y0 + TILE), x0, x0 + TILE, all);
        add_totals(v.totals + i, all, channels(v));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) shade_sum_tiles(Shading v) {
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
extern "C" __global__ void __launch_bounds__(THREADS) shade_colors(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const u32 count = *v.count, warp = (blockIdx.x * THREADS + threadIdx.x) >> 5;
    for (u32 base = warp * 4; base < count; base += gridDim.x * WARPS * 4) {
        const u32 i = base + lane_id() / 8;
        const bool some = i < count && v.ways[i] == TILED;
        Corners t = {{0, 0}, {0, 0}, {0, 0}};
        Totals all = {0, {0, 0, 0, 0}};
        if (some) t = corners(v, i), all = v.totals[i];
        make_color<8>(v, t, all, i, some);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) shade_paint_tiles(Shading v) {
    after_prior();
    if (v.state->bad) return;
    const int x0 = blockIdx.x % v.tile_columns * TILE, y0 = blockIdx.x / v.tile_columns * TILE;
    for (u32 k = v.starts[blockIdx.x] + (threadIdx.x >> 5), end = v.starts[blockIdx.x + 1]; k < end; k += WARPS) {
        const u32 i = v.list[k];
        const Corners t = corners(v, i);
        paint_rows<32>(v, t, max(t.a.y, y0), min(t.c.y, y0 + TILE), x0, x0 + TILE, read_color(v, i));
    }
}
