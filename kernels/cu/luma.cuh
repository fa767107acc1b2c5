// Luma of four pixels of a row, as edges.cu and derivatives.cu read it, and four values to a row.
#pragma once

#include "common.cuh"

// Kinds of pixels: how their luma comes from their bytes.
#define KIND_CHANNEL 0 // one of their bytes
#define KIND_COLOR 1   // three of their bytes, with weights of 256 together
#define KIND_WIDE 2    // the high 8 bits of 16
#define KIND_BT601 3   // three of their bytes, with the weights of BT.601
#define KIND_FULL 4    // all of 16 bits

struct Luminance {
    u32 weights; // of the bytes of a pixel, in the order of memory; KIND_BT601: shifts of red, green and blue
    u32 shift;   // of what is wanted of the pixel; KIND_FULL: the largest sample
};

template <int KIND> __device__ __forceinline__ int luminance(u32 pixel, const Luminance &l) {
    if (KIND == KIND_CHANNEL) return (int)(pixel >> l.shift & 255);
    if (KIND == KIND_COLOR) return (int)(__dp4a(pixel, l.weights, 128u) >> 8);
    if (KIND == KIND_BT601) {
        const u32 r = pixel >> (l.weights & 255) & 255, g = pixel >> (l.weights >> 8 & 255) & 255;
        return (int)((299 * r + 587 * g + 114 * (pixel >> (l.weights >> 16) & 255) + 500) / 1000);
    }
    if (KIND == KIND_FULL) return (int)min(pixel & 0xffff, l.shift);
    return min((int)((pixel & 0xffff) >> l.shift), 255);
}

// The luminance of the pixels x to x+3 of a row, of BYTES each; those beyond the image have that of the nearest in it.
template <int BYTES, int KIND>
__device__ __forceinline__ void luminance4(int v[4], const unsigned char *row, int x, int width, const Luminance &l) {
    if (x >= 0 && x + 4 <= width) {
        const u64 at = (u64)row + (u64)x * BYTES;
        const u32 *words = (const u32 *)(at & ~3ull), mis = (u32)(at & 3) * 8;
        u32 w[BYTES + 1];
#pragma unroll
        for (int i = 0; i < BYTES; i++) w[i] = words[i];
        w[BYTES] = mis ? words[BYTES] : 0; // it holds bytes of the last pixel, or is not read
#pragma unroll
        for (int i = 0; i < BYTES; i++) w[i] = __funnelshift_r(w[i], w[i + 1], mis);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int word = i * BYTES / 4, bits = i * BYTES % 4 * 8;
            v[i] = luminance<KIND>(bits ? __funnelshift_r(w[word], w[word + 1 < BYTES ? word + 1 : word], bits) : w[word], l);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned char *p = row + (u64)min(max(x + i, 0), width - 1) * BYTES;
        u32 pixel = 0;
#pragma unroll
        for (int c = 0; c < BYTES; c++) pixel |= (u32)p[c] << 8 * c;
        v[i] = luminance<KIND>(pixel, l);
    }
}

// 4 values to 8 bytes at a row's column x; ends of rows are cut, and rows begin at any multiple of 2.
__device__ __forceinline__ void store4(unsigned short *row, int x, int width, const int e[4]) {
    if (x + 4 <= width) {
        const u32 lo = (u32)e[0] | (u32)e[1] << 16, hi = (u32)e[2] | (u32)e[3] << 16;
        if (((u64)(row + x) & 7) == 0) {
            *(uint2 *)(row + x) = make_uint2(lo, hi);
            return;
        }
        if (((u64)(row + x) & 3) == 0) {
            *(u32 *)(row + x) = lo, *(u32 *)(row + x + 2) = hi;
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (x + i < width) row[x + i] = (unsigned short)e[i];
}
