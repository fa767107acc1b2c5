// flips makes any triangulation Delaunay; see driver.Flips, and kernels/cpu/flips.go, which does the same.
//
// Side k of triangle t, from its corner k to the next, is half-edge 3t + k. Phases, a kernel each:
//
//   degrees: turns every triangle's corners into a verdict and the degrees of its points;
//   keepers: counts for each point the edges that it keeps: those to points of greater degree, or of equal degree and greater
//     number. So lists are short on average, however many edges meet in a point;
//   lists: gives each point a place for its list. Where is of no interest, so that blocks take their part from a counter;
//   fill: writes each half-edge into a list, with its other end;
//   pair: finds each half-edge's twin, which goes the other way, in that list;
//   border: looks at the corners of what has no twin;
//   judge: puts the verdict together, and says whether there is anything to flip;
//   begin: prepares the claims.
//
// Then rounds: claim (edges that are wrong claim both of their triangles by the least hash), win (edges that have both win, and
// triangles of wrong edges go to the list of the next round), turn. A round with many triangles has the machine; when SMALL or fewer
// are left, one block does the rest, as blocks would mostly wait for each other. Which of the two does a round follows from the
// length of its list, so that the host need not know. Last, end turns all triangles to their least corner.
//
// A flip turns an edge within the places of its two triangles, a→b, b→c, c→a and b→a, a→d, d→b become d→c, c→a, a→d and
// c→d, d→b, b→c, so that a neighbour can tell where other half-edges move to from which edge its triangle turns.
//
// Bytes moved, for T triangles: the triangles 6 times (12 T), 24 T for lists, 12 T for twins twice, and for each edge its 4 points, from
// L2 where they fit; 28 T for claims and lists of rounds. Atomics: 9 T.
//
// Sources: Lawson (1977); Chiba and Nishizeki, Arboricity and subgraph listing algorithms (1985), for the lists.

#include "mesh.cuh"

#define THREADS 256
#define TAIL_THREADS 1024
#define SMALL 2048    // triangles in the list of a round that one block does
#define WIDE_ROUNDS 6 // that all blocks do at most, if there are so many with more; the host launches as many
#define NO_HALF 0xffffffffu
#define MAX_ROUNDS (1u << 20) // driver.MaxFlipRounds

// What kernels tell each other. All of it is 0 at first.
struct FlipState {
    u32 total;                    // triangles that there are
    u32 listed, used;             // half-edges in lists; points that are corners
    u32 sound;                    // there is something to flip
    u32 inverted, doubles, concave, rings;
    u32 waiting[WIDE_ROUNDS + 1]; // triangles in the list of each round, but for round 0
    u32 winners[WIDE_ROUNDS];
    u32 pad;
};

struct FlipArgs {
    const int2 *points;
    Triangle *triangles;
    const MeshCounts *counts;
    FlipStatus *status;
    FlipState *state;
    u64 *fault;
    u32 *degrees; // of points; then what is left of them while lists are filled
    u32 *kept;    // edges that points keep
    u32 *starts;  // where their lists begin
    u32 *follows; // where the border goes on from a point
    u32 *leaving; // half-edges of the border that start at a point
    uint2 *list;  // the other end, and the half-edge; its highest bit is set where it starts at the keeper
    u32 *twins;   // of half-edges
    u64 *claims;  // of triangles: the least claim in a round; those of later rounds are less
    u32 *turned;  // of triangles: the half-edge that is turned in the round
    u32 *queued;  // of triangles: in the list of which round they are
    u32 *wrong;   // of active triangles: bits of the half-edges that are to be flipped
    u32 *list0, *list1; // of rounds, which take turns
    u32 *won;           // half-edges that are turned in the round
    u32 n, rounds;
};

__device__ __forceinline__ u32 ahead(u32 h) { return h % 3 == 2 ? h - 2 : h + 1; }
__device__ __forceinline__ u32 behind(u32 h) { return h % 3 == 0 ? h + 2 : h - 1; }

// Corners are read past the first-level cache, as other multiprocessors may have written them in the round before.
__device__ __forceinline__ u32 corner(const FlipArgs &f, u32 h) { return __ldcg((const u32 *)f.triangles + h); }

__device__ __forceinline__ bool known(const Triangle &t, u32 n) { return t.a < n && t.b < n && t.c < n; }

// total is how many triangles there are; 0 where there can't be so many.
__device__ __forceinline__ u32 total(const FlipArgs &f) {
    const u32 n = f.counts->triangles;
    return n <= 2 * f.n ? n : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_degrees(FlipArgs f) {
    after_prior();
    const u32 n = total(f);
    if (blockIdx.x == 0 && threadIdx.x == 0 && f.counts->triangles > 2 * f.n) report(f.fault, FAULT_FLIPS_COUNT, f.counts->triangles);
    u32 inverted = 0;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        const Triangle t = f.triangles[i];
        if (!known(t, f.n)) {
            inverted++;
            continue;
        }
        inverted += turn(f.points[t.a], f.points[t.b], f.points[t.c]) <= 0;
        atomicAdd(f.degrees + t.a, 1);
        atomicAdd(f.degrees + t.b, 1);
        atomicAdd(f.degrees + t.c, 1);
    }
    inverted = warp_sum((int)inverted);
    if (lane_id() == 0 && inverted) atomicAdd(&f.state->inverted, inverted);
}

// Of a half-edge from a to b: whether a keeps it.
__device__ __forceinline__ bool keeps(u32 a, u32 da, u32 b, u32 db) { return da < db || (da == db && a <= b); }

// Runs for the half-edges of a triangle between points.
template <typename F> __device__ __forceinline__ void each_side(const FlipArgs &f, F run) {
    const u32 n = total(f);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        const Triangle t = f.triangles[i];
        if (!known(t, f.n)) continue;
        const u32 da = f.degrees[t.a], db = f.degrees[t.b], dc = f.degrees[t.c];
        run(3 * i, t.a, t.b, keeps(t.a, da, t.b, db));
        run(3 * i + 1, t.b, t.c, keeps(t.b, db, t.c, dc));
        run(3 * i + 2, t.c, t.a, keeps(t.c, dc, t.a, da));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_keepers(FlipArgs f) {
    after_prior();
    each_side(f, [&](u32, u32 a, u32 b, bool first) { atomicAdd(f.kept + (first ? a : b), 1); });
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_lists(FlipArgs f) {
    __shared__ u32 sums[THREADS / 32], base;
    after_prior();
    u32 used = 0;
    const u32 lane = lane_id(), warp = threadIdx.x >> 5;
    for (u32 from = blockIdx.x * THREADS; from < f.n; from += gridDim.x * THREADS) {
        const u32 i = from + threadIdx.x, n = i < f.n ? f.kept[i] : 0;
        used += i < f.n && f.degrees[i] != 0;
        u32 in = n;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const u32 u = __shfl_up_sync(~0u, in, o);
            if (lane >= (u32)o) in += u;
        }
        if (lane == 31) sums[warp] = in;
        __syncthreads();
        u32 head = 0, all = 0;
        for (u32 w = 0; w < THREADS / 32; w++) {
            if (w == warp) head = all;
            all += sums[w];
        }
        if (threadIdx.x == 0) base = atomicAdd(&f.state->listed, all);
        __syncthreads();
        if (i < f.n) f.starts[i] = base + head + in - n;
        __syncthreads(); // sums and base are free
    }
    used = warp_sum((int)used);
    if (lane == 0 && used) atomicAdd(&f.state->used, used);
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_fill(FlipArgs f) {
    after_prior();
    each_side(f, [&](u32 h, u32 a, u32 b, bool first) {
        const u32 keeper = first ? a : b;
        f.list[atomicAdd(f.starts + keeper, 1)] = make_uint2(first ? b : a, h | (first ? 1u << 31 : 0));
    });
}

// Lists now end where they are said to start.
extern "C" __global__ void __launch_bounds__(THREADS) flips_pair(FlipArgs f) {
    after_prior();
    u32 doubles = 0;
    each_side(f, [&](u32 h, u32 a, u32 b, bool first) {
        const u32 keeper = first ? a : b, other = first ? b : a, end = f.starts[keeper];
        u32 same = 0, twin = NO_HALF;
        for (u32 i = end - f.kept[keeper]; i < end; i++) {
            const uint2 e = f.list[i];
            if (e.x != other) continue;
            if ((e.y >> 31 != 0) == first) same++;
            if ((e.y >> 31 != 0) != first || a == b) twin = e.y & ~(1u << 31);
        }
        f.twins[h] = twin;
        doubles += same > 1;
        if (twin == NO_HALF) {
            f.follows[a] = b;
            atomicAdd(f.leaving + a, 1);
        }
    });
    doubles = warp_sum((int)doubles);
    if (lane_id() == 0 && doubles) atomicAdd(&f.state->doubles, doubles);
}

// One half of all directions.
__device__ __forceinline__ bool rightward(int2 a, int2 b) { return before(a, b); }

extern "C" __global__ void __launch_bounds__(THREADS) flips_border(FlipArgs f) {
    after_prior();
    u32 concave = 0, rings = 0;
    each_side(f, [&](u32 h, u32 ia, u32 ib, bool) {
        if (f.twins[h] != NO_HALF) return;
        if (f.leaving[ib] != 1) {
            concave++;
            return;
        }
        const int2 a = f.points[ia], b = f.points[ib], c = f.points[f.follows[ib]];
        const i64 t = turn(a, b, c);
        concave += t < 0 || (t == 0 && rightward(a, b) != rightward(b, c));
        rings += !rightward(a, b) && rightward(b, c);
    });
    if (concave) atomicAdd(&f.state->concave, concave);
    if (rings) atomicAdd(&f.state->rings, rings);
}

// One block.
extern "C" __global__ void __launch_bounds__(TAIL_THREADS) flips_judge(FlipArgs f) {
    __shared__ u32 second, solid;
    after_prior();
    const u32 n = total(f);
    if (threadIdx.x == 0) second = f.n, solid = 0;
    __syncthreads();
    if (n == 0 && f.n > 0) { // are the points on a line?
        const int2 a = f.points[0];
        for (u32 i = threadIdx.x; i < f.n; i += TAIL_THREADS) {
            const int2 p = f.points[i];
            if (p.x != a.x || p.y != a.y) {
                atomicMin(&second, i);
                break;
            }
        }
        __syncthreads();
        if (second < f.n) {
            const int2 b = f.points[second];
            for (u32 i = threadIdx.x; i < f.n; i += TAIL_THREADS)
                if (turn(a, b, f.points[i]) != 0) {
                    solid = 1;
                    break;
                }
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    FlipState *s = f.state;
    const u32 used = s->used, sites = f.counts->sites;
    FlipStatus out = {0, 0, 0, s->inverted, s->doubles, s->concave, s->rings, 0};
    if (n > 0) out.missing = used > sites ? used - sites : sites - used;
    else if (solid) out.missing = sites;
    *f.status = out;
    s->total = n;
    s->sound = n > 0 && (out.inverted | out.doubles | out.concave | out.missing) == 0 && out.rings == 1;
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_begin(FlipArgs f) {
    after_prior();
    if (!f.state->sound) return;
    const u32 n = f.state->total;
    for (u32 t = blockIdx.x * THREADS + threadIdx.x; t < n; t += gridDim.x * THREADS) {
        f.claims[t] = ~0ull;
        f.turned[t] = NO_HALF;
        f.queued[t] = 0;
        f.list0[t] = t;
    }
}

// What an edge, by its half-edges, claims a triangle by in a round. The hash is a permutation, so that claims differ.
__device__ __forceinline__ u64 claim_of(u32 h, u32 g, u32 round) {
    u32 x = min(h, g);
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (u64)(MAX_ROUNDS - round) << 32 | x;
}

__device__ __forceinline__ bool violates(const FlipArgs &f, u32 h, u32 g) {
    const int2 a = f.points[corner(f, h)], b = f.points[corner(f, ahead(h))], c = f.points[corner(f, behind(h))];
    const int2 d = f.points[corner(f, behind(g))];
    return inside(minus(b, a), minus(c, a), minus(d, a));
}

// The steps of a round for one triangle of its list. claim returns how many edges are wrong.
__device__ __forceinline__ u32 claim(const FlipArgs &f, u32 t, u32 round) {
    u32 bits = 0, count = 0;
    f.turned[t] = NO_HALF;
    for (u32 h = 3 * t; h < 3 * t + 3; h++) {
        const u32 g = __ldcg(f.twins + h);
        // Of two triangles in the list one looks at the edge between them.
        if (g == NO_HALF || (g < h && __ldcg(f.queued + g / 3) == round) || !violates(f, h, g)) continue;
        bits |= 1u << (h - 3 * t);
        count++;
        const u64 key = claim_of(h, g, round);
        atomicMin(f.claims + t, key);
        atomicMin(f.claims + g / 3, key);
    }
    f.wrong[t] = bits;
    return count;
}

__device__ __forceinline__ void enqueue(const FlipArgs &f, u32 t, u32 round, u32 *list, u32 *length) {
    if (atomicExch(f.queued + t, round + 1) != round + 1) list[atomicAdd(length, 1)] = t;
}

__device__ __forceinline__ void win(const FlipArgs &f, u32 t, u32 round, u32 *next, u32 *waiting, u32 *winners) {
    const u32 bits = f.wrong[t];
    for (u32 k = 0; k < 3; k++) {
        if (!(bits >> k & 1)) continue;
        const u32 h = 3 * t + k, g = __ldcg(f.twins + h);
        const u64 key = claim_of(h, g, round);
        if (__ldcg(f.claims + t) == key && __ldcg(f.claims + g / 3) == key) {
            f.turned[t] = h, f.turned[g / 3] = g;
            f.won[atomicAdd(winners, 1)] = h;
            enqueue(f, g / 3, round, next, waiting);
        }
        enqueue(f, t, round, next, waiting);
    }
}

__device__ __forceinline__ void set_corners(const FlipArgs &f, u32 h, u32 a, u32 b, u32 c) {
    u32 *v = (u32 *)f.triangles;
    v[h] = a, v[ahead(h)] = b, v[behind(h)] = c;
}

__device__ __forceinline__ void turn_edge(const FlipArgs &f, u32 h) {
    const u32 g = __ldcg(f.twins + h);
    const u32 a = corner(f, h), b = corner(f, g), c = corner(f, behind(h)), d = corner(f, behind(g));
    const u32 to[4] = {behind(g), ahead(h), behind(h), ahead(g)};
    u32 twins[4] = {__ldcg(f.twins + ahead(h)), __ldcg(f.twins + behind(h)), __ldcg(f.twins + ahead(g)), __ldcg(f.twins + behind(g))};
    set_corners(f, h, d, c, a);
    set_corners(f, g, c, d, b);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 w = twins[i];
        if (w != NO_HALF) {
            const u32 s = __ldcg(f.turned + w / 3);
            if (s == NO_HALF) f.twins[w] = to[i];
            else if (w == ahead(s)) w = behind(__ldcg(f.twins + s));
            else w = ahead(s);
        }
        f.twins[to[i]] = w;
    }
}

// How many triangles the list of a wide round has; 0 where the round is none, or is left to one block.
__device__ __forceinline__ u32 wide_length(const FlipArgs &f, u32 round) {
    const FlipState *s = f.state;
    if (!s->sound || round >= f.rounds) return 0;
    const u32 n = round ? s->waiting[round] : s->total;
    return n > SMALL ? n : 0;
}

__device__ __forceinline__ u32 *list_of(const FlipArgs &f, u32 round) { return round & 1 ? f.list1 : f.list0; }

extern "C" __global__ void __launch_bounds__(THREADS) flips_claim(FlipArgs f, u32 round, u32 pad) {
    after_prior();
    const u32 n = wide_length(f, round);
    const u32 *list = list_of(f, round);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) claim(f, list[i], round);
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_win(FlipArgs f, u32 round, u32 pad) {
    after_prior();
    const u32 n = wide_length(f, round);
    const u32 *list = list_of(f, round);
    u32 *next = list_of(f, round + 1);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
        win(f, list[i], round, next, f.state->waiting + round + 1, f.state->winners + round);
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_turn(FlipArgs f, u32 round, u32 pad) {
    after_prior();
    const u32 n = wide_length(f, round) ? f.state->winners[round] : 0;
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) turn_edge(f, f.won[i]);
}

// One block does the rounds that are left.
extern "C" __global__ void __launch_bounds__(TAIL_THREADS) flips_tail(FlipArgs f, u32 wide, u32 pad) {
    __shared__ u32 wrong, waiting, winners;
    after_prior();
    if (!f.state->sound) return;
    u32 round = 0, rounds = 0, flips = 0, n = f.state->total;
    while (round < wide && wide_length(f, round)) {
        rounds += f.state->winners[round] != 0, flips += f.state->winners[round];
        round++;
        n = f.state->waiting[round];
    }
    u32 left = 0;
    while (n) {
        const u32 *list = list_of(f, round);
        if (threadIdx.x == 0) wrong = waiting = winners = 0;
        __syncthreads();
        u32 mine = 0;
        for (u32 i = threadIdx.x; i < n; i += TAIL_THREADS) mine += claim(f, __ldcg(list + i), round);
        if (mine) atomicAdd(&wrong, mine);
        __syncthreads();
        if (wrong == 0) break;
        if (round == f.rounds) {
            left = wrong;
            break;
        }
        for (u32 i = threadIdx.x; i < n; i += TAIL_THREADS) win(f, __ldcg(list + i), round, list_of(f, round + 1), &waiting, &winners);
        __syncthreads();
        for (u32 i = threadIdx.x; i < winners; i += TAIL_THREADS) turn_edge(f, __ldcg(f.won + i));
        round++, rounds++, flips += winners;
        n = waiting;
        __syncthreads(); // all have read the counters, and triangles are turned
    }
    if (threadIdx.x == 0) f.status->rounds = rounds, f.status->flips = flips, f.status->left = left;
}

extern "C" __global__ void __launch_bounds__(THREADS) flips_end(FlipArgs f) {
    after_prior();
    const u32 n = total(f);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        const Triangle t = f.triangles[i], u = least_first(t.a, t.b, t.c);
        if (u.a != t.a) f.triangles[i] = u;
    }
}
