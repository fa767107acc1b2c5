// What the kernels share that make a triangulation of a Voronoi diagram.
#pragma once

#include "abi/mesh.cuh"
#include "fault.cuh"
#include "predicates.cuh"

#define NO_SITE 0xffffffffu

__device__ __forceinline__ Triangle least_first(u32 a, u32 b, u32 c) {
    Triangle t = {a, b, c};
    if (b < a && b <= c) t.a = b, t.b = c, t.c = a;
    else if (c < a) t.a = c, t.b = a, t.c = b;
    return t;
}

// Do a, b and c turn from the x axis towards the y axis? Positive where they do, 0 where they are on a line.
__device__ __forceinline__ i64 turn(int2 a, int2 b, int2 c) { return cross(minus(b, a), minus(c, a)); }
