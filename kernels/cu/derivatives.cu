// derivatives computes the magnitude of the gradient of an image's luma, after Sobel, and its Laplacian, the border clamped.
//
// The warps go down the image as those of edges.cu do: 128 columns, 4 a lane, of which the inner 120 are written. What a
// lane needs of its neighbours is one word where samples have 8 bits, and three where they have more.
//
// Bytes moved: those of the pixels, and 4 a pixel written. Complexity: some 40 instructions a pixel.
//
// Source: Sobel and Feldman, A 3x3 isotropic gradient operator for image processing, 1968.

#include "abi/derivatives.cuh"
#include "common.cuh"
#include "luma.cuh"

__device__ __forceinline__ float root_approx(float x) {
    float r;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// The rounded root r of n, which is below 2^38: r^2 - r < n <= r^2 + r. The approximate root of a single is a part of 2^22 off
// at most. With 8 bits of luma, where r is below 2^11, that makes a root one too large or exact if some is added; with more,
// one too large or too small.
template <bool WIDE> __device__ __forceinline__ int root(int gx, int gy) {
    if (!WIDE) {
        const int n = gx * gx + gy * gy, r = (int)(root_approx((float)n) + 0.501f);
        return r - (r * r - r >= n && r > 0);
    }
    const u64 n = (u64)((long long)gx * gx) + (u64)((long long)gy * gy);
    u64 r = (u64)(root_approx((float)n) + 0.5f);
    if (r * r + r < n) r++;
    else if (r > 0 && r * r - r >= n) r--;
    return (int)r;
}

template <int BYTES, int KIND> __device__ __forceinline__ void derive(const DerivativesArgs &a) {
    const bool wide = KIND == KIND_FULL;
    const int lane = lane_id();
    const int x = (int)blockIdx.x * EDGE_COLUMNS - 4 + lane * 4;
    const int y0 = ((int)blockIdx.y * (EDGE_THREADS / 32) + (int)(threadIdx.x >> 5)) * EDGE_ROWS;
    if (y0 >= a.height) return;
    Luminance l;
    l.weights = a.weights, l.shift = a.most;
    const int zero = (int)a.zero, half = 1 << a.drop >> 1;
    int above[4], here[4], below[4];
    luminance4<BYTES, KIND>(above, a.src + (u64)max(y0 - 1, 0) * a.stride, x, a.width, l);
    luminance4<BYTES, KIND>(here, a.src + (u64)y0 * a.stride, x, a.width, l);
    const int rows = min(EDGE_ROWS, a.height - y0);
#pragma unroll
    for (int r = 0; r < EDGE_ROWS; r++) {
        if (r >= rows) break;
        const int y = y0 + r;
        luminance4<BYTES, KIND>(below, a.src + (u64)min(y + 1, a.height - 1) * a.stride, x, a.width, l);
        // Sums and differences of columns: of those to the left, of the 4 here, and of those to the right.
        int s[6], d[6], c[6];
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[i + 1] = above[i] + 2 * here[i] + below[i], d[i + 1] = below[i] - above[i], c[i + 1] = here[i];
        if (wide) {
            s[0] = __shfl_up_sync(~0u, s[4], 1), d[0] = __shfl_up_sync(~0u, d[4], 1), c[0] = __shfl_up_sync(~0u, c[4], 1);
            s[5] = __shfl_down_sync(~0u, s[1], 1), d[5] = __shfl_down_sync(~0u, d[1], 1);
            c[5] = __shfl_down_sync(~0u, c[1], 1);
        } else { // 10 bits, 9 and a sign, and 8
            const int left = __shfl_up_sync(~0u, s[4] << 18 | (d[4] & 0x3ff) << 8 | c[4], 1);
            const int right = __shfl_down_sync(~0u, s[1] << 18 | (d[1] & 0x3ff) << 8 | c[1], 1);
            s[0] = left >> 18, d[0] = left << 14 >> 22, c[0] = left & 255;
            s[5] = right >> 18, d[5] = right << 14 >> 22, c[5] = right & 255;
        }
        int g[4], p[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            g[i] = root<wide>(s[i + 2] - s[i], d[i] + 2 * d[i + 1] + d[i + 2]);
            p[i] = s[i + 1] - 6 * c[i + 1] + c[i] + c[i + 2] + zero; // s has the pixel itself twice
            if (wide) g[i] = (g[i] + half) >> a.drop, p[i] = min((p[i] + half) >> a.drop, 0xffff);
        }
        if (lane > 0 && lane < 31 && x < a.width) {
            store4(a.gradient + (u64)y * a.width, x, a.width, g);
            store4(a.laplacian + (u64)y * a.width, x, a.width, p);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) above[i] = here[i], here[i] = below[i];
    }
}

// kind is the bytes of a pixel, and 16 where they are one sample.
extern "C" __global__ void __launch_bounds__(EDGE_THREADS) derivatives_sobel(DerivativesArgs a) {
    after_prior();
    switch (a.kind) {
    case 1: return derive<1, KIND_CHANNEL>(a);
    case 2: return derive<2, KIND_CHANNEL>(a);
    case 3: return derive<3, KIND_BT601>(a);
    case 4: return derive<4, KIND_BT601>(a);
    default: return derive<2, KIND_FULL>(a);
    }
}
