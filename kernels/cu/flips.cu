// flips makes any triangulation Delaunay; see driver.Flips, and kernels/cpu/flips.go, which does the same.
//
// Side k of triangle t, from its corner k to the next, is half-edge 3t + k. Phases, a kernel each:
//
//   count: whether each triangle turns the right way; and for each point the edges that it keeps: those to points of
//   greater number; lists: gives each point a place for its list. Where is of no interest, so that blocks take their
//   part from a counter; fill: writes each half-edge into a list, with its other end; pair: finds the twin of each
//   half-edge, which goes the other way, in its list. A block has the lists of FLIP_THREADS points in shared
//     memory, and a thread looks at an entry, so that neighbours read the same; lists have 6 members on average. Where
//     they don't fit in, long ones are left to
//   big: a block each;
//   judge: one block looks at the corners of what has no twin, puts the verdict together, and says whether to flip.
//
// Then rounds: claim (edges that are wrong claim both of their triangles by the least hash), win (edges that have both
// win, and triangles of wrong edges go to the list of the next round), turn. A round with many triangles has the
// machine; when FLIP_SMALL or fewer are left, one block does the rest, as blocks would mostly wait for each other.
// Which of the two does a round follows from the length of its list, so that the host need not know. Last, end turns
// all triangles to their least corner.
//
// A flip turns an edge within the places of its two triangles, a→b, b→c, c→a and b→a, a→d, d→b become d→c, c→a, a→d and
// c→d, d→b, b→c, so that a neighbour can tell where other half-edges move to from which edge its triangle turns.
//
// Bytes moved, for T triangles: 24 T for lists twice, 12 T for twins, and, a sector each from L2 where they fit, 3
// corners and 3 counters of each triangle when it is matched and 6 corners when it is looked at first. Atomics: 6 T.
//
// Source: Lawson (1977).

#include "abi/flips.cuh"
#include "collective.cuh"
#include "mesh.cuh"

#define NO_HALF 0xffffffffu

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

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_count(FlipArgs f) {
    after_prior();
    const u32 n = total(f);
    if (blockIdx.x == 0 && threadIdx.x == 0 && f.counts->triangles > 2 * f.n) report(f.fault, FAULT_FLIPS_COUNT, f.counts->triangles);
    u32 inverted = 0;
    for (u32 i = blockIdx.x * FLIP_THREADS + threadIdx.x; i < n; i += gridDim.x * FLIP_THREADS) {
        const Triangle t = f.triangles[i];
        if (!known(t, f.n)) {
            inverted++;
            continue;
        }
        inverted += turn(f.points[t.a], f.points[t.b], f.points[t.c]) <= 0;
        atomicAdd(&f.places[min(t.a, t.b)].y, 1);
        atomicAdd(&f.places[min(t.b, t.c)].y, 1);
        atomicAdd(&f.places[min(t.c, t.a)].y, 1);
    }
    inverted = warp_sum(inverted);
    if (lane_id() == 0 && inverted) atomicAdd(&f.state->inverted, inverted);
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_lists(FlipArgs f) {
    __shared__ u32 base;
    after_prior();
    for (u32 from = blockIdx.x * FLIP_THREADS; from < f.n; from += gridDim.x * FLIP_THREADS) {
        const u32 i = from + threadIdx.x, n = i < f.n ? f.places[i].y : 0;
        u32 all;
        const u32 before = block_scan<FLIP_THREADS>(n, all);
        if (threadIdx.x == 0) base = atomicAdd(&f.state->listed, all);
        __syncthreads();
        if (i < f.n) f.places[i].x = base + before;
        // base is free when block_scan has passed its first barrier
    }
    for (u32 t = blockIdx.x * FLIP_THREADS + threadIdx.x; t < 2 * f.n; t += gridDim.x * FLIP_THREADS)
        f.claims[t] = ~0ull;
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_fill(FlipArgs f) {
    after_prior();
    const u32 n = total(f);
    for (u32 i = blockIdx.x * FLIP_THREADS + threadIdx.x; i < n; i += gridDim.x * FLIP_THREADS) {
        const Triangle t = f.triangles[i];
        if (!known(t, f.n)) continue;
        const u32 from[3] = {t.a, t.b, t.c}, to[3] = {t.b, t.c, t.a};
        u32 at[3];
#pragma unroll
        for (int k = 0; k < 3; k++) at[k] = atomicAdd(&f.places[min(from[k], to[k])].x, 1);
#pragma unroll
        for (int k = 0; k < 3; k++) f.list[at[k]] = make_uint2(max(from[k], to[k]), (3 * i + k) | (from[k] <= to[k] ? 1u << 31 : 0));
    }
}

#define OUTWARD (1u << 31)

// What comes of an entry e of the list of point v: its twin, and how many entries go the same way.
struct Match {
    u32 twin, same;
};

__device__ __forceinline__ void compare(Match *m, u32 v, uint2 e, uint2 other) {
    if (other.x != e.x) return;
    const bool way = (e.y ^ other.y) & OUTWARD;
    m->same += !way;
    if (way || e.x == v) m->twin = other.y & ~OUTWARD;
}

// settle writes the twin. It returns 1 where there is another entry that goes the same way.
__device__ __forceinline__ u32 settle(const FlipArgs &f, u32 v, uint2 e, const Match &m) {
    const u32 h = e.y & ~OUTWARD;
    f.twins[h] = m.twin;
    if (m.twin == NO_HALF) {
        const u32 from = e.y & OUTWARD ? v : e.x;
        f.follows[from] = e.y & OUTWARD ? e.x : v;
        atomicAdd(f.leaving + from, 1);
        f.border[atomicAdd(&f.state->borders, 1)] = h;
    }
    return m.same > 1;
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_pair(FlipArgs f) {
    __shared__ uint2 entries[FLIP_PIECE];
    __shared__ unsigned char owners[FLIP_PIECE];
    __shared__ u32 begins[FLIP_THREADS], ends[FLIP_THREADS], length;
    after_prior();
    for (u32 first = blockIdx.x * FLIP_THREADS; first < f.n; first += gridDim.x * FLIP_THREADS) {
        // The lists of FLIP_THREADS points follow each other.
        const u32 v = first + threadIdx.x, last = min(FLIP_THREADS, f.n - first) - 1;
        const uint2 place = v < f.n ? f.places[v] : make_uint2(0, 0), start = f.places[first];
        const u32 base = start.x - start.y, n = place.y;
        if (threadIdx.x == last) length = place.x - base;
        __syncthreads();
        const u32 all = length;
        u32 doubles = 0;
        if (all <= FLIP_PIECE) {
            for (u32 i = threadIdx.x; i < all; i += FLIP_THREADS) entries[i] = f.list[base + i];
            begins[threadIdx.x] = place.x - n - base, ends[threadIdx.x] = place.x - base;
            for (u32 i = 0; i < n; i++) owners[place.x - n - base + i] = (unsigned char)threadIdx.x;
            __syncthreads();
            for (u32 i = threadIdx.x; i < all; i += FLIP_THREADS) {
                const u32 owner = owners[i];
                const uint2 e = entries[i];
                Match m = {NO_HALF, 0};
                for (u32 j = begins[owner]; j < ends[owner]; j++) compare(&m, first + owner, e, entries[j]);
                doubles += settle(f, first + owner, e, m);
            }
        } else if (n > FLIP_LONG) {
            f.big[atomicAdd(&f.state->bigs, 1)] = v;
        } else {
            const uint2 *list = f.list + place.x - n;
            for (u32 i = 0; i < n; i++) {
                Match m = {NO_HALF, 0};
                const uint2 e = list[i];
                for (u32 j = 0; j < n; j++) compare(&m, v, e, list[j]);
                doubles += settle(f, v, e, m);
            }
        }
        if (doubles) atomicAdd(&f.state->doubles, doubles);
        __syncthreads(); // what is shared is free
    }
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_big(FlipArgs f) {
    after_prior();
    for (u32 b = blockIdx.x; b < f.state->bigs; b += gridDim.x) {
        const u32 v = f.big[b];
        const uint2 place = f.places[v];
        const uint2 *list = f.list + place.x - place.y;
        for (u32 i = threadIdx.x; i < place.y; i += FLIP_THREADS) {
            Match m = {NO_HALF, 0};
            const uint2 e = list[i];
            for (u32 j = 0; j < place.y; j++) compare(&m, v, e, list[j]);
            if (settle(f, v, e, m)) atomicAdd(&f.state->doubles, 1);
        }
    }
}

// One half of all directions.
__device__ __forceinline__ bool rightward(int2 a, int2 b) { return before(a, b); }

// One block.
extern "C" __global__ void __launch_bounds__(FLIP_TAIL_THREADS) flips_judge(FlipArgs f) {
    __shared__ u32 second, solid, concave, rings;
    after_prior();
    const u32 n = total(f), borders = f.state->borders;
    if (threadIdx.x == 0) second = f.n, solid = concave = rings = 0;
    __syncthreads();
    if (n == 0 && f.n > 0) { // are the points on a line?
        const int2 a = f.points[0];
        for (u32 i = threadIdx.x; i < f.n; i += FLIP_TAIL_THREADS) {
            const int2 p = f.points[i];
            if (p.x != a.x || p.y != a.y) {
                atomicMin(&second, i);
                break;
            }
        }
        __syncthreads();
        if (second < f.n) {
            const int2 b = f.points[second];
            for (u32 i = threadIdx.x; i < f.n; i += FLIP_TAIL_THREADS)
                if (turn(a, b, f.points[i]) != 0) {
                    solid = 1;
                    break;
                }
        }
    }
    u32 back = 0, round = 0;
    for (u32 i = threadIdx.x; i < borders; i += FLIP_TAIL_THREADS) {
        const u32 h = f.border[i], ib = corner(f, ahead(h));
        if (f.leaving[ib] != 1) {
            back++;
            continue;
        }
        const int2 a = f.points[corner(f, h)], b = f.points[ib], c = f.points[f.follows[ib]];
        const i64 t = turn(a, b, c);
        back += t < 0 || (t == 0 && rightward(a, b) != rightward(b, c));
        round += !rightward(a, b) && rightward(b, c);
    }
    if (back) atomicAdd(&concave, back);
    if (round) atomicAdd(&rings, round);
    __syncthreads();
    if (threadIdx.x != 0) return;
    FlipState *s = f.state;
    const u32 sites = f.counts->sites;
    FlipStatus out = {0, 0, 0, s->inverted, s->doubles, concave, rings, 0};
    const bool flat = n > 0 && (out.inverted | out.double_ | out.concave) == 0 && rings == 1;
    if (flat) { // by Euler's formula it has so many corners
        const u32 used = (n + borders) / 2 + 1;
        out.missing = used > sites ? used - sites : sites - used;
    } else if (solid) {
        out.missing = sites;
    }
    *f.status = out;
    s->total = n;
    s->sound = flat && out.missing == 0;
}

// What an edge, by its half-edges, claims a triangle by in a round. The hash is a permutation, so that claims differ.
__device__ __forceinline__ u64 claim_of(u32 h, u32 g, u32 round) {
    u32 x = min(h, g);
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (u64)(MAX_FLIP_ROUNDS - round) << 32 | x;
}

// The steps of a round for one triangle of its list. claim returns how many edges are wrong.
__device__ __forceinline__ u32 claim(const FlipArgs &f, u32 t, u32 round) {
    u32 bits = 0, count = 0;
    int2 p[3];
    u32 twins[3];
#pragma unroll
    for (u32 k = 0; k < 3; k++) twins[k] = __ldcg(f.twins + 3 * t + k), p[k] = f.points[corner(f, 3 * t + k)];
    f.turned[t] = NO_HALF;
    if (round == 0) f.queued[t] = 0;
#pragma unroll
    for (u32 k = 0; k < 3; k++) {
        const u32 h = 3 * t + k, g = twins[k];
        // Of two triangles in the list one looks at the edge between them.
        if (g == NO_HALF || (g < h && (round == 0 || __ldcg(f.queued + g / 3) == round))) continue;
        const int2 d = f.points[corner(f, behind(g))], a = p[k];
        if (!inside(minus(p[(k + 1) % 3], a), minus(p[(k + 2) % 3], a), minus(d, a))) continue;
        bits |= 1u << k;
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
    return n > FLIP_SMALL ? n : 0;
}

__device__ __forceinline__ u32 *list_of(const FlipArgs &f, u32 round) { return round & 1 ? f.list1 : f.list0; }

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_claim(FlipArgs f, u32 round, u32 pad) {
    after_prior();
    const u32 n = wide_length(f, round);
    const u32 *list = list_of(f, round);
    for (u32 i = blockIdx.x * FLIP_THREADS + threadIdx.x; i < n; i += gridDim.x * FLIP_THREADS)
        claim(f, round ? list[i] : i, round);
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_win(FlipArgs f, u32 round, u32 pad) {
    after_prior();
    const u32 n = wide_length(f, round);
    const u32 *list = list_of(f, round);
    u32 *next = list_of(f, round + 1);
    for (u32 i = blockIdx.x * FLIP_THREADS + threadIdx.x; i < n; i += gridDim.x * FLIP_THREADS)
        win(f, round ? list[i] : i, round, next, f.state->waiting + round + 1, f.state->winners + round);
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_turn(FlipArgs f, u32 round, u32 pad) {
    after_prior();
    const u32 n = wide_length(f, round) ? f.state->winners[round] : 0;
    for (u32 i = blockIdx.x * FLIP_THREADS + threadIdx.x; i < n; i += gridDim.x * FLIP_THREADS) turn_edge(f, f.won[i]);
}

// One block does the rounds that are left.
extern "C" __global__ void __launch_bounds__(FLIP_TAIL_THREADS) flips_tail(FlipArgs f, u32 wide, u32 pad) {
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
        for (u32 i = threadIdx.x; i < n; i += FLIP_TAIL_THREADS) mine += claim(f, round ? __ldcg(list + i) : i, round);
        if (mine) atomicAdd(&wrong, mine);
        __syncthreads();
        if (wrong == 0) break;
        if (round == f.rounds) {
            left = wrong;
            break;
        }
        for (u32 i = threadIdx.x; i < n; i += FLIP_TAIL_THREADS)
            win(f, round ? __ldcg(list + i) : i, round, list_of(f, round + 1), &waiting, &winners);
        __syncthreads();
        for (u32 i = threadIdx.x; i < winners; i += FLIP_TAIL_THREADS) turn_edge(f, __ldcg(f.won + i));
        round++, rounds++, flips += winners;
        n = waiting;
        __syncthreads(); // all have read the counters, and triangles are turned
    }
    if (threadIdx.x == 0) f.status->rounds = rounds, f.status->flips = flips, f.status->left = left;
}

extern "C" __global__ void __launch_bounds__(FLIP_THREADS) flips_end(FlipArgs f) {
    after_prior();
    const u32 n = total(f);
    for (u32 i = blockIdx.x * FLIP_THREADS + threadIdx.x; i < n; i += gridDim.x * FLIP_THREADS) {
        const Triangle t = f.triangles[i], u = least_first(t.a, t.b, t.c);
        if (u.a != t.a) f.triangles[i] = u;
    }
}
