//lint:file-ignore U1000 launched under the tag cuda

// The kernels, whose names and parameters abi.go has, and which of those for masks does what.

package cuda

import (
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// A kernel is one of those in the fatbins: an index of kernelNames.
type kernel uint16

// kernelName says in which fatbin, and so which source, a kernel is, and what it is called there.
type kernelName struct{ file, name string }

// A kernelFor is a kernel whose parameters are a P.
type kernelFor[P any] kernel

// together says that blocks of the kernel wait for each other: all of a launch are on the GPU at once. It has a single
// parameter.
func (k kernel) together() bool { return k == kernel(graphLevels) }

// pointBytes is the size of a point: two int32.
const pointBytes = 8

// Where states have the word that says that there is nothing left to do.
const (
	stateDone = uint64(unsafe.Offsetof(graphState{}.Done))
	boxStopAt = uint64(unsafe.Offsetof(boxState{}.Stop))
)

// A solve by sweeps and one of a graph share kernels that look at that word.
var _ [stateDone]byte = [unsafe.Offsetof(sweepState{}.Done)]byte{}

// item is a run of pixels in a row: see common.cuh.
type item uint64

func (i item) x() int { return int(i & 0xfffff) }
func (i item) y() int { return int(i >> 20 & 0xfffff) }
func (i item) n() int { return int(i >> 40) }

// smallRegions decides whether each of so many regions gets a block, where the largest has room for so many items,
// rather than all blocks sharing all items. Measured on an H200, with 40 to 1000 regions of 12 edges: 40 with room for
// 250 take 6.5 µs with a block each and 8.6 shared, with room for 500 12.6 and 9.8; 300 with 500 take 19 and 27, with
// 1000 54 and 43; 1000 with 1600 take 137 and 192.
func smallRegions(largest uint64, count, units int) bool {
	return largest <= max(256, 256*uint64(count)/uint64(max(units, 1)))
}

// reduction is how a reduction is launched.
type reduction struct {
	kernel  kernelFor[reduceArgs]
	threads int  // of a block
	shared  int  // bytes of dynamic shared memory
	each    bool // each region has a block
}

// reductionFor chooses the kernel for a format and what is asked for. small is whether the regions are small enough for
// a block each, and most is how much shared memory a block can have.
func reductionFor(f driver.PixelFormat, what driver.MaskWhat, small bool, most int) reduction {
	moments, levels := what&driver.MaskMoments != 0, f.Levels()
	if what&driver.MaskHistogram != 0 && levels > sharedLevels {
		r := reduction{kernel: reduceWideH, threads: wideThreads, shared: levels * 2}
		if r.shared > most {
			r.kernel, r.shared = reduceGlobalH, 0
		}
		if moments {
			r.kernel++
		}
		return r
	}
	r := reduction{kernel: reduceAny8, threads: reduceThreads}
	copies := replicas
	if small {
		copies = eachReplicas
	}
	switch {
	case f.SampleBytes == 2:
		r.kernel, copies = reduceGray16, 1
	case f.Channels == 1:
		r.kernel = reduceGray8
	}
	if moments {
		r.kernel += reduceGray8M - reduceGray8
	}
	if what&driver.MaskHistogram != 0 {
		r.kernel += reduceGray8H - reduceGray8
		r.shared = levels * copies * 4
	}
	if small {
		r.kernel += reduceGray8Each - reduceGray8
		r.threads, r.each = eachThreads, true
	}
	return r
}

// methodKernels are the kernels of a method. ok is false where there is no such method.
func methodKernels(m driver.Method) (prepare kernelFor[view], raster kernelFor[rasterRowSpansParams], ok bool) {
	switch m {
	case driver.MethodDefault, driver.RowSpans:
		return prepareRowSpans, rasterRowSpans, true
	case driver.Naive:
		return prepareNaive, rasterNaive, true
	case driver.Tiled:
		return prepareTiled, rasterTiled, true
	case driver.EdgeFiltered:
		return prepareEdgeFiltered, rasterEdgeFiltered, true
	case driver.TiledEdgeFiltered:
		return prepareTiledEdgeFiltered, rasterTiledEdgeFiltered, true
	}
	return 0, 0, false
}
