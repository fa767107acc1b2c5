// blur mixes means of a picture by a plane of deviations: see driver.Blur. The order of operations is that of kernels/cpu/blur.go, each
// rounded on its own, so that both give the same bits.
//
// Phases: blur_level makes a level of the pyramid of the one before, BLUR_LEVELS times; blur_mix makes the picture.
//
// Bytes moved: a level reads four times what it writes, all of them together 5/3 of the picture; mixing reads the picture, the deviations
// and at most as much of two levels, and writes the picture. Complexity: pixels; a pixel takes up to 32 values, of each channel, from
// caches. Tiles are 32x8 pixels, so that the rows which neighbours share are read once.

#include "abi/blur.cuh"
#include "common.cuh"

#define MAX_BLUR_SIGMA 100.0f

__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }

struct BlurPlane {
    const float *v;
    int w, h;
    __device__ __forceinline__ float at(int x, int y) const {
        return v[(u64)min(max(y, 0), h - 1) * w + min(max(x, 0), w - 1)];
    }
};

__device__ __forceinline__ float mean5(float a, float b, float c, float d, float e) {
    return mul(add(add(add(a, e), mul(4, add(b, d))), mul(6, c)), 1.0f / 16);
}
__device__ __forceinline__ float mean3(float a, float b, float c) { return mul(add(add(a, c), mul(2, b)), 1.0f / 4); }

__device__ __forceinline__ float mean5x5(const BlurPlane &p, int x, int y) {
    float r[5];
#pragma unroll
    for (int k = 0; k < 5; k++)
        r[k] = mean5(p.at(x - 2, y + k - 2), p.at(x - 1, y + k - 2), p.at(x, y + k - 2), p.at(x + 1, y + k - 2), p.at(x + 2, y + k - 2));
    return mean5(r[0], r[1], r[2], r[3], r[4]);
}

__device__ __forceinline__ float mean3x3(const BlurPlane &p, int x, int y) {
    float r[3];
#pragma unroll
    for (int k = 0; k < 3; k++) r[k] = mean3(p.at(x - 1, y + k - 1), p.at(x, y + k - 1), p.at(x + 1, y + k - 1));
    return mean3(r[0], r[1], r[2]);
}

// Whole numbers below 2^24: 6*8^l times the weights of a cubic B-spline.
__device__ __forceinline__ void spline_weights(float w[4], int x, int l) {
    const int n = 1 << l, m = x & (n - 1), k = n - m;
    w[0] = (float)(k * k * k);
    w[1] = (float)(3 * m * m * m - 6 * n * m * m + 4 * n * n * n);
    w[2] = (float)(3 * k * k * k - 6 * n * k * k + 4 * n * n * n);
    w[3] = (float)(m * m * m);
}

__device__ __forceinline__ float dot4(const float w[4], float a, float b, float c, float d) {
    return add(add(add(mul(w[0], a), mul(w[1], b)), mul(w[2], c)), mul(w[3], d));
}

__device__ __forceinline__ float spline(const BlurPlane &p, const float wx[4], const float wy[4], int x, int y, float scale) {
    float r[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        r[k] = mul(dot4(wx, p.at(x - 1, y + k - 1), p.at(x, y + k - 1), p.at(x + 1, y + k - 1), p.at(x + 2, y + k - 1)), scale);
    return mul(dot4(wy, r[0], r[1], r[2], r[3]), scale);
}

// A level of dw x dh pixels, in planes, of one of w x h. Planes are along the second axis of the grid, behind each other.
extern "C" __global__ void __launch_bounds__(BLUR_TILE_W *BLUR_TILE_H)
    blur_level(const float *src, float *dst, int w, int h, int dw, int dh, u32 rows, u32 pad) {
    after_prior();
    const u32 c = blockIdx.y / rows;
    const int x = blockIdx.x * BLUR_TILE_W + threadIdx.x % BLUR_TILE_W,
              y = blockIdx.y % rows * BLUR_TILE_H + threadIdx.x / BLUR_TILE_W;
    if (x >= dw || y >= dh) return;
    const BlurPlane p = {src + (u64)c * w * h, w, h};
    dst[(u64)c * dw * dh + (u64)y * dw + x] = mean5x5(p, 2 * x, 2 * y);
}

// The variance of kernel k: 0, 1/2, 1, and (2*4^l - 1)/3 of level l = k - 2.
__device__ __forceinline__ float variance(int k) {
    return k < 3 ? 0.5f * k : __fdiv_rn((float)((2 << (2 * (k - 2))) - 1), 3.0f);
}

// What kernel k makes of a pixel, in each channel.
__device__ __forceinline__ void blurred(float out[4], const float *src, const float *levels, u32 channels, int w, int h, int k, int x, int y) {
    BlurPlane p = {src, w, h};
    if (k < 3) {
#pragma unroll
        for (u32 c = 0; c < 4; c++) {
            if (c < channels) out[c] = k == 0 ? p.at(x, y) : k == 1 ? mean3x3(p, x, y) : mean5x5(p, x, y);
            p.v += (u64)w * h;
        }
        return;
    }
    const int l = k - 2;
    p.v = levels;
    for (int i = 1; i <= l; i++) {
        if (i > 1) p.v += ((u64)channels * p.w * p.h + 63) & ~63ull;
        p.w = p.w / 2 + 1, p.h = p.h / 2 + 1;
    }
    float wx[4], wy[4];
    spline_weights(wx, x, l);
    spline_weights(wy, y, l);
    const float scale = __fdiv_rn(1.0f, (float)(6 << (3 * l)));
#pragma unroll
    for (u32 c = 0; c < 4; c++) {
        if (c < channels) out[c] = spline(p, wx, wy, x >> l, y >> l, scale);
        p.v += (u64)p.w * p.h;
    }
}

extern "C" __global__ void __launch_bounds__(BLUR_TILE_W *BLUR_TILE_H)
    blur_mix(const float *src, const float *levels, const float *sigma, float *dst, int w, int h, u32 channels, float scale) {
    after_prior();
    const int x = blockIdx.x * BLUR_TILE_W + threadIdx.x % BLUR_TILE_W,
              y = blockIdx.y * BLUR_TILE_H + threadIdx.x / BLUR_TILE_W;
    if (x >= w || y >= h) return;
    const u64 n = (u64)w * h, i = (u64)y * w + x;
    const float s = fminf(mul(sigma[i], scale), MAX_BLUR_SIGMA); // of NaN, too
    float a[4], b[4];
    if (!(mul(sigma[i], scale) > 0) || mul(s, s) == 0) {
        for (u32 c = 0; c < channels; c++) dst[c * n + i] = src[c * n + i];
        return;
    }
    const float v = mul(s, s);
    int k = 0;
    while (v >= variance(k + 1)) k++;
    const float f = __fdiv_rn(__fsub_rn(v, variance(k)), __fsub_rn(variance(k + 1), variance(k)));
    blurred(a, src, levels, channels, w, h, k, x, y);
    blurred(b, src, levels, channels, w, h, k + 1, x, y);
#pragma unroll
    for (u32 c = 0; c < 4; c++)
        if (c < channels) dst[c * n + i] = add(a[c], mul(__fsub_rn(b[c], a[c]), f));
}
