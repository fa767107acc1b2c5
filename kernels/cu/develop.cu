// Develop: pixels of what cameras send. kernels/driver/develop.go says what is computed.
//
// A thread makes 8 pixels of a row, of Bayer 8 of each of two rows: there a pixel of the mosaic is read four times
// (bilinear) or six, but from device memory once. Colours are three bytes a pixel, so the threads of a warp hand each
// other what they made through shared memory, and write 8 bytes each, side by side.
#include "abi/develop.cuh"
#include "common.cuh"

#define WARP_PIXELS (32 * DEVELOP_PIXELS)
#define WARPS (DEVELOP_THREADS / 32)
#define THREAD_WORDS (3 * DEVELOP_PIXELS / 4)

// The colours of a row of a warp.
typedef u32 Stage[32 * THREAD_WORDS];

// Where row or column i of n lies: those beyond either end are mirrored at it.
__device__ __forceinline__ int mirror(int i, int n) {
    const int period = 2 * (n - 1);
    i %= period;
    if (i < 0) i += period;
    return min(i, period - i);
}

__device__ __forceinline__ const u8 *raw_row(const DevelopArgs &a, int y) {
    return a.src + (u64)(y - a.first) * a.src_stride;
}

// Sample x of a row, with all bits that it has.
__device__ __forceinline__ int sample_at(const DevelopArgs &a, const u8 *row, int x) {
    if (a.packed) {
        const u32 bit = (u32)x * a.bits; // below 2^20 * 12
        const u8 *p = row + (bit >> 3);
        return (int)((p[0] | (u32)p[1] << 8) >> (bit & 7) & ((1u << a.bits) - 1));
    }
    return a.bits == 8 ? row[x] : ((const unsigned short *)row)[x];
}

// n bytes of a stage to dst, whose rows begin at multiples of 8 bytes where wide is set. All threads of the warp call it.
__device__ __forceinline__ void put_stage(const Stage &stage, u8 *dst, int n, bool wide) {
    __syncwarp();
#pragma unroll
    for (int k = 0; k < THREAD_WORDS / 2; k++) {
        const int i = 32 * k + lane_id();
        if (wide && 8 * i + 8 <= n)
            ((uint2 *)dst)[i] = ((const uint2 *)stage)[i];
        else
            for (int b = 8 * i; b < min(8 * i + 8, n); b++) dst[b] = ((const u8 *)stage)[b];
    }
    __syncwarp();
}

// The colours of 8 pixels into a thread's place, four bytes at a time.
__device__ __forceinline__ void stage_pixels(Stage &stage, const u32 (&c)[3][DEVELOP_PIXELS]) {
    u32 *to = stage + lane_id() * THREAD_WORDS;
#pragma unroll
    for (int i = 0; i < THREAD_WORDS; i++) {
        u32 v = 0;
#pragma unroll
        for (int b = 0; b < 4; b++) v |= c[(4 * i + b) % 3][(4 * i + b) / 3] << 8 * b;
        to[i] = v;
    }
}

extern "C" __global__ void __launch_bounds__(DEVELOP_THREADS) develop_mono(DevelopArgs a) {
    after_prior();
    const int x = (blockIdx.x * DEVELOP_THREADS + threadIdx.x) * DEVELOP_PIXELS;
    if (x >= a.width) return;
    const int n = min(DEVELOP_PIXELS, a.width - x);
    for (int y = blockIdx.y; y < a.rows; y += gridDim.y) {
        const u8 *row = raw_row(a, a.row0 + y);
        unsigned short *to = (unsigned short *)(a.dst + (u64)y * a.dst_stride) + x;
        u32 w[DEVELOP_PIXELS / 2];
        if (n < DEVELOP_PIXELS) {
            for (int i = 0; i < n; i++) to[i] = (unsigned short)sample_at(a, row, x + i);
            continue;
        }
#pragma unroll
        for (int i = 0; i < DEVELOP_PIXELS / 2; i++)
            w[i] = (u32)sample_at(a, row, x + 2 * i) | (u32)sample_at(a, row, x + 2 * i + 1) << 16;
        if (a.wide & 2) {
            ((uint2 *)to)[0] = make_uint2(w[0], w[1]);
            ((uint2 *)to)[1] = make_uint2(w[2], w[3]);
        } else {
#pragma unroll
            for (int i = 0; i < DEVELOP_PIXELS; i++) to[i] = (unsigned short)(w[i / 2] >> 16 * (i % 2));
        }
    }
}

__device__ __forceinline__ u32 cut(int v) { return (u32)min(max(v, 0), 255); }

extern "C" __global__ void __launch_bounds__(DEVELOP_THREADS) develop_yuv(DevelopArgs a) {
    __shared__ __align__(8) Stage stages[WARPS];
    after_prior();
    Stage &stage = stages[threadIdx.x / 32];
    const int warp_x = (blockIdx.x * WARPS + threadIdx.x / 32) * WARP_PIXELS;
    if (warp_x >= a.width) return;
    const int x = warp_x + lane_id() * DEVELOP_PIXELS, n = min(max(a.width - x, 0), DEVELOP_PIXELS);
    for (int y = blockIdx.y; y < a.rows; y += gridDim.y) {
        const u8 *row = raw_row(a, a.row0 + y) + 2 * (u64)x;
        u32 w[DEVELOP_PIXELS / 2] = {};
        if ((a.wide & 1) && n == DEVELOP_PIXELS) {
            const uint2 p = ((const uint2 *)row)[0], q = ((const uint2 *)row)[1];
            w[0] = p.x, w[1] = p.y, w[2] = q.x, w[3] = q.y;
        } else {
#pragma unroll
            for (int i = 0; i < DEVELOP_PIXELS / 2; i++)
                if (2 * i < n) w[i] = row[4 * i] | (u32)row[4 * i + 1] << 8 | (u32)row[4 * i + 2] << 16 | (u32)row[4 * i + 3] << 24;
        }
        u32 c[3][DEVELOP_PIXELS];
#pragma unroll
        for (int i = 0; i < DEVELOP_PIXELS / 2; i++) {
            const u32 luma = w[i] >> 8 * a.luma, chroma = w[i] >> 8 * (1 - a.luma); // of both pixels, 16 bits apart
            const int u = (int)(chroma & 255) - 128, v = (int)(chroma >> 16 & 255) - 128;
            const int r = 91881 * v, g = -22554 * u - 46802 * v, b = 116130 * u;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int l = 65793 * (int)(luma >> 16 * k & 255);
                c[0][2 * i + k] = cut((l + r) >> 16);
                c[1][2 * i + k] = cut((l + g) >> 16);
                c[2][2 * i + k] = cut((l + b) >> 16);
            }
        }
        stage_pixels(stage, c);
        put_stage(stage, a.dst + (u64)y * a.dst_stride + 3 * (u64)warp_x, 3 * min(WARP_PIXELS, a.width - warp_x), a.wide & 2);
    }
}

// The samples from x - 2 on of row y of a frame, which may lie beyond it. The first of them are beyond what their bits
// hold in so many cases as is returned; they are cut.
#define ROW_SAMPLES (DEVELOP_PIXELS + 4)

template <bool EIGHT>
__device__ __forceinline__ u32 load_samples(const DevelopArgs &a, int x, int y, int (&s)[ROW_SAMPLES]) {
    const u8 *row = raw_row(a, mirror(y, a.height));
    if (x >= 4 && x + DEVELOP_PIXELS + 4 <= a.width) {
        if (EIGHT && (a.wide & 1)) {
            const u32 left = ((const u32 *)(row + x))[-1];
            const uint2 here = *(const uint2 *)(row + x);
            const u32 right = ((const u32 *)(row + x))[2];
            s[0] = left >> 16 & 255, s[1] = left >> 24;
#pragma unroll
            for (int i = 0; i < 4; i++) s[2 + i] = here.x >> 8 * i & 255, s[6 + i] = here.y >> 8 * i & 255;
            s[10] = right & 255, s[11] = right >> 8 & 255;
            return 0;
        }
#pragma unroll
        for (int i = 0; i < ROW_SAMPLES; i++) s[i] = EIGHT ? row[x - 2 + i] : sample_at(a, row, x - 2 + i);
    } else {
#pragma unroll
        for (int i = 0; i < ROW_SAMPLES; i++) {
            const int at = mirror(x - 2 + i, a.width);
            s[i] = EIGHT ? row[at] : sample_at(a, row, at);
        }
    }
    u32 beyond = 0;
    if (!EIGHT && a.beyond) {
        const int most = (1 << a.bits) - 1;
#pragma unroll
        for (int i = 0; i < ROW_SAMPLES; i++) {
            beyond += i >= 2 && i < 2 + DEVELOP_PIXELS && x - 2 + i < a.width && s[i] > most;
            s[i] = min(s[i], most);
        }
    }
    return beyond;
}

// The colours of 8 pixels of a row, whose samples at FIRST and every other place behind are of its colour beside green:
// c[0] is that colour, c[2] the third one. r[0] is the topmost row that they depend on.
template <bool MALVAR, int FIRST, int ROWS>
__device__ __forceinline__ void interpolate(const int (&r)[ROWS][ROW_SAMPLES], int row, u32 bits, u32 (&c)[3][DEVELOP_PIXELS]) {
    const u32 shift = bits - (MALVAR ? 4 : 6);
    const int half = 1 << shift >> 1;
#pragma unroll
    for (int i = 0; i < DEVELOP_PIXELS; i++) {
        const int x = i + 2, v = r[row][x];
        int own, green, third;
        if (MALVAR) {
            const int across = r[row - 2][x] + r[row + 2][x], along = r[row][x - 2] + r[row][x + 2];
            const int diagonal = r[row - 1][x - 1] + r[row - 1][x + 1] + r[row + 1][x - 1] + r[row + 1][x + 1];
            const int sides = r[row][x - 1] + r[row][x + 1], ends = r[row - 1][x] + r[row + 1][x];
            if (i % 2 == FIRST) {
                own = 16 * v;
                green = 8 * v + 4 * (sides + ends) - 2 * (across + along);
                third = 12 * v + 4 * diagonal - 3 * (across + along);
            } else {
                own = 10 * v + 8 * sides - 2 * (diagonal + along) + across;
                green = 16 * v;
                third = 10 * v + 8 * ends - 2 * (diagonal + across) + along;
            }
            c[0][i] = cut((own + half) >> shift);
            c[1][i] = cut((green + half) >> shift);
            c[2][i] = cut((third + half) >> shift);
        } else {
            if (i % 2 == FIRST) {
                own = 4 * v;
                green = r[row - 1][x] + r[row][x - 1] + r[row][x + 1] + r[row + 1][x];
                third = r[row - 1][x - 1] + r[row - 1][x + 1] + r[row + 1][x - 1] + r[row + 1][x + 1];
            } else {
                own = 2 * (r[row][x - 1] + r[row][x + 1]);
                green = 4 * v;
                third = 2 * (r[row - 1][x] + r[row + 1][x]);
            }
            // Of 8 bits none is beyond 255.
            c[0][i] = min((u32)(own + half) >> shift, 255u);
            c[1][i] = min((u32)(green + half) >> shift, 255u);
            c[2][i] = min((u32)(third + half) >> shift, 255u);
        }
    }
}

template <bool EIGHT, bool MALVAR>
__device__ __forceinline__ void bayer(const DevelopArgs &a, Stage &stage) {
    constexpr int MARGIN = MALVAR ? 2 : 1, ROWS = 2 + 2 * MARGIN;
    const int warp_x = (blockIdx.x * WARPS + threadIdx.x / 32) * WARP_PIXELS;
    if (warp_x >= a.width) return;
    const int x = warp_x + lane_id() * DEVELOP_PIXELS;
    const u32 bits = EIGHT ? 8 : a.bits;
    u32 beyond = 0;
    for (int pair = blockIdx.y; 2 * pair < a.rows; pair += gridDim.y) {
        const int y = a.row0 + 2 * pair, rows = min(2, a.rows - 2 * pair);
        int s[ROWS][ROW_SAMPLES];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            // Behind the last row of an odd number src may have no more.
            const int at = k < ROWS - 1 ? y - MARGIN + k : y + rows - 1 + MARGIN;
            const u32 n = load_samples<EIGHT>(a, x, at, s[k]);
            if (k >= MARGIN && k < MARGIN + rows) beyond += n;
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            if (k == rows) break;
            const u32 blue = (y + k ^ (int)(a.red >> 1)) & 1; // is the row's colour beside green
            u32 c[3][DEVELOP_PIXELS];
            if ((blue ^ a.red) & 1)
                interpolate<MALVAR, 1, ROWS>(s, MARGIN + k, bits, c);
            else
                interpolate<MALVAR, 0, ROWS>(s, MARGIN + k, bits, c);
            if (blue)
#pragma unroll
                for (int i = 0; i < DEVELOP_PIXELS; i++) {
                    const u32 t = c[0][i];
                    c[0][i] = c[2][i], c[2][i] = t;
                }
            stage_pixels(stage, c);
            put_stage(stage, a.dst + (u64)(2 * pair + k) * a.dst_stride + 3 * (u64)warp_x, 3 * min(WARP_PIXELS, a.width - warp_x), a.wide & 2);
        }
    }
    if (!EIGHT && beyond) atomicAdd(a.beyond, beyond);
}

// As many blocks on a multiprocessor as their registers allow without spilling.
#define BAYER(name, eight, malvar, blocks)                                                      \
    extern "C" __global__ void __launch_bounds__(DEVELOP_THREADS, blocks) name(DevelopArgs a) { \
        __shared__ __align__(8) Stage stages[WARPS];                                            \
        after_prior();                                                                          \
        bayer<eight, malvar>(a, stages[threadIdx.x / 32]);                                      \
    }

BAYER(develop_bayer8, true, false, 5)
BAYER(develop_bayer8_malvar, true, true, 3)
BAYER(develop_bayer, false, false, 5)
BAYER(develop_bayer_malvar, false, true, 5)
