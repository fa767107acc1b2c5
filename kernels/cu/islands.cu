// islands makes each cell of a Voronoi diagram one piece; see driver.Islands.
//
// find: a block has the labels of ISLAND_ROWS rows, and of the pixels around, in shared memory. One of the three
// neighbours towards the site has the same label nearly always, and then nothing else is looked at. Pixels that no
// neighbour holds go to a list: a few in a million. Reads the labels 1.25 times, and sites from the caches: 5 bytes a
// pixel.
//
// settle: one block, as there is little to do. First pixels lose their label, and with them those that only they held,
// which join the list, until there are no more; the order doesn't matter. Then rounds give labels, in two steps each,
// between which they are marked, so that neighbours of a round don't see them. Time grows with the list and with how
// deep islands are.
//
// Source: see driver.Islands.

#include "abi/islands.cuh"
#include "mesh.cuh"

#define GIVEN 0x80000000u // marks labels that were given in the current round: more than there are sites

__device__ __forceinline__ int sign(int d) { return (d > 0) - (d < 0); }

__device__ __forceinline__ u64 squared(int2 s, int x, int y) {
    const i64 dx = (i64)s.x - x, dy = (i64)s.y - y;
    return (u64)(dx * dx + dy * dy);
}

// The labels around a pixel, itself in the middle; NO_SITE beyond the image. All loads are under way before one is waited for.
struct Around {
    u32 labels[9];
};

__device__ __forceinline__ Around around(const MeshDiagram &v, int x, int y) {
    Around a;
#pragma unroll
    for (int q = 0; q < 9; q++) {
        const int i = x + q % 3 - 1, j = y + q / 3 - 1;
        a.labels[q] = i >= 0 && i < v.width && j >= 0 && j < v.height ? __ldcg(v.labels + (size_t)j * v.width + i) : NO_SITE;
    }
    return a;
}

// Is the pixel its site's own, or has it a neighbour with the same label that is nearer to the site?
__device__ __noinline__ bool held(const MeshDiagram &v, u32 l, int2 s, int x, int y) {
    const u64 d = squared(s, x, y);
    if (d == 0) return true;
    const Around a = around(v, x, y);
    bool is = false;
#pragma unroll
    for (int q = 0; q < 9; q++) is |= a.labels[q] == l && squared(s, x + q % 3 - 1, y + q / 3 - 1) < d;
    return is;
}

extern "C" __global__ void __launch_bounds__(ISLAND_THREADS) islands_find(MeshDiagram v, u32 *list, u32 *found) {
    __shared__ u32 tile[ISLAND_ROWS + 2][ISLAND_THREADS + 2]; // with the pixels around it
    after_prior();
    const int x0 = blockIdx.y * ISLAND_THREADS, y0 = blockIdx.x * ISLAND_ROWS, x = x0 + threadIdx.x;
    if (v.n == 0 && x == 0 && y0 == 0) *found = (u32)v.width * v.height;
#pragma unroll
    for (int k = 0; k < ISLAND_ROWS + 2; k++) {
        const int y = y0 + k - 1;
        tile[k][threadIdx.x + 1] = x < v.width && y >= 0 && y < v.height ? v.labels[(size_t)y * v.width + x] : NO_SITE;
    }
    if (threadIdx.x < 2 * (ISLAND_ROWS + 2)) {
        const int k = threadIdx.x >> 1, side = threadIdx.x & 1, i = side ? x0 + ISLAND_THREADS : x0 - 1, y = y0 + k - 1;
        tile[k][side ? ISLAND_THREADS + 1 : 0] =
            i >= 0 && i < v.width && y >= 0 && y < v.height ? v.labels[(size_t)y * v.width + i] : NO_SITE;
    }
    __syncthreads();
    if (x >= v.width) return;
    int2 sites[ISLAND_ROWS];
#pragma unroll
    for (int k = 0; k < ISLAND_ROWS; k++) {
        const u32 l = tile[k + 1][threadIdx.x + 1];
        sites[k] = make_int2(x, y0 + k);
        if (l < v.n) sites[k] = v.sites[l];
    }
#pragma unroll
    for (int k = 0; k < ISLAND_ROWS; k++) {
        const int y = y0 + k;
        const u32 l = tile[k + 1][threadIdx.x + 1];
        // Towards the site, by columns and rows; each step that is one leads nearer.
        const int i = threadIdx.x + 1 + sign(sites[k].x - x), j = k + 1 + sign(sites[k].y - y);
        const bool near = tile[j][i] == l || (i != (int)threadIdx.x + 1 && tile[k + 1][i] == l) || (j != k + 1 && tile[j][threadIdx.x + 1] == l);
        if (y >= v.height || (l < v.n && (near || held(v, l, sites[k], x, y)))) continue;
        const size_t at = (size_t)y * v.width + x;
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
        // A thread for each neighbour of each.
        for (u64 e = 8 * (u64)from + threadIdx.x; e < 8 * (u64)n; e += SETTLE_THREADS) {
            const u32 p = list[e / 8], q = e % 8 + (e % 8 >= 4);
            const int x = p % v.width + q % 3 - 1, y = p / v.width + q / 3 - 1;
            if (x < 0 || x >= v.width || y < 0 || y >= v.height) continue;
            u32 *at = v.labels + (size_t)y * v.width + x;
            const u32 l = __ldcg(at);
            if (l >= v.n || held(v, l, v.sites[l], x, y)) continue;
            if (atomicCAS(at, l, NO_SITE) == l) list[atomicAdd(&stranded, 1)] = (u32)(at - v.labels);
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
            const Around a = around(v, x, y);
            int2 sites[9];
#pragma unroll
            for (int q = 0; q < 9; q++)
                if (a.labels[q] < v.n) sites[q] = v.sites[a.labels[q]];
            u32 best = NO_SITE;
            u64 least = 0;
#pragma unroll
            for (int q = 0; q < 9; q++) {
                const u32 l = a.labels[q];
                if (l >= v.n) continue;
                const u64 d = squared(sites[q], x, y);
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
