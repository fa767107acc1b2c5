package polygon

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Cut into chunks, of regions and of rows, the results are those of work in one piece, which that of line-scan jobs is.
func TestChunksGiveTheSame(t *testing.T) {
	const w, h = 1700, 1300
	few := append(manyRegions(3, 40, w, h), Region{Rings: []Ring{rectangle(0, 0, w, h)}})
	for _, c := range []struct {
		format  driver.PixelFormat
		regions []Region
	}{
		{driver.Gray8, few},
		{driver.Gray8, manyRegions(300, 9, w, h)},
		{driver.RGB8, append(few, manyRegions(40, 9, w, h)...)},
		{driver.RGBA8, few},
		{driver.Gray16(12), append(manyRegions(20, 9, w, h), few...)},
	} {
		t.Run(fmt.Sprint(c.format, len(c.regions)), func(t *testing.T) {
			f := noise(w, h, c.format)
			// chunks end within pieces
			f.Data = [][]byte{f.Data[0][:1000], f.Data[0][1000:2_000_000], nil, f.Data[0][2_000_000:]}
			pieces := fmt.Sprint(len(f.Data[0]), len(f.Data[1]), len(f.Data[2]), len(f.Data[3]))
			set := mustSet(t, c.regions...)
			counted := map[kernels.Class]int{}
			results := map[kernels.Class]*Result{}
			rasters := map[kernels.Class]*Raster{}
			for _, class := range []kernels.Class{kernels.LineScan, kernels.Interactive} {
				trace := devicetest.Trace(cpu.Driver, false)
				dev, err := kernels.Open(trace, kernels.Config{MemoryBytes: 256 << 20, Poison: true})
				if err != nil {
					t.Fatal(err)
				}
				ctx := kernels.WithClass(t.Context(), class)
				if results[class], err = Reduce(ctx, dev, set, f, Reductions{Statistics: AllStatistics},
					driver.MethodDefault); err != nil {
					t.Fatal(err)
				}
				counted[class] = len(trace.Records("MaskReduce", "Upload"))
				if rasters[class], err = Rasterize(ctx, dev, set, w, h, driver.RasterMask,
					driver.MethodDefault); err != nil {
					t.Fatal(err)
				}
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			}
			if a, b := counted[kernels.LineScan], counted[kernels.Interactive]; a >= b {
				t.Errorf("%d ops in one piece and %d in chunks", a, b)
			}
			if !reflect.DeepEqual(untimed(results[kernels.LineScan]), untimed(results[kernels.Interactive])) {
				t.Error("the results differ")
			}
			a, b := rasters[kernels.LineScan], rasters[kernels.Interactive]
			if !reflect.DeepEqual(a.Counts, b.Counts) || !reflect.DeepEqual(a.Data[0], b.Data[0]) {
				t.Error("the images differ")
			}
			if now := fmt.Sprint(len(f.Data[0]), len(f.Data[1]), len(f.Data[2]), len(f.Data[3])); now != pieces {
				t.Errorf("the frame's pieces were %s and are %s", pieces, now)
			}
		})
	}
}
