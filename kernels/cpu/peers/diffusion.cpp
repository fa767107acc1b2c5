// Peers of the diffusion solver: CHOLMOD (supernodal, the exact solution) and amgcl (conjugate gradients, preconditioned
// by smoothed aggregation), in double, over the scenes that TestDiffusionPeers of the package writes.
//
//   diffusion SCENE REPEATS      the exact solution goes to SCENE.exact; a line per peer: name, scene, least milliseconds of
//                                set-up (from flags to a factor or hierarchy), of the solves of all channels, and the
//                                largest error in 255ths
//
// amgcl gets the loosest residual, of powers of ten, that brings the largest error to half of 1/255: what a user can't know
// beforehand, in its favour.
//
// A scene: width, height, channels (uint32), flags (bytes: 1 fixed, 2 and 4 the edge to the right and down blocked),
// colours (float32, planes). Little endian.
#include <cholmod.h>

#include <amgcl/adapter/zero_copy.hpp>
#include <amgcl/amg.hpp>
#include <amgcl/backend/builtin.hpp>
#include <amgcl/coarsening/smoothed_aggregation.hpp>
#include <amgcl/make_solver.hpp>
#include <amgcl/relaxation/spai0.hpp>
#include <amgcl/solver/cg.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

static double now() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

struct Scene {
    uint32_t width, height, channels;
    std::vector<uint8_t> flags;
    std::vector<float> colours;
};

// The unknowns are the pixels that are not fixed and have a way to one that is.
struct System {
    ptrdiff_t n = 0;
    std::vector<ptrdiff_t> id; // of a pixel, or -1
    std::vector<ptrdiff_t> ptr, col;
    std::vector<double> val;
    std::vector<std::vector<double>> rhs;
};

static Scene read(const char *name) {
    Scene s;
    FILE *f = fopen(name, "rb");
    if (!f || fread(&s.width, 4, 3, f) != 3) exit((perror(name), 1));
    const size_t n = size_t(s.width) * s.height;
    s.flags.resize(n);
    s.colours.resize(n * s.channels);
    if (fread(s.flags.data(), 1, n, f) != n || fread(s.colours.data(), 4, s.colours.size(), f) != s.colours.size())
        exit((fprintf(stderr, "%s: too short\n", name), 1));
    fclose(f);
    return s;
}

template <class F> static void around(const Scene &s, size_t i, F f) {
    const size_t x = i % s.width;
    if (i >= s.width && !(s.flags[i - s.width] & 4)) f(i - s.width);
    if (x > 0 && !(s.flags[i - 1] & 2)) f(i - 1);
    if (x + 1 < s.width && !(s.flags[i] & 2)) f(i + 1);
    if (i + s.width < s.flags.size() && !(s.flags[i] & 4)) f(i + s.width);
}

static std::vector<uint8_t> reached(const Scene &s) {
    std::vector<uint8_t> at(s.flags.size());
    std::vector<size_t> todo;
    for (size_t i = 0; i < at.size(); i++)
        if (s.flags[i] & 1) at[i] = 1, todo.push_back(i);
    while (!todo.empty()) {
        size_t i = todo.back();
        todo.pop_back();
        around(s, i, [&](size_t j) {
            if (!at[j]) at[j] = 1, todo.push_back(j);
        });
    }
    return at;
}

static System build(const Scene &s, const std::vector<uint8_t> &at) {
    System m;
    const size_t pixels = s.flags.size();
    m.id.assign(pixels, -1);
    for (size_t i = 0; i < pixels; i++)
        if (at[i] && !(s.flags[i] & 1)) m.id[i] = m.n++;
    m.rhs.assign(s.channels, std::vector<double>(m.n));
    m.ptr.reserve(m.n + 1);
    m.col.reserve(5 * m.n);
    m.val.reserve(5 * m.n);
    m.ptr.push_back(0);
    for (size_t i = 0; i < pixels; i++) {
        const ptrdiff_t a = m.id[i];
        if (a < 0) continue;
        double degree = 0;
        around(s, i, [&](size_t) { degree++; });
        bool self = false;
        auto put = [&] { self = true, m.col.push_back(a), m.val.push_back(degree); };
        around(s, i, [&](size_t j) {
            if (j > i && !self) put();
            if (m.id[j] >= 0)
                m.col.push_back(m.id[j]), m.val.push_back(-1);
            else
                for (uint32_t c = 0; c < s.channels; c++) m.rhs[c][a] += s.colours[c * pixels + j];
        });
        if (!self) put();
        m.ptr.push_back(m.col.size());
    }
    return m;
}

static double error(const std::vector<std::vector<double>> &a, const std::vector<std::vector<double>> &b) {
    double e = 0;
    for (size_t c = 0; c < a.size(); c++)
        for (size_t i = 0; i < a[c].size(); i++) e = std::max(e, std::fabs(a[c][i] - b[c][i]));
    return e * 255;
}

struct Times {
    double setup = 1e30, solve = 1e30;
    void least(double a, double b) {
        if (a + b < setup + solve) setup = a, solve = b;
    }
};

static std::vector<std::vector<double>> cholmod(const Scene &s, const std::vector<uint8_t> &at, Times &t) {
    cholmod_common cm;
    cholmod_l_start(&cm);
    cm.print = 0;
    cm.supernodal = CHOLMOD_SUPERNODAL;
    const double t0 = now();
    System m = build(s, at);
    cholmod_sparse *a = cholmod_l_allocate_sparse(m.n, m.n, m.col.size(), 1, 1, -1, CHOLMOD_REAL, &cm);
    // The lower triangle by columns is the upper one by rows: symmetric.
    auto *p = (SuiteSparse_long *)a->p, *ri = (SuiteSparse_long *)a->i;
    auto *x = (double *)a->x;
    ptrdiff_t nz = 0;
    for (ptrdiff_t i = 0; i < m.n; i++) {
        p[i] = nz;
        for (ptrdiff_t k = m.ptr[i]; k < m.ptr[i + 1]; k++)
            if (m.col[k] >= i) ri[nz] = m.col[k], x[nz++] = m.val[k];
    }
    p[m.n] = nz;
    cholmod_factor *l = cholmod_l_analyze(a, &cm);
    cholmod_l_factorize(a, l, &cm);
    const double t1 = now();
    cholmod_dense *b = cholmod_l_allocate_dense(m.n, s.channels, m.n, CHOLMOD_REAL, &cm);
    for (uint32_t c = 0; c < s.channels; c++) std::copy(m.rhs[c].begin(), m.rhs[c].end(), (double *)b->x + c * m.n);
    cholmod_dense *y = cholmod_l_solve(CHOLMOD_A, l, b, &cm);
    const double t2 = now();
    t.least(t1 - t0, t2 - t1);
    std::vector<std::vector<double>> out(s.channels);
    for (uint32_t c = 0; c < s.channels; c++) out[c].assign((double *)y->x + c * m.n, (double *)y->x + (c + 1) * m.n);
    cholmod_l_free_dense(&y, &cm);
    cholmod_l_free_dense(&b, &cm);
    cholmod_l_free_factor(&l, &cm);
    cholmod_l_free_sparse(&a, &cm);
    cholmod_l_finish(&cm);
    return out;
}

typedef amgcl::backend::builtin<double> Backend;
typedef amgcl::make_solver<amgcl::amg<Backend, amgcl::coarsening::smoothed_aggregation, amgcl::relaxation::spai0>, amgcl::solver::cg<Backend>> Solver;

static std::vector<std::vector<double>> amg(const Scene &s, const std::vector<uint8_t> &at, double tolerance, Times &t) {
    const double t0 = now();
    System m = build(s, at);
    Solver::params prm;
    prm.solver.tol = tolerance;
    prm.solver.maxiter = 1000;
    auto a = amgcl::adapter::zero_copy(size_t(m.n), m.ptr.data(), m.col.data(), m.val.data());
    Solver solve(*a, prm);
    const double t1 = now();
    std::vector<std::vector<double>> out(s.channels, std::vector<double>(m.n));
    for (uint32_t c = 0; c < s.channels; c++) solve(m.rhs[c], out[c]);
    t.least(t1 - t0, now() - t1);
    return out;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: diffusion SCENE REPEATS\n"), 2;
    const Scene s = read(argv[1]);
    const int repeats = std::max(atoi(argv[2]), 1);
    const std::string path = argv[1], name = path.substr(path.rfind('/') + 1);
    const auto at = reached(s);
    Times t;
    std::vector<std::vector<double>> exact;
    for (int i = 0; i < repeats; i++) exact = cholmod(s, at, t);
    printf("cholmod %s %.3f %.3f 0\n", name.c_str(), t.setup, t.solve);
    double tolerance = 1e-1, off = 1e30;
    while (off > 0.5 && tolerance > 1e-12) {
        Times unused;
        off = error(amg(s, at, tolerance /= 10, unused), exact);
    }
    t = Times();
    for (int i = 0; i < repeats; i++) amg(s, at, tolerance, t);
    printf("amgcl %s %.3f %.3f %.4f\n", name.c_str(), t.setup, t.solve, off);

    const System m = build(s, at);
    FILE *f = fopen((path + ".exact").c_str(), "wb");
    for (uint32_t c = 0; f && c < s.channels; c++)
        for (size_t i = 0; i < m.id.size(); i++) {
            const double v = m.id[i] >= 0 ? exact[c][m.id[i]] : s.flags[i] & 1 ? s.colours[c * m.id.size() + i] : NAN;
            fwrite(&v, 8, 1, f);
        }
    return f && fclose(f) == 0 ? 0 : (perror("exact"), 1);
}
