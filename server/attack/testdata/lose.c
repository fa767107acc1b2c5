// A library for LD_PRELOAD that makes a program lose its CUDA device: once the file that LOSE_DEVICE names is there, it
// deletes it and puts a kernel before the next launch that writes where nothing is. The driver gives up the context for
// that, as it does when a device breaks: all that is enqueued fails from then on.
//
//	cc -shared -fPIC -O1 -o lose.so lose.c -ldl

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		      unsigned shared, void *stream, void **params, void **extra);

static const char bad[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry lose() {\n"
			  ".reg .u64 %a;\n.reg .u32 %v;\n"
			  "mov.u64 %a, 16;\nmov.u32 %v, 1;\nst.global.u32 [%a], %v;\nret;\n}\n";

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void lose(void *stream) {
	const char *file = getenv("LOSE_DEVICE");
	if (!file || unlink(file) != 0)
		return;
	void *module, *kernel;
	int (*load)(void **, const void *) = (int (*)(void **, const void *))real("cuModuleLoadData");
	int (*function)(void **, void *, const char *) = (int (*)(void **, void *, const char *))real("cuModuleGetFunction");
	if (load(&module, bad) == 0 && function(&kernel, module, "lose") == 0)
		((launch)real("cuLaunchKernel"))(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0);
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
		   void *stream, void **params, void **extra) {
	lose(stream);
	return ((launch)real("cuLaunchKernel"))(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

struct config { // the head of CUlaunchConfig
	unsigned gx, gy, gz, bx, by, bz, shared;
	void *stream;
};

int cuLaunchKernelEx(const struct config *c, void *f, void **params, void **extra) {
	lose(c->stream);
	return ((int (*)(const struct config *, void *, void **, void **))real("cuLaunchKernelEx"))(c, f, params, extra);
}

int cuGraphLaunch(void *graph, void *stream) {
	lose(stream);
	return ((int (*)(void *, void *))real("cuGraphLaunch"))(graph, stream);
}
