// What host and kernels agree on: the structs that both read, the parameters of kernels, and the constants that the
// host sizes grids and tables by. A test reads kernels/cu and compares.

package cuda

import (
	"reflect"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Constants of the kernels, by the names they have there.
const (
	threads    = 256  // a block of mask_prepare and mask_raster
	bandRows   = 8    // rows of a band: BAND_ROWS, which is WARPS
	itemPixels = 1024 // ITEM_PIXELS
	rasterRows = 4    // rows of a block of mask_raster_row_spans: RASTER_ROWS
	tileWidth  = 32   // TILE_W
	tileHeight = 8    // TILE_H, which is WARPS
	// SHARED_LEVELS: histograms of at most so many bins are collected in counters of 32 bits on chip
	sharedLevels = 4096
	replicas     = 8 // REPLICAS: copies of an 8-bit histogram on chip
	eachReplicas = 1 // EACH_REPLICAS: those of a block that has a region of its own

	prefixThreads = 1024
	reduceThreads = 512  // THREADS of mask_reduce.cu: a block of most of its kernels
	eachThreads   = 128  // EACH_THREADS: of those that give each region a block
	wideThreads   = 1024 // WIDE_THREADS: of those for histograms of more than sharedLevels bins
)

// preparedRegion is PreparedRegion of common.cuh.
type preparedRegion struct {
	Edge0, Edges, Fill, _ uint32
	X0, Y0, X1, Y1        int32 // rows, and columns that bound the pixels
	Item0, ItemEnd        uint64
}

// band is Band of common.cuh.
type band struct {
	Region uint32
	Y      int32
}

// item is Item of common.cuh: a run of pixels in a row.
type item uint64

func (i item) x() int { return int(i & 0xfffff) }
func (i item) y() int { return int(i >> 20 & 0xfffff) }
func (i item) n() int { return int(i >> 40) }

// view is View of common.cuh. Its pointers are addresses on the device.
type view struct {
	Edges, Regions, Bands, Counts, Prefix, Items uint64
	Width, Height                                int32
	RegionCount, _                               uint32
}

// reduceArgs is ReduceArgs of mask_reduce.cu.
type reduceArgs struct {
	P                             view
	Frame, FrameEnd               uint64
	Stats, Hist, Stride, Item0    uint64
	First, Count                  uint32
	Row0, Rows                    int32
	Channels, Order, Levels, What uint32
	Whole, Cleared                uint32
}

// Parameters of kernels, as they lie in the buffer that a launch takes.
type (
	prepareParams struct{ P view }

	reduceParams struct{ G reduceArgs }

	clearParams struct{ Stats, N, Hist, HistVecs uint64 }

	rasterParams struct {
		P           view
		R           preparedRegion
		Dst, Stride uint64
	}

	rasterItemsParams struct {
		P            view
		First, Count uint32
		Dst, Stride  uint64
		Labels, _    uint32
	}
)

// rasterItemsBytes is the size of the parameters of mask_raster_items, which end before the struct does.
const rasterItemsBytes = 92

// A kernel is one of those in the fatbins.
type kernel uint16

const (
	prepareRowSpans kernel = iota
	prepareNaive
	prepareTiled
	prepareEdgeFiltered
	prepareTiledEdgeFiltered
	preparePrefix
	rasterRowSpans
	rasterNaive
	rasterTiled
	rasterEdgeFiltered
	rasterTiledEdgeFiltered
	rasterItems
	reduceClear
	reduceGray8 // then _m, _h, _hm, and the same for the other kinds: see reductionFor
	reduceGray8M
	reduceGray8H
	reduceGray8HM
	reduceGray16
	reduceGray16M
	reduceGray16H
	reduceGray16HM
	reduceAny8
	reduceAny8M
	reduceAny8H
	reduceAny8HM
	reduceEach // the first of those, in the same order, that give each region a block

	reduceWideH = iota - 1 + reduceEach - reduceGray8 // then _hm
	reduceWideHM
	reduceGlobalH
	reduceGlobalHM

	maskKernels // how many of them are for masks
)

// kernelNames says what a kernel is called and in which fatbin, and so which source, it is: those for masks, and then
// those that the files of other ops list.
var kernelNames = func() []kernelName {
	at := make([]kernelName, maskKernels)
	copy(at, listedKernels[:])
	for k := reduceGray8; k < reduceEach; k++ {
		at[k+reduceEach-reduceGray8] = kernelName{file: at[k].file, name: at[k].name + "_each"}
	}
	at[reduceWideH] = kernelName{file: "mask_reduce", name: "mask_reduce_wide_h"}
	at[reduceWideHM] = kernelName{file: "mask_reduce", name: "mask_reduce_wide_hm"}
	at[reduceGlobalH] = kernelName{file: "mask_reduce", name: "mask_reduce_global_h"}
	at[reduceGlobalHM] = kernelName{file: "mask_reduce", name: "mask_reduce_global_hm"}
	return at
}()

type kernelName struct {
	file, name string
	params     reflect.Type // of what listKernel lists
	together   bool
}

// A kernelFor is a kernel whose parameters are a P.
type kernelFor[P any] struct{ kernel }

// listKernel adds a kernel of a source file to those that each device loads, for a variable of a file of an op. P holds
// its parameters as they lie in memory.
func listKernel[P any](file, name string) kernelFor[P] {
	kernelNames = append(kernelNames, kernelName{file: file, name: name, params: reflect.TypeFor[P]()})
	return kernelFor[P]{kernel(len(kernelNames) - 1)}
}

// together says that blocks of the kernel wait for each other: all of a launch are on the GPU at once. It has a single
// parameter.
func (k kernelFor[P]) together() kernelFor[P] {
	kernelNames[k.kernel].together = true
	return k
}

var listedKernels = [reduceEach]kernelName{
	prepareRowSpans:          {file: "mask_prepare", name: "mask_prepare_row_spans"},
	prepareNaive:             {file: "mask_prepare", name: "mask_prepare_naive"},
	prepareTiled:             {file: "mask_prepare", name: "mask_prepare_tiled"},
	prepareEdgeFiltered:      {file: "mask_prepare", name: "mask_prepare_edge_filtered"},
	prepareTiledEdgeFiltered: {file: "mask_prepare", name: "mask_prepare_tiled_edge_filtered"},
	preparePrefix:            {file: "mask_prepare", name: "mask_prepare_prefix"},
	rasterRowSpans:           {file: "mask_raster", name: "mask_raster_row_spans"},
	rasterNaive:              {file: "mask_raster", name: "mask_raster_naive"},
	rasterTiled:              {file: "mask_raster", name: "mask_raster_tiled"},
	rasterEdgeFiltered:       {file: "mask_raster", name: "mask_raster_edge_filtered"},
	rasterTiledEdgeFiltered:  {file: "mask_raster", name: "mask_raster_tiled_edge_filtered"},
	rasterItems:              {file: "mask_raster", name: "mask_raster_items"},
	reduceClear:              {file: "mask_reduce", name: "mask_reduce_clear"},
	reduceGray8:              {file: "mask_reduce", name: "mask_reduce_gray8"},
	reduceGray8M:             {file: "mask_reduce", name: "mask_reduce_gray8_m"},
	reduceGray8H:             {file: "mask_reduce", name: "mask_reduce_gray8_h"},
	reduceGray8HM:            {file: "mask_reduce", name: "mask_reduce_gray8_hm"},
	reduceGray16:             {file: "mask_reduce", name: "mask_reduce_gray16"},
	reduceGray16M:            {file: "mask_reduce", name: "mask_reduce_gray16_m"},
	reduceGray16H:            {file: "mask_reduce", name: "mask_reduce_gray16_h"},
	reduceGray16HM:           {file: "mask_reduce", name: "mask_reduce_gray16_hm"},
	reduceAny8:               {file: "mask_reduce", name: "mask_reduce_any8"},
	reduceAny8M:              {file: "mask_reduce", name: "mask_reduce_any8_m"},
	reduceAny8H:              {file: "mask_reduce", name: "mask_reduce_any8_h"},
	reduceAny8HM:             {file: "mask_reduce", name: "mask_reduce_any8_hm"},
}

// smallRegions decides whether each of so many regions gets a block, where the largest has room for so many items,
// rather than all blocks sharing all items. Measured on an H200, with 40 to 1000 regions of 12 edges: 40 with room for
// 250 take 6.5 µs with a block each and 8.6 shared, with room for 500 12.6 and 9.8; 300 with 500 take 19 and 27, with
// 1000 54 and 43; 1000 with 1600 take 137 and 192.
func smallRegions(largest uint64, count, units int) bool {
	return largest <= max(256, 256*uint64(count)/uint64(max(units, 1)))
}

// reduction is how a reduction is launched.
type reduction struct {
	kernel  kernel
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
		r.kernel += reduceEach - reduceGray8
		r.threads, r.each = eachThreads, true
	}
	return r
}

// methodKernels are the kernels of a method. ok is false where there is no such method.
func methodKernels(m driver.Method) (prepare, raster kernel, ok bool) {
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
