package polygon

import (
	"context"
	"errors"
	"testing"
	"unsafe"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Jobs tell of the host memory that they make for results, once it is there: pictures, the blobs that are looked at,
// and the pixels that regions cover in part.
func TestJobsTellWhatTheyMake(t *testing.T) {
	dev := openOnce(t)
	const side = 64
	set, err := NewSet([]Region{{Rings: []Ring{{{0.5, 0.5}, {side, 0.5}, {side, side}}}}}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	teeth := Ring{}
	for i := range 1000 { // each of which is in all rows
		teeth = append(teeth, Point{float64(i) / 10, float64(i % 2 * 5000)})
	}
	comb, err := NewSet([]Region{{Rings: []Ring{teeth}}}, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	pixels := make([]byte, side*side)
	for i := range pixels {
		pixels[i] = byte(255 * ((i/side + i) & 1))
	}
	frame := kernels.Picture{Width: side, Height: side, Format: driver.Gray8, Data: [][]byte{pixels}}
	told := int64(0)
	ctx := kernels.WithMade(t.Context(), func(n int64) { told += n })
	var blobs int
	const blobRuns = side * side / 4 // about: every second pixel of a half
	for name, c := range map[string]struct {
		run         func(context.Context) error
		least, most func() int64
	}{
		"a picture": {func(ctx context.Context) error {
			_, err := Rasterize(ctx, dev, set, side, side, driver.RasterMask, MethodDefault)
			return err
		}, func() int64 { return side * side }, func() int64 { return side * side }},
		"blobs": {func(ctx context.Context) error {
			r, err := Reduce(ctx, dev, set, frame, Reductions{Blobs: &BlobSpec{Range: Span{1, 255}, FourConnected: true}},
				MethodDefault)
			if err == nil {
				blobs = int(r.Regions[0].Blobs.Found)
			}
			return err
		}, func() int64 { return int64(blobs) * int64(unsafe.Sizeof(Blob{})) },
			func() int64 { return int64(blobs) * int64(unsafe.Sizeof(Blob{})+unsafe.Sizeof(driver.Blob{})) }},
		"a contour": {func(ctx context.Context) error {
			_, err := Reduce(ctx, dev, set, frame, Reductions{Blobs: &BlobSpec{Range: Span{1, 255}, Contours: true}},
				MethodDefault)
			return err
		}, func() int64 { return int64(blobRuns) * int64(unsafe.Sizeof(Point{})) },
			func() int64 { return int64(blobRuns)*(4*16+2*16) + 1000 }},
		"covered pixels": {func(ctx context.Context) error {
			_, err := Reduce(ctx, dev, set, frame, Reductions{Covered: &CoveredSpec{}}, MethodDefault)
			return err
		}, func() int64 { return 8 * side * 2 }, func() int64 { return 8 * side * 16 }},
		"a histogram": {func(ctx context.Context) error {
			_, err := Reduce(ctx, dev, set, frame, Reductions{Statistics: Histogram}, MethodDefault)
			return err
		}, func() int64 { return 4 * 256 }, func() int64 { return 4 * 4 * 256 }},
		"pixels outside": {func(ctx context.Context) error {
			_, err := Reduce(ctx, dev, comb, frame, Reductions{}, MethodDefault)
			return err
		}, func() int64 { return 1000 * int64(4+unsafe.Sizeof(bandEdge{})) },
			func() int64 { return 4000 * int64(4+unsafe.Sizeof(bandEdge{})) }},
		"a sum": {func(ctx context.Context) error {
			_, err := Reduce(ctx, dev, set, frame, Reductions{}, MethodDefault)
			return err
		}, func() int64 { return 0 }, func() int64 { return 0 }},
	} {
		told = 0
		if err := c.run(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if told < c.least() || told > c.most() {
			t.Errorf("%s: %d bytes were made by what was told, want %d to %d", name, told, c.least(), c.most())
		}
	}
	if blobs < 1000 {
		t.Errorf("%d blobs", blobs)
	}
}

// A call that ends before there are counts has made no memory for them.
func TestNothingIsMadeOfWhatEndsEarly(t *testing.T) {
	faulty := devicetest.Fault(cpu.Driver, devicetest.Failure{})
	dev, err := kernels.Open(faulty, kernels.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	set := mustSet(t, Region{Rings: []Ring{{{0, 0}, {8, 0}, {8, 8}, {0, 8}}}})
	frame := kernels.Picture{Width: 8, Height: 8, Format: driver.Gray16(16), Data: [][]byte{make([]byte, 128)}}
	textures := Reductions{Cooccurrence: &CooccurrenceSpec{Levels: 256, Counts: true}} // of four offsets
	told := int64(0)
	ctx := kernels.WithMade(t.Context(), func(n int64) { told += n })
	const counts = 4 * 256 * 256 * 4
	if _, err := Reduce(ctx, dev, set, frame, textures, MethodDefault); err != nil {
		t.Fatal(err)
	}
	if told != 2*counts {
		t.Errorf("%d bytes were made by what was told, want %d", told, 2*counts)
	}
	s := scratchPool.Get().(*scratch)
	for _, x := range s.textures[:cap(s.textures)] {
		if x.Counts != nil {
			t.Error("what workers have left keeps the counts of the last call")
		}
	}
	told = 0
	faulty.Arm(devicetest.Failure{N: 1, Err: driver.ErrDeviceLost, InWait: true})
	if _, err := Reduce(ctx, dev, set, frame, textures, MethodDefault); !errors.Is(err, driver.ErrDeviceLost) {
		t.Fatal(err)
	}
	if told != 0 {
		t.Errorf("%d bytes were made by what was told, want none", told)
	}
}
