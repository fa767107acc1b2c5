package polygon

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestWaitingTakesNothing: a job that does not get to run has no memory for its results. Hundreds may wait.
func TestWaitingTakesNothing(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const side, most = 2000, 2 << 20
	set := mustSet(t, Region{Rings: []Ring{rectangle(0, 0, side, side)}})
	f := kernels.Picture{Width: side, Height: side, Format: driver.Gray8, Data: [][]byte{make([]byte, side*side)}}
	regions := make([]Region, 20_000)
	for i := range regions {
		regions[i].Rings = []Ring{rectangle(0, 0, 1, 1)}
	}
	many := mustSet(t, regions...)
	for name, call := range map[string]func() error{
		"an image": func() error {
			_, err := Rasterize(ctx, dev, set, side, side, RasterMask, MethodDefault)
			return err
		},
		"the counts of histograms": func() error {
			_, err := Reduce(ctx, dev, many, f, Reductions{Statistics: Median, Output: Output{Columns: true}}, MethodDefault)
			return err
		},
	} {
		for range 2 { // so that no room of tests before this one is left in pools
			runtime.GC()
		}
		var err error
		if n := allocated(func() { err = call() }); n > most || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// TestBlobsAreNotCopied: of the many blobs that are looked at those are copied that are returned.
func TestBlobsAreNotCopied(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	const side = 600
	f := kernels.Picture{Width: side, Height: side, Format: driver.Gray8, Data: [][]byte{make([]byte, side*side)}}
	for i := range f.Data[0] {
		if i%side%2 == 0 && i/side%2 == 0 {
			f.Data[0][i] = 255
		}
	}
	const blobs = MostBlobs * uint64(unsafe.Sizeof(driver.Blob{})+unsafe.Sizeof(Blob{}))
	if n := allocated(func() { blobsIn(t, dev, f, bright(), nil, whole(f)) }); n > blobs+blobs/4 {
		t.Errorf("%d bytes for blobs of %d", n, blobs)
	}
}
