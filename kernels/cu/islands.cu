// islands makes each cell of a Voronoi diagram one piece; see driver.Islands.
//
// find: a thread looks at FIND_ROWS pixels of a column. The neighbour towards the site has the same label nearly always, and then
// nothing else is looked at. Pixels that no neighbour holds go to a list: a few in a million. Reads the labels once, and sites
// from the caches: 4 bytes a pixel.
//
// settle: one block, as there is little to do. First pixels lose their label, and with them those that only they held, which
// join the list, until there are no more; the order doesn't matter. Then rounds give labels, in two steps each, between which
// they are marked, so that neighbours of a round don't see them. Time grows with the list and with how deep islands are.
//
// Source: see driver.Islands.

#include "mesh.cuh"

#define THREADS 256
#define FIND_ROWS 8 // so that a site is read once for several pixels, and there are blocks for all multiprocessors at 1 MP
#define SETTLE_THREADS 1024
#define GIVEN 0x80000000u // marks labels that were given in the current round: more than there are sites

__device__ __forceinline__ int sign(int d) { return (d > 0) - (d < 0); }

__device__ __forceinline__ u64 squared(int2 s, int x, int y) {
    const i64 dx = (i64)s.x - x, dy = (i64)s.y - y;
    return (u64)(dx * dx + dy * dy);
}

// Is the pixel its site's own, or has it a neighbour with the same label that is nearer to the site, of any but the one towards it?
__device__ __noinline__ bool held_aside(const MeshDiagram &v, u32 l, int2 s, int x, int y) {
    const u64 d = squared(s, x, y);
    if (d == 0) return true;
    for (int j = max(y - 1, 0); j <= min(y + 1, v.height - 1); j++)
        for (int i = max(x - 1, 0); i <= min(x + 1, v.width - 1); i++)
            if (__ldcg(v.labels + (size_t)j * v.width + i) == l && squared(s, i, j) < d) return true;
    return false;
}

extern "C" __global__ void __launch_bounds__(THREADS) islands_find(MeshDiagram v, u32 *list, u32 *found) {
    after_prior();
    const int x = blockIdx.y * THREADS + threadIdx.x;
    if (x >= v.width) return;
    if (v.n == 0 && x == 0 && blockIdx.x == 0) *found = (u32)v.width * v.height;
    u32 last = NO_SITE;
    int2 s = make_int2(0, 0);
    for (int k = 0; k < FIND_ROWS; k++) {
        const int y = blockIdx.x * FIND_ROWS + k;
        if (y >= v.height) return;
        const size_t at = (size_t)y * v.width + x;
        const u32 l = v.labels[at];
        if (l < v.n) {
            if (l != last) s = v.sites[l], last = l;
            const int i = x + sign(s.x - x), j = y + sign(s.y - y);
            // Sites are pixels, so that (i, j) is one too; but nothing is read where they aren't.
            if (i >= 0 && i < v.width && j >= 0 && j < v.height && v.labels[(size_t)j * v.width + i] == l) continue;
            if (held_aside(v, l, s, x, y)) continue;
        }
        if (v.n == 0) v.labels[at] = NO_SITE; // all of them: nobody has anything to give
        else list[atomicAdd(found, 1)] = (u32)at;
    }
}

extern "C" __global__ void __launch_bounds__(SETTLE_THREADS) islands_settle(MeshDiagram v, u32 *list, u32 *found, u32 *count) {
    __shared__ u32 stranded, given;
    after_prior();
    u32 n = *found;
    if (threadIdx.x == 0) stranded = n, *count = n;
    if (v.n == 0) return;
    for (u32 i = threadIdx.x; i < n; i += SETTLE_THREADS) v.labels[list[i]] = NO_SITE;
    __syncthreads();
    for (u32 from = 0; from < n;) {
        for (u32 i = from + threadIdx.x; i < n; i += SETTLE_THREADS) {
            const int x = list[i] % v.width, y = list[i] / v.width;
            for (int q = 0; q < 9; q++) {
                const int qx = x + q % 3 - 1, qy = y + q / 3 - 1;
                if (q == 4 || qx < 0 || qx >= v.width || qy < 0 || qy >= v.height) continue;
                u32 *at = v.labels + (size_t)qy * v.width + qx;
                const u32 l = __ldcg(at);
                if (l >= v.n || held_aside(v, l, v.sites[l], qx, qy)) continue;
                if (atomicCAS(at, l, NO_SITE) == l) list[atomicAdd(&stranded, 1)] = (u32)(at - v.labels);
            }
        }
        __syncthreads();
        from = n;
        n = stranded;
        __syncthreads();
    }
    if (threadIdx.x == 0) *count = n;
    for (;;) {
        if (threadIdx.x == 0) given = 0;
        __syncthreads();
        bool any = false;
        for (u32 i = threadIdx.x; i < n; i += SETTLE_THREADS) {
            const u32 at = list[i];
            if (__ldcg(v.labels + at) != NO_SITE) continue;
            const int x = at % v.width, y = at / v.width;
            u32 best = NO_SITE;
            u64 least = 0;
            for (int j = max(y - 1, 0); j <= min(y + 1, v.height - 1); j++)
                for (int i = max(x - 1, 0); i <= min(x + 1, v.width - 1); i++) {
                    const u32 l = __ldcg(v.labels + (size_t)j * v.width + i);
                    if (l >= v.n) continue;
                    const u64 d = squared(v.sites[l], x, y);
                    if (best == NO_SITE || d < least || (d == least && l < best)) best = l, least = d;
                }
            if (best != NO_SITE) v.labels[at] = best | GIVEN, any = true;
        }
        if (any) given = 1;
        __syncthreads();
        const bool more = given;
        for (u32 i = threadIdx.x; i < n; i += SETTLE_THREADS) {
            const u32 l = __ldcg(v.labels + list[i]);
            if (l != NO_SITE && l & GIVEN) v.labels[list[i]] = l & ~GIVEN;
        }
        __syncthreads();
        if (!more) return;
    }
}
