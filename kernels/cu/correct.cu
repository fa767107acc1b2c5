// Correct: flat-field correction. kernels/driver/correct.go says what is computed.
//
// A thread makes 8 samples of a row, read and written at once. A field of one row stays in its registers, and it goes
// through several rows then.
#include "abi/correct.cuh"
#include "common.cuh"

// The samples of a thread, and their field.
template <typename T> struct Eight {
    alignas(8 * sizeof(T)) T v[CORRECT_SAMPLES];
};
typedef Eight<unsigned short> Gains;

// Negative differences come to 0: half of one is below it. The product of 16 bits and the half of 2^15 fit in 32.
template <typename T> __device__ __forceinline__ T corrected(const CorrectArgs &a, T raw, T dark, u32 gain) {
    const u32 d = raw > dark ? raw - dark : 0;
    const u32 v = (d * gain + (1u << (a.fraction - 1))) >> a.fraction;
    return raw >= a.most ? raw : (T)min(v, a.most);
}

template <typename T> __device__ __forceinline__ void correct(const CorrectArgs &a) {
    after_prior();
    const int x = (blockIdx.x * CORRECT_THREADS + threadIdx.x) * CORRECT_SAMPLES;
    if (x >= a.samples) return;
    const int n = min(CORRECT_SAMPLES, a.samples - x);
    Eight<T> dark;
    Gains gain;
    for (int y = blockIdx.y; y < a.rows; y += gridDim.y) {
        // Rows of a field are padded, so that all of eight are there.
        if (y == blockIdx.y || a.field_rows > 1) {
            const u64 at = (u64)(a.field_rows > 1 ? y : 0) * a.pitch + x;
            dark = *(const Eight<T> *)((const T *)a.dark + at);
            gain = *(const Gains *)((const unsigned short *)a.gain + at);
        }
        const T *from = (const T *)(a.src + (u64)y * a.src_stride) + x;
        T *to = (T *)(a.dst + (u64)y * a.dst_stride) + x;
        if (a.wide && n == CORRECT_SAMPLES) {
            Eight<T> p = *(const Eight<T> *)from;
#pragma unroll
            for (int i = 0; i < CORRECT_SAMPLES; i++) p.v[i] = corrected<T>(a, p.v[i], dark.v[i], gain.v[i]);
            *(Eight<T> *)to = p;
        } else {
#pragma unroll
            for (int i = 0; i < CORRECT_SAMPLES; i++)
                if (i < n) to[i] = corrected<T>(a, from[i], dark.v[i], gain.v[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(CORRECT_THREADS) correct_bytes(CorrectArgs a) { correct<u8>(a); }

extern "C" __global__ void __launch_bounds__(CORRECT_THREADS) correct_words(CorrectArgs a) {
    correct<unsigned short>(a);
}
