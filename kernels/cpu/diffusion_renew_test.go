package cpu

import (
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// parts are all numbers of a set-up.
func (b *box) parts() [][]float32 {
	out := [][]float32{b.inv, b.inverse}
	for k := range b.levels {
		for _, p := range b.levels[k].operator() {
			out = append(out, *p)
		}
	}
	return out
}

// A set-up that is renewed again and again, for flags that change in one pixel, along a line or all over, is the one
// that is made of the flags alone, to the bit; where there is no fixed pixel for a while, too.
func TestDiffusionSetupRenewed(t *testing.T) {
	sizes := [][2]int{{1, 1}, {1, 9}, {2, 2}, {3, 3}, {8, 8}, {9, 17}, {33, 32}, {64, 40}, {131, 97}, {257, 61}}
	for _, size := range sizes {
		w, h := size[0], size[1]
		rng := seed.New(t, uint64(w), uint64(h))
		s := devicetest.NewScene("renewed", w, h, 1)
		d := newDiffusion(t, 2, s, grayLevel)
		flags := view(d.setup.Flags)
		setUp := func(d *diffusionFixture) *box {
			d.ok(d.s.Run(&d.setup))
			d.wait()
			return layBox(&arena{b: view(d.setup.Dst), end: diffusionHeaderBytes}, w, h)
		}
		for step := range 40 {
			switch {
			case step%13 == 12:
				clear(flags)
			case step%7 == 6:
				for range rng.IntN(w * h) {
					flags[rng.IntN(w*h)] ^= driver.DiffusionFixed
				}
			case step%2 == 0:
				flags[rng.IntN(w*h)] ^= driver.DiffusionFixed
			default:
				x, y := rng.IntN(w), rng.IntN(h)
				for x < w && y < h {
					flags[y*w+x] ^= driver.DiffusionFixed
					x, y = x+rng.IntN(2), y+rng.IntN(2)
				}
			}
			got := setUp(d)
			gotCounts := download[driver.DiffusionCounts](d.fixture, d.setup.Counts)[0]
			d.setup.Renew = true
			fresh := devicetest.NewScene("fresh", w, h, 1)
			copy(fresh.Flags, flags)
			f := newDiffusion(t, 1, fresh, grayLevel)
			want := setUp(f)
			if counts := download[driver.DiffusionCounts](f.fixture, f.setup.Counts)[0]; gotCounts != counts {
				t.Fatalf("%dx%d, step %d: %+v instead of %+v", w, h, step, gotCounts, counts)
			}
			for i, p := range want.parts() {
				if !slices.Equal(bytesOf(got.parts()[i]), bytesOf(p)) {
					t.Fatalf("%dx%d, step %d: part %d differs", w, h, step, i)
				}
			}
		}
	}
}
