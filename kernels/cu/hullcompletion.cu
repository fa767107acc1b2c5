// hullcompletion adds the triangles between a mesh and the convex hull; see driver.HullCompletion.
//
// chains: a block for each side of the image. All threads list the labels without repetitions, HULL_THREADS pixels at a
// time; then one of them makes the chain convex, with the two last corners in registers and the others in shared
// memory, where the chain fits in: it is a stack, and what to do with a site depends on all before. Triangles wait in
// the scratch memory, as their place depends on the other sides.
//
// join: one thread makes the ring convex at the four places where chains meet, which takes a few cuts each, while the
// others copy the triangles of the chains.
//
// Bytes moved: 4 a pixel of the sides, a sector each along columns, and 12 a triangle twice. Time is that of the
// longest chain, about 50 ns a site.
//
// Source: see driver.HullCompletion.

#include "abi/hullcompletion.cuh"
#include "mesh.cuh"

#define WARPS (HULL_THREADS / 32)
#define NARROW (1 << 15) // sides of images in which turns fit in 32 bits

__device__ __forceinline__ u32 side_length(const HullArgs &g, u32 k) { return k & 1 ? g.v.height : g.v.width; }

__device__ __forceinline__ size_t side_start(const HullArgs &g, u32 k) {
    return (size_t)((k + 1) / 2) * g.v.width + (size_t)(k / 2) * g.v.height;
}

// Pixel i of side k: from the top left, top right, bottom right, bottom left.
__device__ __forceinline__ size_t side_pixel(const HullArgs &g, u32 k, u32 i) {
    const size_t w = g.v.width, h = g.v.height;
    switch (k) {
    case 0: return i;
    case 1: return i * w + w - 1;
    case 2: return h * w - 1 - i;
    }
    return (h - 1 - i) * w;
}

// straighten makes a chain of n sites convex, and returns how many corners it cut off. T is wide enough for their turns.
template <typename T> __device__ __forceinline__ u32 straighten(int2 *points, u32 *labels, u32 sites, Triangle *cut) {
    u32 n = 0, cuts = 0;
    int2 a = make_int2(0, 0), b = a; // the last corner but one, and the last
    u32 al = 0, bl = 0;
    int2 next = sites ? points[0] : a;
    u32 next_label = sites ? labels[0] : 0;
    for (u32 i = 0; i < sites; i++) {
        const int2 c = next;
        const u32 cl = next_label;
        if (i + 1 < sites) next = points[i + 1], next_label = labels[i + 1]; // under way while this one is looked at
        while (n > 1 && (T)(b.x - a.x) * (c.y - a.y) < (T)(b.y - a.y) * (c.x - a.x)) {
            cut[cuts++] = least_first(al, cl, bl);
            n--;
            b = a, bl = al;
            if (n > 1) a = points[n - 2], al = labels[n - 2];
        }
        points[n] = c, labels[n] = cl;
        n++;
        a = b, al = bl, b = c, bl = cl;
    }
    return cuts;
}

extern "C" __global__ void __launch_bounds__(HULL_THREADS) hull_chains(HullArgs g) {
    __shared__ int2 chip_points[HULL_ON_CHIP];
    __shared__ u32 chip_labels[HULL_ON_CHIP];
    __shared__ u32 lasts[WARPS], sums[WARPS];
    after_prior();
    const u32 k = blockIdx.x, length = side_length(g, k), lane = lane_id(), warp = threadIdx.x >> 5;
    u32 *labels = g.labels + side_start(g, k);
    u32 carry = NO_SITE, base = 0; // the last label, and how many there are
    u32 next = threadIdx.x < length ? g.v.labels[side_pixel(g, k, threadIdx.x)] : NO_SITE;
    for (u32 from = 0; from < length; from += HULL_THREADS) {
        const u32 l = next, i = from + HULL_THREADS + threadIdx.x;
        next = i < length ? g.v.labels[side_pixel(g, k, i)] : NO_SITE;
        const u32 valid = __ballot_sync(~0u, l < g.v.n), before = valid & ((1u << lane) - 1);
        const u32 last = __shfl_sync(~0u, l, valid ? 31 - __clz(valid) : 0);
        u32 prior = __shfl_sync(~0u, l, before ? 31 - __clz(before) : 0);
        if (lane == 0) lasts[warp] = valid ? last : NO_SITE;
        __syncthreads();
        if (!before) {
            prior = carry;
            for (int w = (int)warp - 1; w >= 0; w--)
                if (lasts[w] != NO_SITE) {
                    prior = lasts[w];
                    break;
                }
        }
        for (int w = WARPS - 1; w >= 0; w--)
            if (lasts[w] != NO_SITE) {
                carry = lasts[w];
                break;
            }
        const u32 chosen = __ballot_sync(~0u, l < g.v.n && l != prior);
        if (lane == 0) sums[warp] = __popc(chosen);
        __syncthreads();
        u32 at = base + __popc(chosen & ((1u << lane) - 1));
        for (u32 w = 0; w < WARPS; w++) {
            if (w < warp) at += sums[w];
            base += sums[w];
        }
        if (chosen >> lane & 1) labels[at] = l;
        __syncthreads(); // lasts and sums are free, and labels written
    }
    int2 *points = g.points + side_start(g, k);
    if (base <= HULL_ON_CHIP) {
        for (u32 i = threadIdx.x; i < base; i += HULL_THREADS)
            chip_labels[i] = labels[i], chip_points[i] = g.v.sites[labels[i]];
    } else {
        for (u32 i = threadIdx.x; i < base; i += HULL_THREADS) points[i] = g.v.sites[labels[i]];
    }
    __syncthreads();
    __shared__ u32 corners;
    if (threadIdx.x == 0) {
        const bool chip = base <= HULL_ON_CHIP;
        int2 *p = chip ? chip_points : points;
        u32 *l = chip ? chip_labels : labels;
        Triangle *cut = g.cut + side_start(g, k);
        const u32 cuts = max(g.v.width, g.v.height) <= NARROW ? straighten<int>(p, l, base, cut) : straighten<i64>(p, l, base, cut);
        corners = base - cuts;
        HullChain out = {base, corners, cuts, 0};
        g.chains[k] = out;
    }
    __syncthreads();
    if (base <= HULL_ON_CHIP)
        for (u32 i = threadIdx.x; i < corners; i += HULL_THREADS)
            labels[i] = chip_labels[i], points[i] = chip_points[i];
}

extern "C" __global__ void __launch_bounds__(HULL_THREADS) hull_join(HullArgs g) {
    after_prior();
    HullChain chains[4];
    u32 starts[5];
    const u32 room = 2 * g.v.n, first = min(g.counts->triangles, room);
    starts[0] = first;
#pragma unroll
    for (int k = 0; k < 4; k++) chains[k] = g.chains[k], starts[k + 1] = starts[k] + chains[k].cuts;
    __syncthreads(); // all have read the counts
    // The first warp has other things to do.
#pragma unroll
    for (int k = 0; k < 4; k++)
        for (u32 i = threadIdx.x - 32; threadIdx.x >= 32 && i < chains[k].cuts; i += HULL_THREADS - 32)
            if (starts[k] + i < room) g.triangles[starts[k] + i] = g.cut[side_start(g, k) + i];
    if (threadIdx.x != 0) return;
    u32 border = 0, hull = 0, at = starts[4];
    u32 begin[4] = {0, 0, 0, 0}, end[4];
    for (int k = 0; k < 4; k++) {
        border += chains[k].border ? chains[k].border - 1 : 0;
        end[k] = chains[k].corners;
    }
    for (int k = 0; k < 4; k++) {
        const int m = (k + 1) & 3;
        u32 *al = g.labels + side_start(g, k), *bl = g.labels + side_start(g, m);
        int2 *a = g.points + side_start(g, k), *b = g.points + side_start(g, m);
        while (end[m] - begin[m] > 1 && end[m] > begin[m]) {
            const int2 next = b[begin[m] + 1];
            const u32 label = bl[begin[m] + 1];
            u32 n = end[k];
            while (n > begin[k] + 1 && turn(a[n - 2], a[n - 1], next) < 0) {
                if (at < room) g.triangles[at] = least_first(al[n - 2], label, al[n - 1]);
                at++;
                n--;
            }
            if (n == end[k]) break;
            a[n] = next, al[n] = label;
            end[k] = n + 1;
            begin[m]++;
        }
    }
    for (int k = 0; k < 4; k++) hull += end[k] > begin[k] ? end[k] - begin[k] - 1 : 0;
    g.counts->triangles = min(at, room);
    g.counts->border = border, g.counts->hull = hull;
}
