// Faults: how kernels tell the host that what an op was given is wrong where only the device can see it, without anybody
// waiting for the answer. The codes are in abi/types.cuh.
#pragma once

#include "common.cuh"

// report writes which entry is wrong to the stream's place for it, which is memory of the host: the device reads it never.
// Of several reports any one stays. A kernel that reports goes on, or ends, without touching what it must not.
__device__ __forceinline__ void report(u64 *fault, u32 code, u64 index) {
    *(volatile u64 *)fault = (u64)code << 48 | (index & 0xffffffffffffull);
}
