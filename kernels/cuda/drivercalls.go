//go:build cuda

// The driver calls that the binding lacks, and nothing else. They return CUresult as a number, 0 for success.

package cuda

/*
#cgo LDFLAGS: -lcuda
#cgo linux CFLAGS: -I/usr/local/cuda/include
#cgo linux LDFLAGS: -L/usr/local/cuda/lib64/stubs -L/usr/lib/x86_64-linux-gnu -L/usr/lib/aarch64-linux-gnu
#cgo noescape polyscan_launch
#cgo nocallback polyscan_launch
#cgo nocallback polyscan_await

#include <stdlib.h>
#include <time.h>
#include <cuda.h>

// The binding's Launch takes parameters of 8 bytes; ours are structs. The driver copies the buffer before it returns.
// early lets the kernel begin while the one before it in the stream ends, and wait for that itself. together has all
// blocks on the GPU at once, of a kernel with a single parameter.
static CUresult polyscan_launch(CUfunction f, unsigned gx, unsigned gy, unsigned threads, unsigned shared, CUstream s,
                                int early, int together, void *params, size_t bytes) {
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
#if CUDA_VERSION >= 11080
	if (early && !together) { // a graph can't have both
		CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
		a.value.programmaticStreamSerializationAllowed = 1;
		CUlaunchConfig c = {gx, gy, 1, threads, 1, 1, shared, s, &a, 1};
		return cuLaunchKernelEx(&c, f, NULL, extra);
	}
#endif
	if (together) return cuLaunchCooperativeKernel(f, gx, gy, 1, threads, 1, 1, shared, s, &params);
	return cuLaunchKernel(f, gx, gy, 1, threads, 1, 1, shared, s, NULL, extra);
}

// Asks for an event for so many nanoseconds, then sleeps until it has come. A loop in Go would allocate an error a
// turn.
static CUresult polyscan_await(CUevent e, long long spin) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	const long long until = t.tv_sec * 1000000000ll + t.tv_nsec + spin;
	do {
		CUresult r = cuEventQuery(e);
		if (r != CUDA_ERROR_NOT_READY) return r;
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while (t.tv_sec * 1000000000ll + t.tv_nsec < until);
	return cuEventSynchronize(e);
}
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// The binding keeps handles in structs of one pointer, and exports that of streams only.
func functionHandle(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }
func eventHandle(e cu.Event) C.CUevent          { return *(*C.CUevent)(unsafe.Pointer(&e)) }
func streamHandle(s cu.Stream) C.CUstream       { return C.CUstream(unsafe.Pointer(s.C())) }

// The build fails where a struct of the binding is no longer one pointer.
var (
	_ [unsafe.Sizeof(cu.Function{})]byte = [unsafe.Sizeof(C.CUfunction(nil))]byte{}
	_ [unsafe.Sizeof(cu.Event{})]byte    = [unsafe.Sizeof(C.CUevent(nil))]byte{}
)

// errorName is CUDA's name of a result, such as "CUDA_ERROR_ILLEGAL_ADDRESS".
func errorName(code int) string {
	var name *C.char
	if C.cuGetErrorName(C.CUresult(code), &name) != C.CUDA_SUCCESS || name == nil {
		return fmt.Sprintf("CUDA error %d", code)
	}
	return C.GoString(name)
}

// launch runs a kernel on a grid of gx*gy blocks. params points to the parameters as they lie in memory.
func launch(f cu.Function, gx, gy, threads, shared int, s cu.Stream, early, together bool, params unsafe.Pointer,
	bytes uintptr) int {
	var e, t C.int
	if early {
		e = 1
	}
	if together {
		t = 1
	}
	return int(C.polyscan_launch(functionHandle(f), C.uint(gx), C.uint(gy), C.uint(threads), C.uint(shared),
		streamHandle(s), e, t, params, C.size_t(bytes)))
}

// sharedBytes is how much shared memory a block can have where its kernel asked for more than is usual.
func sharedBytes(d cu.Device) (int, int) {
	var n C.int
	code := C.cuDeviceGetAttribute(&n, C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, C.CUdevice(d))
	return int(n), int(code)
}

// reserveShared lets a kernel's blocks have as much dynamic shared memory as most leaves beside what it declares. It
// returns how much that is.
func reserveShared(f cu.Function, most int) (int, int) {
	var declared C.int
	if code := C.cuFuncGetAttribute(&declared, C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
		functionHandle(f)); code != C.CUDA_SUCCESS {
		return 0, int(code)
	}
	n := most - int(declared)
	return n, int(C.cuFuncSetAttribute(functionHandle(f), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(n)))
}

// awaitEvent waits for an event: awake for a while, then asleep where the event was made so.
func awaitEvent(e cu.Event, spin time.Duration) int {
	return int(C.polyscan_await(eventHandle(e), C.longlong(spin.Nanoseconds())))
}

// hostAlloc reserves page-locked host memory that every context may copy from and to.
func hostAlloc(n int) ([]byte, int) {
	var p unsafe.Pointer
	if code := C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_PORTABLE); code != C.CUDA_SUCCESS {
		return nil, int(code)
	}
	return unsafe.Slice((*byte)(p), n), 0
}

func hostFree(b []byte) int { return int(C.cuMemFreeHost(unsafe.Pointer(unsafe.SliceData(b)))) }

// hostRegister page-locks memory that is there, which may be mapped for reading only.
func hostRegister(b []byte) int {
	p, n := unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))
	code := C.cuMemHostRegister(p, n, C.CU_MEMHOSTREGISTER_PORTABLE)
	if code != C.CUDA_SUCCESS {
		const readOnly = 0x08 // CU_MEMHOSTREGISTER_READ_ONLY, which old headers lack
		code = C.cuMemHostRegister(p, n, C.CU_MEMHOSTREGISTER_PORTABLE|readOnly)
	}
	return int(code)
}

func hostUnregister(b []byte) int {
	return int(C.cuMemHostUnregister(unsafe.Pointer(unsafe.SliceData(b))))
}

// beginCapture makes a stream record what is enqueued instead of running it. It restricts the calling thread until the
// capture ends there, and no other.
func beginCapture(s cu.Stream) int {
	return int(C.cuStreamBeginCapture(streamHandle(s), C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
}

// graph is what was captured, ready to run.
type graph struct{ exec C.CUgraphExec }

// endCapture ends a capture and makes it runnable.
func endCapture(s cu.Stream) (g graph, code int) {
	var recorded C.CUgraph
	if code := C.cuStreamEndCapture(streamHandle(s), &recorded); code != C.CUDA_SUCCESS {
		return graph{}, int(code)
	}
	defer C.cuGraphDestroy(recorded)
	return g, int(C.cuGraphInstantiateWithFlags(&g.exec, recorded, 0))
}

func (g graph) launch(s cu.Stream) int { return int(C.cuGraphLaunch(g.exec, streamHandle(s))) }
func (g graph) destroy()               { C.cuGraphExecDestroy(g.exec) }
