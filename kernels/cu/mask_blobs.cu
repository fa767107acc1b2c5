// mask_blobs finds the connected parts of the foreground of prepared regions, and sums over each.
//
// Each region has a bitmap. A run of bits inside of a word has a label: the word's number times BLOB_STARTS, plus the runs
// before it in the word; so labels are in row-major order without a prefix sum. What a label holds is as in
// kernels/cpu/mask_blobs.go: less than itself where it is not the first of its blob, and else itself plus the pixels of the
// blob, with the high bit where one is strong; and BLOB_NUMBERED plus the number of the blob in the end, if it is kept.
//
// Phases: (1) mask_blobs_mark compares the pixels of items, a warp an item, a lane a word. (2) mask_blobs_step dilates or
// erodes, as often as asked for. (3) mask_blobs_link gives each run its label, or, where it goes on from the word before,
// that of the run there. (4) mask_blobs_join joins runs with those of the row above, without locks: the greater of two
// roots gets the lesser by atomicMin, and who was there before is joined next. (5) mask_blobs_flatten has each label hold
// its root, and adds up pixels. (6) mask_blobs_number numbers the roots by a prefix sum in one pass. (7)
// mask_blobs_measure: a thread takes BLOB_ROWS words below each other, and adds to a blob once for as long as it stays in
// one. Sums of integers do not depend on the order.
//
// Bytes moved: the pixels once, those of foreground twice; a few words for each 32 pixels; 32 bytes for each run in a word.

#include "abi/mask_blobs.cuh"
#include "lookback.cuh"

// The region of a word of the launch.
__device__ __forceinline__ u32 blob_region(const BlobArgs &g, u32 word) {
    u32 lo = 0, hi = g.count;
    while (hi - lo > 1) {
        const u32 mid = (lo + hi) / 2;
        if (g.maps[mid].word0 <= word)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

// Bits below n, where n is 0 to 32.
__device__ __forceinline__ u32 bits_below(int n) { return n >= 32 ? ~0u : (1u << n) - 1; }

// Where a word is in its region.
struct Place {
    BlobMap m;
    u32 region; // of the launch
    int y;      // of the image
    u32 x;      // words from the left
    bool in;    // it has pixels
    __device__ __forceinline__ Place(const BlobArgs &g, u32 word) {
        region = blob_region(g, word);
        m = g.maps[region];
        in = false;
        y = x = 0;
        if (m.row_words) {
            const u32 local = word - m.word0;
            y = m.y0 + (int)(local / m.row_words);
            x = local % m.row_words;
            in = y < m.y1;
        }
    }
    __device__ __forceinline__ int column() const { return m.x0 + (int)x * 32; }
};

// The word at an aligned address, 0 where no byte of it is the frame's.
__device__ __forceinline__ u32 frame_word(const BlobArgs &g, const unsigned char *p) {
    return p + 4 > g.frame && p < g.frame_end ? __ldg((const u32 *)p) : 0;
}

// Four bytes from any address on.
__device__ __forceinline__ u32 four_bytes(const BlobArgs &g, const unsigned char *p) {
    const u32 off = (u32)(u64)p & 3;
    const unsigned char *at = p - off;
    const u32 lo = frame_word(g, at);
    return off ? __funnelshift_r(lo, frame_word(g, at + 4), off * 8) : lo;
}

__device__ __forceinline__ u32 sample_at(const BlobArgs &g, const unsigned char *line, int x) {
    const unsigned char *p = line + (u64)x * g.pixel + g.at;
    return g.wide ? *(const unsigned short *)p : *p;
}

__device__ __forceinline__ const unsigned char *line_of(const BlobArgs &g, int y) {
    return g.frame + (u64)(y - g.row0) * g.stride;
}

// Bits of 32 pixels from column x on, of those of mask, whose samples are in a range.
__device__ __forceinline__ u32 in_range(const BlobArgs &g, const unsigned char *line, int x, u32 mask, u32 lo, u32 hi) {
    u32 out = 0;
    if (lo > hi || !mask) return 0;
    if (g.pixel == 1) {
        if (lo > 255) return 0;
        const u32 least = lo * 0x01010101u, most = min(hi, 255u) * 0x01010101u;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            if (!(mask >> 4 * k & 15)) continue;
            const u32 v = four_bytes(g, line + x + 4 * k);
            out |= __dp4a(__vcmpgeu4(v, least) & __vcmpleu4(v, most) & 0x08040201u, 0x01010101u, 0u) << 4 * k;
        }
        return out & mask;
    }
    for (u32 left = mask; left; left &= left - 1) {
        const int k = __ffs(left) - 1;
        const u32 v = sample_at(g, line, x + k);
        out |= (u32)(v >= lo && v <= hi) << k;
    }
    return out;
}

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_mark(BlobArgs g) {
    after_prior();
    const u64 *prefix = g.p.prefix + g.first;
    const u64 p0 = prefix[0], end = prefix[g.count], step = (u64)gridDim.x * (BLOB_THREADS / 32);
    const int lane = lane_id();
    for (u64 i = p0 + blockIdx.x * (u64)(BLOB_THREADS / 32) + (threadIdx.x >> 5); i < end; i += step) {
        u32 lo = 0, hi = g.count;
        while (hi - lo > 1) {
            const u32 mid = (lo + hi) / 2;
            if (prefix[mid] <= i)
                lo = mid;
            else
                hi = mid;
        }
        const BlobMap m = g.maps[lo];
        const Item it = g.p.items[g.p.regions[g.first + lo].item0 + (i - prefix[lo])];
        const int y = item_y(it), from = item_x(it) - m.x0, to = from + item_n(it);
        if (y < m.y0 || y >= m.y1) continue;
        const u32 row = m.word0 + (u32)(y - m.y0) * m.row_words;
        const unsigned char *line = line_of(g, y);
        for (int w = from / 32 + lane; w * 32 < to; w += 32) {
            const u32 mask = bits_below(min(to - w * 32, 32)) & ~bits_below(max(from - w * 32, 0));
            const u32 v = in_range(g, line, m.x0 + w * 32, mask, m.lo, m.hi);
            if (mask == ~0u) {
                g.bits[row + w] = v;
                if (g.inside) g.inside[row + w] = mask;
            } else { // items of a row may share a word
                if (v) atomicOr(&g.bits[row + w], v);
                if (g.inside) atomicOr(&g.inside[row + w], mask);
            }
        }
    }
}

// Each bit that has one set up to half bits away, half < 32.
__device__ __forceinline__ u32 spread(u32 before, u32 at, u32 next, u32 half) {
    u64 up = (u64)at << 32 | before, down = (u64)next << 32 | at;
    for (u32 n = 1; half; n *= 2) {
        n = min(n, half);
        up |= up << n;
        down |= down >> n;
        half -= n;
    }
    return (u32)(up >> 32) | (u32)down;
}

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_step(BlobArgs g) {
    after_prior();
    const u32 w = blockIdx.x * BLOB_THREADS + threadIdx.x, flip = g.erode ? ~0u : 0;
    if (w >= g.words) return;
    const Place p(g, w);
    if (!p.in) {
        g.spare[w] = 0;
        return;
    }
    u32 out = 0;
    const int reach = (int)g.reach;
    for (int dy = max(-reach, p.m.y0 - p.y); dy <= min(reach, p.m.y1 - 1 - p.y); dy++) {
        const i64 i = (i64)w + (i64)dy * p.m.row_words;
        const u32 at = (g.bits[i] ^ flip) & g.inside[i];
        const u32 before = p.x ? (g.bits[i - 1] ^ flip) & g.inside[i - 1] : 0;
        const u32 next = p.x + 1 < p.m.row_words ? (g.bits[i + 1] ^ flip) & g.inside[i + 1] : 0;
        out |= spread(before, at, next, g.half[dy < 0 ? -dy : dy]);
    }
    g.spare[w] = (out ^ flip) & g.inside[w];
}

// The runs of a word begin at these bits.
__device__ __forceinline__ u32 starts_of(u32 bits) { return bits & ~(bits << 1); }

// The run that begins at bit p.
__device__ __forceinline__ u32 run_at(u32 bits, int p) {
    const u32 ends = ~(bits >> p); // the first 0 is behind the run
    const int n = ends ? __ffs(ends) - 1 : 32;
    return bits_below(min(n, 32 - p)) << p;
}

__device__ __forceinline__ u32 last_label(u32 word, u32 bits) { return word * BLOB_STARTS + __popc(starts_of(bits)) - 1; }

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_link(BlobArgs g) {
    after_prior();
    const u32 w = blockIdx.x * BLOB_THREADS + threadIdx.x, lane = lane_id();
    u32 bits = 0, before = 0;
    if (w < g.words) {
        const Place p(g, w);
        if (p.in) {
            bits = g.bits[w];
            if (p.x && (bits & 1)) before = g.bits[w - 1];
        }
    }
    const u32 runs = __popc(starts_of(bits));
    const bool on = (bits & 1) && before >> 31; // the first run goes on from the word before
    // Words that are full pass on what they are given; the nearest that is not has the label.
    const u32 stops = __ballot_sync(~0u, !(on && bits == ~0u)) & ((1u << lane) - 1);
    const u32 lane0_before = __shfl_sync(~0u, before, 0);
    const int from = 31 - __clz(stops);
    const u32 from_runs = __shfl_sync(~0u, runs, max(from, 0));
    for (u32 k = on ? 1 : 0; k < runs; k++) g.labels[w * BLOB_STARTS + k] = w * BLOB_STARTS + k;
    if (on)
        g.labels[w * BLOB_STARTS] =
            stops ? (w - lane + from) * BLOB_STARTS + from_runs - 1 : last_label(w - lane - 1, lane0_before);
}

__device__ __forceinline__ u32 label_read(const u32 *labels, u32 l) { return __ldcg(labels + l); }

__device__ __forceinline__ u32 root_of(const u32 *labels, u32 l) {
    for (u32 up; (up = label_read(labels, l)) < l;) l = up;
    return l;
}

__device__ __forceinline__ void join(u32 *labels, u32 a, u32 b) {
    for (;;) {
        a = root_of(labels, a);
        b = root_of(labels, b);
        if (a == b) return;
        if (a < b) {
            const u32 t = a;
            a = b;
            b = t;
        }
        const u32 was = atomicMin(labels + a, b);
        if (was == a) return;
        a = was;
    }
}

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_join(BlobArgs g) {
    after_prior();
    const u32 w = blockIdx.x * BLOB_THREADS + threadIdx.x;
    if (w >= g.words) return;
    const Place p(g, w);
    if (!p.in || p.y == p.m.y0) return;
    const u32 bits = g.bits[w];
    if (!bits) return;
    const u32 up = w - p.m.row_words, above = g.bits[up], begin = starts_of(above);
    const bool left = p.x > 0, right = p.x + 1 < p.m.row_words;
    const u32 before = left ? g.bits[w - 1] : 0, above_before = left ? g.bits[up - 1] : 0;
    // The words before have joined these two.
    const bool joined = (bits & above & 1) && (before & above_before) >> 31;
    u32 k = 0;
    for (u32 s = starts_of(bits); s; s &= s - 1, k++) {
        const u32 run = run_at(bits, __ffs(s) - 1), label = w * BLOB_STARTS + k;
        u32 hit = (g.eight ? run | run << 1 | run >> 1 : run) & above;
        while (hit) {
            const int at = __ffs(hit) - 1;
            const u32 index = __popc(begin & bits_below(at + 1)) - 1;
            const int first = 31 - __clz(begin & bits_below(at + 1));
            hit &= ~run_at(above, first);
            if (joined && k == 0 && first == 0) continue;
            join(g.labels, label, up * BLOB_STARTS + index);
        }
        if (!g.eight) continue;
        if ((run & 1) && above_before >> 31 && !(above & 1)) join(g.labels, label, last_label(up - 1, above_before));
        if (run >> 31 && !(above >> 31) && right && (g.bits[up + 1] & 1)) join(g.labels, label, (up + 1) * BLOB_STARTS);
    }
}

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_flatten(BlobArgs g) {
    after_prior();
    const u32 w = blockIdx.x * BLOB_THREADS + threadIdx.x;
    u32 bits = 0;
    Place p(g, min(w, g.words - 1));
    if (w < g.words && p.in) bits = g.bits[w];
    u32 s = starts_of(bits), k = 0;
    while (__any_sync(~0u, s != 0)) {
        u32 root = ~0u, n = 0;
        if (s) {
            const u32 run = run_at(bits, __ffs(s) - 1), label = w * BLOB_STARTS + k;
            root = root_of(g.labels, label);
            if (root != label) __stcg(g.labels + label, root);
            n = __popc(run);
            if (p.m.strong && in_range(g, line_of(g, p.y), p.column(), run, p.m.strong_lo, p.m.strong_hi))
                atomicOr(g.labels + root, 1u << 31);
            s &= s - 1;
            k++;
        }
        // Where all of a warp is of one blob, it adds once.
        const u32 some = __ballot_sync(~0u, n != 0);
        const u32 one = __shfl_sync(~0u, root, __ffs(some) - 1);
        if (__all_sync(~0u, n == 0 || root == one)) {
            n = warp_sum(n);
            if (lane_id() == 0) atomicAdd(g.labels + one, n);
        } else if (n) {
            atomicAdd(g.labels + root, n);
        }
    }
}

// Says of a root whether the blob counts, and whether it is kept. While roots are numbered, some hold a number.
__device__ __forceinline__ bool blob_kept(const BlobArgs &g, const BlobMap &m, u32 root, bool &counts) {
    const u32 v = label_read(g.labels, root);
    counts = true;
    if (v & BLOB_NUMBERED) return true;
    if (m.strong && !(v >> 31)) return counts = false;
    return (v & (BLOB_NUMBERED - 1)) - root >= g.min_count;
}

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_number(BlobArgs g) {
    __shared__ u32 before[3];
    after_prior();
    const u32 tile = take_tile(g.status + 3 * (u64)g.tiles);
    const u32 word0 = (tile * BLOB_THREADS + threadIdx.x) * BLOB_PER;
    const Place at(g, min(word0, g.words - 1)); // words of a thread are of one region
    const bool in = word0 < g.words && at.m.row_words;
    u32 bits[BLOB_PER], roots[BLOB_PER], kept[BLOB_PER], runs[BLOB_PER];
    u32 sums[3] = {0, 0, 0};
#pragma unroll
    for (int i = 0; i < BLOB_PER; i++) {
        const u32 w = word0 + i;
        roots[i] = kept[i] = runs[i] = bits[i] = 0;
        if (!in) continue;
        bits[i] = g.bits[w];
        if (!bits[i]) continue;
        const u32 x = (w - at.m.word0) % at.m.row_words;
        const bool on = (bits[i] & 1) && x && g.bits[w - 1] >> 31;
        const u32 n = __popc(starts_of(bits[i]));
        for (u32 k = 0; k < n; k++) {
            const u32 label = w * BLOB_STARTS + k, up = label_read(g.labels, label), root = up < label ? up : label;
            bool counts;
            const bool is = blob_kept(g, at.m, root, counts);
            if (is && !(on && k == 0)) runs[i]++;
            if (root != label || !counts) continue;
            sums[0]++;
            if (is) {
                kept[i]++;
                roots[i] |= 1u << k;
            }
        }
        sums[1] += kept[i];
        sums[2] += runs[i];
    }
    u32 total[3], own[3];
#pragma unroll
    for (int j = 0; j < 3; j++) own[j] = block_scan<BLOB_THREADS>(sums[j], total[j]);
    const u32 warp = threadIdx.x >> 5;
    if (warp < 3) {
        const u32 b = look_back(g.status + warp * (u64)g.tiles, tile, warp == 0 ? total[0] : warp == 1 ? total[1] : total[2]);
        if (lane_id() == 0) before[warp] = b;
    }
    __syncthreads();
    // Those of the launches before.
    const BlobStart base = g.starts[0];
    const u32 all = base.all + before[0] + own[0];
    u32 number = base.kept + before[1] + own[1], run = base.runs + before[2] + own[2];
    if (tile == g.tiles - 1 && threadIdx.x == BLOB_THREADS - 1) {
        BlobStart e;
        e.all = base.all + before[0] + total[0];
        e.kept = base.kept + before[1] + total[1];
        e.runs = base.runs + before[2] + total[2];
        e.pad = 0;
        g.starts[g.count] = e;
    }
    if (word0 < g.words && word0 == at.m.word0 && at.region) {
        BlobStart e;
        e.all = all, e.kept = number, e.runs = run, e.pad = 0;
        g.starts[at.region] = e;
    }
    if (!in) return;
#pragma unroll
    for (int i = 0; i < BLOB_PER; i++) {
        const u32 w = word0 + i;
        if (g.max_runs) g.run_prefix[w] = run;
        run += runs[i];
        u32 s = starts_of(bits[i]);
        for (u32 k = 0; s; k++, s &= s - 1) {
            if (!(roots[i] >> k & 1)) continue;
            if (number < g.max_blobs) {
                const u32 local = w - at.m.word0, y = (u32)at.m.y0 + local / at.m.row_words;
                Blob b;
                b.count = b.sum_x = b.sum_y = b.sum_xx = b.sum_xy = b.sum_yy = b.sum = b.sum_sq = 0;
                b.min = b.x0 = b.y0 = ~0u;
                b.max = b.x1 = b.y1 = b.sides_x = b.sides_y = b.convex = b.concave = 0;
                b.first = y * (u32)g.p.width + (u32)at.m.x0 + local % at.m.row_words * 32 + (u32)__ffs(s) - 1;
                b.region = g.first + at.region;
                g.blobs[number] = b;
            }
            __stcg(g.labels + w * BLOB_STARTS + k, BLOB_NUMBERED | number);
            number++;
        }
    }
}

// What a thread has of a blob: rows and columns are counted from those of its words.
struct Part {
    u32 n, sx, sy, sxx, sxy, syy, sum, lo, hi, sides_x, sides_y, convex, concave;
    u64 sum_sq;
    int x0, x1, y0, y1;
    __device__ __forceinline__ void clear() {
        n = sx = sy = sxx = sxy = syy = sum = hi = sides_x = sides_y = convex = concave = 0;
        sum_sq = 0;
        lo = ~0u;
        x0 = y0 = 1 << 30;
        x1 = y1 = 0;
    }
    __device__ __forceinline__ void add_to(Blob *b, u32 x, u32 y) const {
        atomicAdd(&b->count, (u64)n);
        atomicAdd(&b->sum_x, (u64)n * x + sx);
        atomicAdd(&b->sum_y, (u64)n * y + sy);
        atomicAdd(&b->sum_xx, (u64)n * x * x + 2ull * x * sx + sxx);
        atomicAdd(&b->sum_xy, (u64)n * x * y + (u64)x * sy + (u64)y * sx + sxy);
        atomicAdd(&b->sum_yy, (u64)n * y * y + 2ull * y * sy + syy);
        atomicAdd(&b->sum, (u64)sum);
        atomicAdd(&b->sum_sq, sum_sq);
        atomicMin(&b->min, lo);
        atomicMax(&b->max, hi);
        atomicMin(&b->x0, x + x0);
        atomicMin(&b->y0, y + y0);
        atomicMax(&b->x1, x + x1);
        atomicMax(&b->y1, y + y1);
        if (sides_x) atomicAdd(&b->sides_x, sides_x);
        if (sides_y) atomicAdd(&b->sides_y, sides_y);
        if (convex) atomicAdd(&b->convex, convex);
        if (concave) atomicAdd(&b->concave, concave);
    }
};

// A word with the bits beside each of its own.
struct Beside {
    u32 at, left, right;
    __device__ __forceinline__ void load(const u32 *bits, u32 w, bool has, bool has_left, bool has_right) {
        at = left = right = 0;
        if (!has) return;
        at = bits[w];
        left = at << 1 | (has_left ? bits[w - 1] >> 31 : 0);
        right = at >> 1 | (has_right ? bits[w + 1] << 31 : 0);
    }
};

extern "C" __global__ void __launch_bounds__(BLOB_THREADS) mask_blobs_measure(BlobArgs g) {
    after_prior();
    const u32 t = blockIdx.x * BLOB_THREADS + threadIdx.x;
    if (t < g.count) {
        const BlobStart a = g.starts[t], b = g.starts[t + 1];
        BlobCount c;
        c.all = b.all - a.all;
        c.kept = b.kept - a.kept;
        c.first = a.kept;
        c.runs = b.runs - a.runs;
        c.first_run = a.runs;
        c.pad = 0;
        g.counts[t] = c;
    }
    if (t >= g.words / BLOB_ROWS) return;
    const u32 region = blob_region(g, t * BLOB_ROWS);
    const BlobMap m = g.maps[region];
    if (!m.row_words) return;
    const u32 local = t - m.word0 / BLOB_ROWS, x = local % m.row_words;
    const int y0 = m.y0 + (int)(local / m.row_words) * BLOB_ROWS, y1 = min(y0 + BLOB_ROWS, m.y1);
    if (y0 >= m.y1) return;
    const bool left = x > 0, right = x + 1 < m.row_words;
    const int column = m.x0 + (int)x * 32;
    Part part;
    part.clear();
    u32 blob = ~0u;
    u32 w = m.word0 + (u32)(y0 - m.y0) * m.row_words + x;
    Beside above, here, below;
    above.load(g.bits, w - m.row_words, y0 > m.y0, left, right);
    here.load(g.bits, w, true, left, right);
    for (int y = y0; y < y1; y++, w += m.row_words, above = here, here = below) {
        below.load(g.bits, w + m.row_words, y + 1 < m.y1, left, right);
        u32 run_index = here.at && g.max_runs ? g.run_prefix[w] : 0, k = 0;
        for (u32 s = starts_of(here.at); s; s &= s - 1, k++) {
            const int from = __ffs(s) - 1;
            const u32 run = run_at(here.at, from);
            const u32 label = w * BLOB_STARTS + k;
            u32 v = label_read(g.labels, label);
            if (v < label) v = label_read(g.labels, v);
            if (!(v & BLOB_NUMBERED)) continue;
            v &= BLOB_NUMBERED - 1;
            if (g.max_runs && !(from == 0 && (here.left & 1))) {
                if (run_index < g.max_runs) {
                    BlobRun r;
                    r.y = (u32)y;
                    r.x0 = (u32)(column + from);
                    r.blob = v;
                    u32 end = (u32)(column + from) + __popc(run);
                    if (run >> 31)
                        for (u32 q = x + 1, i = w + 1; q < m.row_words; q++, i++) {
                            const u32 more = g.bits[i];
                            end += more == ~0u ? 32 : __ffs(~more) - 1;
                            if (more != ~0u) break;
                        }
                    r.x1 = end;
                    g.runs[run_index] = r;
                }
                run_index++;
            }
            if (v >= g.max_blobs) continue;
            if (v != blob) {
                if (part.n) part.add_to(g.blobs + blob, (u32)column, (u32)y0);
                part.clear();
                blob = v;
            }
            const u32 n = __popc(run), a = (u32)from, b = a + n - 1, dy = (u32)(y - y0);
            const u32 sx = n * (a + b) / 2;
            part.n += n;
            part.sx += sx;
            part.sy += n * dy;
            part.sxx += b * (b + 1) * (2 * b + 1) / 6 - (a ? (a - 1) * a * (2 * a - 1) / 6 : 0);
            part.sxy += sx * dy;
            part.syy += n * dy * dy;
            part.x0 = min(part.x0, (int)a);
            part.x1 = max(part.x1, (int)b + 1);
            part.y0 = min(part.y0, (int)dy);
            part.y1 = max(part.y1, (int)dy + 1);
            part.sides_x += __popc(run & ~here.left) + __popc(run & ~here.right);
            const u32 faced = g.eight ? ~0u : 0;
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const Beside &o = q & 1 ? above : below;
                const u32 side = q & 2 ? here.left : here.right, across = q & 2 ? o.left : o.right;
                const u32 alone = run & ~side & ~o.at;
                if (q < 2) part.sides_y += __popc(run & ~o.at);
                part.convex += __popc(alone & ~(across & faced));
                part.concave += __popc((alone & across & faced) | (run & side & o.at & ~across));
            }
            const unsigned char *line = line_of(g, y);
            if (g.pixel == 1) {
#pragma unroll
                for (int q = 0; q < 8; q++) {
                    const u32 four = run >> 4 * q & 15;
                    if (!four) continue;
                    const u32 mask = (four * 0x00204081u & 0x01010101u) * 255u;
                    const u32 px = four_bytes(g, line + column + 4 * q), in = px & mask;
                    part.sum = __dp4a(in, 0x01010101u, part.sum);
                    part.sum_sq += __dp4a(in, in, 0u);
                    const u32 l = px | ~mask;
                    part.lo = min(part.lo, min(min(l & 255, l >> 8 & 255), min(l >> 16 & 255, l >> 24)));
                    part.hi = max(part.hi, max(max(in & 255, in >> 8 & 255), max(in >> 16 & 255, in >> 24)));
                }
            } else {
                for (u32 q = run; q; q &= q - 1) {
                    const u32 px = sample_at(g, line, column + __ffs(q) - 1);
                    part.sum += px;
                    part.sum_sq += (u64)px * px;
                    part.lo = min(part.lo, px);
                    part.hi = max(part.hi, px);
                }
            }
        }
    }
    if (part.n) part.add_to(g.blobs + blob, (u32)column, (u32)y0);
}
