// See ../curveraster.cu.
#pragma once

#include "types.cuh"

struct CurveStops {
    u32 first, count;
};

struct Curve {
    CurveStops left, right;
    u32 barrier, pad;
};

struct CurveSegment {
    int x[4], y[4];
    u32 curve, start, log_pieces, pad;
};

struct CurveStop {
    u32 at;
    float values[4];
};

KERNEL(curveraster_draw, const CurveSegment *segments, const u32 *firsts, const Curve *curves, u64 *claims,
       unsigned char *flags, u32 count, u32 pieces, int width, int height);
KERNEL(curveraster_resolve, const CurveSegment *segments, const Curve *curves, const CurveStop *stops,
       const u64 *claims, unsigned char *flags, float *values, u64 pixels, u32 channels, u32 pad);
