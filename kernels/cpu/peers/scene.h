/* The scenes of the comparison, read from a file that the Go benchmark wrote, so that all see the same bytes:
 *   uint32 name length, name, uint32 width, height, regions, for each region: uint32 vertices, int32 x, y in 1/256 px;
 *   then width*height bytes of a GRAY8 frame. Little endian.
 * And what each peer prints: "peer scene what least-milliseconds count sum". */
#ifndef SCENE_H
#define SCENE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
	int32_t x, y;
} vertex;

typedef struct {
	uint32_t n;
	vertex *v;
} polygon;

typedef struct {
	char name[64];
	uint32_t width, height, regions;
	polygon *polygons;
	uint8_t *frame;
} scene;

static void get(void *to, size_t n, FILE *f)
{
	if (n != 0 && fread(to, n, 1, f) != 1) {
		fprintf(stderr, "peers: the scene file ends early\n");
		exit(1);
	}
}

static scene read_scene(const char *path)
{
	scene s;
	uint32_t n;
	FILE *f = fopen(path, "rb");
	if (f == NULL) {
		perror(path);
		exit(1);
	}
	memset(&s, 0, sizeof s);
	get(&n, 4, f);
	if (n >= sizeof s.name)
		exit(1);
	get(s.name, n, f);
	get(&s.width, 4, f);
	get(&s.height, 4, f);
	get(&s.regions, 4, f);
	s.polygons = (polygon *)calloc(s.regions, sizeof(polygon));
	for (uint32_t i = 0; i < s.regions; i++) {
		polygon *p = &s.polygons[i];
		get(&p->n, 4, f);
		p->v = (vertex *)calloc(p->n, sizeof(vertex));
		get(p->v, p->n * sizeof(vertex), f);
	}
	s.frame = (uint8_t *)malloc((size_t)s.width * s.height);
	get(s.frame, (size_t)s.width * s.height, f);
	fclose(f);
	return s;
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
