// triangulate computes exact DelaunayArgs triangulations; see driver.Triangulate.
//
// Every point finds the triangles around it by itself, from the points near it, without looking at what others find:
// the predicates are exact and ties are broken by a symbolic perturbation, so that all agree. A triangle is written by
// the corner with the greatest angle, of two such the one of lesser number. That angle is above 60 degrees (a triangle
// of three equal sides has no corners on a grid), so that a point writes five triangles at most, however many it has.
//
// Phases, a kernel each: bounds; keys along a Hilbert curve; radix sort (a launch a digit; those beyond the bits that
// the bounds need end at once); numbering of distinct points, the first of equal ones; a tree of bounding boxes over
// runs of 8, 256, ... points in that order; stars; slabs; far; emit.
//
// stars: a warp takes 32 points that follow each other on the curve. It gathers the points in a box around them into
// shared memory, and lists those in a disc around each, some 20. Then each lane wraps its point: the nearest neighbour
// comes first, and from each neighbour the next one around the point is that whose circle with the two holds no other.
// It is found by two scans of the disc: one for the least cotangent in float, which breaks ties where numbers are small
// enough to be exact, and one that proves the circle empty, in float with a bound of its error, behind which exact
// tests decide. A circle that reaches beyond the disc, one in 25, is searched by all lanes among all points; one that
// reaches beyond the box asks for a larger one.
//
// far: what remains (points of the hull, of huge circles, of more than STAR_MOST neighbours). A triangle that a point
// writes holds one of six directions from it, 60 degrees apart. A warp takes a point and a direction, and finds the
// triangle there as a linear program by the dual simplex method, two corners at a time, whose pivots are found in the
// tree.
//
// slabs: where much is left to far, boxes along the points of a node, which are thin where those lie on a curve. Of a
// million points on a circle most circles pass through hundreds of boxes of the tree, and through few of these.
//
// Bytes moved, for n points with keys of k digits: 8n for the bounds, 20n + 32kn for keys and sort, about 40n for the
// numbering and the tree, 16n and 1.7 reads of neighbours (from L2) for the stars, 24n for their triangles, and as much
// again and 24n to write the result. Time is that of the instructions of stars, some thousands a warp and neighbour;
// n log n but for far, which visits the boxes that the boundary of each circle meets.
//
// Sources: Zhang and Fan, Parallel Delaunay Triangulation; Ray, Sokolov, Lefebvre, Lévy: Meshless Voronoi on the GPU
// (2018) for the idea of independent cells; Merrill and Garland: Single-pass parallel prefix scan with decoupled
// look-back (2016), and Adinets and Merrill: Onesweep (2022) for the sort; Edelsbrunner and Mücke: Simulation of
// simplicity (1990) for ties.

#include "abi/triangulate.cuh"
#include "collective.cuh"
#include "fault.cuh"
#include "lookback.cuh"
#include "predicates.cuh"

#define SMALL 2048      // sides of a box in which the squares and crosses of differences are below 2^23
#define MAX_POINT (1 << 28)

// Does (0, 0), which is point i, write its triangle with points ia at a and ib at b? See above.
__device__ __forceinline__ bool writes(u32 i, int2 a, u32 ia, int2 b, u32 ib) {
    const int2 e = minus(b, a);
    const i64 al = dot(a, a), bl = dot(b, b), el = dot(e, e);
    return (el > al || (el == al && i < ib)) && (el > bl || (el == bl && i < ia));
}

__device__ __forceinline__ u32 key_bits(const TriangulateState *s) {
    const u32 w = s->max_x - ~s->min_x, h = s->max_y - ~s->min_y;
    return 32 - __clz(w > h ? w : h);
}
// Digits of 8 bits of a key, which is 2 bits a bit of a coordinate.
__device__ __forceinline__ u32 key_digits(const TriangulateState *s) { return (2 * key_bits(s) + 7) / 8; }

extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS) triangulate_bounds(DelaunayArgs d) {
    __shared__ u32 part[TRIANGULATE_THREADS / 32][4];
    after_prior();
    u32 v[4] = {0, 0, 0, 0};
    bool bad = false;
    for (u32 i = blockIdx.x * TRIANGULATE_THREADS + threadIdx.x; i < d.n; i += gridDim.x * TRIANGULATE_THREADS) {
        const int2 p = d.points[i];
        if (p.x < -MAX_POINT || p.x > MAX_POINT || p.y < -MAX_POINT || p.y > MAX_POINT) {
            bad = true;
            report(d.fault, FAULT_TRIANGULATE_POINT, i);
        }
        const u32 x = (u32)p.x ^ 0x80000000u, y = (u32)p.y ^ 0x80000000u;
        v[0] = max(v[0], ~x), v[1] = max(v[1], ~y), v[2] = max(v[2], x), v[3] = max(v[3], y);
    }
    if (bad) d.state->bad = 1;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        v[k] = warp_max(v[k]);
        if (lane_id() == 0) part[threadIdx.x >> 5][k] = v[k];
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        u32 m = 0;
        for (int w = 0; w < TRIANGULATE_THREADS / 32; w++) m = max(m, part[w][threadIdx.x]);
        atomicMax(&d.state->min_x + threadIdx.x, m);
    }
}

// The number of a cell on the Hilbert curve through 2^bits by 2^bits of them.
__device__ __forceinline__ u64 hilbert(u32 x, u32 y, u32 bits) {
    u64 key = 0;
    for (int b = (int)bits - 1; b >= 0; b--) {
        const u32 rx = x >> b & 1, ry = y >> b & 1;
        key = key << 2 | ((3 * rx) ^ ry);
        if (!ry) {
            if (rx) x = ~x, y = ~y;
            const u32 t = x;
            x = y, y = t;
        }
    }
    return key;
}

extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS) triangulate_keys(DelaunayArgs d) {
    __shared__ u32 digits[8][256];
    after_prior();
    TriangulateState *s = d.state;
    if (s->bad) return;
    const u32 bits = key_bits(s), passes = key_digits(s), x0 = ~s->min_x ^ 0x80000000u, y0 = ~s->min_y ^ 0x80000000u;
    for (u32 k = 0; k < passes; k++) digits[k][threadIdx.x] = 0;
    __syncthreads();
    for (u32 i = blockIdx.x * TRIANGULATE_THREADS + threadIdx.x; i < d.n; i += gridDim.x * TRIANGULATE_THREADS) {
        const int2 p = d.points[i];
        const u64 key = hilbert((u32)p.x - x0, (u32)p.y - y0, bits);
        d.keys0[i] = key, d.ids0[i] = i;
        for (u32 k = 0; k < passes; k++) atomicAdd(&digits[k][key >> 8 * k & 255], 1);
    }
    __syncthreads();
    for (u32 k = 0; k < passes; k++)
        if (digits[k][threadIdx.x]) atomicAdd(&s->digits[k][threadIdx.x], digits[k][threadIdx.x]);
}

// One digit of the sort, stable. A warp ranks its keys among themselves by ballots, then warps among each other, then
// the tile behind those before it.
extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS, 3)
    triangulate_sort(DelaunayArgs d, u32 pass, u32 pad) {
    __shared__ u64 tile_keys[TRIANGULATE_THREADS * SORT_ITEMS]; // and then their numbers
    __shared__ u32 counts[TRIANGULATE_THREADS / 32][256], places[256];
    after_prior();
    TriangulateState *s = d.state;
    if (s->bad || pass >= key_digits(s)) return;
    const u64 *from = pass & 1 ? d.keys1 : d.keys0;
    const u32 *from_id = pass & 1 ? d.ids1 : d.ids0;
    u64 *to = pass & 1 ? d.keys0 : d.keys1;
    u32 *to_id = pass & 1 ? d.ids0 : d.ids1;
    const u32 t = threadIdx.x, lane = lane_id(), warp = t >> 5, tiles = gridDim.x;
    for (int w = 0; w < TRIANGULATE_THREADS / 32; w++) counts[w][t] = 0;
    const u32 tile = take_tile(&s->sort_tiles[pass]);
    u32 *status = d.sort_status + (u64)(pass & 1) * tiles * 256, *next = d.sort_status + (u64)(~pass & 1) * tiles * 256;
    next[(u64)tile * 256 + t] = 0; // for the next pass; the one before is done with it

    u64 key[SORT_ITEMS];
    u32 place[SORT_ITEMS];
    const u32 first = tile * TRIANGULATE_THREADS * SORT_ITEMS + warp * 32 * SORT_ITEMS + lane;
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) key[k] = first + k * 32 < d.n ? from[first + k * 32] : ~0ull;
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) {
        const u32 digit = (u32)(key[k] >> 8 * pass) & 255;
        u32 same = ~0u;
#pragma unroll
        for (int b = 0; b < 8; b++) {
            const u32 set = __ballot_sync(~0u, digit >> b & 1);
            same &= digit >> b & 1 ? set : ~set;
        }
        const u32 ahead = counts[warp][digit];
        __syncwarp();
        if (same >> lane == 1) counts[warp][digit] = ahead + __popc(same);
        __syncwarp();
        place[k] = ahead + __popc(same & ((1u << lane) - 1));
    }
    __syncthreads();
    u32 sum = 0; // of digit t
    for (int w = 0; w < TRIANGULATE_THREADS / 32; w++) {
        const u32 c = counts[w][t];
        counts[w][t] = sum;
        sum += c;
    }
    status_write(status + (u64)tile * 256 + t, (tile ? STATUS_SUM : STATUS_PREFIX) | sum);
    u32 ahead = 0; // of digit t in tiles before
    for (u32 at = tile; at > 0;) {
        u32 v[4]; // several at a time, because each takes as long as all
#pragma unroll
        for (u32 q = 0; q < 4; q++) v[q] = at > q ? status_read(status + (u64)(at - 1 - q) * 256 + t) : STATUS_PREFIX;
        bool wait = false;
#pragma unroll
        for (u32 q = 0; q < 4; q++) {
            if (wait || at == 0) continue;
            wait = v[q] == 0;
            ahead += v[q] & STATUS_VALUE;
            at = v[q] & STATUS_PREFIX ? 0 : wait ? at : at - 1;
        }
    }
    if (tile) status_write(status + (u64)tile * 256 + t, STATUS_PREFIX | (ahead + sum));
    // Sorted on chip first, so that the keys of a digit are written together. places leads from there to the whole.
    u32 total;
    const u32 here = block_scan<TRIANGULATE_THREADS>(sum, total);
    places[t] = block_scan<TRIANGULATE_THREADS>(s->digits[pass][t], total) + ahead - here;
    for (int w = 0; w < TRIANGULATE_THREADS / 32; w++) counts[w][t] += here;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) {
        place[k] += counts[warp][(u32)(key[k] >> 8 * pass) & 255];
        tile_keys[place[k]] = key[k];
    }
    __syncthreads();
    const u32 many = min(d.n - tile * TRIANGULATE_THREADS * SORT_ITEMS,
                         (u32)(TRIANGULATE_THREADS * SORT_ITEMS)); // those beyond the end come last
    u32 dst[SORT_ITEMS];
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) {
        const u32 i = k * TRIANGULATE_THREADS + t;
        const u64 v = tile_keys[i];
        dst[k] = places[(u32)(v >> 8 * pass) & 255] + i;
        if (i < many) to[dst[k]] = v;
    }
    __syncthreads();
    u32 *tile_ids = (u32 *)tile_keys;
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++)
        if (first + k * 32 < d.n) tile_ids[place[k]] = from_id[first + k * 32];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) {
        const u32 i = k * TRIANGULATE_THREADS + t;
        if (i < many) to_id[dst[k]] = tile_ids[i];
    }
}

// Numbers the distinct points, of equal ones that of least index, which is the first: the sort is stable.
extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS) triangulate_unique(DelaunayArgs d) {
    __shared__ u32 start;
    after_prior();
    TriangulateState *s = d.state;
    if (s->bad) return;
    const u32 passes = key_digits(s);
    const u64 *keys = passes & 1 ? d.keys1 : d.keys0;
    const u32 *ids = passes & 1 ? d.ids1 : d.ids0;
    const u32 tile = take_tile(&s->unique_tiles), first = (tile * TRIANGULATE_THREADS + threadIdx.x) * UNIQUE_ITEMS;
    u64 prior = first > 0 && first <= d.n ? keys[first - 1] : ~0ull; // no key is ~0
    u32 fresh = 0;
#pragma unroll
    for (int k = 0; k < UNIQUE_ITEMS; k++) {
        if (first + k >= d.n) break;
        const u64 key = keys[first + k];
        if (key != prior) fresh |= 1u << k;
        prior = key;
    }
    u32 total;
    const u32 before_me = block_scan<TRIANGULATE_THREADS>((u32)__popc(fresh), total);
    if (threadIdx.x < 32) {
        const u32 prefix = look_back(d.unique_status, tile, total);
        if (threadIdx.x == 0) {
            start = prefix;
            if (tile == gridDim.x - 1) s->n = prefix + total;
        }
    }
    __syncthreads();
    u32 at = start + before_me;
    for (u32 left = fresh; left; left &= left - 1, at++) {
        const u32 i = ids[first + __ffs(left) - 1];
        d.id[at] = i, d.xy[at] = d.points[i];
    }
}

// The tree. Nodes of a level cover 32 of the level below, those of level 0 TREE_LEAF points.
__device__ __forceinline__ u32 nodes(u32 n, int level) { return ((n - 1) >> (3 + 5 * level)) + 1; }
__device__ __forceinline__ int4 *boxes(const DelaunayArgs &d, int level) {
    return level == 0 ? d.box0 : level == 1 ? d.box1 : level == 2 ? d.box2 : level == 3 ? d.box3 : d.box4;
}
__device__ __forceinline__ int top_level(u32 n) {
    int top = 0;
    while (nodes(n, top) > 32) top++;
    return top;
}
__device__ __forceinline__ int4 no_box() { return make_int4(0x7fffffff, 0x7fffffff, -0x7fffffff, -0x7fffffff); }
__device__ __forceinline__ int4 join(int4 a, int4 b) {
    return make_int4(min(a.x, b.x), min(a.y, b.y), max(a.z, b.z), max(a.w, b.w));
}
__device__ __forceinline__ int4 warp_join(int4 b) {
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        int4 c;
        c.x = __shfl_xor_sync(~0u, b.x, o), c.y = __shfl_xor_sync(~0u, b.y, o);
        c.z = __shfl_xor_sync(~0u, b.z, o), c.w = __shfl_xor_sync(~0u, b.w, o);
        b = join(b, c);
    }
    return b;
}

// Levels 0 and 1, a warp for each node of the latter. Looks for a point beside the line through the first two as well.
extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS) triangulate_boxes(DelaunayArgs d) {
    after_prior();
    TriangulateState *s = d.state;
    const u32 n = s->n, node = (blockIdx.x * TRIANGULATE_THREADS + threadIdx.x) >> 5, leaf = node * 32 + lane_id();
    if (n < 3 || node * 32 * TREE_LEAF >= n) return;
    const int2 o = d.xy[0], line = minus(d.xy[1], o);
    bool solid = false;
    int4 b = no_box();
    for (u32 i = leaf * TREE_LEAF; i < min((leaf + 1) * TREE_LEAF, n); i++) {
        const int2 p = d.xy[i];
        b = join(b, make_int4(p.x, p.y, p.x, p.y));
        solid |= cross(line, minus(p, o)) != 0;
    }
    if (leaf < nodes(n, 0)) d.box0[leaf] = b;
    b = warp_join(b);
    if (__any_sync(~0u, solid) && lane_id() == 0) s->solid = 1;
    if (lane_id() == 0) d.box1[node] = b;
}

// The levels above, by one block.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) triangulate_tree(DelaunayArgs d) {
    after_prior();
    const u32 n = d.state->n;
    if (n < 3) return;
    const int top = top_level(n);
    for (int level = 2; level <= top; level++) {
        const int4 *from = boxes(d, level - 1);
        const u32 count = nodes(n, level), below = nodes(n, level - 1);
        for (u32 node = threadIdx.x >> 5; node < count; node += 32) {
            const u32 child = node * 32 + lane_id();
            const int4 b = warp_join(child < below ? from[child] : no_box());
            if (lane_id() == 0) boxes(d, level)[node] = b;
        }
        __syncthreads();
    }
}

// What a warp of triangulate_stars has gathered.
struct Patch {
    float2 at[STAR_NEAR + 1]; // the last is far away
    u32 id[STAR_NEAR];
    u32 front[2][STAR_FRONT];             // nodes of the tree while points are gathered
    int self[32];                    // where the warp's own points are
    unsigned short close[STAR_CLOSE][32]; // the points close to each of them
};

__device__ __forceinline__ bool meets(int4 a, int4 b) { return a.x <= b.z && b.x <= a.z && a.y <= b.w && b.y <= a.w; }

// Gathers the points in a box, relative to o, and returns how many there are: -1 where they are too many.
__device__ __forceinline__ int gather(const DelaunayArgs &d, u32 n, int4 box, int2 o, u32 first, Patch &s) {
    const u32 lane = lane_id(), lower = (1u << lane) - 1;
    const int top = top_level(n);
    u32 *from = s.front[0], *to = s.front[1];
    u32 m = 1;
    if (lane == 0) from[0] = 0;
    __syncwarp();
    for (int level = top; level >= 0; level--) {
        const int4 *b = boxes(d, level);
        const u32 count = nodes(n, level);
        u32 k = 0;
        for (u32 i = 0; i < m; i++) {
            const u32 child = from[i] * 32 + lane;
            const bool hit = child < count && meets(b[child], box);
            const u32 hits = __ballot_sync(~0u, hit);
            if (k + __popc(hits) > STAR_FRONT) return -1;
            if (hit) to[k + __popc(hits & lower)] = child;
            k += __popc(hits);
        }
        __syncwarp();
        u32 *t = from;
        from = to, to = t, m = k;
    }
    int total = 0;
    for (u32 i = 0; i < m * TREE_LEAF; i += 32) {
        const u32 slot = i + lane, j = slot < m * TREE_LEAF ? from[slot / TREE_LEAF] * TREE_LEAF + slot % TREE_LEAF : n;
        int2 p = o;
        if (j < n) p = d.xy[j];
        const bool in = j < n && p.x >= box.x && p.y >= box.y && p.x <= box.z && p.y <= box.w;
        const u32 ins = __ballot_sync(~0u, in);
        if (total + __popc(ins) > STAR_NEAR) return -1;
        if (in) {
            const int at = total + __popc(ins & lower);
            s.at[at] = make_float2((float)(p.x - o.x), (float)(p.y - o.y));
            s.id[at] = j;
            if (j - first < 32) s.self[j - first] = at;
        }
        total += __popc(ins);
    }
    __syncwarp();
    return total;
}

__device__ __forceinline__ int2 whole(float x, float y) { return make_int2((int)x, (int)y); }

// The circle through (0, 0), a and b as a linear test: r is inside where r.x*x + r.y*y + |r|^2*z < 0. z is 0 for a
// half-plane.
struct Circle {
    double x, y, z;
};
__device__ __forceinline__ Circle circle(double ax, double ay, double bx, double by) {
    const double al = ax * ax + ay * ay, bl = bx * bx + by * by;
    Circle c;
    c.x = ay * bl - al * by, c.y = al * bx - ax * bl, c.z = ax * by - ay * bx;
    return c;
}

// The test in float. What is not below margin is outside. With m = radius^2 * z, points in the circle have terms of 4m
// and, in sum, 5.7m (|r| is at most the diameter), and rounding x, y, z, |r|^2 and the sum itself errs by 5 * 2^-24 of
// those. Where m is below 2^20 all terms are whole numbers below 2^24, and nothing is rounded; where the patch is
// small, so that wraps decides ties as well, those on the circle are no concern of the test any more.
struct Test {
    float x, y, z, margin, cx, cy, radius;
    bool exact;
};
__device__ __forceinline__ Test test_of(Circle c, bool small) {
    Test t;
    const double half = -0.5 / c.z, cx = c.x * half, cy = c.y * half, rr = cx * cx + cy * cy;
    const float m = (float)(rr * c.z);
    t.x = (float)c.x, t.y = (float)c.y, t.z = (float)c.z;
    t.exact = small && m < 1 << 20;
    t.margin = t.exact ? 0 : m < 1 << 20 ? 0.5f : m * (1.f / (1 << 18));
    t.cx = (float)cx, t.cy = (float)cy, t.radius = sqrtf((float)rr);
    return t;
}

// Of two points on one circle through p = (0, 0) and a, is r, rather than c, the neighbour of p after a? Whole numbers
// below SMALL. The polygon on the circle is cut into a fan around its first corner.
__device__ __forceinline__ bool fan_first(float ax, float ay, float2 c, float2 r) {
    const bool p_first = ax > 0 || (ax == 0 && ay > 0);
    const float mx = p_first ? 0 : ax, my = p_first ? 0 : ay;
    const bool c_first = c.x < mx || (c.x == mx && c.y < my), r_first = r.x < mx || (r.x == mx && r.y < my);
    if (c_first || r_first) return r.x < c.x || (r.x == c.x && r.y < c.y);
    const float turn = r.x * c.y - r.y * c.x;
    return p_first ? turn > 0 : turn < 0;
}

// The next neighbour of p after a is left of a, where the angle to p and a is the greatest: its cotangent is num / den.
struct Widest {
    float num, den;
    int best;
    float its_num, its_den; // of the point that is looked at
    bool better;

    // Looks at r. Returns whether its angle is exactly that of the best.
    __device__ __forceinline__ bool ties(float ax, float ay, float2 r, bool small) {
        its_den = __fmul_rn(ax, r.y) - __fmul_rn(ay, r.x); // of a itself it is 0, whatever is rounded
        its_num = r.x * (r.x - ax) + r.y * (r.y - ay);
        const float u = its_num * den, v = num * its_den;
        better = u < v;
        return u == v && small && fabsf(v) < 1 << 24 && its_den > 0 && den > 0;
    }
    __device__ __forceinline__ void take(int i) {
        if (its_den > 0 && better) num = its_num, den = its_den, best = i;
    }
};

// What a lane is about.
enum { FIRST, WRAP, DONE, FAR };

extern "C" __global__ void __launch_bounds__(STAR_WARPS * 32, STAR_BLOCKS) triangulate_stars(DelaunayArgs d) {
    __shared__ Patch patches[STAR_WARPS];
    after_prior();
    TriangulateState *state = d.state;
    const u32 n = state->n, lane = lane_id(), first = (blockIdx.x * STAR_WARPS + (threadIdx.x >> 5)) * 32;
    if (n < 3 || !state->solid || first >= n) return;
    Patch &s = patches[threadIdx.x >> 5];
    const u32 ip = min(first + lane, n - 1);
    const int2 p = d.xy[ip];
    int4 box = warp_join(make_int4(p.x, p.y, p.x, p.y));
    const int2 o = make_int2(box.x, box.y);
    const float px = (float)(p.x - o.x), py = (float)(p.y - o.y);
    const int4 all = make_int4(~state->min_x ^ 0x80000000u, ~state->min_y ^ 0x80000000u, state->max_x ^ 0x80000000u,
                               state->max_y ^ 0x80000000u);
    {
        // Points are about this far apart: a run on the curve fills some two thirds of its box.
        const float w = (float)(box.z - box.x), h = (float)(box.w - box.y);
        const float apart = fmaxf(sqrtf(w * h / 32), fmaxf(w, h) / 32) + 1;
        const int by = (int)fminf(apart * STAR_MARGIN, (float)MAX_POINT);
        box = make_int4(box.x - by, box.y - by, box.z + by, box.w + by);
    }

    int phase = first + lane < n ? FIRST : DONE;
    float ax = 0, ay = 0; // the neighbour that the next one is looked for from, relative to p
    u32 ia = 0, begin = 0, slots = 0, steps = 0;
    for (int round = 0;; round++) {
        if ((i64)box.z - box.x >= 1 << 24 || (i64)box.w - box.y >= 1 << 24) break; // floats would be rounded
        const int count = gather(d, n, box, o, first, s);
        if (count < 0) break;
        // How far all points are known, relative to p.
        const float known_x0 = box.x <= all.x ? -1e30f : (float)(box.x - p.x),
            known_x1 = box.z >= all.z ? 1e30f : (float)(box.z - p.x);
        const float known_y0 = box.y <= all.y ? -1e30f : (float)(box.y - p.y),
            known_y1 = box.w >= all.w ? 1e30f : (float)(box.w - p.y);
        float4 need = make_float4(1e30f, 1e30f, -1e30f, -1e30f);
        const int self = s.self[lane];
        int cur = -1;
        bool paused = false;

        // Those close to p, in a disc that is likely to hold some; and the nearest, which is a neighbour: the circle
        // with the two as ends of a diameter is empty.
        const float wide = (float)(min(box.z, all.z) - max(box.x, all.x) + 1),
            high = (float)(min(box.w, all.w) - max(box.y, all.y) + 1);
        const float room = fminf(fminf(-known_x0, known_x1), fminf(-known_y0, known_y1));
        float reach =
            fminf(STAR_CLOSE_WANTED / 3.14f * wide * high / count, room * room * (1 - 1.f / (1 << 18))); // a square
        int closest = -1, found = STAR_CLOSE + 1;
        while (__any_sync(~0u, found > STAR_CLOSE)) {
            float least = 1e30f;
            int k = 0;
            for (int i = 0; i < count; i++) {
                const float x = s.at[i].x - px, y = s.at[i].y - py, l = x * x + y * y;
                if (i == self) continue;
                if (l < least) least = l, closest = i;
                if (l <= reach) {
                    if (k < STAR_CLOSE) s.close[k][lane] = (unsigned short)i;
                    k++;
                }
            }
            found = k;
            if (k > STAR_CLOSE) reach *= 0.7f;
        }
        const int longest = (int)warp_max(found);
        for (int k = found; k < longest; k++) s.close[k][lane] = STAR_NEAR; // which is never chosen
        if (lane == 0) s.at[STAR_NEAR] = make_float2(1e9f, 1e9f);
        __syncwarp();
        const auto close = [&](int k) {
            const float2 r = s.at[s.close[k][lane]];
            return make_float2(r.x - px, r.y - py);
        };

        if (__any_sync(~0u, phase == FIRST)) {
            const bool start = phase == FIRST;
            float least = 0;
            if (closest >= 0) {
                const float cx = s.at[closest].x - px, cy = s.at[closest].y - py;
                least = cx * cx + cy * cy;
            }
            if (__any_sync(~0u, start && least >= 1 << 24)) { // else squares are whole numbers
                double exact = 1e30;
                const float around = least * (1 + 1.f / (1 << 20));
                for (int i = 0; i < count; i++) {
                    const float cx = s.at[i].x - px, cy = s.at[i].y - py;
                    if (cx * cx + cy * cy <= around && i != self) {
                        const double l = (double)cx * cx + (double)cy * cy;
                        if (l < exact) exact = l, closest = i;
                    }
                }
            }
            if (start) {
                const float r = sqrtf(least) * (1 + 1.f / (1 << 18));
                if (closest < 0) {
                    phase = FAR;
                } else if (-r > known_x0 && r < known_x1 && -r > known_y0 && r < known_y1) {
                    ax = s.at[closest].x - px, ay = s.at[closest].y - py;
                    ia = begin = s.id[closest];
                    phase = WRAP;
                } else {
                    need = make_float4(-r, -r, r, r);
                    paused = true;
                }
            }
        }
        if (__any_sync(~0u, phase == WRAP))
            for (int i = 0; i < count; i++)
                if (s.id[i] == ia) cur = i;

        const bool small = max(box.z - box.x, box.w - box.y) < SMALL;
        bool cur_close = false; // cur is known to be among the close ones
        while (__any_sync(~0u, phase == WRAP && !paused)) {
            const bool active = phase == WRAP && !paused;
            Widest w;
            w.num = 1, w.den = 0, w.best = -1;
#pragma unroll 4
            for (int k = 0; k < longest; k++) {
                const float2 r = close(k);
                if (w.ties(ax, ay, r, small)) w.better = fan_first(ax, ay, close(w.best), r);
                w.take(k);
            }
            int best = -1;
            float bx = 0, by = 0;
            Test t;
            t.x = t.y = t.z = 0, t.margin = -1, t.radius = 0, t.exact = true;
            bool ok = false; // the neighbour is found
            if (active && w.best >= 0 && w.best < found) {
                best = s.close[w.best][lane], bx = close(w.best).x, by = close(w.best).y;
                const Circle c = circle(ax, ay, bx, by);
                if (c.z > 0) {
                    t = test_of(c, small);
                    const float r = t.radius * (1 + 1.f / (1 << 18));
                    ok = 4 * r * r <= reach; // all that can be in the circle is close
                }
            }
            // Of those that are not surely outside, two are on the circle for they make it.
            int touching = 0;
#pragma unroll 4
            for (int k = 0; k < longest; k++) {
                const float2 r = close(k);
                touching += r.x * t.x + r.y * t.y + (r.x * r.x + r.y * r.y) * t.z < t.margin;
            }
            if (ok && touching > (t.exact ? 0 : cur_close ? 2 : 1)) {
                for (int k = 0; k < found; k++) {
                    const int i = s.close[k][lane];
                    const float2 r = close(k);
                    if (r.x * t.x + r.y * t.y + (r.x * r.x + r.y * r.y) * t.z < (t.exact ? 0.5f : t.margin) &&
                        i != cur && i != best) {
                        const int2 wa = whole(ax, ay), wr = whole(r.x, r.y);
                        if (cross(wa, wr) > 0 && inside(wa, whole(bx, by), wr)) {
                            best = i, bx = r.x, by = r.y;
                            t = test_of(circle(ax, ay, bx, by), small);
                        }
                    }
                }
            }
            // Larger circles, one after the other, by all lanes and among all points.
            for (u32 left = __ballot_sync(~0u, active && !ok); left; left &= left - 1) {
                const int who = __ffs(left) - 1;
                const float qx = __shfl_sync(~0u, px, who), qy = __shfl_sync(~0u, py, who);
                const float fx = __shfl_sync(~0u, ax, who), fy = __shfl_sync(~0u, ay, who);
                const int not1 = __shfl_sync(~0u, cur, who), not2 = __shfl_sync(~0u, self, who);
                Widest v;
                v.num = 1, v.den = 0, v.best = -1;
                for (int i = lane; i < count; i += 32) {
                    const float2 r = make_float2(s.at[i].x - qx, s.at[i].y - qy);
                    if (v.ties(fx, fy, r, small)) v.better =
                        fan_first(fx, fy, make_float2(s.at[v.best].x - qx, s.at[v.best].y - qy), r);
                    v.take(i);
                }
#pragma unroll
                for (int o = 16; o; o >>= 1) {
                    const float num = __shfl_xor_sync(~0u, v.num, o), den = __shfl_xor_sync(~0u, v.den, o);
                    const int other = __shfl_xor_sync(~0u, v.best, o);
                    const float u = num * v.den, mine = v.num * den;
                    bool take = den > 0 && (v.den == 0 || u < mine || (u == mine && other < v.best));
                    if (small && u == mine && fabsf(u) < 1 << 24 && den > 0 && v.den > 0 && other != v.best)
                        take = fan_first(fx, fy, make_float2(s.at[v.best].x - qx, s.at[v.best].y - qy),
                                         make_float2(s.at[other].x - qx, s.at[other].y - qy));
                    if (take) v.num = num, v.den = den, v.best = other;
                }
                int to = v.best;
                Test large;
                float2 q = make_float2(0, 0);
                bool is = to >= 0;
                for (bool first_test = true; is; first_test = false) {
                    q = make_float2(s.at[to].x - qx, s.at[to].y - qy);
                    const Circle c = circle(fx, fy, q.x, q.y);
                    is = c.z > 0;
                    if (!is) break;
                    large = test_of(c, small);
                    // Ties may be left when another comes in.
                    const float margin = large.exact && !first_test ? 0.5f : large.margin;
                    int in = -1;
                    for (int i = lane; i < count; i += 32) {
                        const float2 r = make_float2(s.at[i].x - qx, s.at[i].y - qy);
                        if (r.x * large.x + r.y * large.y + (r.x * r.x + r.y * r.y) * large.z < margin && i != not1 &&
                            i != not2 && i != to) {
                            const int2 wa = whole(fx, fy), wr = whole(r.x, r.y);
                            if (cross(wa, wr) > 0 && inside(wa, whole(q.x, q.y), wr)) in = i;
                        }
                    }
                    const u32 ins = __ballot_sync(~0u, in >= 0);
                    if (!ins) break;
                    to = __shfl_sync(~0u, in, __ffs(ins) - 1);
                }
                if ((int)lane != who) continue;
                if (!is) {
                    phase = FAR; // nothing on the left, as far as floats can tell
                    continue;
                }
                const float r = large.radius * (1 + 1.f / (1 << 17)); // the centre is rounded as well
                ok = large.cx - r > known_x0 && large.cx + r < known_x1 && large.cy - r > known_y0 &&
                    large.cy + r < known_y1;
                if (ok) {
                    best = to, bx = q.x, by = q.y;
                } else if (r < STAR_WIDEST * (float)max(box.z - box.x, box.w - box.y)) {
                    need = make_float4(large.cx - r, large.cy - r, large.cx + r, large.cy + r);
                    paused = true;
                } else {
                    phase = FAR;
                }
            }
            if (ok) {
                const u32 ib = s.id[best];
                if (writes(ip, whole(ax, ay), ia, whole(bx, by), ib)) {
                    d.pairs[(u64)slots * d.n + ip] = make_uint2(ia, ib);
                    slots++;
                }
                ax = bx, ay = by, ia = ib, cur = best;
                cur_close = ax * ax + ay * ay < reach * (1 - 1.f / (1 << 18));
                if (ib == begin)
                    phase = DONE;
                else if (++steps == STAR_MOST)
                    phase = FAR;
            }
        }
        const u32 waiting = __ballot_sync(~0u, paused);
        if (!waiting || round == STAR_ROUNDS) break;
        // A greater box, for those who need it.
        int4 more = no_box();
        if (paused)
            more = make_int4((int)floorf(need.x) - 1 + p.x, (int)floorf(need.y) - 1 + p.y,
                (int)ceilf(need.z) + 1 + p.x, (int)ceilf(need.w) + 1 + p.y);
        box = join(box, warp_join(more));
    }
    if (phase != DONE) phase = FAR, slots = 0;
    const u32 far = __ballot_sync(~0u, phase == FAR);
    if (far) {
        u32 at = 0;
        if (lane == 0) at = atomicAdd(&state->far, __popc(far));
        at = __shfl_sync(~0u, at, 0) + __popc(far & ((1u << lane) - 1));
        if (phase == FAR) d.far[at] = ip;
    }
    if (first + lane < n) d.masks[ip] = (unsigned char)((1u << slots) - 1);
}

// Directions of triangulate_far: 0, 60, ... 300 degrees, turned counter-clockwise by less than any angle between
// points. side is positive where r is left of direction k, and negative where it is right of it.
__device__ __forceinline__ int side(int k, int2 r) {
    if (k == 0 || k == 3) {
        const int x = k ? -r.x : r.x, y = k ? -r.y : r.y;
        return y ? y : x > 0 ? -1 : 1;
    }
    // u + v * sqrt(3), which is not 0: compared as squares.
    const i64 u = k == 2 || k == 4 ? -(i64)r.y : r.y, v = k < 3 ? -(i64)r.x : r.x;
    if (u >= 0 && v >= 0) return 1;
    if (u <= 0 && v <= 0) return -1;
    return (u * u > 3 * v * v) == (u > 0) ? 1 : -1;
}

// A basis of the linear program: the triangle of (0, 0) and up to two corners, a right of the direction and b left of
// it. Where one is missing it is infinitely far, and the circle is the half-plane beyond the other.
struct Basis {
    int2 a, b;
    u32 ia, ib;
    bool has_a, has_b;
    int2 h;      // r is in the half-plane where h . r < 0
    bool proven; // no point is there
    Circle c;
    Circle sums; // of the absolute terms of c, which bound its rounding: corners may nearly be in line, and c small
};

// How much the value of the circle may be off at (x, y): 2^-53 for each of a few operations.
__device__ __forceinline__ double slack(const Basis &s, double x, double y) {
    return (fabs(x) * s.sums.x + fabs(y) * s.sums.y + (x * x + y * y) * s.sums.z) * (1. / (1ll << 48));
}

// Is r inside the circle? In a half-plane the edge belongs to it as far as the corner.
__device__ __forceinline__ bool violates(const Basis &s, int2 r) {
    if (s.has_a && s.has_b) {
        const double x = r.x, y = r.y, f = x * s.c.x + y * s.c.y + (x * x + y * y) * s.c.z;
        if (fabs(f) > slack(s, x, y)) return f < 0;
        return inside(s.a, s.b, r);
    }
    const int2 e = s.has_a ? s.a : s.b;
    const i64 f = dot(s.h, r);
    return f < 0 || (f == 0 && dot(r, e) > 0 && dot(r, r) < dot(e, e));
}

// Can there be a point in the box that violates the basis? The box is relative to the point.
__device__ __forceinline__ bool may_violate(const Basis &s, int4 b) {
    if (s.has_a && s.has_b) { // the least value over the box, where both coordinates count for themselves
        const double px = s.c.x * (-0.5 / s.c.z), py = s.c.y * (-0.5 / s.c.z);
        const double x = fmin(fmax(px, (double)b.x), (double)b.z), y = fmin(fmax(py, (double)b.y), (double)b.w);
        const double f = x * s.c.x + x * x * s.c.z + y * s.c.y + y * y * s.c.z;
        return f <= slack(s, max(abs(b.x), abs(b.z)), max(abs(b.y), abs(b.w)));
    }
    const i64 f = (i64)s.h.x * (s.h.x > 0 ? b.x : b.z) + (i64)s.h.y * (s.h.y > 0 ? b.y : b.w);
    if (f < 0 && !s.proven) return true;
    const int2 e = s.has_a ? s.a : s.b;
    return f <= 0 && meets(b, make_int4(min(e.x, 0), min(e.y, 0), max(e.x, 0), max(e.y, 0)));
}

// The same for a slab, around p: in the coordinates a, across the slab, and b, along it, the circle's test is a sum of
// one of either, times the square of along's length.
__device__ __forceinline__ bool may_violate(const Basis &s, int2 p, const Slab &slab) {
    const bool both = s.has_a && s.has_b;
    const double ex = slab.along.x, ey = slab.along.y, z = both ? s.c.z : 0;
    const double ka = s.c.y * ex - s.c.x * ey, kb = s.c.x * ex + s.c.y * ey;
    const i64 ca = cross(slab.along, p), cb = dot(slab.along, p); // below 2^50, and so exact in double
    const double a0 = (double)(slab.least_cross - ca), a1 = (double)(slab.most_cross - ca);
    const double b0 = (double)(slab.least_dot - cb), b1 = (double)(slab.most_dot - cb);
    double a = ka > 0 ? a0 : a1, b = kb > 0 ? b0 : b1;
    if (both) a = fmin(fmax(ka * (-0.5 / z), a0), a1), b = fmin(fmax(kb * (-0.5 / z), b0), b1);
    const double f = a * ka + a * a * z + b * kb + b * b * z;
    const double sx = both ? s.sums.x : fabs(s.c.x), sy = both ? s.sums.y : fabs(s.c.y);
    const double ma = fmax(fabs(a0), fabs(a1)), mb = fmax(fabs(b0), fabs(b1));
    const double sum = ma * (sy * fabs(ex) + sx * fabs(ey)) + mb * (sx * fabs(ex) + sy * fabs(ey)) +
        (ma * ma + mb * mb) * z;
    return f <= sum * (1. / (1ll << 46));
}

// Slabs are worth it where many points are left to triangulate_far.
__device__ __forceinline__ bool has_slabs(const TriangulateState *s) { return s->far >= SLAB_LEAST; }
__device__ __forceinline__ Slab *slabs(const DelaunayArgs &d, int level) {
    return level == 0 ? d.slab0 : level == 1 ? d.slab1 : d.slab2;
}

// The slab of points from first to before end, a lane's or a warp's.
template <int LANES> __device__ __forceinline__ Slab slab_of(const DelaunayArgs &d, u32 first, u32 end) {
    Slab s;
    int2 e = minus(d.xy[end - 1], d.xy[first]);
    const int shift = max(12 - __clz(max(abs(e.x), abs(e.y))), 0); // products are below 2^50
    s.along = e = e.x | e.y ? make_int2(e.x >> shift, e.y >> shift) : make_int2(1, 0);
    s.least_cross = s.least_dot = 1ll << 60, s.most_cross = s.most_dot = -(1ll << 60);
#pragma unroll 4
    for (u32 i = first + (LANES > 1 ? lane_id() : 0); i < end; i += LANES) {
        const i64 c = cross(e, d.xy[i]), t = dot(e, d.xy[i]);
        s.least_cross = min(s.least_cross, c), s.most_cross = max(s.most_cross, c);
        s.least_dot = min(s.least_dot, t), s.most_dot = max(s.most_dot, t);
    }
    if (LANES > 1) {
        s.least_cross = warp_min(s.least_cross), s.most_cross = warp_max(s.most_cross);
        s.least_dot = warp_min(s.least_dot), s.most_dot = warp_max(s.most_dot);
    }
    return s;
}

// Those of levels 0 and 1, a warp for each node of the latter, and of level 2 by each 32nd warp.
extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS) triangulate_slabs(DelaunayArgs d) {
    after_prior();
    const TriangulateState *state = d.state;
    const u32 n = state->n, node = (blockIdx.x * TRIANGULATE_THREADS + threadIdx.x) >> 5, leaf = node * 32 + lane_id();
    if (!has_slabs(state) || node >= nodes(n, 1)) return;
    if (leaf < nodes(n, 0)) d.slab0[leaf] = slab_of<1>(d, leaf * TREE_LEAF, min((leaf + 1) * TREE_LEAF, n));
    const u32 each = TREE_LEAF * 32;
    const Slab own = slab_of<32>(d, node * each, min((node + 1) * each, n));
    if (lane_id() == 0) d.slab1[node] = own;
    if (node % 32) return;
    const Slab above = slab_of<32>(d, node * each, min((node + 32) * each, n));
    if (lane_id() == 0) d.slab2[node / 32] = above;
}

// Lines of the hull that searches have proven, with all points on the left or on the line. Where many points are on
// one, their searches would each visit all boxes that it cuts. A line is there when its word in ready is set; which
// ones are changes the time and not the result.
__device__ __forceinline__ int4 line_of(const Basis &s, int2 p) { // from (x, y) to (z, w)
    return s.has_b ? make_int4(p.x, p.y, p.x + s.b.x, p.y + s.b.y) : make_int4(p.x + s.a.x, p.y + s.a.y, p.x, p.y);
}
__device__ __forceinline__ bool is_proven(const TriangulateState *state, int4 line) {
    bool same = false;
    const u32 lane = lane_id();
    if (status_read(&state->ready[lane])) {
        __threadfence();
        const volatile int *l = (const volatile int *)&state->lines[lane];
        const int2 from = make_int2(l[0], l[1]), along = make_int2(l[2] - from.x, l[3] - from.y);
        const int2 q = make_int2(line.x - from.x, line.y - from.y), r = make_int2(line.z - from.x, line.w - from.y);
        same = cross(along, q) == 0 && cross(along, r) == 0 && dot(along, minus(r, q)) > 0;
    }
    return __any_sync(~0u, same);
}
__device__ __forceinline__ void prove(TriangulateState *state, int4 line) {
    if (lane_id() != 0) return;
    const u32 i = atomicAdd(&state->proven, 1);
    if (i >= 32) return;
    state->lines[i] = line;
    __threadfence();
    status_write(&state->ready[i], 1);
}

// Lets each lane offer a point r, which is j, until none of them violates the basis. Returns whether it changed. The
// one to enter is the farthest beyond the line of the two corners in the picture that inversion at (0, 0) makes, where
// neighbours are the corners of a convex hull: so it is a neighbour among the points that are offered, but for
// rounding.
__device__ __forceinline__ bool improve(const TriangulateState *state, int2 p, Basis &s, int direction, bool offered,
    int2 r, u32 j) {
    bool changed = false;
    for (;;) {
        const bool some = s.has_a || s.has_b, in = offered && (!some || violates(s, r));
        if (!__any_sync(~0u, in)) return changed;
        const double l = (double)r.x * r.x + (double)r.y * r.y;
        const u32 key = __float_as_uint((float)(some ? ((double)r.x * s.c.x + (double)r.y * s.c.y) / l : -1 / l));
        // In the order of the numbers, with the lane in the lowest bits.
        const u32 least = in ? ((key >> 31 ? ~key : key | 0x80000000u) & ~31u) | lane_id() : ~0u;
        const int best = warp_min(least) & 31;
        const int2 e = make_int2(__shfl_sync(~0u, r.x, best), __shfl_sync(~0u, r.y, best));
        const u32 ie = __shfl_sync(~0u, j, best);
        if (side(direction, e) > 0)
            s.b = e, s.ib = ie, s.has_b = true;
        else
            s.a = e, s.ia = ie, s.has_a = true;
        if (s.has_a && s.has_b) {
            s.c = circle(s.a.x, s.a.y, s.b.x, s.b.y);
            s.c.z = (double)cross(s.a, s.b);
            const double al = (double)dot(s.a, s.a), bl = (double)dot(s.b, s.b);
            s.sums.x = abs(s.a.y) * bl + al * abs(s.b.y), s.sums.y = abs(s.a.x) * bl + al * abs(s.b.x),
                s.sums.z = s.c.z;
        } else {
            s.h = s.has_b ? make_int2(-s.b.y, s.b.x) : make_int2(s.a.y, -s.a.x);
            s.c.x = s.h.x, s.c.y = s.h.y, s.c.z = 0;
            s.proven = is_proven(state, line_of(s, p));
        }
        changed = true;
    }
}

__device__ __forceinline__ u32 multiprocessor() {
    u32 id;
    asm("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

// Nodes that are still to be visited: a level in the upper 8 bits. Each leaves at most 32 behind, of the level below.
#define STACK 192

extern "C" __global__ void __launch_bounds__(STAR_WARPS * 32) triangulate_far(DelaunayArgs d) {
    __shared__ u32 stacks[STAR_WARPS][STACK];
    after_prior();
    TriangulateState *state = d.state;
    const u32 n = state->n, tasks = state->far * POINT_SLOTS, lane = lane_id();
    if (!tasks) return;
    // Points on a circle keep these blocks for many milliseconds, in which no block ends: each eighth multiprocessor is
    // left to strips. The first blocks work wherever they are, so that all tasks are done.
    if (blockIdx.x >= gridDim.x / 8 && multiprocessor() % 8 == 0) return;
    const int top = top_level(n), thin = has_slabs(state) ? 3 : 0; // levels with slabs
    u32 *stack = stacks[threadIdx.x >> 5];
    for (;;) {
        u32 task = 0;
        if (lane == 0) task = atomicAdd(&state->far_done, 1);
        task = __shfl_sync(~0u, task, 0);
        if (task >= tasks) return;
        const int k = task % POINT_SLOTS;
        const u32 ip = d.far[task / POINT_SLOTS];
        const int2 p = d.xy[ip];
        Basis s;
        s.has_a = s.has_b = false;
        s.a = s.b = s.h = make_int2(0, 0), s.ia = s.ib = 0;
        s.c.x = s.c.y = s.c.z = 0;
        s.proven = false;
        {
            const u32 j = max(min(ip + 16, n), 32u) - 32 + lane;
            const bool real = j < n && j != ip;
            improve(state, p, s, k, real, real ? minus(d.xy[j], p) : make_int2(1, 1), j);
        }
        u32 visits = 0;
        for (bool changed = true; changed;) {
            changed = false;
            u32 depth = 1;
            if (lane == 0) stack[0] = (u32)(top + 1) << 24;
            __syncwarp();
            while (depth) {
                const u32 code = stack[--depth], node = code & 0xffffff;
                const int level = (int)(code >> 24) - 1; // of its children
                const u32 child = node * 32 + lane;
                bool hit = child < nodes(n, level);
                float away = 0;
                if (hit) {
                    int4 b = boxes(d, level)[child];
                    b = make_int4(b.x - p.x, b.y - p.y, b.z - p.x, b.w - p.y);
                    hit = may_violate(s, b) && (level >= thin || may_violate(s, p, slabs(d, level)[child]));
                    const float dx = (float)max(max(b.x, -b.z), 0), dy = (float)max(max(b.y, -b.w), 0);
                    away = dx * dx + dy * dy;
                }
                visits++;
                // Nearest first: what is found there is likely to rule out the others.
                const u32 hits = __ballot_sync(~0u, hit);
                u32 rank = 0;
                for (u32 m = hits; m; m &= m - 1) {
                    const u32 other = __ffs(m) - 1;
                    const float its = __shfl_sync(~0u, away, other);
                    rank += its < away || (its == away && other < lane);
                }
                const u32 many = __popc(hits);
                if (hit) stack[depth + (level ? many - 1 - rank : rank)] = (u32)level << 24 | child;
                __syncwarp();
                if (level > 0) {
                    depth += many;
                    continue;
                }
                visits += many / (32 / TREE_LEAF);
                for (u32 i = 0; i < many; i += 32 / TREE_LEAF) {
                    const u32 leaf = i + lane / TREE_LEAF,
                              j = leaf < many ? stack[depth + leaf] * TREE_LEAF + lane % TREE_LEAF : n;
                    const bool real = j < n && j != ip;
                    changed |= improve(state, p, s, k, real, real ? minus(d.xy[j], p) : make_int2(1, 1), j);
                }
                __syncwarp();
            }
        }
        if (!(s.has_a && s.has_b) && !s.proven && visits > STAR_MANY_VISITS && !is_proven(state, line_of(s, p)))
            prove(state, line_of(s, p));
        if (lane != 0 || !s.has_a || !s.has_b) continue;
        const int prior = (k + POINT_SLOTS - 1) % POINT_SLOTS; // the triangle is that of its first direction
        if (side(prior, s.a) < 0 && side(prior, s.b) > 0) continue;
        if (!writes(ip, s.a, s.ia, s.b, s.ib)) continue;
        d.pairs[(u64)k * d.n + ip] = make_uint2(s.ia, s.ib);
        atomicOr((u32 *)d.masks + ip / 4, 1u << (ip % 4 * 8 + k));
    }
}

// Writes the triangles in the order of the points along the curve. A warp takes EMIT_ITEMS times 32 points: for each 32
// it lists the slots that are taken, so that lanes take one each and their writes lie together.
extern "C" __global__ void __launch_bounds__(TRIANGULATE_THREADS) triangulate_emit(DelaunayArgs d) {
    __shared__ u32 start, lists[TRIANGULATE_THREADS / 32][32 * POINT_SLOTS];
    after_prior();
    TriangulateState *s = d.state;
    const u32 n = s->solid ? s->n : 0, tile = take_tile(&s->emit_tiles), warp = threadIdx.x >> 5, lane = lane_id();
    const u32 first = (tile * (TRIANGULATE_THREADS / 32) + warp) * 32 * EMIT_ITEMS;
    unsigned char masks[EMIT_ITEMS];
    u32 count = 0, total;
#pragma unroll
    for (int k = 0; k < EMIT_ITEMS; k++) {
        const u32 i = first + k * 32 + lane;
        masks[k] = i < n ? d.masks[i] : 0;
        count += __popc(masks[k]);
    }
    const u32 ahead = block_scan<TRIANGULATE_THREADS>(count, total);
    if (warp == 0) {
        const u32 prefix = look_back(d.emit_status, tile, total);
        if (lane == 0) {
            start = prefix;
            if (tile == gridDim.x - 1) *d.count = prefix + total;
        }
    }
    __syncthreads();
    u32 at = start + __shfl_sync(~0u, ahead, 0);
    u32 *list = lists[warp];
#pragma unroll
    for (int k = 0; k < EMIT_ITEMS; k++) {
        const u32 base = first + k * 32;
        const u32 own = __popc(masks[k]), end = warp_scan(own);
        for (u32 mask = masks[k], to = end - own; mask; mask &= mask - 1) list[to++] = lane * 8 + __ffs(mask) - 1;
        const u32 many = __shfl_sync(~0u, end, 31);
        __syncwarp();
        for (u32 j = lane; j < many; j += 32) {
            const u32 i = base + list[j] / 8;
            const uint2 e = d.pairs[(u64)(list[j] % 8) * d.n + i];
            Triangle t;
            t.a = d.id[i], t.b = d.id[e.x], t.c = d.id[e.y];
            while (t.a > t.b || t.a > t.c) {
                const u32 a = t.a;
                t.a = t.b, t.b = t.c, t.c = a;
            }
            d.triangles[at + j] = t;
        }
        __syncwarp();
        at += many;
    }
}
