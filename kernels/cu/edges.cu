// edges computes the magnitude of the gradient of an image's luminance: |gx| + |gy| after Sobel, the border clamped.
//
// A warp goes down EDGE_ROWS rows of 128 columns, 4 a lane, of which it writes the inner 120: lanes get the columns beside
// theirs from their neighbours by shuffles. Pixels are read as words at multiples of 4 and shifted into place, as rows begin
// anywhere. Three rows of luminance stay in registers. The warps of a block lie one below the other, so that the two rows
// more that each reads come from the cache.
//
// Bytes moved: those of the pixels, and 2 a pixel written. Complexity: some 25 instructions a pixel, with which an H200 is
// about as busy as with the bytes of RGB. EDGE_ROWS is 8: with 16 a picture of 1920x1080 has too few warps for the chip, and
// the rows more are a quarter either way at most.
//
// Source: Ke and Huang, Parallel Low Poly Style Image/Video Converter; Yang, Low poly in CUDA, 2018.

#include "abi/edges.cuh"
#include "common.cuh"
#include "luma.cuh"

static_assert(EDGE_HEIGHT == EDGE_THREADS / 32 * EDGE_ROWS, "EDGE_HEIGHT");

template <int BYTES, int KIND>
__device__ __forceinline__ void sobel(const unsigned char *src, u64 stride, unsigned short *dst, int width, int height,
                                      const Luminance &l) {
    const int lane = lane_id();
    const int x = (int)blockIdx.x * EDGE_COLUMNS - 4 + lane * 4;
    const int y0 = ((int)blockIdx.y * (EDGE_THREADS / 32) + (int)(threadIdx.x >> 5)) * EDGE_ROWS;
    if (y0 >= height) return;
    int above[4], here[4], below[4];
    luminance4<BYTES, KIND>(above, src + (u64)max(y0 - 1, 0) * stride, x, width, l);
    luminance4<BYTES, KIND>(here, src + (u64)y0 * stride, x, width, l);
    const int rows = min(EDGE_ROWS, height - y0);
#pragma unroll
    for (int r = 0; r < EDGE_ROWS; r++) {
        if (r >= rows) break;
        const int y = y0 + r;
        luminance4<BYTES, KIND>(below, src + (u64)min(y + 1, height - 1) * stride, x, width, l);
        // Sums and differences of columns: of those to the left, of the 4 here, and of those to the right.
        int s[6], d[6];
#pragma unroll
        for (int i = 0; i < 4; i++) s[i + 1] = above[i] + 2 * here[i] + below[i], d[i + 1] = below[i] - above[i];
        const int left = __shfl_up_sync(~0u, s[4] << 16 | (d[4] & 0xffff), 1);
        const int right = __shfl_down_sync(~0u, s[1] << 16 | (d[1] & 0xffff), 1);
        s[0] = left >> 16, d[0] = (short)left, s[5] = right >> 16, d[5] = (short)right;
        int e[4];
#pragma unroll
        for (int i = 0; i < 4; i++) e[i] = abs(s[i + 2] - s[i]) + abs(d[i] + 2 * d[i + 1] + d[i + 2]);
        if (lane > 0 && lane < 31 && x < width) store4(dst + (u64)y * width, x, width, e);
#pragma unroll
        for (int i = 0; i < 4; i++) above[i] = here[i], here[i] = below[i];
    }
}

// kind is the bytes of a pixel, and 16 where they are one sample.
extern "C" __global__ void __launch_bounds__(EDGE_THREADS)
    edges_sobel(const unsigned char *src, u64 stride, unsigned short *dst, int width, int height, u32 kind, u32 weights,
                u32 shift, u32 pad) {
    after_prior();
    Luminance l;
    l.weights = weights, l.shift = shift;
    switch (kind) {
    case 1: return sobel<1, KIND_CHANNEL>(src, stride, dst, width, height, l);
    case 2: return sobel<2, KIND_CHANNEL>(src, stride, dst, width, height, l);
    case 3: return sobel<3, KIND_COLOR>(src, stride, dst, width, height, l);
    case 4: return sobel<4, KIND_COLOR>(src, stride, dst, width, height, l);
    default: return sobel<2, KIND_WIDE>(src, stride, dst, width, height, l);
    }
}
