// CGAL's Delaunay triangulation of the points of a file, pairs of int32, with exact predicates. Prints the least CPU time in milliseconds.
#include <CGAL/Delaunay_triangulation_2.h>
#include <CGAL/Exact_predicates_inexact_constructions_kernel.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

typedef CGAL::Exact_predicates_inexact_constructions_kernel Kernel;

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    std::vector<Kernel::Point_2> points;
    std::FILE *f = std::fopen(argv[1], "rb");
    if (!f) return 2;
    for (int32_t p[2]; std::fread(p, sizeof p, 1, f) == 1;) points.emplace_back(p[0], p[1]);
    std::fclose(f);
    double best = 1e30;
    for (int i = std::atoi(argv[2]); i > 0; i--) {
        const std::clock_t start = std::clock();
        CGAL::Delaunay_triangulation_2<Kernel> t(points.begin(), points.end());
        const double ms = 1e3 * double(std::clock() - start) / CLOCKS_PER_SEC;
        if (t.number_of_vertices() == 0) return 1;
        if (ms < best) best = ms;
    }
    std::printf("CGAL triangulation,1M_points %.3f\n", best);
}
