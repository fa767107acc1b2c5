package polygon

import (
	"reflect"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// drawing makes a mask of rows, '#' for its pixels.
func drawing(rows ...string) []Run {
	out := []Run{}
	for y, r := range rows {
		for x, c := range r {
			if n := len(out); c != '#' {
			} else if n > 0 && out[n-1].Y == int32(y) && out[n-1].X1 == int32(x) {
				out[n-1].X1++
			} else {
				out = append(out, Run{Y: int32(y), X0: int32(x), X1: int32(x) + 1})
			}
		}
	}
	return out
}

func TestOutline(t *testing.T) {
	ring := func(xy ...float64) (r Ring) {
		for i := 0; i < len(xy); i += 2 {
			r = append(r, Point{xy[i], xy[i+1]})
		}
		return r
	}
	for _, c := range []struct {
		name string
		mask []Run
		want []Ring
	}{
		{"nothing", drawing("...", "..."), nil},
		{"pixel", drawing("...", ".#.", "..."), []Ring{ring(1, 1, 2, 1, 2, 2, 1, 2)}},
		{"all", drawing("###", "###"), []Ring{ring(0, 0, 3, 0, 3, 2, 0, 2)}},
		{"step", drawing("#.", "##"), []Ring{ring(0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 0, 2)}},
		{"apart", drawing("#.#"), []Ring{ring(0, 0, 1, 0, 1, 1, 0, 1), ring(2, 0, 3, 0, 3, 1, 2, 1)}},
		{"hole", drawing("###", "#.#", "###"), []Ring{ring(0, 0, 3, 0, 3, 3, 0, 3), ring(1, 1, 1, 2, 2, 2, 2, 1)}},
		{"rows apart", drawing("##", "..", "##"), []Ring{ring(0, 0, 2, 0, 2, 1, 0, 1), ring(0, 2, 2, 2, 2, 3, 0, 3)}},
		{"corner, falling", drawing("#.", ".#"), []Ring{ring(0, 0, 1, 0, 1, 1, 0, 1), ring(1, 1, 2, 1, 2, 2, 1, 2)}},
		{"corner, rising", drawing(".#", "#."), []Ring{ring(0, 1, 1, 1, 1, 2, 0, 2), ring(1, 0, 2, 0, 2, 1, 1, 1)}},
	} {
		if got := Outline(c.mask); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOutlineIsExact: the rings hold the mask's pixels and no others, under both fill rules, and run only along borders
// of it: their length is the number of those.
func TestOutlineIsExact(t *testing.T) {
	rng := testseed.New(t, 9, 4)
	dev := openCPU(t, kernels.Config{})
	const w, h = 14, 11
	for range 300 {
		mask := []Run{}
		share := 1 + rng.IntN(9)
		for y := range h {
			for x := 0; x < w; x++ {
				from := x
				for x < w && rng.IntN(10) < share {
					x++
				}
				if from < x {
					mask = append(mask, Run{Y: int32(y), X0: int32(from), X1: int32(x)})
				}
			}
		}
		rings := Outline(mask)
		border, length := 0.0, 0.0
		want := rasterOf(t, dev, mustSet(t, Region{Mask: mask}), w, h, driver.MethodDefault)
		in := func(x, y int) bool { return x >= 0 && y >= 0 && x < w && y < h && want.Data[0][y*w+x] != 0 }
		for y := -1; y < h; y++ {
			for x := -1; x < w; x++ {
				if in(x, y) != in(x+1, y) {
					border++
				}
				if in(x, y) != in(x, y+1) {
					border++
				}
			}
		}
		for _, ring := range rings {
			for i, a := range ring {
				b := ring[(i+1)%len(ring)]
				length += max(a.X-b.X, b.X-a.X) + max(a.Y-b.Y, b.Y-a.Y)
			}
		}
		if length != border {
			t.Fatalf("%v: rings of length %v, the border has %v", mask, length, border)
		}
		if len(rings) == 0 {
			continue
		}
		for _, fill := range []FillRule{NonZero, EvenOdd} {
			got := rasterOf(t, dev, mustSet(t, Region{Rings: rings, Fill: fill}), w, h, driver.MethodDefault)
			if !reflect.DeepEqual(got.Data, want.Data) {
				t.Fatalf("%v, %v: the rings %v hold other pixels", mask, fill, rings)
			}
		}
	}
}
