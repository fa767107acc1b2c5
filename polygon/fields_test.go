package polygon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// field is the numbers of an image of winding numbers or of distances.
func field(r *Raster) []int {
	out := make([]int, r.Width*r.Height)
	for i := range out {
		out[i] = int(binary.LittleEndian.Uint16(r.Bytes()[2*i:])) - FieldZero
	}
	return out
}

// maskOf is a raster of a mask.
func maskOf(w, h int, pix []byte) *Raster {
	return &Raster{Picture: kernels.Picture{Width: w, Height: h, Format: driver.Gray8, Stride: w, Data: [][]byte{pix}}}
}

// slowDistances compares each pixel with all others.
func slowDistances(w, h int, pix []byte) []int {
	out := make([]int, w*h)
	for i := range out {
		nearest := math.Inf(1)
		for k := range out {
			if pix[k] != pix[i] {
				nearest = min(nearest, math.Hypot(float64(i%w-k%w), float64(i/w-k/w)))
			}
		}
		// No root of a whole number lies so near to a half of a step that the float64 could be beyond it.
		v := math.Round(32 * min(nearest, 1<<20))
		if pix[i] == 0 {
			v = -v
		}
		out[i] = int(min(max(v, -32768), 32767))
	}
	return out
}

func checkDistances(w, h int, pix []byte) error {
	r := maskOf(w, h, slices.Clone(pix))
	if err := r.Distances(nil); err != nil {
		return err
	}
	if err := r.Check("raster"); err != nil {
		return err
	}
	got, want := field(r), slowDistances(w, h, pix)
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%dx%d %v: pixel (%d, %d) is %d, want %d", w, h, pix, i%w, i/w, got[i], want[i])
		}
	}
	return nil
}

// TestDistanceImages: an image of distances has those of the definition, whatever the mask.
func TestDistanceImages(t *testing.T) {
	rng := testseed.New(t, 17, 3)
	for _, size := range [][2]int{{1, 1}, {2, 1}, {1, 2}, {1, 33}, {32, 1}, {31, 3}, {5, 7}, {33, 17}, {40, 31}} {
		w, h := size[0], size[1]
		for range 12 {
			pix := make([]byte, w*h)
			share := pick(rng, 0, 1, 2, 30, 50, 98, 99, 100)
			for i := range pix {
				if rng.IntN(100) < share {
					pix[i] = 255
				}
			}
			if err := checkDistances(w, h, pix); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDistancesEnd: from 1,024 px on there are no larger ones, along rows, columns and diagonals.
func TestDistancesEnd(t *testing.T) {
	for _, size := range [][2]int{{2200, 1}, {1, 2200}, {900, 700}} {
		w, h := size[0], size[1]
		pix := bytes.Repeat([]byte{255}, w*h)
		pix[0] = 0
		r := maskOf(w, h, slices.Clone(pix))
		if err := r.Distances(nil); err != nil {
			t.Fatal(err)
		}
		for i, v := range field(r) {
			want := min(int(math.Round(32*math.Hypot(float64(i%w), float64(i/w)))), 32767)
			if i == 0 {
				want = -32
			}
			if v != want {
				t.Fatalf("%dx%d: pixel (%d, %d) is %d, want %d", w, h, i%w, i/w, v, want)
			}
		}
	}
}

// TestDistancesOfShapes: the pixels that are more than a distance inside are those of an inset by it.
func TestDistancesOfShapes(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	part := Region{Name: "part", Rings: []Ring{{{20, 15}, {90, 22}, {70, 80}, {30, 60}}}}
	for _, d := range []float64{1, 2, 4.5, 9, 12.25} {
		r := rasterOf(t, dev, mustSet(t, part), 110, 100, MethodDefault)
		if err := r.Distances(nil); err != nil {
			t.Fatal(err)
		}
		both := mustSet(t, part, Region{Shape: fmt.Sprintf(`inset of "part" by %v`, d)})
		inset := rasterOf(t, dev, both, 110, 100, MethodDefault)
		labels, err := Rasterize(t.Context(), dev, both, 110, 100, RasterLabels, MethodDefault)
		if err != nil || inset.Counts[1] == 0 {
			t.Fatal(err, inset.Counts)
		}
		for i, v := range field(r) {
			in := binary.LittleEndian.Uint16(labels.Bytes()[2*i:]) == 2
			if more := float64(v) > d*DistanceUnit; more != in {
				t.Fatalf("pixel (%d, %d) is at %v, inset by %v: %v", i%110, i/110, float64(v)/DistanceUnit, d, in)
			}
		}
	}
}

func oracleField(regions []Region, w, h int) []int {
	out := make([]int, w*h)
	for _, r := range regions {
		rings := oracleRings(r)
		for y := range h {
			if r.Mask == nil {
				for x, v := range oracleWindings(rings, y, 0, w) {
					out[y*w+x] += v
				}
				continue
			}
			for x, in := range oracleInside(r, rings, y, 0, w) {
				if in {
					out[y*w+x]++
				}
			}
		}
	}
	return out
}

func checkWindings(regions []Region, w, h int) error {
	set, err := NewSet(regions, Bounds{})
	if err != nil {
		return nil // others look at those
	}
	r := maskOf(w, h, nil)
	if err := r.Windings(set, nil); err != nil {
		return err
	}
	got, want := field(r), oracleField(regions, w, h)
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%dx%d: pixel (%d, %d) is %d, want %d: %+v", w, h, i%w, i/w, got[i], want[i], regions)
		}
	}
	return nil
}

// TestWindings: an image of winding numbers has those of the definition, of rings and masks that reach beyond it, too.
func TestWindings(t *testing.T) {
	rng := testseed.New(t, 17, 4)
	for range 150 {
		w, h := 1+rng.IntN(40), 1+rng.IntN(40)
		var regions []Region
		for range 1 + rng.IntN(3) {
			regions = append(regions, randomShape(rng, w, h))
		}
		if err := checkWindings(regions, w, h); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWindingsEnd: what lies beyond 16 bits is the last number that they hold.
func TestWindingsEnd(t *testing.T) {
	for times, want := range map[int]int{3: 3, 32767: 32767, 32768: 32767, 40000: 32767, -32768: -32768,
		-40000: -32768} {
		n := max(times, -times)
		around := make(Ring, 0, 4*n)
		for range n {
			around = append(around, Point{1, 1}, Point{3, 1}, Point{3, 3}, Point{1, 3})
		}
		r := maskOf(4, 4, nil)
		if err := r.Windings(mustSet(t, Region{Rings: []Ring{reversed(around, times < 0)}}), nil); err != nil {
			t.Fatal(err)
		}
		if got := field(r); got[5] != want || got[0] != 0 || got[15] != 0 {
			t.Errorf("%d times around: %v, want %d", times, got, want)
		}
	}
}

// TestFieldsLetOthersGoFirst: drawing calls pause in its midst, in one long row, too, and ends with its error.
func TestFieldsLetOthersGoFirst(t *testing.T) {
	set := mustSet(t, Region{Rings: []Ring{{{10, 0.2}, {100_000, 0.2}, {50, 900}}}}, Region{Mask: striped(10, 10_000)})
	for _, size := range [][2]int{{100_000, 3}, {3, 100_000}, {600, 600}} {
		for name, draw := range map[string]func(r *Raster, pause func() error) error{
			"distances": func(r *Raster, pause func() error) error { return r.Distances(pause) },
			"windings":  func(r *Raster, pause func() error) error { return r.Windings(set, pause) },
		} {
			all := 0
			fresh := func() *Raster {
				pix := make([]byte, size[0]*size[1])
				pix[len(pix)/2] = 255
				return maskOf(size[0], size[1], pix)
			}
			if err := draw(fresh(), func() error { all++; return nil }); err != nil {
				t.Fatal(err)
			}
			stop := errors.New("stop")
			for _, at := range []int{1, all / 2, all} {
				n := 0
				err := draw(fresh(), func() error {
					if n++; n >= at {
						return stop
					}
					return nil
				})
				if err != stop || n != at || all < 40 {
					t.Errorf("%s of %v: %v after %d of %d pauses, want %d", name, size, err, n, all, at)
				}
			}
		}
	}
}

func FuzzFields(f *testing.F) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &byteChoices{data}
		w, h := 1+c.IntN(30), 1+c.IntN(30)
		regions := []Region{randomShape(c, w, h), randomShape(c, w, h)}
		if err := checkWindings(regions, w, h); err != nil {
			t.Error(err)
		}
		pix := make([]byte, w*h)
		share := c.IntN(20)
		for i := range pix {
			if c.IntN(20) < share {
				pix[i] = 255
			}
		}
		if err := checkDistances(w, h, pix); err != nil {
			t.Error(err)
		}
	})
}

// TestFieldComparatorsSee: a wrong pixel is noticed.
func TestFieldComparatorsSee(t *testing.T) {
	pix := []byte{0, 255, 255, 0, 0, 0, 255, 255, 0}
	if err := checkDistances(3, 3, pix); err != nil {
		t.Fatal(err)
	}
	r := maskOf(3, 3, slices.Clone(pix))
	if err := r.Distances(nil); err != nil {
		t.Fatal(err)
	}
	got := field(r)
	got[4]++
	if slices.Equal(got, slowDistances(3, 3, pix)) {
		t.Error("a distance that is off by one passes")
	}
}
