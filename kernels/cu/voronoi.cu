// voronoi labels each pixel with the index of its nearest site (driver/voronoi.go). All methods but jump flooding are
// exact in integers, and of equally near sites the least index wins.
//
// GRID and BANDING share how sites are found. A word holds 32 pixels of a column, one bit each; a strip is a row of
// words, and 32 neighbouring words of it are a cell of 32x32 pixels, 128 bytes. voronoi_mark sets the bits of the
// sites, voronoi_rank counts those of each cell and gives each distinct site an entry, cell by cell and column by
// column, and voronoi_least finds the least index of each. So sites in the same pixel cost nothing later, and a cell
// has 1024 sites at most. Bytes moved: a quarter of a byte a pixel, and some 100 a site, at random.
//
// GRID: a warp labels a tile of 32x32 pixels. The nearest cells with sites bound how far a nearest site can be, and of
// the sites in the cells within reach it keeps those that beat q, a site near the centre of the tile, somewhere in the
// tile: by the linear form |s-p|^2 - |q-p|^2, exactly. The same again for quarters of the tile, and where these still
// have more than 32 candidates for their quarters; what is left is compared for each pixel, with two instructions for a
// pixel and a candidate. Tiles far from all sites look for them in a bitmap of the cells; tiles full of sites look at
// the words around each pixel; and what has very many candidates all the same is left to the blocks of voronoi_hard. So
// time depends little on how many sites there are, and where: an H200 takes 23 us for 1920x1080 with 2,500 sites and
// 115 with 200,000. Up to VORONOI_LIST sites are taken without cells, by voronoi_few. Bytes moved: 4 a pixel.
//
// BANDING: voronoi_strips and voronoi_columns find the nearest site within each column, and voronoi_rows the nearest of
// these along each row. Where sites are near, a pixel looks at the columns around it. Else, the columns where pixels of
// a row find their sites ascend with the pixels, so that every pixel has to look only between those of two others that
// have been found before: the pixels in the middle between such, until there are none. Complexity: pixels *
// log(VORONOI_SEGMENT), whatever the sites. Bytes moved: 12 a pixel. Source: Cao and others, Parallel banding algorithm
// (2010), for the two phases, and Aggarwal and others, Geometric applications of a matrix-searching algorithm (1987),
// for the second.
//
// BRUTE_FORCE: pixels times sites, with sites in shared memory. JUMP_FLOOD: a launch a step; see driver/voronoi.go.

#include "abi/voronoi.cuh"
#include "collective.cuh"
#include "fault.cuh"

#define NO_SITE 0xffffffffu

__device__ __forceinline__ u64 word_of(const VoronoiArgs &g, int x, int y) { return (u64)(y >> 5) * g.pitch + x; }

// The site of a thread; false where there is none, or it is no pixel.
__device__ __forceinline__ bool site_of(const VoronoiArgs &g, u32 i, int2 *p) {
    if (i >= g.n) return false;
    *p = g.sites[i];
    return (u32)p->x < (u32)g.width && (u32)p->y < (u32)g.height;
}

extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_mark(VoronoiArgs g) {
    after_prior();
    const u32 i = blockIdx.x * VORONOI_THREADS + threadIdx.x;
    int2 p;
    if (!site_of(g, i, &p)) {
        if (i < g.n) report(g.fault, FAULT_VORONOI_SITE, i);
        return;
    }
    u32 *word = g.words + word_of(g, p.x, p.y);
    const u32 bit = 1u << (p.y & 31);
    if (!(__ldcg(word) & bit)) atomicOr(word, bit); // many in the same place would wait for each other
}

// A warp a cell. Entries are in any order of blocks: nothing depends on it.
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_rank(VoronoiArgs g) {
    __shared__ u32 sums[VORONOI_THREADS / 32], base;
    after_prior();
    const u32 warp = threadIdx.x >> 5, lane = lane_id();
    const u32 strips = (g.height + VORONOI_CELL - 1) / VORONOI_CELL, cell = blockIdx.x * (VORONOI_THREADS / 32) + warp;
    const bool is = cell < strips * g.cells;
    const u64 at = (u64)cell * 32 + lane;
    u32 word = is ? g.words[at] : 0;
    const int own = __popc(word), upto = warp_scan(own);
    const u32 total = __shfl_sync(~0u, upto, 31);
    if (lane == 0) sums[warp] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 sum = 0;
        for (int i = 0; i < VORONOI_THREADS / 32; i++) {
            const u32 v = sums[i];
            sums[i] = sum;
            sum += v;
        }
        base = sum ? atomicAdd(g.next, sum) : 0;
    }
    __syncthreads();
    if (!is) return;
    if (lane == 0) {
        g.heads[cell] = make_uint2(base + sums[warp], total);
        if (total) {
            const u32 cy = cell / g.cells, cx = cell % g.cells;
            atomicOr(g.occupied + (u64)cy * g.occupied_pitch + (cx >> 5), 1u << (cx & 31));
            atomicOr(g.blocks + (u64)(cy >> 5) * g.occupied_pitch + (cx >> 5), 1u << (cy & 31));
        }
    }
    if (!total) return;
    u32 rank = base + sums[warp] + upto - own;
    g.ranks[at] = make_uint2(word, rank);
    for (; word; word &= word - 1) g.entries[rank++] = make_uint2(NO_SITE, lane | (__ffs(word) - 1) << 5);
}

// The entry of a pixel that has a site.
__device__ __forceinline__ u32 entry_of(const VoronoiArgs &g, int x, int y) {
    const uint2 r = g.ranks[word_of(g, x, y)];
    return r.y + __popc(r.x & ((1u << (y & 31)) - 1));
}

extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_least(VoronoiArgs g) {
    after_prior();
    const u32 i = blockIdx.x * VORONOI_THREADS + threadIdx.x;
    int2 p;
    if (!site_of(g, i, &p)) return;
    u32 *index = &g.entries[entry_of(g, p.x, p.y)].x;
    if (__ldcg(index) > i) atomicMin(index, i);
}

// --- Grid ---------------------------------------------------------------------------------------------------------------

struct TileShared {
    int4 line[32];
    int2 at[VORONOI_LIST];
    u32 label[VORONOI_LIST];
    unsigned short half[VORONOI_LIST], quarter[VORONOI_LIST]; // those of a quarter, and of its quarter
};

// Candidates on chip.
struct List {
    int2 *at; // relative to the tile's first pixel
    u32 *label;
    int4 *line; // of up to 32 that a warp compares: the form of eval, and the label
};

// Pixels, relative to the tile's first: both ends belong to it.
struct Box {
    int x0, y0, x1, y1;
};

struct Tile {
    int x, y;               // first pixel
    Box box;                // its pixels within the image
    int cx0, cy0, cx1, cy1; // a square of cells beyond which none is within reach
    u32 nearest;            // a cell with sites
    bool near;              // the square is a lane's each
    int lane;
};

// Squared distances between pixels of two boxes: I is int where these are small.
template <typename I> __device__ __forceinline__ I least_distance(const Box &a, const Box &b) {
    const I dx = max(max(a.x0 - b.x1, b.x0 - a.x1), 0), dy = max(max(a.y0 - b.y1, b.y0 - a.y1), 0);
    return dx * dx + dy * dy;
}
template <typename I> __device__ __forceinline__ I greatest_distance(const Box &a, const Box &b) {
    const I dx = max(a.x1 - b.x0, b.x1 - a.x0), dy = max(a.y1 - b.y0, b.y1 - a.y0);
    return dx * dx + dy * dy;
}

__device__ __forceinline__ Box cell_box(const VoronoiArgs &g, const Tile &t, int cx, int cy) {
    Box b;
    b.x0 = cx * VORONOI_CELL - t.x, b.y0 = cy * VORONOI_CELL - t.y;
    b.x1 = min(b.x0 + VORONOI_CELL, g.width - t.x) - 1, b.y1 = min(b.y0 + VORONOI_CELL, g.height - t.y) - 1;
    return b;
}

__device__ __forceinline__ int2 entry_at(const VoronoiArgs &g, const Tile &t, u32 cell, u32 place) {
    const int cy = cell / g.cells, cx = cell - cy * g.cells;
    return make_int2(cx * VORONOI_CELL - t.x + (int)(place & 31), cy * VORONOI_CELL - t.y + (int)(place >> 5));
}

// How near a site is to the centre of a box, roughly: q need not be the nearest one.
__device__ __forceinline__ float centrality(const Box &b, int2 s) {
    const float x = (float)(2 * s.x - b.x0 - b.x1), y = (float)(2 * s.y - b.y0 - b.y1);
    return x * x + y * y;
}

// The site of the lane with the least value (at least 0; of lanes that differ by a few millionths any).
__device__ __forceinline__ int2 most_central(float v, int2 s) {
    const int least = warp_min((__float_as_int(v) & ~31) | (int)lane_id()) & 31;
    return make_int2(__shfl_sync(~0u, s.x, least), __shfl_sync(~0u, s.y, least));
}

// What a site is farther from the centre of a box than q is, squared.
template <typename I> __device__ __forceinline__ I beyond(const Box &b, int2 q, int2 s) {
    return (I)(s.x - q.x) * (I)(s.x + q.x - b.x0 - b.x1) + (I)(s.y - q.y) * (I)(s.y + q.y - b.y0 - b.y1);
}

// Is s as near as q somewhere in the box? |s-p|^2 - |q-p|^2 is linear in p, so that its least is in a corner: what it is in
// the centre, less |dx| and |dy| times half the sides, doubled.
template <typename I> __device__ __forceinline__ bool competes(const Box &b, int2 q, int2 s) {
    const I dx = s.x - q.x, dy = s.y - q.y;
    return beyond<I>(b, q, s) <= (dx < 0 ? -dx : dx) * (I)(b.x1 - b.x0) + (dy < 0 ? -dy : dy) * (I)(b.y1 - b.y0);
}

// Bits from a to b, of those that there are.
__device__ __forceinline__ u32 between(int a, int b) {
    a = max(a, 0), b = min(b, 31);
    return a > b ? 0 : (~0u << a) & (~0u >> (31 - b));
}

// Calls f(x, y, bits) by all lanes, each with another y, for words of the bitmap of cells, without the cells outside of the
// tile's square; x, y is the first cell of the word.
template <typename F> __device__ __forceinline__ void for_words(const VoronoiArgs &g, const Tile &t, F f) {
    const int bx0 = t.cx0 >> 5, by0 = t.cy0 >> 5, columns = (t.cx1 >> 5) - bx0 + 1, all = columns * ((t.cy1 >> 5) - by0 + 1);
    for (int from = 0; from < all; from += 32) {
        const int mine = from + t.lane;
        const bool some = mine < all && g.blocks[(u64)(by0 + mine / columns) * g.occupied_pitch + bx0 + mine % columns];
        for (u32 mask = __ballot_sync(~0u, some); mask; mask &= mask - 1) {
            const int i = from + __ffs(mask) - 1, w = bx0 + i % columns, y = (by0 + i / columns) * 32 + t.lane;
            u32 bits = 0;
            if (y >= t.cy0 && y <= t.cy1) bits = g.occupied[(u64)y * g.occupied_pitch + w] & between(t.cx0 - w * 32, t.cx1 - w * 32);
            f(w * 32, y, bits);
        }
    }
}

__device__ __forceinline__ void set_square(const VoronoiArgs &g, Tile &t, int r) {
    t.cx0 = max(t.x / VORONOI_CELL - r, 0), t.cx1 = min(t.x / VORONOI_CELL + r, g.cells - 1);
    t.cy0 = max(t.y / VORONOI_CELL - r, 0), t.cy1 = min(t.y / VORONOI_CELL + r, (g.height - 1) / VORONOI_CELL);
}

__device__ __forceinline__ bool is_whole(const VoronoiArgs &g, const Tile &t) {
    return t.cx0 == 0 && t.cy0 == 0 && t.cx1 == g.cells - 1 && t.cy1 == (g.height - 1) / VORONOI_CELL;
}

// The cell of a lane in the square around a tile that is near sites.
__device__ __forceinline__ int2 near_cell(const Tile &t) {
    return make_int2(t.x / VORONOI_CELL + t.lane % 5 - 2, t.y / VORONOI_CELL + t.lane / 5 - 2);
}
__device__ __forceinline__ bool in_square(const Tile &t, int2 c) {
    return t.lane < 25 && c.x >= t.cx0 && c.x <= t.cx1 && c.y >= t.cy0 && c.y <= t.cy1;
}

// Bounds the cells that can have nearest sites. False where there are no sites at all.
template <typename I> __device__ __forceinline__ bool find_cells(const VoronoiArgs &g, Tile &t) {
    // Most tiles need not look beyond their neighbours' neighbours, which are a lane each.
    set_square(g, t, 2);
    t.near = true;
    const int2 c = near_cell(t);
    const u32 cell = (u32)c.y * g.cells + c.x;
    int reach = 0x7fffffff;
    if (in_square(t, c) && g.heads[cell].y) reach = greatest_distance<int>(t.box, cell_box(g, t, c.x, c.y));
    const int least_reach = warp_min(reach);
    if (least_reach < (2 * VORONOI_CELL + 1) * (2 * VORONOI_CELL + 1) || least_reach != 0x7fffffff && is_whole(g, t)) {
        t.nearest = __shfl_sync(~0u, cell, __ffs(__ballot_sync(~0u, reach == least_reach)) - 1);
        return true;
    }
    t.near = false;
    for (int r = 16;; r *= 4) {
        set_square(g, t, r);
        u64 least = ~0ull;
        for_words(g, t, [&](int x, int y, u32 bits) {
            // Of the cells of a word, those next to the tile's column on both sides are the nearest.
            const int own = t.x / VORONOI_CELL - x;
            const u32 before = bits & between(0, own), after = bits & between(own, 31);
            for (int side = 0; side < 2; side++) {
                if (!(side ? after : before)) continue;
                const int cx = x + (side ? __ffs(after) - 1 : 31 - __clz(before));
                const u64 d = (u64)greatest_distance<I>(t.box, cell_box(g, t, cx, y));
                // Distances have 42 bits, and there are fewer than 2^20 cells.
                least = min(least, d << 20 | ((u64)y * g.cells + cx));
            }
        });
        least = warp_min(least);
        if (least != ~0ull) {
            t.nearest = (u32)(least & 0xfffff);
            set_square(g, t, (int)(sqrtf((float)(least >> 20)) / VORONOI_CELL) + 2);
            return true;
        }
        if (is_whole(g, t)) return false;
    }
}

// Where a warp takes sites from: all of them, or the cells within reach.
template <bool DIRECT> struct Source;

template <> struct Source<true> {
    const VoronoiArgs &g;
    const Tile &t;
    int part, parts;

    __device__ __forceinline__ int2 site(u32 i) const {
        const int2 p = g.sites[i];
        return make_int2(p.x - t.x, p.y - t.y);
    }

    // A site near the centre of a box, and f(site, index) in each lane for some sites, by all lanes for all that may compete
    // with it, until f has enough. All lanes come along: there says whether it is one.
    template <typename I> __device__ __forceinline__ int2 central(const Box &b) const {
        float least = 3e38f;
        int2 best = site(0);
        for (u32 i = t.lane; i < g.n; i += 32) {
            const int2 s = site(i);
            const float v = centrality(b, s);
            if (v < least) least = v, best = s;
        }
        return most_central(least, best);
    }
    template <typename I, typename F> __device__ __forceinline__ void each(const Box &, int2, F f) const {
        for (u32 from = 0; from < g.n; from += 32) {
            const u32 i = min(from + t.lane, g.n - 1);
            if (f(site(i), i, from + t.lane < g.n)) return;
        }
    }
};

template <> struct Source<false> {
    const VoronoiArgs &g;
    const Tile &t;
    int part, parts; // which of the sites, in turns

    __device__ __forceinline__ int2 site(int2 c, u32 place) const {
        return make_int2(c.x * VORONOI_CELL - t.x + (int)(place & 31), c.y * VORONOI_CELL - t.y + (int)(place >> 5));
    }

    template <typename I> __device__ __forceinline__ int2 central(const Box &b) const {
        const uint2 head = g.heads[t.nearest];
        const int2 c = make_int2(t.nearest % g.cells, t.nearest / g.cells);
        float least = 3e38f;
        int2 best = make_int2(0, 0);
        for (u32 i = t.lane; i < head.y; i += 32) {
            const int2 s = site(c, g.entries[head.x + i].y);
            const float v = centrality(b, s);
            if (v < least) least = v, best = s;
        }
        return most_central(least, best);
    }

    // Takes the entries of a cell each lane one after the other, so that lanes are busy where cells have few. The next ones
    // are loaded while f looks at some.
    template <typename I, typename F> __device__ __forceinline__ bool cells(const Box &b, I reach, int2 c, bool is, F f) const {
        uint2 head = make_uint2(0, 0);
        if (is && least_distance<I>(b, cell_box(g, t, c.x, c.y)) <= reach) head = g.heads[(u32)c.y * g.cells + c.x];
        const int upto = warp_scan((int)head.y), all = __shfl_sync(~0u, upto, 31), step = parts * 32;
        const u32 first = head.x - (upto - head.y);
        int owner, next_owner = 0;
        uint2 e, next = make_uint2(0, 0);
        for (int k0 = part * 32 - step; k0 < all; k0 += step) {
            e = next, owner = next_owner;
            if (k0 + step < all) {
                const int k = min(k0 + step + t.lane, all - 1);
                next_owner = 0; // how many lanes' cells end before
#pragma unroll
                for (int half = 16; half; half >>= 1)
                    if (__shfl_sync(~0u, upto, next_owner + half - 1) <= k) next_owner += half;
                next = g.entries[__shfl_sync(~0u, first, next_owner) + k];
            }
            if (k0 >= 0 && f(site(make_int2(__shfl_sync(~0u, c.x, owner), __shfl_sync(~0u, c.y, owner)), e.y), e.x, k0 + t.lane < all)) return true;
        }
        return false;
    }
    template <typename I, typename F> __device__ __forceinline__ void each(const Box &b, int2 q, F f) const {
        Box at;
        at.x0 = at.x1 = q.x, at.y0 = at.y1 = q.y;
        const I reach = greatest_distance<I>(b, at);
        if (t.near) {
            const int2 c = near_cell(t);
            cells<I>(b, reach, c, in_square(t, c), f);
            return;
        }
        bool enough = false;
        for_words(g, t, [&](int x, int y, u32 bits) {
            // Those within reach, and a column more on both sides for what the root is off.
            const I dy = max(max(y * VORONOI_CELL - t.y - b.y1, b.y0 - (y * VORONOI_CELL + VORONOI_CELL - 1 - t.y)), 0),
                    left = reach - dy * dy;
            const int dx = (int)sqrtf((float)left) + 2;
            bits = left < 0 ? 0 : bits & between(((t.x + b.x0 - dx) >> 5) - x, ((t.x + b.x1 + dx) >> 5) - x);
            for (; !enough && __any_sync(~0u, bits); bits &= bits - 1) enough = cells<I>(b, reach, make_int2(x + __ffs(bits) - 1, y), bits != 0, f);
        });
    }
};

// Appends to a list in the order of lanes.
__device__ __forceinline__ int place_of(bool keep, int *n) {
    const u32 mask = __ballot_sync(~0u, keep);
    const int i = *n + __popc(mask & ((1u << lane_id()) - 1));
    *n += __popc(mask);
    return i;
}

// Of a value and a site of each lane those with the least value, in all lanes.
template <typename I> __device__ __forceinline__ void least_of(I *v, int2 *s) {
    for (int o = 16; o; o >>= 1) {
        const I other = __shfl_xor_sync(~0u, *v, o);
        const int x = __shfl_xor_sync(~0u, s->x, o), y = __shfl_xor_sync(~0u, s->y, o);
        if (other < *v || other == *v && (x < s->x || x == s->x && y < s->y)) *v = other, *s = make_int2(x, y);
    }
}

// A site nearest to the centre of a box, and by what it is nearer than q: of all sites of the source that may compete
// with q. Far from all sites the q of central can be tens of pixels farther away than that, and on a circle thousands
// of sites compete with it, but few with this one.
template <typename I, bool DIRECT>
__device__ __forceinline__ I nearest(const Source<DIRECT> &from, const Box &b, int2 *q) {
    I least = 0;
    int2 best = *q;
    from.template each<I>(b, *q, [&](int2 at, u32, bool) {
        const I v = beyond<I>(b, *q, at);
        if (v < least) least = v, best = at;
        return false;
    });
    least_of(&least, &best);
    *q = best;
    return least;
}

// Lists the candidates of a box, those that compete with q, and returns how many there are, even where that is more than
// VORONOI_LIST; it stops counting where there are more than most.
template <typename I, bool DIRECT>
__device__ __forceinline__ int candidates(const Source<DIRECT> &from, const List &s, const Box &b, int2 q, int most) {
    int n = 0;
    from.template each<I>(b, q, [&](int2 at, u32 label, bool there) {
        const bool keep = there && competes<I>(b, q, at);
        const int i = place_of(keep, &n);
        if (keep && i < VORONOI_LIST) s.at[i] = at, s.label[i] = label;
        return n > most;
    });
    __syncwarp();
    return n;
}
template <typename I, bool DIRECT>
__device__ __forceinline__ int candidates(const Source<DIRECT> &from, const List &s, const Box &b, int most) {
    return candidates<I>(from, s, b, from.template central<I>(b), most);
}

// Those of n candidates (of a list, or all that there are) that are ones of a box within theirs.
template <typename I>
__device__ __forceinline__ int narrow(const List &s, const unsigned short *from, int n, const Box &b, unsigned short *to, int2 *central) {
    const int lane = lane_id();
    float least = 3e38f;
    int2 best = s.at[0];
    for (int i = lane; i < n; i += 32) {
        const int2 at = s.at[from ? from[i] : i];
        const float v = centrality(b, at);
        if (v < least) least = v, best = at;
    }
    const int2 q = *central = most_central(least, best);
    int kept = 0;
    for (int i0 = 0; i0 < n; i0 += 32) {
        const int i = min(i0 + lane, n - 1), c = from ? from[i] : i;
        const bool keep = i0 + lane < n && competes<I>(b, q, s.at[c]);
        const int k = place_of(keep, &kept);
        if (keep) to[k] = c;
    }
    __syncwarp();
    return kept;
}

// Writes the labels of neighbouring pixels of a row, those that the image has.
template <int N> __device__ __forceinline__ void store(const VoronoiArgs &g, const Tile &t, int x, int y, const u32 *v) {
    if (y > t.box.y1) return;
    u32 *to = g.labels + (u64)(t.y + y) * g.width + t.x + x;
    if (N == 4 && x + 3 <= t.box.x1 && !(g.width & 3)) {
        *(uint4 *)to = make_uint4(v[0], v[1], v[2], v[3]);
    } else if (N == 2 && x + 1 <= t.box.x1 && !(g.width & 1)) {
        *(uint2 *)to = make_uint2(v[0], v[1]);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (x + i <= t.box.x1) to[i] = v[i];
    }
}

// Labels SIDExSIDE pixels from x0, y0 on, which have up to 32 candidates. With q near the centre, |s-p|^2 - |q-p|^2 is
// c + ax + by; what competes is 0 or less somewhere in the box, and q about the nearest in its centre, so that |c + ax + by|
// stays below 32 (|dx| + |dy|), and with sides up to 2^20 of 2^29 pixels below 2^26: times 32, and with the place of the
// candidate among all by index, it fits an int. The least of these is the nearest site of least index.
template <typename I, int SIDE>
__device__ __forceinline__ void eval(const VoronoiArgs &g, const Tile &t, const List &s, const unsigned short *list, int n, const Box &b, int2 q) {
    const int lane = t.lane, i = list[min(lane, n - 1)];
    const u32 label = s.label[i];
    const int2 at = s.at[i];
    int place = 0;
    for (int k = 0; k < n; k++) place += __shfl_sync(~0u, label, k) < label;
    if (lane < n) {
        const I dx = at.x - q.x, dy = at.y - q.y;
        const int c = (int)(dx * (I)(at.x + q.x - 2 * b.x0) + dy * (I)(at.y + q.y - 2 * b.y0));
        s.line[place] = make_int4(-64 * (int)dx, -64 * (int)dy, c * 32 + place, (int)label);
    }
    __syncwarp();
    // A lane has WIDE pixels of a row, in each of ROWS rows.
    const int WIDE = SIDE / 4, ROWS = SIDE / 8;
    const int x = lane % 4 * WIDE, y = lane / 4;
    int best[ROWS][WIDE];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int j = 0; j < WIDE; j++) best[r][j] = 0x7fffffff;
    for (int k = 0; k < n; k++) {
        const int4 l = s.line[k];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int v = l.z + l.x * x + l.y * (y + r * 8);
#pragma unroll
            for (int j = 0; j < WIDE; j++, v += l.x) best[r][j] = min(best[r][j], v);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        u32 v[WIDE];
#pragma unroll
        for (int j = 0; j < WIDE; j++) v[j] = (u32)s.line[best[r][j] & 31].w;
        store<WIDE>(g, t, b.x0 + x, b.y0 + y + r * 8, v);
    }
    __syncwarp();
}

// The nearest of what two pixels of a lane were offered.
template <typename I> struct Pair {
    I least[2];
    u32 label[2];

    __device__ __forceinline__ void take(int j, I d, u32 l) {
        if (l != NO_SITE && (label[j] == NO_SITE || d < least[j] || d == least[j] && l < label[j])) least[j] = d, label[j] = l;
    }
    __device__ __forceinline__ void offer(int x, int y, int2 at, u32 l) {
        const I dy = at.y - y;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const I dx = at.x - x - j;
            take(j, dx * dx + dy * dy, l);
        }
    }
};

// Labels up to 8x8 pixels whose candidates are those of a list of any length.
template <typename I>
__device__ __forceinline__ void eval_many(const VoronoiArgs &g, const Tile &t, const List &s, const unsigned short *list, int n, const Box &b) {
    const int x = b.x0 + t.lane % 4 * 2, y = b.y0 + t.lane / 4;
    Pair<I> p;
    p.label[0] = p.label[1] = NO_SITE;
    for (int k = 0; k < n; k++) p.offer(x, y, s.at[list[k]], s.label[list[k]]);
    store<2>(g, t, x, y, p.label);
    __syncwarp();
}

// The part of a tile from x, y on, of a side.
__device__ __forceinline__ bool part_of(const Tile &t, int x, int y, int side, Box *b) {
    b->x0 = x, b->y0 = y;
    b->x1 = min(x + side - 1, t.box.x1), b->y1 = min(y + side - 1, t.box.y1);
    return x <= b->x1 && y <= b->y1;
}

// Where sites are dense: of each pixel's columns, the nearest first, how far the nearest site in them is, from the words of the
// cells around. What they show ends after VORONOI_DENSE_REACH pixels at least.

struct DenseShared {
    u32 word[3][3 * VORONOI_CELL]; // of the strips above, at and below, from a cell left of the tile on
    u32 squared[3 * VORONOI_CELL]; // of the row at hand, for each column
};

__device__ __forceinline__ void in_column(const DenseShared &s, int c, int y, u32 *up, u32 *down) {
    const u32 above = s.word[0][c], own = s.word[1][c], below = s.word[2][c];
    const u32 upto = own & (~0u >> (31 - y)), from = own >> y;
    *up = upto ? y - 31 + __clz(upto) : above ? y + 1 + __clz(above) : 2 * VORONOI_DENSE_REACH;
    *down = from ? __ffs(from) - 1 : below ? VORONOI_CELL - y + __ffs(below) - 1 : 2 * VORONOI_DENSE_REACH;
}

// Labels a tile whose pixels have sites within VORONOI_DENSE_REACH; false where one has not.
__device__ __forceinline__ bool label_dense(const VoronoiArgs &g, const Tile &t, DenseShared &s) {
    const int strip = t.y / VORONOI_CELL, strips = (g.height + VORONOI_CELL - 1) / VORONOI_CELL;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int x = t.x + (j - 1) * VORONOI_CELL, at = strip + i - 1;
            s.word[i][j * VORONOI_CELL + t.lane] =
                x >= 0 && x < g.pitch && at >= 0 && at < strips ? g.words[(u64)at * g.pitch + x + t.lane] : 0;
        }
    const bool is = t.lane <= t.box.x1;
    const int own = VORONOI_CELL + t.lane;
    for (int y = 0; y <= t.box.y1; y++) {
        __syncwarp();
        u32 up, down;
        for (int j = 0; j < 3; j++) {
            in_column(s, j * VORONOI_CELL + t.lane, y, &up, &down);
            s.squared[j * VORONOI_CELL + t.lane] = min(up, down) * min(up, down);
        }
        __syncwarp();
        u32 least = is ? s.squared[own] : 0;
        for (u32 dx = 1; dx <= VORONOI_DENSE_REACH && __any_sync(~0u, dx * dx < least); dx++)
            least = min(least, dx * dx + min(s.squared[own - dx], s.squared[own + dx]));
        if (__any_sync(~0u, least > VORONOI_DENSE_REACH * VORONOI_DENSE_REACH)) return false;
        u32 label = NO_SITE;
        for (int dx = 0; __any_sync(~0u, is && dx * dx <= least); dx++)
            for (int c = own - dx; c <= own + dx; c += max(2 * dx, 1)) {
                if (!is || dx * dx + s.squared[c] != least) continue;
                in_column(s, c, y, &up, &down);
                const int x = t.x - VORONOI_CELL + c;
                if (up <= down) label = min(label, g.entries[entry_of(g, x, t.y + y - up)].x);
                if (down <= up) label = min(label, g.entries[entry_of(g, x, t.y + y + down)].x);
            }
        if (is) g.labels[(u64)(t.y + y) * g.width + t.x + t.lane] = label;
    }
    return true;
}

__device__ __forceinline__ bool set_tile(const VoronoiArgs &g, u32 tile, Tile *t) {
    const u32 columns = (g.width + VORONOI_CELL - 1) / VORONOI_CELL;
    t->lane = lane_id(), t->near = false;
    t->x = tile % columns * VORONOI_CELL, t->y = tile / columns * VORONOI_CELL;
    t->box.x0 = t->box.y0 = 0;
    t->box.x1 = min(VORONOI_CELL, g.width - t->x) - 1, t->box.y1 = min(VORONOI_CELL, g.height - t->y) - 1;
    return t->y < g.height;
}

__device__ __forceinline__ void fill_tile(const VoronoiArgs &g, const Tile &t, u32 label) {
    if (t.lane <= t.box.x1)
        for (int y = 0; y <= t.box.y1; y++) g.labels[(u64)(t.y + y) * g.width + t.x + t.lane] = label;
}

// The parts of a tile: 0 is all of it, 1 to 4 its quarters, and 5 to 20 theirs.
#define HALVES 1
#define QUARTERS 5

__device__ __forceinline__ bool part_of(const Tile &t, int part, Box *b) {
    if (part == 0) return part_of(t, 0, 0, VORONOI_CELL, b);
    const int h = part < QUARTERS ? part - HALVES : (part - QUARTERS) / 4, j = part < QUARTERS ? 0 : (part - QUARTERS) % 4;
    return part_of(t, h % 2 * (VORONOI_CELL / 2) + j % 2 * (VORONOI_CELL / 4),
                   h / 2 * (VORONOI_CELL / 2) + j / 2 * (VORONOI_CELL / 4),
                   part < QUARTERS ? VORONOI_CELL / 2 : VORONOI_CELL / 4, b);
}

// Leaves a part of a tile to voronoi_hard.
__device__ __forceinline__ void leave(const VoronoiArgs &g, const Tile &t, u32 tile, int part) {
    if (t.lane == 0) g.hard[atomicAdd(g.next + 1, 1)] = tile * 32 + part;
}

// Labels up to 8x8 pixels from those of n candidates of a list that may be theirs; to has room for as many.
template <typename I>
__device__ __forceinline__ void label_square(const VoronoiArgs &g, const Tile &t, const List &list, const unsigned short *from, int n, const Box &b, unsigned short *to) {
    int2 q;
    const int m = narrow<I>(list, from, n, b, to, &q);
    if (m <= 32)
        eval<I, 8>(g, t, list, to, m, b, q);
    else
        eval_many<I>(g, t, list, to, m, b);
}

template <typename I, bool DIRECT> __device__ __forceinline__ void label_tile(const VoronoiArgs &g, const u32 tile) {
    __shared__ TileShared shared[VORONOI_TILE_WARPS];
    TileShared &s = shared[threadIdx.x >> 5];
    Tile t;
    if (!set_tile(g, tile, &t)) return;
    if (!DIRECT && !find_cells<I>(g, t)) {
        fill_tile(g, t, NO_SITE);
        return;
    }
    if (!DIRECT && g.heads[tile].y >= VORONOI_DENSE && label_dense(g, t, *(DenseShared *)s.at)) return;
    const Source<DIRECT> from = {g, t, 0, 1};
    const List list = {s.at, s.label, s.line};
    // What is far from all sites has many candidates for another reason than that they are dense.
    const int most = t.near ? VORONOI_TILE_MOST : VORONOI_LIST;
    int2 central = from.template central<I>(t.box);
    int all;
    for (bool again = !DIRECT && !t.near;; again = false) {
        all = candidates<I>(from, list, t.box, central, most);
        if (!again || all <= most) break;
        nearest<I>(from, t.box, &central);
    }
    if (all == 1) {
        fill_tile(g, t, s.label[0]);
        return;
    }
    if (!DIRECT && all > most) {
        // In the middle of a circle are few tiles that have so many candidates, and blocks for all of their parts.
        if (t.near)
            leave(g, t, tile, 0);
        else
            for (int part = QUARTERS; part < QUARTERS + 16; part++) leave(g, t, tile, part);
        return;
    }
    for (int h = 0; h < 4; h++) {
        Box half, quarter;
        if (!part_of(t, h % 2 * (VORONOI_CELL / 2), h / 2 * (VORONOI_CELL / 2), VORONOI_CELL / 2, &half)) continue;
        int2 q;
        int n = all, m = VORONOI_LIST + 1;
        if (!DIRECT && n > VORONOI_LIST) {
            n = candidates<I>(from, list, half, VORONOI_HALF_MOST);
            if (n > VORONOI_HALF_MOST) {
                leave(g, t, tile, HALVES + h);
                continue;
            }
        }
        if (n <= VORONOI_LIST) m = narrow<I>(list, 0, n, half, s.half, &q);
        if (m <= 32) {
            eval<I, 16>(g, t, list, s.half, m, half, q);
            continue;
        }
        for (int k = 0; k < 4; k++) {
            if (!part_of(t, half.x0 + k % 2 * (VORONOI_CELL / 4), half.y0 + k / 2 * (VORONOI_CELL / 4),
                         VORONOI_CELL / 4, &quarter))
                continue;
            const unsigned short *those = s.half;
            int c = m;
            if (!DIRECT && m > VORONOI_LIST) {
                those = 0, c = candidates<I>(from, list, quarter, VORONOI_LIST);
                if (c > VORONOI_LIST) {
                    leave(g, t, tile, QUARTERS + h * 4 + k);
                    continue;
                }
            }
            label_square<I>(g, t, list, those, c, quarter, s.quarter);
        }
    }
}

// Parts of tiles that have more candidates than a warp has room for, which is where very many sites are almost equally
// far: in the middle of a circle. A block a part, with VORONOI_HARD_LIST candidates for all its warps; more than that
// of 8x8 pixels are compared as they come. 43 KB on chip.
#define HARD_WARPS (VORONOI_THREADS / 32)

struct HardShared {
    int4 line[HARD_WARPS][32];
    int2 at[VORONOI_HARD_LIST];
    u32 label[VORONOI_HARD_LIST];
    unsigned short square[HARD_WARPS][VORONOI_HARD_LIST];
    i64 nearer[HARD_WARPS]; // what each warp's nearest site is nearer than that of central
    int2 nearest[HARD_WARPS];
    int n;
};

template <typename I> __device__ __forceinline__ void label_hard(const VoronoiArgs &g) {
    __shared__ HardShared s;
    const int warp = threadIdx.x >> 5;
    for (u32 i = blockIdx.x, all = g.next[1]; i < all; i += gridDim.x) {
        const u32 id = g.hard[i];
        Tile t;
        set_tile(g, id >> 5, &t);
        find_cells<I>(g, t);
        const Source<false> from = {g, t, warp, HARD_WARPS};
        for (u32 parts = 1u << (id & 31); parts; parts &= parts - 1) {
            const int part = __ffs(parts) - 1;
            Box b;
            if (!part_of(t, part, &b)) continue;
            int2 q = from.template central<I>(b);
            const I nearer = t.near ? 0 : nearest<I>(from, b, &q); // of the sites that this warp looks at
            if (t.lane == 0) s.nearer[warp] = nearer, s.nearest[warp] = q;
            __syncthreads(); // nobody looks at the list before
            I least = 0;
            for (int w = 0; w < HARD_WARPS; w++)
                if (w == 0 || (I)s.nearer[w] < least) least = (I)s.nearer[w], q = s.nearest[w];
            if (threadIdx.x == 0) s.n = 0;
            __syncthreads();
            from.template each<I>(b, q, [&](int2 at, u32 label, bool there) {
                const bool keep = there && competes<I>(b, q, at);
                int before = 0;
                const int k = place_of(keep, &before);
                int first = 0;
                if (t.lane == 0 && before) first = atomicAdd(&s.n, before);
                first = __shfl_sync(~0u, first, 0);
                if (keep && first + k < VORONOI_HARD_LIST) s.at[first + k] = at, s.label[first + k] = label;
                return first > VORONOI_HARD_LIST && part < QUARTERS;
            });
            __syncthreads();
            if (s.n <= VORONOI_HARD_LIST) {
                const List list = {s.at, s.label, s.line[warp]};
                const int side = part == 0         ? VORONOI_CELL
                                 : part < QUARTERS ? VORONOI_CELL / 2
                                                   : VORONOI_CELL / 4,
                          across = side / (VORONOI_CELL / 4);
                for (int k = warp; k < across * across; k += HARD_WARPS) {
                    Box square;
                    if (part_of(t, b.x0 + k % across * (VORONOI_CELL / 4), b.y0 + k / across * (VORONOI_CELL / 4),
                                VORONOI_CELL / 4, &square))
                        label_square<I>(g, t, list, 0, s.n, square, s.square[warp]);
                }
            } else if (part < QUARTERS) {
                parts |= part == 0 ? 0xfu << HALVES : 0xfu << (QUARTERS + (part - HALVES) * 4);
            } else {
                const int x = b.x0 + t.lane % 4 * 2, y = b.y0 + t.lane / 4;
                Pair<I> p;
                p.least[0] = p.least[1] = 0;
                p.label[0] = p.label[1] = NO_SITE;
                __syncthreads(); // all have seen how many there are
                from.template each<I>(b, q, [&](int2 at, u32 l, bool there) {
                    for (u32 mask = __ballot_sync(~0u, there && competes<I>(b, q, at)); mask; mask &= mask - 1) {
                        const int k = __ffs(mask) - 1;
                        p.offer(x, y, make_int2(__shfl_sync(~0u, at.x, k), __shfl_sync(~0u, at.y, k)), __shfl_sync(~0u, l, k));
                    }
                    return false;
                });
                I *least = (I *)s.at; // 64 pixels a warp
                for (int j = 0; j < 2; j++) least[threadIdx.x * 2 + j] = p.least[j], s.label[threadIdx.x * 2 + j] = p.label[j];
                __syncthreads();
                if (warp == 0) {
                    for (int w = 1; w < HARD_WARPS; w++)
                        for (int j = 0; j < 2; j++) p.take(j, least[(w * 32 + t.lane) * 2 + j], s.label[(w * 32 + t.lane) * 2 + j]);
                    store<2>(g, t, x, y, p.label);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_hard(VoronoiArgs g) {
    after_prior();
    label_hard<int>(g);
}
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_hard_wide(VoronoiArgs g) {
    after_prior();
    label_hard<i64>(g);
}

extern "C" __global__ void __launch_bounds__(VORONOI_TILE_WARPS * 32, 7) voronoi_tiles(VoronoiArgs g) {
    after_prior();
    label_tile<int, false>(g, blockIdx.x * VORONOI_TILE_WARPS + (threadIdx.x >> 5));
}
extern "C" __global__ void __launch_bounds__(VORONOI_TILE_WARPS * 32, 7) voronoi_tiles_wide(VoronoiArgs g) {
    after_prior();
    label_tile<i64, false>(g, blockIdx.x * VORONOI_TILE_WARPS + (threadIdx.x >> 5));
}

// Every tile looks at all sites, and the first one says which are no pixels.
__device__ __forceinline__ void check_sites(const VoronoiArgs &g) {
    if (blockIdx.x == 0)
        for (u32 i = threadIdx.x; i < g.n; i += blockDim.x) {
            int2 p;
            if (!site_of(g, i, &p)) report(g.fault, FAULT_VORONOI_SITE, i);
        }
}

extern "C" __global__ void __launch_bounds__(VORONOI_TILE_WARPS * 32) voronoi_few(VoronoiArgs g) {
    after_prior();
    check_sites(g);
    label_tile<int, true>(g, blockIdx.x * VORONOI_TILE_WARPS + (threadIdx.x >> 5));
}
extern "C" __global__ void __launch_bounds__(VORONOI_TILE_WARPS * 32) voronoi_few_wide(VoronoiArgs g) {
    after_prior();
    check_sites(g);
    label_tile<i64, true>(g, blockIdx.x * VORONOI_TILE_WARPS + (threadIdx.x >> 5));
}

// --- Banding ------------------------------------------------------------------------------------------------------------

#define NO_ROW 0x7fffffff

// A thread a column: the sites next to each strip.
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_strips(VoronoiArgs g) {
    after_prior();
    const int x = blockIdx.x * VORONOI_THREADS + threadIdx.x, strips = (g.height + VORONOI_CELL - 1) / VORONOI_CELL;
    if (x >= g.pitch) return;
    int last = -1, next = NO_ROW;
#pragma unroll 8
    for (int s = 0; s < strips; s++) {
        const u64 at = (u64)s * g.pitch + x;
        const u32 word = g.words[at];
        g.above[at] = last;
        if (word) last = s * VORONOI_CELL + 31 - __clz(word);
    }
#pragma unroll 8
    for (int s = strips - 1; s >= 0; s--) {
        const u64 at = (u64)s * g.pitch + x;
        const u32 word = g.words[at];
        g.below[at] = next;
        if (word) next = s * VORONOI_CELL + __ffs(word) - 1;
    }
}

#define EMPTY 0xffffffffu // of a column without sites
#define UP 0
#define DOWN 1
#define BOTH 2

// A thread for the 32 pixels of a word: how far the nearest site within the column is, times 4, and which way.
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_columns(VoronoiArgs g) {
    after_prior();
    const u32 blocks = (g.width + VORONOI_THREADS - 1) / VORONOI_THREADS;
    const int x = blockIdx.x % blocks * VORONOI_THREADS + threadIdx.x, s = blockIdx.x / blocks;
    if (x >= g.width) return;
    const u64 at = (u64)s * g.pitch + x;
    const u32 word = g.words[at];
    const int above = g.above[at], below = g.below[at];
    for (int j = 0, y = s * VORONOI_CELL; j < VORONOI_CELL && y < g.height; j++, y++) {
        const u32 upto = word & (~0u >> (31 - j)), from = word >> j;
        const int a = upto ? s * VORONOI_CELL + 31 - __clz(upto) : above, b = from ? y + __ffs(from) - 1 : below;
        const u32 up = a < 0 ? EMPTY : (u32)(y - a), down = b == NO_ROW ? EMPTY : (u32)(b - y);
        const u32 v = up == EMPTY && down == EMPTY ? EMPTY
                      : up == down && up           ? up << 2 | BOTH
                                                   : min(up, down) << 2 | (up <= down ? UP : DOWN);
        g.plane[(u64)y * g.width + x] = v;
    }
}

// The least index of the nearest sites of pixel (x, y) within its column.
__device__ __forceinline__ u32 column_label(const VoronoiArgs &g, int x, int y) {
    const u32 v = g.plane[(u64)y * g.width + x], way = v & 3;
    const int d = (int)(v >> 2);
    u32 label = NO_SITE;
    if (way != DOWN) label = g.entries[entry_of(g, x, y - d)].x;
    if (way != UP) label = min(label, g.entries[entry_of(g, x, y + d)].x);
    return label;
}

// The nearest column of a pixel so far, any of several. D is u32 where squared distances have 31 bits.
template <typename D> struct Column {
    D least;
    int x;

    static __device__ __forceinline__ D none() { return (D)1 << (sizeof(D) * 8 - 1); } // more than any distance
    static __device__ __forceinline__ D squared(u32 v) { return v == EMPTY ? none() : (D)(v >> 2) * (v >> 2); }

    __device__ __forceinline__ void clear() { least = none(), x = -1; }
    // A column so far away where the site is so far in it, squared.
    __device__ __forceinline__ void offer(int dx, D in_it, int cx) {
        const D d = (D)((u32)abs(dx)) * (u32)abs(dx) + in_it;
        if (d < least) least = d, x = cx;
    }
    // Of what so many neighbouring lanes have, in all of them.
    __device__ __forceinline__ void merge(int lanes) {
        for (int o = lanes / 2; o; o >>= 1) {
            const D d = __shfl_xor_sync(~0u, least, o);
            const int c = __shfl_xor_sync(~0u, x, o);
            if (d < least || d == least && c > x) least = d, x = c;
        }
    }
};

// A block a segment of a row. Where the sites of both ends are is looked for from the ends outwards, by all threads; and what
// columns have sites between these, usually few more than there are pixels, then has room on chip.
#define SEGMENT_COLUMNS (3 * VORONOI_SEGMENT)

template <typename D> struct SegmentShared {
    int at[VORONOI_SEGMENT]; // where in the list each pixel's nearest site is
    int x[SEGMENT_COLUMNS];
    D in_column[SEGMENT_COLUMNS];
    Column<D> merged[VORONOI_THREADS / 32];
    int counts[VORONOI_THREADS / 32];
    u32 label;
};

// Labels a segment by looking at the columns around each pixel, outwards until they are farther away than a site. False where
// that is more than VORONOI_SEGMENT columns.
template <typename D> __device__ __forceinline__ bool label_outwards(const VoronoiArgs &g, SegmentShared<D> &s, int x0, int n, int y) {
    const u32 *row = g.plane + (u64)y * g.width;
    for (int i = threadIdx.x; i < 3 * VORONOI_SEGMENT; i += VORONOI_THREADS) {
        const int x = x0 - VORONOI_SEGMENT + i;
        s.in_column[i] = x >= 0 && x < g.width ? Column<D>::squared(row[x]) : Column<D>::none();
    }
    __syncthreads();
    for (int i0 = 0; i0 < n; i0 += VORONOI_THREADS) {
        const int i = min(i0 + (int)threadIdx.x, n - 1);
        const D *own = s.in_column + VORONOI_SEGMENT + i;
        D least = own[0];
        int dx = 1;
        for (; dx <= VORONOI_SEGMENT && __any_sync(~0u, (D)dx * dx < least); dx++)
            least = min(least, (D)dx * dx + min(own[-dx], own[dx]));
        if (__syncthreads_or(dx > VORONOI_SEGMENT)) return false;
        u32 label = NO_SITE;
        for (dx = 0; __any_sync(~0u, (D)dx * dx <= least); dx++) {
            const D rest = least - (D)dx * dx;
            if ((D)dx * dx > least) continue;
            if (own[-dx] == rest) label = min(label, column_label(g, x0 + i - dx, y));
            if (own[dx] == rest) label = min(label, column_label(g, x0 + i + dx, y));
        }
        g.labels[(u64)y * g.width + x0 + i] = label;
    }
    return true;
}

// The nearest column of a pixel; its label goes to *label.
template <typename D> __device__ __forceinline__ Column<D> label_end(const VoronoiArgs &g, SegmentShared<D> &s, int x, int y, u32 *label) {
    const u32 *row = g.plane + (u64)y * g.width;
    const int warp = threadIdx.x >> 5, lane = lane_id(), most = max(x, g.width - 1 - x);
    Column<D> c;
    c.clear();
    for (int off = threadIdx.x, steps = 1;; steps *= 2) {
        for (int k = 0; k < steps; k++, off += VORONOI_THREADS) {
            if (off <= x) c.offer(off, Column<D>::squared(row[x - off]), x - off);
            if (x + off < g.width) c.offer(off, Column<D>::squared(row[x + off]), x + off);
        }
        // What no thread has looked at is at least this far away.
        const int gap = off - (int)threadIdx.x;
        if (__syncthreads_or(gap > most || c.x >= 0 && (D)gap * gap > c.least)) break;
    }
    c.merge(32);
    if (lane == 0) s.merged[warp] = c;
    if (threadIdx.x == 0) s.label = NO_SITE;
    __syncthreads();
    c.clear();
    if (lane < VORONOI_THREADS / 32) c = s.merged[lane];
    c.merge(32);
    if (c.x < 0) return c;
    for (int off = threadIdx.x; off <= most && (D)off * off <= c.least; off += VORONOI_THREADS)
        for (int side = -off;; side = off) {
            const int u = x + side;
            if (u >= 0 && u < g.width && (D)off * off + Column<D>::squared(row[u]) == c.least) atomicMin(&s.label, column_label(g, u, y));
            if (side == off) break;
        }
    __syncthreads();
    if (threadIdx.x == 0) *label = s.label;
    __syncthreads();
    return c;
}

template <typename D> __device__ __forceinline__ void label_segment(const VoronoiArgs &g) {
    __shared__ SegmentShared<D> s;
    const u32 segments = (g.width + VORONOI_SEGMENT - 1) / VORONOI_SEGMENT;
    const int x0 = blockIdx.x % segments * VORONOI_SEGMENT, y = blockIdx.x / segments,
              n = min(VORONOI_SEGMENT, g.width - x0);
    const int warp = threadIdx.x >> 5, lane = lane_id();
    const u32 *row = g.plane + (u64)y * g.width;
    u32 *labels = g.labels + (u64)y * g.width + x0;

    const Column<D> left = label_end(g, s, x0, y, labels), right = label_end(g, s, x0 + n - 1, y, labels + n - 1);
    if (max(left.least, right.least) <= VORONOI_OUTWARDS * VORONOI_OUTWARDS && label_outwards(g, s, x0, n, y)) return;
    const int first = left.x, last = right.x;
    if (first < 0) { // no sites at all
        for (int i = threadIdx.x; i < n; i += VORONOI_THREADS) labels[i] = NO_SITE;
        return;
    }
    int count = 0;
    for (int from = first; from <= last && count <= SEGMENT_COLUMNS; from += VORONOI_THREADS) {
        const int x = from + threadIdx.x;
        const u32 v = x <= last ? row[x] : EMPTY, mask = __ballot_sync(~0u, v != EMPTY);
        if (lane == 0) s.counts[warp] = __popc(mask);
        __syncthreads();
        int i = count + __popc(mask & ((1u << lane) - 1));
        for (int w = 0; w < VORONOI_THREADS / 32; w++) {
            if (w < warp) i += s.counts[w];
            count += s.counts[w];
        }
        if (v != EMPTY && i < SEGMENT_COLUMNS) s.x[i] = x, s.in_column[i] = Column<D>::squared(v);
        __syncthreads();
    }
    // What has no room is all columns in memory.
    const bool room = count <= SEGMENT_COLUMNS;
    if (threadIdx.x == 0) s.at[0] = room ? 0 : first, s.at[n - 1] = room ? count - 1 : last;
    __syncthreads();
    for (int step = VORONOI_SEGMENT / 2; step; step /= 2) {
        // As many lanes look for a pixel's as there are, up to a warp.
        const int pixels = VORONOI_SEGMENT / 2 / step, lanes = max(min(VORONOI_THREADS / pixels, 32), 1),
                  part = threadIdx.x % lanes;
        for (int k0 = 0; k0 < pixels; k0 += VORONOI_THREADS / lanes) {
            const int k = k0 + threadIdx.x / lanes, i = step * (2 * k + 1), x = x0 + i;
            const bool is = k < pixels && i < n - 1;
            Column<D> c;
            c.clear();
            if (is) {
                const int to = s.at[min(i + step, n - 1)];
                if (room) {
                    for (int p = s.at[i - step] + part; p <= to; p += lanes) c.offer(s.x[p] - x, s.in_column[p], p);
                } else {
                    for (int p = s.at[i - step] + part; p <= to; p += lanes) c.offer(p - x, Column<D>::squared(row[p]), p);
                }
            }
            c.merge(lanes);
            if (is && part == 0) s.at[i] = c.x;
        }
        __syncthreads();
    }
    // All columns that are as near as a pixel's lie between those of its neighbours.
    for (int i = threadIdx.x; i < n; i += VORONOI_THREADS) {
        if (i == 0 || i == n - 1) continue;
        const int own = s.at[i], x = x0 + i;
        auto offered = [&](int p, int *u) { // how far column p of the list is, squared
            *u = room ? s.x[p] : p;
            return (D)((i64)(*u - x) * (*u - x)) + (room ? s.in_column[p] : Column<D>::squared(row[p]));
        };
        int u;
        const D least = offered(own, &u);
        u32 label = column_label(g, u, y);
        for (int p = s.at[i - 1], to = s.at[i + 1]; p <= to; p++)
            if (p != own && offered(p, &u) == least) label = min(label, column_label(g, u, y));
        labels[i] = label;
    }
}

extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_rows(VoronoiArgs g) {
    after_prior();
    label_segment<u32>(g);
}
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_rows_wide(VoronoiArgs g) {
    after_prior();
    label_segment<u64>(g);
}

// --- Brute force --------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_brute(VoronoiArgs g) {
    __shared__ int2 sites[VORONOI_BRUTE_SITES];
    after_prior();
    check_sites(g);
    const u32 pixels = (u32)g.width * g.height;
    int x[VORONOI_BRUTE_PIXELS], y[VORONOI_BRUTE_PIXELS];
    u64 least[VORONOI_BRUTE_PIXELS];
    u32 label[VORONOI_BRUTE_PIXELS];
#pragma unroll
    for (int k = 0; k < VORONOI_BRUTE_PIXELS; k++) {
        const u32 i = (blockIdx.x * VORONOI_BRUTE_PIXELS + k) * VORONOI_THREADS + threadIdx.x;
        x[k] = i % g.width, y[k] = i / g.width;
        least[k] = ~0ull, label[k] = NO_SITE;
    }
    for (u32 from = 0; from < g.n; from += VORONOI_BRUTE_SITES) {
        const int n = min(g.n - from, (u32)VORONOI_BRUTE_SITES);
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += VORONOI_THREADS) sites[i] = g.sites[from + i];
        __syncthreads();
        for (int i = 0; i < n; i++) {
            const int2 s = sites[i];
#pragma unroll
            for (int k = 0; k < VORONOI_BRUTE_PIXELS; k++) {
                const int dx = s.x - x[k], dy = s.y - y[k];
                const u64 d = (u64)((i64)dx * dx) + (u64)((i64)dy * dy);
                if (d < least[k]) least[k] = d, label[k] = from + i;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < VORONOI_BRUTE_PIXELS; k++) {
        const u32 i = (blockIdx.x * VORONOI_BRUTE_PIXELS + k) * VORONOI_THREADS + threadIdx.x;
        if (i < pixels) g.labels[i] = label[k];
    }
}

// --- Jump flooding ------------------------------------------------------------------------------------------------------

// Labels the sites' own pixels of a plane that has NO_SITE everywhere.
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_seed(VoronoiArgs g) {
    after_prior();
    const u32 i = blockIdx.x * VORONOI_THREADS + threadIdx.x;
    int2 p;
    if (!site_of(g, i, &p)) {
        if (i < g.n) report(g.fault, FAULT_VORONOI_SITE, i);
        return;
    }
    u32 *at = g.plane + (u64)p.y * g.width + p.x;
    if (__ldcg(at) > i) atomicMin(at, i);
}

// A step, from the plane to the labels.
extern "C" __global__ void __launch_bounds__(VORONOI_THREADS) voronoi_jump(VoronoiArgs g) {
    after_prior();
    const u32 i = blockIdx.x * VORONOI_THREADS + threadIdx.x;
    const int x = i % g.width, y = i / g.width;
    if (y >= g.height) return;
    u64 least = ~0ull;
    u32 label = NO_SITE;
#pragma unroll
    for (int dy = -1; dy <= 1; dy++) {
#pragma unroll
        for (int dx = -1; dx <= 1; dx++) {
            const int u = x + dx * g.step, v = y + dy * g.step;
            if (u < 0 || u >= g.width || v < 0 || v >= g.height) continue;
            const u32 l = g.plane[(u64)v * g.width + u];
            if (l == NO_SITE || l == label) continue;
            const int2 s = g.sites[l];
            const i64 ex = s.x - x, ey = s.y - y;
            const u64 d = (u64)(ex * ex + ey * ey);
            if (d < least || d == least && l < label) least = d, label = l;
        }
    }
    g.labels[(u64)y * g.width + x] = label;
}
