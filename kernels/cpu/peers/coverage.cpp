// exactextract's part in TestCoverageAsExactExtractFindsIt of package polygon: for each polygon on standard input the
// shares of pixels that it covers, and what it makes of a raster by them, with the least time of several.
//
// In, little endian: int32 width, height, repeats, polygons; width*height bytes, the raster from its upper row on; for
// each polygon int32 rings, the first the outer one, and for each int32 vertices and double x, y. Out, for each polygon:
// double milliseconds, count, sum, variance; int32 x0, y0, columns, rows; a double a pixel. Everything but the making of
// the geometry is timed: the shares, the piece of the raster, and count, sum and variance.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <geos_c.h>

#include "raster_cell_intersection.h"
#include "raster_stats.h"

using namespace exactextract;

template<typename T>
static T get()
{
	T v;
	if (fread(&v, sizeof v, 1, stdin) != 1) {
		fprintf(stderr, "coverage: the input ends early\n");
		exit(1);
	}
	return v;
}

template<typename T>
static void put(T v)
{
	fwrite(&v, sizeof v, 1, stdout);
}

int main()
{
	GEOSContextHandle_t geos = initGEOS_r(nullptr, nullptr);
	const int w = get<int32_t>(), h = get<int32_t>(), repeats = get<int32_t>(), polygons = get<int32_t>();
	Grid<bounded_extent> grid{{0, 0, double(w), double(h)}, 1, 1}; // whose y grows upwards
	std::vector<uint8_t> pixels(size_t(w) * h);
	for (auto& p : pixels) p = get<uint8_t>();
	for (int k = 0; k < polygons; k++) {
		std::vector<GEOSGeometry*> rings;
		for (int r = get<int32_t>(); r > 0; r--) {
			const int n = get<int32_t>();
			std::vector<double> xy(2 * (n + 1));
			for (int i = 0; i < n; i++) {
				xy[2 * i] = get<double>();
				xy[2 * i + 1] = h - get<double>();
			}
			xy[2 * n] = xy[0];
			xy[2 * n + 1] = xy[1];
			rings.push_back(GEOSGeom_createLinearRing_r(geos, GEOSCoordSeq_copyFromBuffer_r(geos, xy.data(), n + 1, 0, 0)));
		}
		GEOSGeometry* g = GEOSGeom_createPolygon_r(geos, rings[0], rings.data() + 1, rings.size() - 1);
		double least = 1e300;
		RasterStatsOptions options;
		options.calc_variance = true;
		for (int i = 0; i < repeats; i++) {
			auto begun = std::chrono::steady_clock::now();
			auto shares = raster_cell_intersection(grid, geos, g);
			const int x0 = int(shares.xmin()), y0 = int(h - shares.ymax());
			Raster<uint8_t> piece(shares.grid());
			for (size_t y = 0; y < piece.rows(); y++)
				for (size_t x = 0; x < piece.cols(); x++) piece(y, x) = pixels[(y0 + y) * w + x0 + x];
			RasterStats<uint8_t> stats(options);
			stats.process(shares, piece);
			std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
			least = std::min(least, took.count());
			if (i < repeats - 1) continue;
			put(least);
			put(double(stats.count()));
			put(double(stats.sum()));
			put(double(stats.variance()));
			put(int32_t(x0));
			put(int32_t(y0));
			put(int32_t(shares.cols()));
			put(int32_t(shares.rows()));
			for (size_t y = 0; y < shares.rows(); y++)
				for (size_t x = 0; x < shares.cols(); x++) put(double(shares(y, x)));
		}
		GEOSGeom_destroy_r(geos, g);
	}
	finishGEOS_r(geos);
}
