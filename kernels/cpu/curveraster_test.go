package cpu

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// draw runs one CurveRaster.
func draw(f *fixture, p *devicetest.Sketch) ([]byte, []float32) {
	f.t.Helper()
	f.reset()
	op := driver.CurveRaster{Segments: p.Segments, Curves: p.Curves, Stops: p.Stops, Width: p.Width, Height: p.Height,
		Channels: p.Channels}
	op.Flags, op.Values, op.Scratch = f.slice(int64(len(p.Flags))), f.slice(4*int64(len(p.Values))),
		f.slice(op.ScratchBytes())
	flags, values := slices.Clone(p.Flags), slices.Clone(p.Values)
	f.ok(f.s.Upload(op.Flags, [][]byte{flags}))
	f.ok(f.s.Upload(op.Values, [][]byte{bytesOf(values)}))
	f.ok(f.s.Run(&op))
	f.ok(f.s.Download(flags, op.Flags))
	f.ok(f.s.Download(bytesOf(values), op.Values))
	f.ok(f.s.Wait(context.Background()))
	return flags, values
}

// blurOf runs one Blur.
func blurOf(f *fixture, p *devicetest.Focus) []float32 {
	f.t.Helper()
	f.reset()
	op := driver.Blur{Width: p.Width, Height: p.Height, Channels: p.Channels, Scale: p.Scale}
	op.Src, op.Sigma, op.Dst = f.slice(4*int64(len(p.Src))), f.slice(4*int64(len(p.Sigma))),
		f.slice(4*int64(len(p.Src)))
	op.Scratch = f.slice(op.ScratchBytes())
	f.ok(f.s.Upload(op.Src, [][]byte{bytesOf(p.Src)}))
	f.ok(f.s.Upload(op.Sigma, [][]byte{bytesOf(p.Sigma)}))
	f.ok(f.s.Run(&op))
	out := make([]float32, len(p.Src))
	f.ok(f.s.Download(bytesOf(out), op.Dst))
	f.ok(f.s.Wait(context.Background()))
	return out
}

// Whatever the control points, stops and the size are, what is drawn is what the oracle draws.
func FuzzCurveRaster(f *testing.F) {
	f.Add(uint8(20), uint8(17), uint8(3), []byte("curves of any kind, of which some bytes are places"))
	f.Add(uint8(1), uint8(70), uint8(0), []byte{0, 0, 0, 0, 255, 255, 255, 255, 0, 128, 128, 0, 7, 9, 1, 2, 3, 4, 5, 6})
	x := newFixture(f, 2, 1<<20)
	f.Fuzz(func(t *testing.T, width, height, log uint8, data []byte) {
		x.t = t
		p := devicetest.NewSketch("fuzz", 1+int(width)%40, 1+int(height)%80, 2)
		for len(data) >= 18 && len(p.Curves) < 4 {
			var points [4][2]float64
			for k := range points {
				for a := range 2 { // sixteenths of a pixel, on both sides of the border
					points[k][a] = float64(int16(binary.LittleEndian.Uint16(data[4*k+2*a:]))%1600) / 16
				}
			}
			kind, colour := data[16], float32(data[17])
			stops := func(n byte) (out [][]float32) {
				for i := range n % 4 {
					out = append(out, []float32{colour + float32(i), colour * float32(i)})
				}
				return out
			}
			p.Add(kind&1 != 0, uint32(log)%8, stops(kind>>1), stops(kind>>3), points[0], points[1], points[2],
				points[3])
			data = data[18:]
		}
		flags, values := draw(x, p)
		wantFlags, wantValues := p.Draw()
		if d := devicetest.CompareConstraints(flags, wantFlags, values, wantValues, p.Width); d != nil {
			t.Error(d)
		}
	})
}

// Bands of rows don't show: a large image has what many small ones have.
func TestCurveRasterBands(t *testing.T) {
	x := newFixture(t, 2, 8<<20)
	p := devicetest.NewSketch("bands", 60, 5*curveBandRows+3, 1)
	h := float64(p.Height)
	for i := range 8 {
		v := float64(i)
		p.Add(i%2 == 0, 7, [][]float32{{1}, {2}}, [][]float32{{3}, {4}},
			[2]float64{v * 3, -2}, [2]float64{90 - v, h / 3}, [2]float64{-30 + v, 2 * h / 3},
			[2]float64{50 - v*4, h + 2})
	}
	for y := 1; y < 5; y++ { // along the borders of bands
		p.Add(true, 0, [][]float32{{5}}, [][]float32{{6}}, [2]float64{0, float64(y * curveBandRows)},
			[2]float64{20, float64(y * curveBandRows)},
			[2]float64{40, float64(y * curveBandRows)}, [2]float64{60, float64(y * curveBandRows)})
	}
	flags, values := draw(x, p)
	wantFlags, wantValues := p.Draw()
	if d := devicetest.CompareConstraints(flags, wantFlags, values, wantValues, p.Width); d != nil {
		t.Error(d)
	}
}

// Drawing is stopped within a band, too, however many pieces of curves come near it.
func TestCurveRasterAbort(t *testing.T) {
	x := newFixture(t, 2, 64<<20)
	p := devicetest.NewSketch("far", 8, 8, 1)
	p.Add(false, 0, [][]float32{{1}}, nil, [2]float64{4, -1}, [2]float64{4, 3}, [2]float64{4, 6}, [2]float64{4, 9})
	const far = driver.MaxCurveCoord
	long := driver.CurveSegment{X: [4]int32{-far, far, -far, far}, Y: [4]int32{-far, -far, far, far}, LogPieces: 11}
	p.Segments = append(p.Segments, slices.Repeat([]driver.CurveSegment{long}, 500_000)...) // many seconds of work
	op := driver.CurveRaster{Segments: p.Segments, Curves: p.Curves, Stops: p.Stops, Width: p.Width, Height: p.Height,
		Channels: p.Channels}
	op.Flags, op.Values, op.Scratch = x.slice(int64(len(p.Flags))), x.slice(4*int64(len(p.Values))),
		x.slice(op.ScratchBytes())
	x.ok(x.s.Run(&driver.Fill{Dst: op.Flags, Value: 0}))
	x.wait()
	cause := errors.New("nobody waits for it")
	ctx, cancel := context.WithCancelCause(t.Context())
	x.ok(x.s.Run(&op))
	waitRunning(t, x.s)
	cancel(cause)
	if err := x.s.Wait(ctx); !errors.Is(err, cause) {
		t.Fatal(err)
	}
	if flags := download[byte](x, op.Flags); slices.Max(flags) != 0 {
		t.Error("it was not stopped")
	}
}

func FuzzBlur(f *testing.F) {
	f.Add(uint8(9), uint8(5), []byte("values and deviations"))
	f.Add(uint8(1), uint8(1), []byte{})
	x := newFixture(f, 2, 1<<20)
	f.Fuzz(func(t *testing.T, width, height uint8, data []byte) {
		x.t = t
		p := &devicetest.Focus{Width: 1 + int(width)%50, Height: 1 + int(height)%50, Channels: 1, Scale: 0.5}
		for i := range p.Width * p.Height {
			v, s := byte(i), byte(i/3)
			if len(data) > 0 {
				v, s = data[i%len(data)], data[(i*7+3)%len(data)]
			}
			p.Src, p.Sigma = append(p.Src, float32(v)/255), append(p.Sigma, float32(s)-20)
		}
		if d := devicetest.CompareBlur(blurOf(x, p), p.Exact(), p.Width, devicetest.BlurRounding); d != nil {
			t.Error(d)
		}
	})
}

// All instructions give the same bits, at the borders and beside pixels that aren't blurred, too.
func TestBlurLevels(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {7, 9}, {8, 1}, {9, 40}, {40, 9}, {61, 33}, {1050, 20}, {130, 130}} {
		w, h := size[0], size[1]
		rng := seed.New(t, uint64(w), uint64(h))
		p := &devicetest.Focus{Width: w, Height: h, Channels: 2, Scale: 1}
		for i := range w * h {
			s := 4 * rng.Float32()
			switch i / 5 % 7 {
			case 0:
				s = 0
			case 1:
				s = 120 * rng.Float32()
			}
			p.Sigma = append(p.Sigma, s)
		}
		for range 2 * w * h {
			p.Src = append(p.Src, rng.Float32()-0.5)
		}
		var want []float32
		for _, l := range levels() {
			atLevel(t, l, func() {
				if got := blurOf(newFixture(t, 2, 1<<20), p); want == nil {
					want = got
				} else if !slices.Equal(bytesOf(got), bytesOf(want)) {
					t.Errorf("%v, %dx%d: not the same", l, w, h)
				}
			})
		}
	}
}

// The kernel is one: it takes a point to values that add up to it, and whose spread is what was asked for.
func TestBlurVariance(t *testing.T) {
	x := newFixture(t, 2, 8<<20)
	for _, sigma := range []float32{0.3, 0.75, 1, 1.3, 2, 3.5, 5, 9, 14} {
		const n = 161
		for _, at := range []int{n / 2, n/2 + 1, n/2 + 3} { // places differ in the pyramid
			p := &devicetest.Focus{Width: n, Height: n, Channels: 1, Src: make([]float32, n*n),
				Sigma: slices.Repeat([]float32{sigma}, n*n), Scale: 1}
			p.Src[at*n+at] = 1
			var sum, mean, spread float64
			out := blurOf(x, p)
			for i, v := range out {
				sum += float64(v)
				mean += float64(v) * float64(i%n-at)
				spread += float64(v) * float64((i%n-at)*(i%n-at))
			}
			// A level's kernel is the same on average only, as each of its pixels stands for several.
			if math.Abs(sum-1) > 0.1 || math.Abs(mean) > 0.15*float64(sigma) ||
				math.Abs(spread-float64(sigma*sigma)) > 0.15*float64(sigma*sigma) {
				t.Errorf("deviation %v at %d: the sum is %v, the mean %v, the variance %v", sigma, at, sum, mean,
					spread)
			}
		}
	}
}

// A flat picture stays flat, however far it is blurred.
func TestBlurFlat(t *testing.T) {
	x := newFixture(t, 2, 1<<20)
	p := &devicetest.Focus{Width: 77, Height: 41, Channels: 2, Scale: 1}
	for i := range 77 * 41 {
		p.Sigma = append(p.Sigma, float32(i%120))
	}
	p.Src = slices.Concat(slices.Repeat([]float32{0.3}, 77*41), slices.Repeat([]float32{-7}, 77*41))
	for i, v := range blurOf(x, p) {
		if want := p.Src[i]; math.Abs(float64(v/want-1)) > 2e-6 {
			t.Fatalf("value %d is %v, want %v", i, v, want)
		}
	}
}

func BenchmarkCurveRaster(b *testing.B) {
	x := newFixture(b, 2, 64<<20)
	p := devicetest.NewSketch("bench", 1024, 1024, 3)
	for i := range 400 {
		a, u, v := float64(i)*2.4, float64(i*379%1024), float64(i*733%1024)
		s, c := math.Sincos(a)
		p.Add(false, 4, [][]float32{{1, 0, 0}, {0, 1, 0}}, [][]float32{{0, 0, 1}, {1, 1, 0}},
			[2]float64{u, v}, [2]float64{u + 70*c, v + 70*s}, [2]float64{u + 140*c - 40*s, v + 140*s + 40*c},
			[2]float64{u + 200*c, v + 200*s})
	}
	op := driver.CurveRaster{Segments: p.Segments, Curves: p.Curves, Stops: p.Stops, Width: p.Width, Height: p.Height,
		Channels: p.Channels}
	op.Flags, op.Values, op.Scratch = x.slice(int64(len(p.Flags))), x.slice(4*int64(len(p.Values))),
		x.slice(op.ScratchBytes())
	b.SetBytes(16 << 20)
	for b.Loop() {
		x.ok(x.s.Run(&op))
		x.ok(x.s.Wait(context.Background()))
	}
}

func BenchmarkBlur(b *testing.B) {
	x := newFixture(b, 2, 64<<20)
	const n = 1 << 20
	op := driver.Blur{Width: 1024, Height: 1024, Channels: 3, Scale: 1}
	op.Src, op.Sigma, op.Dst = x.slice(12*n), x.slice(4*n), x.slice(12*n)
	op.Scratch = x.slice(op.ScratchBytes())
	sigma := make([]float32, n)
	for i := range sigma {
		sigma[i] = 20 * float32(i%1024) / 1024
	}
	x.ok(x.s.Run(&driver.Fill{Dst: op.Src, Value: 0}))
	x.ok(x.s.Upload(op.Sigma, [][]byte{bytesOf(sigma)}))
	b.SetBytes(28 * n)
	for b.Loop() {
		x.ok(x.s.Run(&op))
		x.ok(x.s.Wait(context.Background()))
	}
}
