package lowpoly_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

func TestVoronoi(t *testing.T) {
	d := openCPU(t, 8<<20)
	for _, x := range devicetest.Diagrams(3, 20, 4000) {
		for m := driver.VoronoiDefault; m <= driver.Banding; m++ {
			got, err := lowpoly.Voronoi(context.Background(), d, x.Sites, x.Width, x.Height, m)
			if err != nil {
				t.Errorf("%v: %s: %v", m, x.Name, err)
				continue
			}
			diff := devicetest.CompareLabels(got.Labels, devicetest.NearestSites(x.Sites, x.Width, x.Height), x.Width)
			if diff != nil && (m != driver.JumpFlood || diff.Count*20 > len(got.Labels)) {
				t.Errorf("%v: %s: %v", m, x.Name, diff)
			}
			if got.Backend != "cpu" {
				t.Errorf("backend %q", got.Backend)
			}
		}
	}
}

func TestVoronoiRefuses(t *testing.T) {
	d := openCPU(t, 1<<20)
	for _, x := range []struct {
		field  string
		w, h   int
		method driver.VoronoiMethod
		site   driver.Point
	}{
		{"width", 0, 5, 0, driver.Point{}},
		{"height", 5, driver.MaxSide + 1, 0, driver.Point{}},
		{"height", 1 << 16, 1 << 16, 0, driver.Point{}},
		{"method", 5, 5, driver.Banding + 1, driver.Point{}},
		{"sites[1].x", 5, 5, 0, driver.Point{X: 5}},
		{"sites[1].y", 5, 5, 0, driver.Point{Y: -1}},
	} {
		_, err := lowpoly.Voronoi(context.Background(), d, []driver.Point{{}, x.site}, x.w, x.h, x.method)
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || invalid.Violations[0].Path.String() != x.field ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", x, err)
		}
	}
	var capacity *kernels.CapacityError
	if _, err := lowpoly.Voronoi(context.Background(), d, nil, 1000, 1000, 0); !errors.As(err, &capacity) {
		t.Errorf("a million pixels in a device of 1 MiB: %v", err)
	}
	if m := d.Memory(); m.Used != 0 {
		t.Errorf("%d bytes are in use after it", m.Used)
	}
}

func ExampleVoronoi() {
	dev, err := kernels.Open(cpu.New(cpu.Options{}), kernels.Config{MemoryBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	d, err := lowpoly.Voronoi(context.Background(), dev, []driver.Point{{X: 1, Y: 0}, {X: 5, Y: 1}}, 7, 2,
		driver.VoronoiDefault)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Labels[:7])
	fmt.Println(d.Labels[7:])
	// Output:
	// [0 0 0 0 1 1 1]
	// [0 0 0 1 1 1 1]
}

// Labels have no memory before the device has found them, and then the caller is told of it.
func TestVoronoiTellsWhatItMakes(t *testing.T) {
	faulty := devicetest.Fault(cpu.Driver, devicetest.Failure{})
	d, err := kernels.Open(faulty, kernels.Config{MemoryBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	told := int64(0)
	ctx := kernels.WithMade(t.Context(), func(n int64) { told += n })
	for _, c := range []struct {
		fails error
		want  int64
	}{{nil, 4 * 30 * 20}, {driver.ErrDeviceLost, 0}} {
		told = 0
		if c.fails != nil {
			faulty.Arm(devicetest.Failure{N: 1, Err: c.fails, InWait: true})
		}
		_, err := lowpoly.Voronoi(ctx, d, []lowpoly.Point{{X: 3, Y: 4}}, 30, 20, driver.VoronoiDefault)
		if !errors.Is(err, c.fails) || told != c.want {
			t.Errorf("%v: told of %d bytes, want %d", err, told, c.want)
		}
	}
}
