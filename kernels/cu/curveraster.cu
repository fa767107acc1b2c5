// curveraster draws curves as constraints of a diffusion: see driver.CurveRaster, whose rules both kernels keep to the
// bit.
//
// Phases: the claims of all pixels are cleared (a memset to all ones); curveraster_draw takes a line of a segment for
// CURVE_LANES threads, each of which lets every LANESth crossing claim two pixels, the least claim winning;
// curveraster_resolve writes flags and values of the pixels that were claimed.
//
// Bytes moved: 16 a pixel for clearing and reading claims, which stay in the L2 cache up to some 4 MP, and for each
// crossing two atomics of 8 bytes. Complexity: pixels, and crossings. CURVE_LANES is 16 because lines are up to 16 px
// long as package diffusion cuts them: they cross as many rows and columns at most. With a thread for each line a scene
// of 400 curves takes 65 us on an H200.
//
// Integers decide where curves cross; floats are used for values only, each operation rounded on its own.

#include "abi/curveraster.cuh"
#include "common.cuh"

#define CURVE_UNIT 65536

// A claim is the less the better it is: distance in bits 48 to 63, complement of the segment's index in 24 to 47, parameter in 8 to 23,
// side in 0.
#define NO_CLAIM (~0ull)
#define SEGMENT_MAX 0xffffffu

// Quotients of integers from that of doubles, which is off by one at most: they are below 2^21, as lines cross rows and columns between
// their ends. b > 0.
__device__ __forceinline__ i64 floor_div(i64 a, i64 b) {
    i64 q = (i64)floor((double)a / (double)b);
    const i64 rest = a - q * b; // wanted: 0 <= rest < b
    if (rest < 0) q--;
    if (rest >= b) q++;
    return q;
}
__device__ __forceinline__ i64 ceil_div(i64 a, i64 b) { return -floor_div(-a, b); }

// Point i of 2^log + 1.
__device__ __forceinline__ i64 curve_point(const int *p, i64 i, u32 log) {
    const i64 j = (1ll << log) - i;
    const i64 sum = j * j * j * p[0] + 3 * j * j * i * p[1] + 3 * j * i * i * p[2] + i * i * i * p[3];
    return log ? (sum + (1ll << (3 * log - 1))) >> (3 * log) : sum;
}

// The first row or column whose centre is at v or beyond.
__device__ __forceinline__ i64 centres_from(i64 v) { return (v + 127) >> 8; }

struct Pen {
    u64 *claims;
    unsigned char *flags;
    int width, height;
    u64 base; // of claims: the segment
    bool colours[2], barrier;
    i64 piece;
    u32 log;

    // Where the line has gone part of whole, in the place of a claim.
    __device__ __forceinline__ u64 along(i64 part, i64 whole) const {
        const i64 at = (piece * CURVE_UNIT + floor_div(abs(part) * CURVE_UNIT, abs(whole))) >> log;
        return (u64)min(at, (i64)CURVE_UNIT - 1) << 8;
    }
    __device__ __forceinline__ void claim(u64 i, i64 num, i64 den, u64 at, bool right) const {
        if (!colours[right]) return;
        const u64 distance = (u64)min(floor_div(num << 16, den), 65535ll);
        atomicMin(claims + i, distance << 48 | base | at | (u64)right);
    }
    __device__ __forceinline__ void block(u64 i, u32 bit) const {
        atomicOr((u32 *)flags + (i >> 2), bit << (8 * (i & 3)));
    }
};

extern "C" __global__ void __launch_bounds__(CURVE_THREADS)
    curveraster_draw(const CurveSegment *segments, const u32 *firsts, const Curve *curves, u64 *claims, unsigned char *flags, u32 count,
                     u32 pieces, int width, int height) {
    after_prior();
    const u32 line = (blockIdx.x * CURVE_THREADS + threadIdx.x) / CURVE_LANES, lane = threadIdx.x % CURVE_LANES;
    if (line >= pieces) return;
    u32 lo = 0, hi = count; // the last segment that begins at the line or before it
    while (hi - lo > 1) {
        const u32 mid = (lo + hi) >> 1;
        if (firsts[mid] <= line)
            lo = mid;
        else
            hi = mid;
    }
    const CurveSegment &s = segments[lo];
    const Curve &c = curves[s.curve];
    Pen pen;
    pen.claims = claims, pen.flags = flags, pen.width = width, pen.height = height;
    pen.base = (u64)(SEGMENT_MAX - lo) << 24;
    pen.colours[0] = c.left.count > 0, pen.colours[1] = c.right.count > 0, pen.barrier = c.barrier != 0;
    pen.piece = line - firsts[lo], pen.log = s.log_pieces;
    const i64 ax = curve_point(s.x, pen.piece, pen.log), ay = curve_point(s.y, pen.piece, pen.log);
    const i64 bx = curve_point(s.x, pen.piece + 1, pen.log), by = curve_point(s.y, pen.piece + 1, pen.log);

    if (ay != by) { // rows of centres: a pixel from its right neighbour
        const bool down = by > ay;
        const i64 x0 = down ? ax : bx, y0 = down ? ay : by, x1 = down ? bx : ax, y1 = down ? by : ay;
        const i64 d = y1 - y0, end = min(centres_from(y1), (i64)height);
        for (i64 y = max(centres_from(y0), 0ll) + lane; y < end; y += CURVE_LANES) {
            const i64 centre = y * 256 + 128, num = (x0 - 128) * d + (centre - y0) * (x1 - x0), den = d * 256;
            const i64 east = ceil_div(num, den);
            if (east < 0 || east > width) continue;
            const u64 at = pen.along(centre - ay, by - ay), i = (u64)y * width + east;
            if (east > 0) pen.claim(i - 1, num - (east - 1) * den, den, at, down);
            if (east < width) pen.claim(i, east * den - num, den, at, !down);
            if (pen.barrier && east > 0 && east < width) pen.block(i - 1, DIFFUSION_BLOCK_RIGHT);
        }
    }
    if (ax != bx) { // columns of centres: a pixel from its lower neighbour
        const bool right = bx > ax;
        const i64 x0 = right ? ax : bx, y0 = right ? ay : by, x1 = right ? bx : ax, y1 = right ? by : ay;
        const i64 d = x1 - x0, end = min(centres_from(x1), (i64)width);
        if (max(y0, y1) < -256 || min(y0, y1) > (i64)height * 256 + 256) return;
        for (i64 x = max(centres_from(x0), 0ll) + lane; x < end; x += CURVE_LANES) {
            const i64 centre = x * 256 + 128, num = (y0 - 128) * d + (centre - x0) * (y1 - y0), den = d * 256;
            // Through a centre: it lies to the right of where it is, and so above a line that goes down.
            const i64 south = y1 > y0 ? floor_div(num, den) + 1 : ceil_div(num, den);
            if (south < 0 || south > height) continue;
            const u64 at = pen.along(centre - ax, bx - ax), i = (u64)south * width + x;
            if (south > 0) pen.claim(i - width, num - (south - 1) * den, den, at, !right);
            if (south < height) pen.claim(i, south * den - num, den, at, right);
            if (pen.barrier && south > 0 && south < height) pen.block(i - width, DIFFUSION_BLOCK_DOWN);
        }
    }
}

__device__ __forceinline__ void resolve(u64 claim, u64 i, const CurveSegment *segments, const Curve *curves, const CurveStop *stops,
                                        unsigned char *flags, float *values, u64 plane, u32 channels) {
    const CurveSegment &s = segments[SEGMENT_MAX - ((u32)(claim >> 24) & SEGMENT_MAX)];
    const Curve &c = curves[s.curve];
    const CurveStops run = claim & 1 ? c.right : c.left;
    const u32 at = s.start + ((u32)(claim >> 8) & 0xffff);
    flags[i] |= DIFFUSION_FIXED;
    u32 lo = 0, hi = run.count; // the first stop behind the place
    while (lo < hi) {
        const u32 mid = (lo + hi) >> 1;
        if (stops[run.first + mid].at > at)
            hi = mid;
        else
            lo = mid + 1;
    }
    const CurveStop &a = stops[run.first + (lo ? lo - 1 : 0)];
    if (lo == 0 || lo == run.count) {
        for (u32 k = 0; k < channels; k++) values[k * plane + i] = a.values[k];
        return;
    }
    const CurveStop &b = stops[run.first + lo];
    const float f = __fdiv_rn(__uint2float_rn(at - a.at), __uint2float_rn(b.at - a.at));
    for (u32 k = 0; k < channels; k++)
        values[k * plane + i] = __fadd_rn(a.values[k], __fmul_rn(__fsub_rn(b.values[k], a.values[k]), f));
}

// A block takes CURVE_PIXELS pixels, and collects those that were claimed, a few of a hundred: else most threads of a
// warp would wait for some.
extern "C" __global__ void __launch_bounds__(CURVE_THREADS)
    curveraster_resolve(const CurveSegment *segments, const Curve *curves, const CurveStop *stops, const u64 *claims, unsigned char *flags,
                        float *values, u64 pixels, u32 channels, u32 pad) {
    __shared__ u64 found[CURVE_PIXELS];
    __shared__ u32 where[CURVE_PIXELS], count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    after_prior();
    const u64 base = (u64)blockIdx.x * CURVE_PIXELS;
#pragma unroll
    for (u32 k = 0; k < CURVE_PIXELS; k += 2 * CURVE_THREADS) {
        const u32 j = k + 2 * threadIdx.x;
        ulonglong2 two = make_ulonglong2(NO_CLAIM, NO_CLAIM);
        if (base + j + 1 < pixels)
            two = *(const ulonglong2 *)(claims + base + j);
        else if (base + j < pixels)
            two.x = claims[base + j];
        if (two.x != NO_CLAIM) {
            const u32 at = atomicAdd(&count, 1);
            found[at] = two.x, where[at] = j;
        }
        if (two.y != NO_CLAIM) {
            const u32 at = atomicAdd(&count, 1);
            found[at] = two.y, where[at] = j + 1;
        }
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k < count; k += CURVE_THREADS)
        resolve(found[k], base + where[k], segments, curves, stops, flags, values, pixels, channels);
}
