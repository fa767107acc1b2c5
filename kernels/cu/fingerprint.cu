// Fingerprint: values of polynomials over the bytes of a slice, modulo 2^61 - 1, under two keys.
//
// A block takes rounds of ROUND_WORDS words, of which each thread has VECTORS vectors of 4, THREADS vectors apart, so that loads are
// coalesced. The powers of the key by which the words of a round are multiplied, relative to those of the thread's last word, are the same in all
// threads: they come as parameters, in three limbs of 21, 20 and 20 bits. A product of a word and a limb has 53 bits at most, so
// that those of a round are added up in 64 bits without carries, and brought together and reduced once. A round before is moved up by
// the power of ROUND_WORDS (Horner's rule). Then the threads of a block are brought together two by two, four by four, and so on, by a power for
// each level; from the first level on, odd lanes have the second key. The last block to end does the same with the values of all blocks.
//
// What is behind the end counts as words of 0, which move up all others; the factor in the end makes up for that. All of it is exact.
//
// Bytes moved: each once, and 16 a block written and read. A word takes 6 wide multiplications, at which all multiprocessors of an H200 do about
// as many bytes in a second as its memory moves. MAX_BLOCKS blocks of THREADS threads are on it at the same time.
#include "common.cuh"

typedef unsigned char u8;

#define THREADS 128
#define WARPS (THREADS / 32)
#define VECTORS 4
#define ROUND_WORDS 2048 // THREADS * VECTORS * 4
#define MAX_BLOCKS 1024
#define LIMBS 2
#define SUMS ((VECTORS + 1) / 2) // 8 products of a word and a high limb are less than 2^64

static_assert(ROUND_WORDS == THREADS * VECTORS * 4, "words of a round");

// Powers of a key between what is brought together: by level within a warp, and between warps.
struct FingerprintTree {
    u64 lanes[5];
    u64 warp;
};

struct FingerprintKey {
    FingerprintTree threads, blocks;
    u64 round;   // the power of ROUND_WORDS
    u64 block;   // and of the words of a block
    u64 factor;  // by which the sum of words is multiplied,
    u64 length;  // and what is added then for the length
    u32 dot[32]; // LIMBS for each word that a thread has of a round
};

#define PRIME ((1ull << 61) - 1)

// The same modulo PRIME, of a value below 2^64: less than PRIME + 8.
__device__ __forceinline__ u64 fold(u64 v) { return (v & PRIME) + (v >> 61); }

// a * b modulo PRIME, less than PRIME + 8, of an a below 2^62 and a b below 2^61.
__device__ __forceinline__ u64 multiply(u64 a, u64 b) {
    const u32 a0 = (u32)a, a1 = (u32)(a >> 32), b0 = (u32)b, b1 = (u32)(b >> 32);
    const u64 low = (u64)a0 * b0;
    const u64 middle = (u64)a1 * b0 + ((u64)a0 * b1 + (low >> 32)); // less than 2^62 + 2^61 + 2^32
    const u64 hi = (u64)a1 * b1 + (middle >> 32), lo = middle << 32 | (u32)low;
    return fold((lo & PRIME) + (hi << 3 | lo >> 61)); // hi is less than 2^59
}

// The vector at an offset, of which there may be less or nothing.
__device__ __noinline__ uint4 last_vector(const u8 *src, u64 at, u64 bytes) {
    u32 words[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        words[i] = 0;
        for (u32 k = 0; k < 4 && at + 4 * i + k < bytes; k++) words[i] |= (u32)src[at + 4 * i + k] << 8 * k;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// The words of a round that the thread has, each by its power.
__device__ __forceinline__ u64 dot(const uint4 *v, const u32 *powers) {
    u32 low0 = 0, low1 = 0, carry = 0;
    u64 high[SUMS];
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) high[i] = 0;
#pragma unroll
    for (u32 i = 0; i < VECTORS; i++) {
        const u32 words[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            const u32 *power = powers + (4 * i + k) * LIMBS;
            asm("mad.lo.cc.u32 %0, %3, %4, %0;\n\t"
                "madc.hi.cc.u32 %1, %3, %4, %1;\n\t"
                "addc.u32 %2, %2, 0;"
                : "+r"(low0), "+r"(low1), "+r"(carry)
                : "r"(words[k]), "r"(power[0]));
            asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(high[i / 2]) : "r"(words[k]), "r"(power[1]));
        }
    }
    const u64 low = (u64)low1 << 32 | low0;
    u64 sum = (low & PRIME) + (low >> 61) + ((u64)carry << 3); // 2^61 is 1
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) sum += (high[i] << 32 & PRIME) + (high[i] >> 29);
    return fold(sum); // less than SUMS + 2 times 2^61
}

// Brings together what the threads of a block have under the two keys. Thread 0 then has that under a, and thread 1 that under b.
__device__ __forceinline__ u64 together(u64 under_a, u64 under_b, const FingerprintTree &a, const FingerprintTree &b) {
    __shared__ u64 of_warps[2][WARPS];
    const u32 lane = lane_id(), warp = threadIdx.x / 32;
    const bool odd = lane & 1;
    const u64 other = __shfl_xor_sync(~0u, odd ? under_a : under_b, 1);
    u64 h = fold(multiply(odd ? other : under_a, odd ? b.lanes[0] : a.lanes[0]) + (odd ? under_b : other));
#pragma unroll
    for (u32 l = 1; l < 5; l++) {
        const u64 next = __shfl_down_sync(~0u, h, 1 << l);
        h = fold(multiply(h, odd ? b.lanes[l] : a.lanes[l]) + next);
    }
    if (lane < 2) of_warps[lane][warp] = h;
    __syncthreads();
    if (warp == 0) {
        h = of_warps[odd][0];
#pragma unroll
        for (u32 w = 1; w < WARPS; w++) h = fold(multiply(h, odd ? b.warp : a.warp) + of_warps[odd][w]);
    }
    return h;
}

// values has room for those of all blocks. ended is 0, and is again when the kernel has ended.
extern "C" __global__ void __launch_bounds__(THREADS)
    fingerprint_polynomials(FingerprintKey a, FingerprintKey b, const u8 *src, u64 bytes, ulonglong2 *values, u32 *ended, u64 *dst, u32 rounds, u32 each) {
    after_prior();
    u64 under_a = 0, under_b = 0;
    for (u32 r = 0; r < rounds; r++) {
        const u64 first = ((u64)blockIdx.x * rounds + r) * (4 * ROUND_WORDS), at = first + 16 * threadIdx.x;
        uint4 v[VECTORS];
        if (first + 4 * ROUND_WORDS <= bytes) {
#pragma unroll
            for (u32 i = 0; i < VECTORS; i++) v[i] = *(const uint4 *)(src + at + 16 * THREADS * i);
        } else {
#pragma unroll
            for (u32 i = 0; i < VECTORS; i++) v[i] = last_vector(src, at + 16 * THREADS * i, bytes);
        }
        if (r > 0) {
            under_a = multiply(under_a, a.round);
            under_b = multiply(under_b, b.round);
        }
        under_a = fold(under_a + dot(v, a.dot));
        under_b = fold(under_b + dot(v, b.dot));
    }
    u64 h = together(under_a, under_b, a.threads, b.threads);
    __shared__ bool last;
    if (threadIdx.x < 32) {
        const u64 other = __shfl_down_sync(~0u, h, 1);
        if (threadIdx.x == 0) {
            values[blockIdx.x] = make_ulonglong2(h, other);
            __threadfence();
            last = atomicAdd(ended, 1) + 1 == gridDim.x;
        }
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    under_a = under_b = 0;
    for (u32 i = 0; i < each; i++) {
        const u32 k = threadIdx.x * each + i;
        const ulonglong2 v = k < gridDim.x ? __ldcg(values + k) : make_ulonglong2(0, 0);
        under_a = fold(multiply(under_a, a.block) + v.x);
        under_b = fold(multiply(under_b, b.block) + v.y);
    }
    h = together(under_a, under_b, a.blocks, b.blocks);
    if (threadIdx.x == 0) *ended = 0;
    if (threadIdx.x < 2) {
        h = fold(multiply(h, threadIdx.x ? b.factor : a.factor) + (threadIdx.x ? b.length : a.length));
        dst[threadIdx.x] = h < PRIME ? h : h - PRIME;
    }
}
