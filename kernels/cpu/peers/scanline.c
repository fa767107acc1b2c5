/* A careful scanline in C, for comparison: what one writes who knows the job, and leaves vectors to the compiler.
 * For each polygon: edges by first row in a bucket list, active edges with an integer DDA, spans of non-zero winding,
 * and the reduction of each span while it is being found. Everything in one pass, one thread, no memory for masks.
 *
 * usage: scanline SCENE sums|histogram REPEATS */
#include "scene.h"

typedef struct {
	int64_t k, left, step, rest, full;
	int32_t first, last; /* rows */
	int32_t sign;
} edge;

typedef struct {
	uint64_t count, sum, sum_sq; /* the last only with the histogram */
	uint32_t least, most;
	uint32_t hist[256];
} stats;

static int by_first(const void *a, const void *b)
{
	int32_t x = ((const edge *)a)->first, y = ((const edge *)b)->first;
	return (x > y) - (x < y);
}

static int make_edges(const scene *s, const polygon *p, edge *out)
{
	int n = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		vertex a = p->v[i], b = p->v[i + 1 == p->n ? 0 : i + 1];
		edge e;
		e.sign = 1;
		if (a.y > b.y) {
			vertex t = a;
			a = b;
			b = t;
			e.sign = -1;
		}
		e.first = (a.y + 127) >> 8;
		e.last = (b.y + 127) >> 8;
		if (e.first < 0)
			e.first = 0;
		if (e.last > (int32_t)s->height)
			e.last = (int32_t)s->height;
		if (e.first >= e.last)
			continue;
		int64_t d = (int64_t)b.y - a.y, dx = (int64_t)b.x - a.x;
		int64_t num = ((int64_t)a.x - 128) * d + ((int64_t)e.first * 256 + 128 - a.y) * dx;
		e.full = d * 256;
		e.k = num / e.full + (num % e.full > 0);
		e.left = e.k * e.full - num;
		e.step = dx / d - (dx % d < 0);
		e.rest = (dx - e.step * d) * 256;
		out[n++] = e;
	}
	qsort(out, (size_t)n, sizeof *out, by_first);
	return n;
}

static inline void fold_sums(stats *st, const uint8_t *p, int64_t n)
{
	uint32_t sum = 0;
	uint8_t least = (uint8_t)st->least, most = (uint8_t)st->most;
	for (int64_t i = 0; i < n; i++) {
		uint8_t v = p[i];
		sum += v;
		least = v < least ? v : least;
		most = v > most ? v : most;
	}
	st->sum += sum;
	st->least = least;
	st->most = most;
}

static inline void fold_hist(uint32_t t[4][256], const uint8_t *p, int64_t n)
{
	int64_t i = 0;
	for (; i + 4 <= n; i += 4) {
		t[0][p[i]]++;
		t[1][p[i + 1]]++;
		t[2][p[i + 2]]++;
		t[3][p[i + 3]]++;
	}
	for (; i < n; i++)
		t[0][p[i]]++;
}

static void reduce(const scene *s, const polygon *p, int hist, edge *edges, edge *active, stats *st)
{
	uint32_t t[4][256];
	memset(st, 0, sizeof *st);
	st->least = 255;
	if (hist)
		memset(t, 0, sizeof t);
	int n = make_edges(s, p, edges), next = 0, m = 0;
	for (int32_t row = n > 0 ? edges[0].first : 0; next < n || m > 0; row++) {
		int k = 0;
		for (int i = 0; i < m; i++)
			if (active[i].last > row)
				active[k++] = active[i];
		m = k;
		while (next < n && edges[next].first == row)
			active[m++] = edges[next++];
		if (m == 0)
			continue;
		for (int i = 1; i < m; i++) { /* mostly sorted already */
			edge e = active[i];
			int j = i;
			for (; j > 0 && active[j - 1].k > e.k; j--)
				active[j] = active[j - 1];
			active[j] = e;
		}
		int wind = 0;
		int64_t start = 0;
		for (int i = 0; i < m; i++) {
			edge *e = &active[i];
			if (wind == 0)
				start = e->k;
			wind += e->sign;
			if (wind == 0) {
				int64_t x0 = start < 0 ? 0 : start, x1 = e->k > (int64_t)s->width ? (int64_t)s->width : e->k;
				if (x0 < x1) {
					const uint8_t *px = s->frame + (size_t)row * s->width + x0;
					st->count += (uint64_t)(x1 - x0);
					if (hist)
						fold_hist(t, px, x1 - x0);
					else
						fold_sums(st, px, x1 - x0);
				}
			}
		}
		for (int i = 0; i < m; i++) {
			edge *e = &active[i];
			e->k += e->step;
			e->left -= e->rest;
			if (e->left < 0) {
				e->left += e->full;
				e->k++;
			}
		}
	}
	if (!hist)
		return;
	for (uint32_t v = 0; v < 256; v++) {
		uint32_t c = t[0][v] + t[1][v] + t[2][v] + t[3][v];
		st->hist[v] = c;
		if (c == 0)
			continue;
		st->sum += (uint64_t)c * v;
		st->sum_sq += (uint64_t)c * v * v;
		if (v < st->least)
			st->least = v;
		st->most = v;
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	scene s = read_scene(argv[1]);
	int hist = strcmp(argv[2], "histogram") == 0;
	uint32_t most = 0;
	for (uint32_t i = 0; i < s.regions; i++)
		if (s.polygons[i].n > most)
			most = s.polygons[i].n;
	edge *edges = (edge *)malloc(most * sizeof *edges), *active = (edge *)malloc(most * sizeof *active);
	stats *out = (stats *)malloc(s.regions * sizeof *out);
	double best = 1e9;
	for (int k = atoi(argv[3]); k > 0; k--) {
		double t = seconds();
		for (uint32_t i = 0; i < s.regions; i++)
			reduce(&s, &s.polygons[i], hist, edges, active, &out[i]);
		t = seconds() - t;
		if (t < best)
			best = t;
	}
	uint64_t count = 0, sum = 0;
	for (uint32_t i = 0; i < s.regions; i++) {
		count += out[i].count;
		sum += out[i].sum;
	}
	printf("c %s %s %.6f %llu %llu\n", s.name, argv[2], best * 1e3, (unsigned long long)count, (unsigned long long)sum);
	return 0;
}
