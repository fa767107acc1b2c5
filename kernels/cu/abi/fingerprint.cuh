// See ../fingerprint.cu.
#pragma once

#include "types.cuh"

struct FingerprintKey {
    u64 lanes[5]; // powers of a key between neighbours by level within a warp,
    u64 warp;     // between warps,
    u64 round;    // and between rounds
    u64 factor;   // by which the sum of words is multiplied,
    u64 length;   // and what is added then for the length
    u32 dot[32];  // FINGERPRINT_LIMBS for each word that a thread has of a round
};

// Powers between blocks that are 1, 2, 4, 8 and so on apart, of the first key and then of the second.
struct FingerprintPlaces {
    u64 powers[32];
};

KERNEL(fingerprint_polynomials, FingerprintKey a, FingerprintKey b, FingerprintPlaces places, const u8 *src, u64 bytes,
       u64 *sums, u64 *dst, u32 rounds, u32 pad);
