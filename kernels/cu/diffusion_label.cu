// Diffusion: which pixels have equations. Pixels that take, by no path, from a fixed one are void: they are found by union and find,
// where all fixed pixels are one from the start. Label 0 is theirs, and label i+1 that of pixel i.
//
// diffusion_label_init  clears the header, and lets each pixel point at its left or upper neighbour where either takes from the other
// diffusion_label_join  joins the other two
// diffusion_label_shut  carries label 0 over edges that are open one way, again and again until nothing changes; one block. Only where
//                       there are such edges
// diffusion_label_open  writes what each pixel takes from, and counts
//
// Roots are the least in their component, so that the outcome does not depend on the order. Bytes: about 20 a pixel. Complexity: grows
// with the pixels, but for diffusion_label_shut, which passes over all of them as often as a path changes between edges that
// are open one way and others.

#include "diffusion_label.cuh"

#define THREADS 256
#define SHUT_THREADS 1024

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

extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_label_init(DiffusionHeader *head, const u8 *flags, int *labels, u64 *fault, int width, int height, u32 allowed, u32 pad) {
    after_prior();
    const u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (i == 0) {
        labels[0] = 0;
        head->magic = head->fixed = head->void_pixels = 0;
    }
    if (i >= (u64)width * height) return;
    const int x = (int)(i % width), y = (int)(i / width);
    const u32 f = flags[i];
    if (f & ~allowed) report(fault, FAULT_DIFFUSION_SETUP_FLAGS, i);
    int to = (int)i + 1;
    if (f & FIXED) to = 0;
    else {
        const u32 open = open_edges(flags, i, x, y, width, height);
        if ((open & OPEN_LEFT) && !(flags[i - 1] & SHUT_RIGHT)) to = (int)i;
        else if ((open & OPEN_UP) && !(flags[i - width] & SHUT_DOWN)) to = (int)(i - width) + 1;
    }
    labels[i + 1] = to;
}

extern "C" __global__ void __launch_bounds__(THREADS) diffusion_label_join(const u8 *flags, int *labels, int width, int height) {
    after_prior();
    const u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (u64)width * height) return;
    const int x = (int)(i % width), y = (int)(i / width);
    const u32 open = open_edges(flags, i, x, y, width, height);
    const bool fixed = (flags[i] & FIXED) != 0;
    const bool left = (open & OPEN_LEFT) && !(flags[i - 1] & SHUT_RIGHT);
    const bool up = (open & OPEN_UP) && !(flags[i - width] & SHUT_DOWN);
    // The pixel itself has one of them already, unless it is fixed.
    if (left && fixed) join(labels, (int)i + 1, (int)i);
    if (up && (fixed || left)) join(labels, (int)i + 1, (int)(i - width) + 1);
}

extern "C" __global__ void __launch_bounds__(SHUT_THREADS) diffusion_label_shut(const u8 *flags, int *labels, int width, int height) {
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

extern "C" __global__ void __launch_bounds__(THREADS)
    diffusion_label_open(DiffusionHeader *head, const u8 *flags, int *labels, u8 *to, int width, int height) {
    after_prior();
    const u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;
    const bool in = i < (u64)width * height;
    bool fixed = false, nothing = false;
    if (in) {
        u32 open = 0;
        fixed = (flags[i] & FIXED) != 0;
        if (!fixed) {
            nothing = find(labels, (int)i + 1) != 0;
            if (!nothing) {
                const int x = (int)(i % width), y = (int)(i / width);
                open = open_edges(flags, i, x, y, width, height);
                // Nothing is taken from void pixels, which only edges open one way lead to.
                if ((open & OPEN_RIGHT) && !(flags[i + 1] & FIXED)) open |= find(labels, (int)i + 2) ? OPEN_RIGHT << 8 : OPEN_RIGHT << 4;
                if ((open & OPEN_LEFT) && !(flags[i - 1] & FIXED)) open |= find(labels, (int)i) ? OPEN_LEFT << 8 : OPEN_LEFT << 4;
                if ((open & OPEN_DOWN) && !(flags[i + width] & FIXED))
                    open |= find(labels, (int)(i + width) + 1) ? OPEN_DOWN << 8 : OPEN_DOWN << 4;
                if ((open & OPEN_UP) && !(flags[i - width] & FIXED))
                    open |= find(labels, (int)(i - width) + 1) ? OPEN_UP << 8 : OPEN_UP << 4;
                open &= ~(open >> 8);
            }
        }
        to[i] = (u8)open;
    }
    const u32 n = __syncthreads_count(fixed), v = __syncthreads_count(nothing);
    if (threadIdx.x == 0 && n) atomicAdd(&head->fixed, n);
    if (threadIdx.x == 0 && v) atomicAdd(&head->void_pixels, v);
}
