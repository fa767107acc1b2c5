// Fingerprint: values of polynomials over the bytes of a slice, modulo 2^61 - 1, under two keys. All of it is exact.
//
// A block takes rounds of FINGERPRINT_ROUND words, of which each thread has FINGERPRINT_VECTORS vectors of 4,
// FINGERPRINT_THREADS vectors apart, so that loads are coalesced; those of the next round come while the words of one
// are worked on. The powers of a key by which a thread multiplies its words of a round are the same in all threads,
// relative to that of its last word: parameters, of a lower limb of 32 bits and an upper one of 29. Products are added
// up, with carries and in 64 bits, and reduced once a round; a round before moves up by the power of FINGERPRINT_ROUND
// (Horner's rule). Threads are brought together two by two, four by four, and so on, each level with a power of its
// own; from the first on, odd lanes have the second key. What a block has moves up by the power of the words behind it,
// found while its first words come, and is added to sums in memory, in which the blocks are counted as well: nothing
// has to be cleared, fenced or read again by a block that is the last. What is behind the end counts as words of 0,
// which move up all others; a factor in the end makes up for that.
//
// Bytes moved: each once. Per word 4 wide multiplications. On an H200 1 MiB that no cache has takes 3.0 us (a first
// way, in which the last block read and brought together what the others had written, 4.2), 16 MiB 8.9 us and 64 MiB 24
// us. FINGERPRINT_BLOCKS of 3 or 8 for each multiprocessor make 16 MiB 10.1 us, and 8 FINGERPRINT_VECTORS make 1
// MiB 3.3, 16 MiB 9.7 and 64 MiB 22 us.
#include "abi/fingerprint.cuh"
#include "common.cuh"

#define WARPS (FINGERPRINT_THREADS / 32)
#define UPPER_SUMS \
    ((FINGERPRINT_VECTORS + 1) / 2) // each of 8 products of a word and an upper limb at most, which are less than 2^64
#define LOW_BITS 31                    // of a value, the rest is added to another sum,
#define COUNT_BIT 48                   // from which on a sum has the number of blocks

#define PRIME ((1ull << 61) - 1)

// The same modulo PRIME, of a value below 2^64: less than PRIME + 8.
__device__ __forceinline__ u64 fold(u64 v) { return (v & PRIME) + (v >> 61); }

// a * b modulo PRIME, less than PRIME + 8, of two below 2^62.
__device__ __forceinline__ u64 multiply(u64 a, u64 b) {
    const u32 a0 = (u32)a, a1 = (u32)(a >> 32), b0 = (u32)b, b1 = (u32)(b >> 32);
    const u64 low = (u64)a0 * b0;
    const u64 middle = (u64)a1 * b0 + ((u64)a0 * b1 + (low >> 32)); // less than 2^63 + 2^32
    const u64 hi = (u64)a1 * b1 + (middle >> 32), lo = middle << 32 | (u32)low;
    return fold((lo & PRIME) + (hi << 3 | lo >> 61)); // hi is less than 2^60
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
    u64 upper[UPPER_SUMS];
#pragma unroll
    for (u32 i = 0; i < UPPER_SUMS; i++) upper[i] = 0;
#pragma unroll
    for (u32 i = 0; i < FINGERPRINT_VECTORS; i++) {
        const u32 words[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            const u32 *power = powers + (4 * i + k) * FINGERPRINT_LIMBS;
            asm("mad.lo.cc.u32 %0, %3, %4, %0;\n\t"
                "madc.hi.cc.u32 %1, %3, %4, %1;\n\t"
                "addc.u32 %2, %2, 0;"
                : "+r"(low0), "+r"(low1), "+r"(carry)
                : "r"(words[k]), "r"(power[0]));
            asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(upper[i / 2]) : "r"(words[k]), "r"(power[1]));
        }
    }
    const u64 low = (u64)low1 << 32 | low0;
    u64 sum = (low & PRIME) + (low >> 61) + ((u64)carry << 3); // 2^61 is 1
#pragma unroll
    for (u32 i = 0; i < UPPER_SUMS; i++) sum += (upper[i] << 32 & PRIME) + (upper[i] >> 29);
    return fold(sum); // less than UPPER_SUMS + 2 times 2^61
}

// Brings together what the threads of a block have under the two keys. Even lanes of warp 0 then have that under a, and odd ones that under b.
__device__ __forceinline__ u64 together(u64 under_a, u64 under_b, const FingerprintKey &a, const FingerprintKey &b) {
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
    h = of_warps[odd][0];
#pragma unroll
    for (u32 w = 1; w < WARPS; w++) h = fold(multiply(h, odd ? b.warp : a.warp) + of_warps[odd][w]);
    return h;
}

// The power by which what a block has moves up, for those behind it: in lanes 0 to 15 that of a, in others that of b. A lane has a binary digit of
// how many they are.
__device__ __forceinline__ u64 place(const FingerprintPlaces &places) {
    const u32 lane = lane_id(), behind = gridDim.x - 1 - blockIdx.x;
    u64 power = behind >> lane % 16 & 1 ? places.powers[lane] : 1;
#pragma unroll
    for (u32 o = 1; o < 16; o *= 2) power = multiply(power, __shfl_xor_sync(~0u, power, o));
    return power;
}

__device__ __forceinline__ void load(uint4 *v, const u8 *src, u64 bytes, u64 round) {
    const u64 first = round * (4 * FINGERPRINT_ROUND), at = first + 16 * threadIdx.x;
    if (first + 4 * FINGERPRINT_ROUND <= bytes) {
#pragma unroll
        for (u32 i = 0; i < FINGERPRINT_VECTORS; i++) v[i] = *(const uint4 *)(src + at + 16 * FINGERPRINT_THREADS * i);
    } else {
#pragma unroll
        for (u32 i = 0; i < FINGERPRINT_VECTORS; i++) v[i] = last_vector(src, at + 16 * FINGERPRINT_THREADS * i, bytes);
    }
}

// sums are 0, and are again when the kernel has ended.
extern "C" __global__ void __launch_bounds__(FINGERPRINT_THREADS)
    fingerprint_polynomials(FingerprintKey a, FingerprintKey b, FingerprintPlaces places, const u8 *src, u64 bytes, u64 *sums, u64 *dst, u32 rounds, u32 pad) {
    after_prior();
    const u64 first = (u64)blockIdx.x * rounds;
    uint4 v[FINGERPRINT_VECTORS];
    load(v, src, bytes, first);
    const u64 power = threadIdx.x < 32 ? place(places) : 0; // while the words come
    u64 under_a = 0, under_b = 0;
    for (u32 r = 0; r < rounds; r++) {
        uint4 next[FINGERPRINT_VECTORS];
        if (r + 1 < rounds) load(next, src, bytes, first + r + 1);
        if (r > 0) {
            under_a = multiply(under_a, a.round);
            under_b = multiply(under_b, b.round);
        }
        under_a = fold(under_a + dot(v, a.dot));
        under_b = fold(under_b + dot(v, b.dot));
#pragma unroll
        for (u32 i = 0; i < FINGERPRINT_VECTORS; i++) v[i] = next[i];
    }
    u64 h = together(under_a, under_b, a, b);
    if (threadIdx.x >= 32) return;

    const u32 lane = lane_id(), odd = lane & 1;
    h = multiply(h, __shfl_sync(~0u, power, 16 * odd));
    if (lane >= 4) return;
    // Two sums for each key, of the lower and the upper digits, in which the blocks are counted as well: whoever adds to one knows whether it is
    // complete.
    const u64 own = (1ull << COUNT_BIT) + (lane < 2 ? h & (1ull << LOW_BITS) - 1 : h >> LOW_BITS);
    u64 sum = atomicAdd(sums + lane, own) + own;
    const bool last = __shfl_sync(15, sum, 0) >> COUNT_BIT == gridDim.x;
    if (!last) return;
    while (sum >> COUNT_BIT < gridDim.x) sum = *(volatile u64 *)(sums + lane); // all have begun to add to the others, too
    sums[lane] = 0;
    sum &= (1ull << COUNT_BIT) - 1;
    const u64 high = __shfl_down_sync(15, sum, 2);
    if (lane >= 2) return;
    h = fold(sum + (high << LOW_BITS & PRIME) + (high >> (61 - LOW_BITS)));
    h = fold(multiply(h, odd ? b.factor : a.factor) + (odd ? b.length : a.length));
    dst[lane] = h < PRIME ? h : h - PRIME;
}
