// Diffusion: which pixels have equations. Pixels that take, by no path, from a fixed one are void: they are found by union and find,
// where all fixed pixels are one from the start. Label 0 is theirs, and label i+1 that of pixel i.
//
// diffusion_label_init  clears the header, and labels the pixels of each tile on chip
// diffusion_label_join  joins those on both sides of tiles' borders
// diffusion_label_shut  carries label 0 over edges that are open one way, again and again until nothing changes; one block. Only where
//                       there are such edges
// diffusion_label_open  writes what each pixel takes from, and counts
// diffusion_label_mean  begins a solve: parts of the sums of the given values, added in order, so that the mean is the same each time
// diffusion_label_fill  the values that a solve begins with. Both return at once where done is not 0
//
// Roots are the least in their component, so that the outcome does not depend on the order. Bytes: about 20 a pixel. Complexity: grows
// with the pixels, but for diffusion_label_shut, which passes over all of them as often as a path changes between edges that
// are open one way and others.

#include "abi/diffusion_label.cuh"
#include "diffusion_label.cuh"

// find follows labels to the root, halving the path.
__device__ __forceinline__ int find(volatile int *labels, int i) {
    int a = labels[i];
    while (a != i) {
        const int b = labels[a];
        if (b != a) labels[i] = b;
        i = a, a = b;
    }
    return i;
}

__device__ __forceinline__ void join(int *labels, int i, int j) {
    while (true) {
        i = find(labels, i), j = find(labels, j);
        if (i == j) return;
        if (i < j) {
            const int t = i;
            i = j, j = t;
        }
        const int old = atomicMin(&labels[i], j);
        if (old == i) return;
        i = old; // somebody was faster
    }
}

// Does pixel i, which takes from what open says, and its left or upper neighbour take from each other?
__device__ __forceinline__ bool joined_left(const u8 *flags, u64 i, u32 open) {
    return (open & OPEN_LEFT) && !(flags[i - 1] & DIFFUSION_SHUT_RIGHT);
}
__device__ __forceinline__ bool joined_up(const u8 *flags, u64 i, u32 open, int w) {
    return (open & OPEN_UP) && !(flags[i - w] & DIFFUSION_SHUT_DOWN);
}

// Blocks have tiles of LABEL_TILE x LABEL_TILE pixels, a warp TILE_ROWS rows of them.
#define TILE_ROWS (LABEL_TILE * 32 / LABEL_THREADS)

extern "C" __global__ void __launch_bounds__(LABEL_THREADS)
    diffusion_label_init(DiffusionHeader *head, const u8 *flags, int *labels, u64 *fault, int width, int height, u32 allowed, u32 pad) {
    // Labels as those of the image, but of the tile: what they lead to, and what they come to.
    __shared__ int next[LABEL_TILE * LABEL_TILE + 1], root[LABEL_TILE * LABEL_TILE + 1];
    after_prior();
    const int across = (width + LABEL_TILE - 1) / LABEL_TILE, x0 = (int)(blockIdx.x % across) * LABEL_TILE,
              y0 = (int)(blockIdx.x / across) * LABEL_TILE;
    const int lane = lane_id(), x = x0 + lane, line = threadIdx.x / 32 * TILE_ROWS, own = line * LABEL_TILE + lane + 1;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        labels[0] = 0;
        head->magic = head->fixed = head->void_pixels = 0;
    }
    if (threadIdx.x == 0) next[0] = root[0] = 0;
    u32 lefts = 0, ups = 0; // the rows in which a pixel is to be joined with those
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++) {
        const int y = y0 + line + k;
        const u64 i = (u64)y * width + x;
        int to = own + k * LABEL_TILE;
        bool left = false, up = false, fixed = false;
        if (x < width && y < height) {
            const u32 f = flags[i];
            if (f & ~allowed) report(fault, FAULT_DIFFUSION_SETUP_FLAGS, i);
            fixed = (f & DIFFUSION_FIXED) != 0;
            const u32 open = open_edges(flags, i, x, y, width, height);
            left = lane > 0 && joined_left(flags, i, open), up = line + k > 0 && joined_up(flags, i, open, width);
        }
        if (left && fixed) lefts |= 1 << k;
        if (up && (left || fixed)) ups |= 1 << k;
        // Along a row all lead to what the first does that they are connected with, and that leads up.
        if (fixed) to = 0;
        else if (up) to -= LABEL_TILE;
        const u32 firsts = ~__ballot_sync(~0u, left && !fixed) & ((2u << lane) - 1);
        to = __shfl_sync(~0u, to, 31 - __clz(firsts));
        next[own + k * LABEL_TILE] = to;
    }
    // The greater of two roots comes to lead to the lesser one, until all that are to be joined have the same.
    bool more = true;
    while (__syncthreads_or(more)) {
#pragma unroll
        for (int k = 0; k < TILE_ROWS; k++) {
            int to = next[own + k * LABEL_TILE];
            while (next[to] < to) to = next[to];
            root[own + k * LABEL_TILE] = to;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_ROWS; k++) next[own + k * LABEL_TILE] = root[own + k * LABEL_TILE];
        __syncthreads();
        more = false;
#pragma unroll
        for (int k = 0; k < TILE_ROWS; k++) {
            const int a = root[own + k * LABEL_TILE], b = lefts >> k & 1 ? root[own + k * LABEL_TILE - 1] : a,
                      c = ups >> k & 1 ? root[own + (k - 1) * LABEL_TILE] : a;
            if (a != b) atomicMin(&next[max(a, b)], min(a, b)), more = true;
            if (a != c) atomicMin(&next[max(a, c)], min(a, c)), more = true;
        }
    }
#pragma unroll
    for (int k = 0; k < TILE_ROWS; k++) {
        const int y = y0 + line + k, to = root[own + k * LABEL_TILE] - 1;
        if (x < width && y < height)
            labels[(u64)y * width + x + 1] = to < 0 ? 0 : (y0 + to / LABEL_TILE) * width + x0 + to % LABEL_TILE + 1;
    }
}

// Joins pixels on both sides of borders between tiles: first those beside, then those one above the other.
extern "C" __global__ void __launch_bounds__(LABEL_THREADS)
    diffusion_label_join(const u8 *flags, int *labels, int width, int height) {
    after_prior();
    const u64 at = (u64)blockIdx.x * LABEL_THREADS + threadIdx.x, beside = (u64)((width - 1) / LABEL_TILE) * height;
    if (at >= beside + (u64)((height - 1) / LABEL_TILE) * width) return;
    const bool across = at < beside;
    const int x = across ? (int)(at / height + 1) * LABEL_TILE : (int)((at - beside) % width),
              y = across ? (int)(at % height) : (int)((at - beside) / width + 1) * LABEL_TILE;
    const u64 i = (u64)y * width + x;
    const u32 open = open_edges(flags, i, x, y, width, height);
    const bool left = joined_left(flags, i, open), up = joined_up(flags, i, open, width);
    if (!(across ? left : up)) return;
    // Where all four edges of a square are open, the way round is known. It is the way of those beside each other, where a corner of tiles is.
    if (left && up && !(across && y % LABEL_TILE == 0)) {
        const u64 above = i - width;
        if (joined_left(flags, above, open_edges(flags, above, x, y - 1, width, height)) &&
            joined_up(flags, i - 1, open_edges(flags, i - 1, x - 1, y, width, height), width))
            return;
    }
    join(labels, (int)i + 1, (int)(across ? i - 1 : i - width) + 1);
}

extern "C" __global__ void __launch_bounds__(LABEL_SHUT_THREADS)
    diffusion_label_shut(const u8 *flags, int *labels, int width, int height) {
    after_prior();
    const u64 n = (u64)width * height;
    int changed = 1;
    while (changed) {
        changed = 0;
        for (u64 i = threadIdx.x; i < n; i += blockDim.x) {
            const int root = find(labels, (int)i + 1);
            if (root == 0) continue;
            const int x = (int)(i % width), y = (int)(i / width);
            const u32 open = open_edges(flags, i, x, y, width, height);
            if (((open & OPEN_RIGHT) && find(labels, (int)i + 2) == 0) || ((open & OPEN_LEFT) && find(labels, (int)i) == 0) ||
                ((open & OPEN_DOWN) && find(labels, (int)(i + width) + 1) == 0) ||
                ((open & OPEN_UP) && find(labels, (int)(i - width) + 1) == 0)) {
                ((volatile int *)labels)[root] = 0;
                changed = 1;
            }
        }
        changed = __syncthreads_or(changed);
    }
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS)
    diffusion_label_open(DiffusionHeader *head, const u8 *flags, int *labels, u8 *to, int width, int height, u32 one_way, u32 pad) {
    after_prior();
    const u64 i = (u64)blockIdx.x * LABEL_THREADS + threadIdx.x;
    const bool in = i < (u64)width * height;
    bool fixed = false, nothing = false;
    if (in) {
        u32 open = 0;
        fixed = (flags[i] & DIFFUSION_FIXED) != 0;
        if (!fixed) {
            nothing = find(labels, (int)i + 1) != 0;
            if (!nothing) {
                const int x = (int)(i % width), y = (int)(i / width);
                open = open_edges(flags, i, x, y, width, height);
                // Nothing is taken from void pixels, which only edges open one way lead to.
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const u64 j = k == 0 ? i + 1 : k == 1 ? i - 1 : k == 2 ? i + width : i - width;
                    if ((open >> k & 1) && !(flags[j] & DIFFUSION_FIXED))
                        open |= one_way && find(labels, (int)j + 1) ? 256 << k : 16 << k;
                }
                open &= ~(open >> 8);
            }
        }
        to[i] = (u8)open;
    }
    const u32 n = __syncthreads_count(fixed), v = __syncthreads_count(nothing);
    if (threadIdx.x == 0 && n) atomicAdd(&head->fixed, n);
    if (threadIdx.x == 0 && v) atomicAdd(&head->void_pixels, v);
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) diffusion_label_mean(LabelFilling f) {
    after_prior();
    if (*f.done) return;
    double v[4] = {0, 0, 0, 0};
    for (u32 i = blockIdx.x * LABEL_THREADS + threadIdx.x; i < f.pixels; i += LABEL_PARTS * LABEL_THREADS)
        if (f.flags[i] & DIFFUSION_FIXED)
#pragma unroll
            for (u32 c = 0; c < 4; c++)
                if (c < f.channels) v[c] += f.colours[(u64)c * f.pixels + i];
    block_sums(v);
    if (threadIdx.x < 4) f.sums[blockIdx.x * 4 + threadIdx.x] = threadIdx.x == 0 ? v[0] : threadIdx.x == 1 ? v[1] : threadIdx.x == 2 ? v[2] : v[3];
}

extern "C" __global__ void __launch_bounds__(LABEL_THREADS) diffusion_label_fill(LabelFilling f) {
    after_prior();
    if (*f.done) return;
    double v[4];
#pragma unroll
    for (int c = 0; c < 4; c++) v[c] = f.sums[threadIdx.x * 4 + c];
    block_sums(v);
    const double count = max(f.head->fixed, 1);
    for (u32 i = blockIdx.x * LABEL_THREADS + threadIdx.x; i < f.pixels; i += gridDim.x * LABEL_THREADS) {
        const bool fixed = f.flags[i] & DIFFUSION_FIXED, none = f.open[i] == 0;
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            if (c >= f.channels) break;
            const u64 at = (u64)c * f.pixels + i;
            if (fixed) f.x[at] = f.colours[at];
            else if (!f.keep || none) f.x[at] = (float)(v[c] / count);
        }
    }
}
