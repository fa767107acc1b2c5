// Every constant that was chosen for speed: threads of a block, blocks of a multiprocessor, tiles, lengths of lists on
// chip. One choice serves all machines, but where __CUDA_ARCH__ is asked. Times beside a constant are of an H200 and
// fixed it; a reason in words says what it follows from. A constant with neither was not compared with others. Results
// never depend on any of them, but for the order in which diffusion adds floats (BOX_MEAN_BLOCKS, GRAPH_PARTS,
// LABEL_PARTS and GRAPH_TILE_*).
//
// To change one: measure with the benchmark table of the GPU suite, and write down here what it showed.
#pragma once

// ---- mask_prepare, mask_raster

#define MASK_THREADS 256
#define BAND_ROWS (MASK_THREADS / 32) // rows of a block: one a warp
#define BAND_CANDIDATES 1024          // 16 KB; more edges than this in one band and rows read the edge list itself
#define BAND_WINDOW 4096              // 16 KB of deltas; a multiple of 16 * MASK_THREADS
#define ITEM_PIXELS 1024
#define PREFIX_THREADS 1024
#define RASTER_ROWS 4
#define TILE_WIDTH 32
#define TILE_HEIGHT (MASK_THREADS / 32) // a row a warp
#define TILE_EDGES 1024                 // 4 KB; a tile that more edges reach tests the whole list

// ---- mask_reduce

// For a frame of 10240x4096 with its histogram, and for one of 2880x1440 with all: 16 warps a multiprocessor with the
// registers that they like take 21 and 9 us; 32 warps with half of the registers 25 and 15, and 16 in blocks of 256,
// which merge twice as often, 23 and 11.
#define REDUCE_THREADS 512
#define REDUCE_GROUP 8 // lanes an item; with 16 the short ends of spans idle more of them: 24 us, not 21
// 1000 regions of 12 edges: blocks of 64 take 4 us more and blocks of 256 take 8; 8 lanes an item take 2 us more,
// because a row of 64 pixels has but three or four whole vectors.
#define EACH_THREADS 128
#define EACH_GROUP 4
#define SHARED_LEVELS 4096 // 16 KB: 16-bit formats of up to 12 bits collect their histogram in counters of 32 bits
// Copies of an 8-bit histogram, side by side so that lanes with equal pixels don't meet: 8 KB; 32 of them were 10 %
// slower to merge. A block of a small region has one: to clear and merge two takes 1.5 us longer.
#define REPLICAS 8
#define EACH_REPLICAS 1
// Blocks of the kernels named _wide have a multiprocessor to themselves, for 128 KB of counters.
#define WIDE_THREADS 1024
#define WIDE_GROUP 16
#define WIDE_RUN 62  // items that can't overflow a counter of 16 bits: 63,488 pixels
#define WIDE_ITEMS 8 // a block with fewer counts in the results: to go through all counters takes longer

// ---- mask_cooccurrence

#define PAIR_THREADS 1024
#define PAIR_BLOCKS 1 // of a multiprocessor: three of 512 threads took 200 us for 10240x4096, not 193
#define PAIR_MARK_THREADS 256 // a warp an item
// Shared memory for counters of a block; all of a machine with less.
#define PAIR_SHARED (112 * 1024)
#define PAIR_ITEMS 16 // a block with fewer items of a region counts in the results: to go through all counters takes longer

// ---- mask_weigh

#define WEIGH_THREADS 256 // a pixel of the list a thread and round
#define WEIGH_BLOCKS 4    // of a multiprocessor, at most

// ---- mask_blobs

#define BLOB_REACH 31
#define BLOB_THREADS 256
#define BLOB_STARTS 16 // runs that can begin in a word
#define BLOB_ROWS 8    // that a thread measures, one below the other
#define BLOB_PER 4     // words of a thread of mask_blobs_number
#define BLOB_NUMBERED (1u << 30)

// ---- mask_correlate

#define CORRELATE_THREADS 512
#define CORRELATE_BLOCKS 2 // of a multiprocessor
#define CORRELATE_LAGS 4   // of a block: six sums each in registers
#define CORRELATE_LAUNCH 64 // lags of a launch
// Items that a warp sums up in 32 bits: 8 times 4 products of each lane, 2048 * 32 * 255^2 < 2^32.
#define CORRELATE_ITEMS 2048
#define STILL_THREADS 128
#define STILL_GROUP 8 // lanes of an item

// ---- mask_color

#define COLOR_THREADS 1024   // of sums alone, which take 64 registers
#define COLOR_ALL_THREADS 512 // of all else, which take up to 128
#define COLOR_COPIES 4       // of the table of parts, as a power of two: half of a warp reads 16 words of 64 bits at a time

// ---- fingerprint

#define FINGERPRINT_THREADS 128
#define FINGERPRINT_VECTORS 4
#define FINGERPRINT_LIMBS 2
#define FINGERPRINT_ROUND (FINGERPRINT_THREADS * FINGERPRINT_VECTORS * 4) // words
#define FINGERPRINT_BLOCKS 528                                            // 4 for each of 132 multiprocessors

// ---- edges, selectvertices

#define EDGE_THREADS 256
#define EDGE_ROWS 8      // of a warp
#define EDGE_COLUMNS 120 // that a warp writes
#define EDGE_HEIGHT 64   // rows of a block

#define SELECT_THREADS 256
#define SELECT_BINS 2048    // of either count: the first has 1728 at most
#define SELECT_SEGMENT 1024 // words of the bitmap that a block counts: 4 a thread
#define SELECT_FEW 4        // spacings below it leave few candidates to look at

// ---- voronoi

#define VORONOI_THREADS 256
#define VORONOI_CELL 32 // the side of a cell, and of a warp's tile
// A block has VORONOI_TILE_WARPS tiles. VORONOI_LIST is how many candidates a tile can have before it is taken in
// quarters from the start, and quarters of quarters: where all pixels are sites, these have some 300. 4 warps with it
// have 27 KB, which 7 blocks of a multiprocessor share.
#define VORONOI_TILE_WARPS 4
#define VORONOI_LIST 384
// A tile with so many sites is taken pixel by pixel: 1920x1080 with 99 sites a tile takes 154 us so, and 115 with
// candidates; with 1024 it takes 142 and 1037.
#define VORONOI_DENSE 160
#define VORONOI_DENSE_REACH 32
// More candidates than these are not so many because sites are dense: where all pixels are sites, a tile has some 5300
// and a quarter of it 1400.
#define VORONOI_TILE_MOST 6000
#define VORONOI_HALF_MOST 2000
#define VORONOI_HARD_LIST 1536 // 43 KB on chip for a block that has a part of a tile to itself
#define VORONOI_SEGMENT 1024   // pixels of a row for a block of voronoi_rows
// Where both ends of a segment have sites nearer than this, looking at all columns around each pixel takes less time:
// 0.8 ms for 4096x4096 with a million sites instead of 1.0, but 1.2 with 100,000 instead of 1.1.
#define VORONOI_OUTWARDS 6
#define VORONOI_BRUTE_PIXELS 4  // of a thread
#define VORONOI_BRUTE_SITES 512 // at a time

// ---- islands, dualtriangles, hullcompletion, flips

#define ISLAND_THREADS 256
#define ISLAND_ROWS 8
#define SETTLE_THREADS 1024

#define DUAL_THREADS 256
#define DUAL_ITEMS 16 // blocks of pixels of a thread
#define DUAL_SCAN_THREADS 1024
#define DUAL_WRITE_THREADS 128

#define HULL_THREADS 1024
#define HULL_ON_CHIP 3968 // corners of a chain that fit in shared memory

#define FLIP_THREADS 256
#define FLIP_TAIL_THREADS 1024
#define FLIP_SMALL 2048    // triangles in the list of a round that one block does
#define FLIP_WIDE_ROUNDS 4 // that all blocks do at most, if there are so many with more; the host launches as many
#define FLIP_PIECE \
    3072 // half-edges in the lists of a block's points that fit on chip; on average there are half as many
#define FLIP_LONG 64       // in the list of a point beyond that, which a block looks at

// ---- triangulate

#define TRIANGULATE_THREADS 256
#define TREE_THREADS 1024
#define SORT_ITEMS 16  // keys of a thread: a tile's 4096 make runs of 16 a digit, and fit on chip
#define UNIQUE_ITEMS 8 // points of a thread of triangulate_unique
#define EMIT_ITEMS 16  // of triangulate_emit
#define TREE_LEAF 8    // points of a leaf of the tree
#define POINT_SLOTS 6  // triangles that a point has room for: one a direction
#define STAR_WARPS 2   // warps of a block of triangulate_stars and triangulate_far
// Blocks of triangulate_stars on a multiprocessor: a scan waits for itself, and 20 warps hide more of that than 96
// registers cost; 12, with 80, are 6 % slower.
#define STAR_BLOCKS 10
#define STAR_NEAR 384         // points that a warp gathers at most
#define STAR_FRONT 128        // nodes of a level of the tree that it finds on the way at most
#define STAR_CLOSE 32         // points close to it that a lane has at hand at most
#define STAR_CLOSE_WANTED 20  // how many it shall be on average
#define STAR_MOST 48          // neighbours after which a point is left to triangulate_far
#define STAR_ROUNDS 4         // boxes that are tried before points are left to it
#define STAR_MARGIN 2.4f      // of the first box, in distances between points
#define STAR_WIDEST 4         // radius of circles that a box grows for, in sides of it
// Points left to triangulate_far from which on it is helped by slabs. With them a million points on a circle take
// 152 ms, not 558; of 20,000 vertices of a picture some hundred are left, for which slabs took 53 us.
#define SLAB_LEAST 8192
#define STAR_MANY_VISITS 100  // nodes after which a line of the hull is worth to be known to others

// ---- shade, hold

#define SHADE_THREADS 256
#define SHADE_SCAN_THREADS 1024
#define SHADE_TILE 64
#define SHADE_TASK_ROWS 32
// As many pixels as a warp sums up in some 5 us, and so few that sums of 16 bits fit in 32.
#define SHADE_TASK_PIXELS 8192

// ---- curveraster, blur, pack

#define CURVE_THREADS 128
#define CURVE_LANES 16    // threads for each line
#define CURVE_PIXELS 1024 // of a block of curveraster_resolve
#define BLUR_TILE_W 32
#define BLUR_TILE_H 8 // with 32x8 pixels the rows that neighbours share are read once

#define PACK_THREADS 256

// ---- diffusion_label, diffusion_sweeps

#define LABEL_THREADS 256
#define LABEL_SHUT_THREADS 1024
#define LABEL_PARTS 256 // blocks of diffusion_label_mean
#define LABEL_TILE 32   // blocks have tiles of LABEL_TILE x LABEL_TILE pixels

#define SWEEP_THREADS 256
// A block of diffusion_sweeps_run has a tile of 128x64 pixels, 4x8 of them a thread, and 8 pixels on each side of it,
// two threads' columns and one warp's rows, come to nothing after as many sweeps.
#define SWEEP_RUN_THREADS 256
#define SWEEP_WIDTH 128
#define SWEEP_ROWS 8 // of a thread, and so of a warp
#define SWEEP_HALO 8
#define SWEEP_BLOCKS 2 // of a multiprocessor
#define SWEEPS_IN_CYCLE 64
#define SWEEPS_IN_CHECK 32 // of a cycle with a threshold; the global difference is that of the 16th and of the last
#define PAST_UPDATES 64 // see sweepOutlook of kernels/cpu

// ---- diffusion_box

#define BOX_CHECK_THREADS 256
#define BOX_FLAGS_PER_THREAD 16 // that diffusion_box_check looks at in one go
#define BOX_COARSEN_WIDTH 32    // points of the coarse level of a block
#define BOX_COARSEN_HEIGHT 8
#define BOX_COARSEN_THREADS 416 // as many as cells, with those around: small levels have few blocks
#define BOX_COARSEST 8          // sides of the coarsest level, but for images that are as small
#define BOX_INVERT_THREADS 256
#define BOX_MEAN_THREADS 512
#define BOX_MEAN_BLOCKS \
    256 // two for each multiprocessor of the largest machines; the sums do not depend on where they run
// Tiles of the image. Eight rows a warp, and half the warps, took a solve of 1024x1024 12 % longer: a block at a side
// of the image waits for its instructions, which are twice as many.
#define BOX_FINE_THREADS 512
#define BOX_FINE_BLOCKS 2 // of a multiprocessor
#define BOX_FINE_WIDTH 112
#define BOX_FINE_HEIGHT 48
#define BOX_FINE_MARGIN 8 // of other tiles, but for those at the sides of the image
#define BOX_TILE_CHANNELS 3 // that a block does at once
// On the way down a block has as many cells as it has registers for. On the way up, where it reads more, it has so few
// that two share a multiprocessor: one loads while the other computes.
#define BOX_DOWN_ROWS 26 // of cells: 512x512 points are 132 tiles, one for each multiprocessor of the largest machines
#define BOX_DOWN_THREADS 832
#define BOX_DOWN_BLOCKS 1
#define BOX_DOWN_WIDTH 48 // points of a tile
#define BOX_DOWN_HEIGHT 44
#define BOX_UP_ROWS 16
#define BOX_UP_THREADS 512
#define BOX_UP_BLOCKS 2
#define BOX_UP_WIDTH 48
#define BOX_UP_HEIGHT 24
#define BOX_BOTTOM_SIDE 32 // of the levels that one block does: one of 64x64 took a block 10 us, and takes 5 as tiles
#define BOX_BOTTOM_THREADS 256
#define BOX_END_THREADS 256

// ---- diffusion_graph

#define GRAPH_THREADS 256
#define GRAPH_MOST_LEVELS 20
#define GRAPH_PARTS 1024 // blocks of kernels that sum over all pixels
#define GRAPH_LEVEL_THREADS 1024
#define GRAPH_INVERT_THREADS 544
#define GRAPH_DENSE_NODES 192 // as in kernels/cpu/diffusion_graph.go
#define GRAPH_AMID_X 32       // cells of a block
#define GRAPH_AMID_Y 8
#define GRAPH_PIXEL_LANES 4 // for each row
#define GRAPH_MULTIPLY_WARPS 4
// Blocks that a multiprocessor is to have room for of kernels for rows. They get as many from the host: one more would
// come when all others are done, and take as long as they did. That made rows of the second level 1.4 times as slow.
#define GRAPH_MULTIPLY_BLOCKS 8
#define GRAPH_JOIN_NODES 8 // blocks of up to so many are joined in registers, with two lanes for each
// Rows that a warp takes room for at a time. With one, the atomics made half of what kernels for short rows took: a
// word that all warps ask for has no more than one answer a clock.
#define GRAPH_ROOM_ROWS 16
#define GRAPH_TILE_X 64 // pixels of a tile; GRAPH_RIM of them at each side are only read
#define GRAPH_TILE_ROWS 8
#define GRAPH_TILE_Y (GRAPH_THREADS / GRAPH_TILE_X * GRAPH_TILE_ROWS)
#define GRAPH_TILE_BLOCKS 4 // of a multiprocessor
#define GRAPH_RIM 4
#define GRAPH_INNER_X (GRAPH_TILE_X - 2 * GRAPH_RIM)
#define GRAPH_INNER_Y (GRAPH_TILE_Y - 2 * GRAPH_RIM)
#define GRAPH_FIRST_LANES 4
#if __CUDA_ARCH__ == 750
#define GRAPH_FIRST_BLOCKS 4 // 1024 threads are all that a multiprocessor has
#else
#define GRAPH_FIRST_BLOCKS 5
#endif
