// Tiles: how a talk (Berényi, Parallel image reductions over polygon masks, GPU Day 2024) finds pixels, for
// comparison with row spans.
//
// A block takes a tile of TILE_WIDTH x TILE_HEIGHT pixels; its threads test edges in parallel, first against the tile
// (is any edge nearer to the tile's centre than half its diagonal; which edges can change a winding number inside it),
// then each thread tests its pixels.
#pragma once

#include "spans.cuh"

struct TileShared {
    u32 list[TILE_EDGES];
    int n, near, winding, pad; // the compiler reads them as one vector
};

// Does the edge's crossing lie strictly right of the pixel centre (xc, yc) in 1/256 px?
__device__ __forceinline__ int winding_of(const Edge &e, int xc, int yc) {
    if (!crosses(e, yc)) return 0;
    // (X - xc) * d, where X is the crossing with the row and d the edge's height.
    const Edge a = downward(e);
    i64 v = ((i64)a.x0 - xc) * ((i64)a.y1 - a.y0) + ((i64)yc - a.y0) * ((i64)a.x1 - a.x0);
    return v > 0 ? sign_of(e) : 0;
}

// Is the edge within reach (1/256 px) of the point? Conservative: doubles are exact to well under the margin of
// one unit that is added, since coordinates are below 2^31.
__device__ __forceinline__ bool near_point(const Edge &e, double px, double py, double reach) {
    double ax = e.x0 - px, ay = e.y0 - py, bx = (double)e.x1 - e.x0, by = (double)e.y1 - e.y0;
    double len2 = bx * bx + by * by, t = len2 > 0 ? -(ax * bx + ay * by) / len2 : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    double dx = ax + t * bx, dy = ay + t * by;
    return dx * dx + dy * dy <= (reach + 1) * (reach + 1);
}

// Looks at a tile, by the block. Returns 1 inside, 0 outside, -1 where pixels have to be tested.
template <bool TILED, bool FILTERED>
__device__ __forceinline__ int tile_begin(TileShared &s, const Edge *edges, int n, u32 fill, int tx, int ty) {
    if (!TILED && !FILTERED) return -1;
    if (threadIdx.x == 0) s.n = s.near = s.winding = 0;
    __syncthreads();
    // The point whose winding number decides a tile is a pixel's centre; the reach covers the tile from there.
    const int xc = (tx + TILE_WIDTH / 2) * 256 + 128, yc = (ty + TILE_HEIGHT / 2) * 256 + 128;
    const double reach = 256.0 * 16.5; // sqrt(16^2 + 4^2) = 16.49: the farthest pixel centre of the tile
    const int yc0 = ty * 256 + 128, yc1 = yc0 + (TILE_HEIGHT - 1) * 256, xl = tx * 256 + 128;
    bool near = false;
    int w = 0;
    for (int i = threadIdx.x; i < n; i += MASK_THREADS) {
        Edge e = edges[i];
        if (TILED) {
            near |= near_point(e, xc, yc, reach);
            w += winding_of(e, xc, yc);
        }
        if (FILTERED && min(e.y0, e.y1) <= yc1 && max(e.y0, e.y1) > yc0 && max(e.x0, e.x1) > xl) {
            int k = atomicAdd(&s.n, 1);
            if (k < TILE_EDGES) s.list[k] = i;
        }
    }
    if (TILED) {
        if (near) s.near = 1;
        w = warp_sum(w);
        if (lane_id() == 0 && w) atomicAdd(&s.winding, w);
    }
    __syncthreads();
    if (TILED && !s.near) return inside(s.winding, fill);
    return -1;
}

template <bool FILTERED>
__device__ __forceinline__ bool pixel_inside(const TileShared &s, const Edge *edges, int n, u32 fill, int x, int y) {
    const int xc = x * 256 + 128, yc = y * 256 + 128;
    int w = 0;
    if (FILTERED && s.n <= TILE_EDGES) {
        for (int i = 0; i < s.n; i++) w += winding_of(edges[s.list[i]], xc, yc);
    } else {
        for (int i = 0; i < n; i++) w += winding_of(edges[i], xc, yc);
    }
    return inside(w, fill);
}
