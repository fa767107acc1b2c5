// Unpack and Pack: the pixels of an image as planes of float32, and back.
//
// One thread a pixel, a row of blocks a row of the image, so that nothing is divided; the two together move each byte
// once: 1 + 4 of them for gray, 3 + 12 for colours. Divisions and products are rounded one by one, as on the CPU.
#include "abi/pack.cuh"
#include "common.cuh"

// Sample c of pixel x of a row.
__device__ __forceinline__ u32 sample_of(const PackImage &im, const u8 *row, int x, u32 c) {
    if (im.sample_bytes == 2) return ((const unsigned short *)row)[x];
    return row[(u64)x * im.channels + (im.order >> 8 * c & 255)];
}

__device__ __forceinline__ void put_sample(const PackImage &im, u8 *row, int x, u32 c, u32 v) {
    if (im.sample_bytes == 2)
        ((unsigned short *)row)[x] = (unsigned short)v;
    else
        row[(u64)x * im.channels + (im.order >> 8 * c & 255)] = (u8)v;
}

extern "C" __global__ void __launch_bounds__(PACK_THREADS)
    pack_unpack(PackImage src, const u8 *mask, u8 *flags, float *planes, int width, int height, u32 most, u32 pad) {
    after_prior();
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width) return;
    const u64 n = (u64)width * height;
    const u32 colours = src.channels - src.alpha;
    for (int y = blockIdx.y; y < height; y += gridDim.y) {
        const u8 *row = src.data + y * src.stride;
        const u64 i = (u64)y * width + x;
        bool given = !mask || mask[i] == 0;
        if (src.alpha) given = given && sample_of(src, row, x, src.channels - 1) == 255;
        flags[i] = given ? DIFFUSION_FIXED : 0;
        for (u32 c = 0; c < colours; c++) planes[c * n + i] = __fdiv_rn((float)min(sample_of(src, row, x, c), most), (float)most);
    }
}

// The sample nearest to a number; what is not a number is 0.
__device__ __forceinline__ u32 nearest_sample(float v, float most) {
    v = __fadd_rn(__fmul_rn(v, most), 0.5f);
    return v > 0 ? (u32)fminf(v, most) : 0;
}

extern "C" __global__ void __launch_bounds__(PACK_THREADS)
    pack_pack(const float *planes, const u8 *flags, PackImage src, PackImage dst, PackImage residual, int width, int height, u32 most, u32 pad) {
    after_prior();
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width) return;
    const u64 n = (u64)width * height;
    const u32 colours = dst.channels - dst.alpha;
    for (int y = blockIdx.y; y < height; y += gridDim.y) {
        const u64 i = (u64)y * width + x;
        const bool given = flags && (flags[i] & DIFFUSION_FIXED);
        u8 *to = dst.data + y * dst.stride, *rest = residual.data + y * residual.stride;
        for (u32 c = 0; c < colours; c++) {
            const u32 s = src.data ? min(sample_of(src, src.data + y * src.stride, x, c), most) : 0;
            const u32 d = given ? s : nearest_sample(planes[c * n + i], (float)most);
            put_sample(dst, to, x, c, d);
            if (residual.data) put_sample(residual, rest, x, c, (u32)min(max((int)s - (int)d + (int)(most / 2 + 1), 0), (int)most));
        }
        if (dst.alpha) put_sample(dst, to, x, dst.channels - 1, 255);
        if (residual.data && residual.alpha) put_sample(residual, rest, x, residual.channels - 1, 255);
    }
}
