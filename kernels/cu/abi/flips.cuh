// See ../flips.cu.
#pragma once

#include "mesh.cuh"

// What kernels tell each other. All of it is 0 at first.
struct FlipState {
    u32 total;                   // triangles that there are
    u32 listed, borders, bigs;   // half-edges in lists; those without a twin; points that are left to flips_big
    u32 sound;                   // there is something to flip
    u32 inverted, doubles;
    u32 waiting[FLIP_WIDE_ROUNDS + 1]; // triangles in the list of each round, but for round 0
    u32 winners[FLIP_WIDE_ROUNDS];
};

struct FlipArgs {
    const int2 *points;
    Triangle *triangles;
    const MeshCounts *counts;
    FlipStatus *status;
    FlipState *state;
    u64 *fault;
    uint2 *places; // of points: where their list begins (when it is filled: ends), and how long it is
    u32 *leaving;  // half-edges of the border that start at a point
    u32 *follows;  // where the border goes on from a point
    uint2 *list;   // the other end, and the half-edge; its highest bit is set where it starts at the keeper
    u32 *border;   // half-edges without a twin
    u32 *big;      // points that are left to flips_big
    u32 *twins;    // of half-edges
    u64 *claims;   // of triangles: the least claim in a round; those of later rounds are less
    u32 *turned;   // of triangles: the half-edge that is turned in the round
    u32 *queued;   // of triangles: in the list of which round they are
    u32 *wrong;    // of active triangles: bits of the half-edges that are to be flipped
    u32 *list0, *list1; // of rounds, which take turns; round 0 has all triangles
    u32 *won;           // half-edges that are turned in the round
    u32 n, rounds;
};

KERNEL(flips_count, FlipArgs f);
KERNEL(flips_lists, FlipArgs f);
KERNEL(flips_fill, FlipArgs f);
KERNEL(flips_pair, FlipArgs f);
KERNEL(flips_big, FlipArgs f);
KERNEL(flips_judge, FlipArgs f);
KERNEL(flips_claim, FlipArgs f, u32 round, u32 pad);
KERNEL(flips_win, FlipArgs f, u32 round, u32 pad);
KERNEL(flips_turn, FlipArgs f, u32 round, u32 pad);
KERNEL(flips_tail, FlipArgs f, u32 wide, u32 pad);
KERNEL(flips_end, FlipArgs f);
