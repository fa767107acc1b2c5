// The suite: blobs.

package devicetest

import (
	"errors"
	"math/rand/v2"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// blobs finds the blobs of the cases in several ways, and compares them with the oracle's.
func (s Suite) blobs(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 78))
	for c, p := range s.pairCases {
		ways, times := 1, 1
		if !s.Short && !s.small {
			ways, times = 3, 2
		}
		for range ways {
			f, row0 := someFinding(g, p), 0
			if g.IntN(3) == 0 {
				row0 = g.IntN(p.Height)
			}
			if err := r.blobs(t, p, f, row0, times); errors.Is(err, driver.ErrNotSupported) {
				t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
				return
			} else if err != nil {
				t.Errorf("%s, %+v, frame from row %d: %v", c.Name, f, row0, err)
			}
		}
	}
	sizes := [][2]int{{33, 9}, {65, 70}}
	if !s.Short {
		sizes = append(sizes, [][2]int{{1, 1}, {31, 7}, {32, 9}, {64, 5}, {200, 90}, {257, 130}, {1100, 40}}...)
	}
	for _, p := range blobPictures(g, sizes) {
		for _, eight := range []bool{false, true} {
			f := Finding{Ranges: []driver.BlobRange{{Lo: 128, Hi: 255}}, Eight: eight, MaxBlobs: 1 << 14,
				MaxRuns: 1 << 16}
			if err := r.blobs(t, p.Problem, f, 0, 1); err != nil {
				t.Errorf("%s, eight %v: %v", p.name, eight, err)
			}
		}
	}
}

type blobPicture struct {
	name string
	*Problem
}

// blobPictures are what is hard for who joins labels: spirals, combs, checkers, noise, rows of one word and of several.
func blobPictures(g *rand.Rand, sizes [][2]int) (out []blobPicture) {
	for _, size := range sizes {
		w, h := size[0], size[1]
		for _, draw := range []struct {
			name string
			at   func(x, y int) bool
		}{
			{"full", func(x, y int) bool { return true }},
			{"checkers", func(x, y int) bool { return (x+y)%2 == 0 }},
			{"dots", func(x, y int) bool { return x%2 == 0 && y%2 == 0 }},
			{"comb down", func(x, y int) bool { return x%2 == 0 || y == h-1 }},
			{"comb up", func(x, y int) bool { return x%2 == 0 || y == 0 }},
			{"stripes", func(x, y int) bool { return y%2 == 0 || x == (y/2%2)*(w-1) }},
			{"noise", func(x, y int) bool { return g.IntN(2) == 0 }},
			{"dense noise", func(x, y int) bool { return g.IntN(5) > 0 }},
			{"rings", func(x, y int) bool { return max(abs(x-w/2), abs(y-h/2))%3 != 0 }},
			{"diagonals", func(x, y int) bool { return (x+y)%3 == 0 || x == y }},
		} {
			p := &Problem{Width: w, Height: h, Format: driver.Gray8, Stride: w, Pixels: make([]byte, w*h), Count: 1}
			for y := range h {
				for x := range w {
					if p.Pixels[y*w+x] = byte(g.IntN(128)); draw.at(x, y) {
						p.Pixels[y*w+x] |= 128
					}
				}
			}
			p.Regions.Regions = []driver.Region{{Count: uint32(h), Fill: driver.ByRuns}}
			for y := range h {
				p.Regions.Runs = append(p.Regions.Runs, driver.Run{Y: int32(y), X1: int32(w)})
			}
			out = append(out, blobPicture{draw.name, p})
		}
	}
	return out
}

func abs(v int) int { return max(v, -v) }

// blobs finds the blobs of a problem whose frame begins at row0, so many times.
func (r *rig) blobs(t T, p *Problem, f Finding, row0, times int) error {
	t.Helper()
	rows := p.Height - row0
	op := driver.MaskBlobs{
		First: p.First, Count: p.Count, Row0: row0, Channel: f.Channel, Ranges: f.Ranges, Eight: f.Eight,
		Steps:    f.Steps,
		MinCount: f.MinCount, MaxBlobs: f.MaxBlobs, MaxRuns: f.MaxRuns,
		Frame: driver.Image{Width: p.Width, Height: rows, Stride: p.Stride, Format: p.Format},
	}
	prepare := driver.MaskPrepare{Regions: p.Regions, Width: p.Width, Height: p.Height}
	size, err := r.dev.Scratch(&prepare)
	if err != nil {
		return err
	}
	extra, err := r.dev.Scratch(&op)
	if err != nil {
		return err
	}
	got := &Found{make([]driver.BlobCount, p.Count), make([]driver.Blob, f.MaxBlobs), make([]driver.BlobRun, f.MaxRuns)}
	pixels := p.Pixels[row0*p.Stride:]
	bytes := []int64{int64(p.Count) * int64(unsafe.Sizeof(got.Counts[0])),
		int64(f.MaxBlobs) * int64(unsafe.Sizeof(driver.Blob{})),
		int64(f.MaxRuns) * int64(unsafe.Sizeof(driver.BlobRun{}))}
	r.reserve(t, 6, size+extra+int64(len(pixels)+p.Offset)+bytes[0]+bytes[1]+bytes[2])
	prepare.Dst = r.slice(t, size, 0)
	op.Prepared = prepare.Dst
	op.Frame.Data = r.slice(t, int64(len(pixels)), p.Offset)
	op.Counts, op.Blobs, op.Runs = r.slice(t, bytes[0], 0), r.slice(t, bytes[1], 0), r.slice(t, bytes[2], 0)
	op.Scratch = r.slice(t, extra, 0)
	r.upload(t, op.Frame.Data, pixels)
	r.fill(t, prepare.Dst, dirtyByte)
	if err := r.stream.Run(&prepare); err != nil {
		return err
	}
	want := p.FindBlobs(f, row0, rows)
	for range times {
		for _, s := range []driver.Slice{op.Counts, op.Blobs, op.Runs, op.Scratch} {
			if s.Len > 0 {
				r.fill(t, s, dirtyByte)
			}
		}
		if err := Enqueue(r.dev, r.stream, &op); err != nil {
			return err
		}
		for _, o := range []struct {
			to   []byte
			from driver.Slice
		}{{bytesOf(got.Counts), op.Counts}, {bytesOf(got.Blobs), op.Blobs}, {bytesOf(got.Runs), op.Runs}} {
			if o.from.Len > 0 {
				r.download(t, o.to, o.from)
			}
		}
		r.wait(t)
		found := *got
		found.Cut()
		if d := CompareFound(&found, want); d != nil {
			return d
		}
	}
	r.checkGuards(t)
	return nil
}
