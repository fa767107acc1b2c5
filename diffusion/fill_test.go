package diffusion_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// holed is a picture with holes: all of its pixels, and what is to be found in them. Between the rows is something
// else.
type holed struct {
	devicetest.Picture
	mask []byte
}

// image cuts the pixels into pieces.
func (h *holed) image() kernels.Picture {
	third := len(h.Pixels) / 3
	return kernels.Picture{
		Width: h.Width, Height: h.Height, Stride: h.Stride, Format: h.Format,
		Data: [][]byte{h.Pixels[:third], nil, h.Pixels[third:]},
	}
}

// filled is what Fill is to return, by the exact solution: within one level where the pixel is not given, and the pixel
// where it is.
func (h *holed) filled() (exact []float64, given []byte) {
	given, planes := h.Unpack(h.mask)
	s := devicetest.NewScene(h.Name, h.Width, h.Height, h.Format.Colours())
	copy(s.Flags, given)
	copy(s.Colours, planes)
	return s.Exact(), given
}

// differ compares what Fill wrote, in rows without a gap, with the exact solution.
func (h *holed) differ(t interface{ Errorf(string, ...any) }, picture, residual []byte, f driver.PixelFormat) {
	exact, given := h.filled()
	most := float64(f.Levels() - 1)
	n := h.Width * h.Height
	sample := func(b []byte, i, c int) int {
		if f.SampleBytes == 2 {
			return int(b[2*i]) | int(b[2*i+1])<<8
		}
		return int(b[i*int(f.Channels)+int(f.Order[c])])
	}
	_, planes := h.Unpack(nil)
	for i := range n {
		for c := range f.Colours() {
			got, was := sample(picture, i, c), int(math.Round(float64(planes[c*n+i])*most))
			off := math.Abs(float64(got) - exact[c*n+i]*most)
			if given[i] != 0 && got != was || off > 0.5+most/255/2 {
				t.Errorf("%s: channel %d of pixel (%d, %d) is %d, was %d, exactly %.3f", h.Name, c, i%h.Width,
					i/h.Width, got, was, exact[c*n+i]*most)
				return
			}
			if want := min(max(was-got+f.Levels()/2, 0), f.Levels()-1); sample(residual, i, c) != want {
				t.Errorf("%s: residual %d of pixel (%d, %d) is %d, want %d", h.Name, c, i%h.Width, i/h.Width,
					sample(residual, i, c), want)
				return
			}
		}
		if a := int(f.Channels) - 1; f.HasAlpha() && (sample(picture, i, a) != 255 || sample(residual, i, a) != 255) {
			t.Errorf("%s: pixel (%d, %d) is not opaque", h.Name, i%h.Width, i/h.Width)
			return
		}
	}
}

// drawn has a mask drawn, by way of so many bytes of the job, or an error returned.
func drawn(h *diffusion.Holes, mask []byte, scratch int, err error) *diffusion.Holes {
	h.DrawBytes = kernels.Bytes[byte](scratch)
	h.Draw = func(q *kernels.Queue, dst kernels.Buffer[byte]) error {
		if err != nil {
			return err
		}
		b, err := kernels.Alloc[byte](q, scratch, "mask")
		if err != nil {
			return err
		}
		return errors.Join(kernels.Upload(q, dst, mask), kernels.Free(q, b))
	}
	return h
}

// TestFill fills holes in pictures of all formats, from host memory and on the device.
func TestFill(t *testing.T) {
	d := openCPU(t, 16<<20)
	for i, p := range devicetest.Pictures(3, 24) {
		h := &holed{Picture: p, mask: make([]byte, p.Width*p.Height)}
		for k := range h.mask {
			if x, y := k%p.Width-p.Width/2, k/p.Width-p.Height/2; x*x+y*y < 40+i*10 {
				h.mask[k] = byte(1 + k%255)
			}
		}
		if _, given := h.filled(); !slices.Contains(given, driver.DiffusionFixed) {
			continue
		}
		f := p.Format
		size := p.Width * p.Height * f.PixelBytes()
		picture, residual := make([]byte, size), make([]byte, size)
		holes := &diffusion.Holes{Image: h.image(), Mask: diffusion.Pixels{Host: h.mask},
			Picture: diffusion.Pixels{Host: picture}, Residual: diffusion.Pixels{Host: residual}}
		s, err := diffusion.Fill(context.Background(), d, holes, nil)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		h.differ(t, picture, residual, f)
		if s.Values == nil || len(s.Values) != 0 || !s.Converged || s.Backend != "cpu" {
			t.Errorf("%s: %+v", p.Name, s)
		}

		// The same with everything on the device.
		on := make([]*kernels.Resident[byte], 4)
		for k, n := range []int{len(p.Pixels), len(h.mask), size, size} {
			if on[k], err = kernels.Store[byte](d, n, "test"); err != nil {
				t.Fatal(err)
			}
		}
		same, rest := make([]byte, size), make([]byte, size)
		err = d.Do(context.Background(), kernels.Job{Label: "test"}, func(q *kernels.Queue) error {
			return errors.Join(kernels.Upload(q, on[0].Buffer(), p.Pixels), kernels.Upload(q, on[1].Buffer(), h.mask))
		})
		holes.Image.Data, holes.Image.Resident = nil, on[0].Buffer()
		holes.Mask = diffusion.Pixels{Resident: on[1].Buffer()}
		holes.Picture, holes.Residual = diffusion.Pixels{Resident: on[2].Buffer()},
			diffusion.Pixels{Resident: on[3].Buffer()}
		if err == nil {
			_, err = diffusion.Fill(context.Background(), d, holes, nil)
		}
		if err == nil {
			err = d.Do(context.Background(), kernels.Job{Label: "test"}, func(q *kernels.Queue) error {
				return errors.Join(kernels.Download(q, same, on[2].Buffer()), kernels.Download(q, rest, on[3].Buffer()))
			})
		}
		if err != nil || !slices.Equal(same, picture) || !slices.Equal(rest, residual) {
			t.Errorf("%s: on the device: %v, or other pixels", p.Name, err)
		}
		for _, r := range on {
			r.Drop()
			r.Release()
		}
	}
}

// TestFillOnly: results are written only where they are asked for, in another format too, and a mask of nothing leaves
// the picture.
func TestFillOnly(t *testing.T) {
	d := openCPU(t, 4<<20)
	p := devicetest.Picture{Width: 3, Height: 1, Stride: 12, Format: driver.RGBA8,
		Pixels: []byte{10, 20, 30, 255, 1, 2, 3, 9, 30, 0, 50, 255}}
	h := &holed{Picture: p}
	rgb := make([]byte, 9)
	holes := &diffusion.Holes{Image: h.image(), Format: driver.BGR8, Picture: diffusion.Pixels{Host: rgb}}
	if _, err := diffusion.Fill(context.Background(), d, holes, nil); err != nil {
		t.Fatal(err)
	}
	if want := []byte{30, 20, 10, 40, 10, 20, 50, 0, 30}; !slices.Equal(rgb, want) {
		t.Errorf("got %v, want %v", rgb, want)
	}
	holes = &diffusion.Holes{Image: h.image(), Residual: diffusion.Pixels{Host: make([]byte, 12)}}
	if _, err := diffusion.Fill(context.Background(), d, holes, nil); err != nil {
		t.Fatal(err)
	}
	if want := []byte{128, 128, 128, 255, 128 + 1 - 20, 128 + 2 - 10, 128 + 3 - 40, 255, 128, 128, 128,
		255}; !slices.Equal(holes.Residual.Host, want) {
		t.Errorf("residual %v, want %v", holes.Residual.Host, want)
	}
	gray := &holed{Picture: devicetest.Picture{Width: 2, Height: 2, Stride: 2, Format: driver.Gray8,
		Pixels: []byte{1, 2, 3, 4}}}
	same := make([]byte, 4)
	holes = &diffusion.Holes{Image: gray.image(), Mask: diffusion.Pixels{Host: make([]byte, 4)},
		Picture: diffusion.Pixels{Host: same}}
	if _, err := diffusion.Fill(context.Background(), d, holes, nil); err != nil ||
		!slices.Equal(same, gray.Pixels) {
		t.Errorf("a mask of nothing: %v, or another picture: %v", err, same)
	}
}

func TestFillRefuses(t *testing.T) {
	d := openCPU(t, 1<<20)
	for _, x := range []struct {
		field string
		spoil func(h *diffusion.Holes, o *diffusion.Options)
	}{
		{"image.width", func(h *diffusion.Holes, _ *diffusion.Options) { h.Image.Width = 0 }},
		{"image.stride", func(h *diffusion.Holes, _ *diffusion.Options) { h.Image.Stride = 3 }},
		{"image.data", func(h *diffusion.Holes, _ *diffusion.Options) { h.Image.Data = h.Image.Data[:1] }},
		{"image.format", func(h *diffusion.Holes, _ *diffusion.Options) { h.Image.Format.Bits = 3 }},
		{"mask", func(h *diffusion.Holes, _ *diffusion.Options) { h.Mask.Host = h.Mask.Host[1:] }},
		{"mask", func(h *diffusion.Holes, _ *diffusion.Options) { h.Mask.Host = slices.Repeat([]byte{1}, 16) }},
		{"format", func(h *diffusion.Holes, _ *diffusion.Options) { h.Format = driver.RGB8 }},
		{"format", func(h *diffusion.Holes, _ *diffusion.Options) { h.Format = driver.Gray16(12) }},
		{"mask", func(h *diffusion.Holes, _ *diffusion.Options) { drawn(h, nil, 0, nil) }},
		{"mask", func(h *diffusion.Holes, _ *diffusion.Options) {
			h.Mask.Host = nil
			drawn(h, slices.Repeat([]byte{1}, 16), 0, nil)
		}},
		{"picture", func(h *diffusion.Holes, _ *diffusion.Options) { h.Picture.Host = make([]byte, 15) }},
		{"residual", func(h *diffusion.Holes, _ *diffusion.Options) { h.Residual.Host = make([]byte, 17) }},
		{"start", func(_ *diffusion.Holes, o *diffusion.Options) { o.Start = make([]float32, 16) }},
		{"tolerance", func(_ *diffusion.Holes, o *diffusion.Options) { o.Tolerance = -1 }},
		{"method", func(_ *diffusion.Holes, o *diffusion.Options) { o.Method = 9 }},
	} {
		h := &diffusion.Holes{
			Image: kernels.Picture{Width: 4, Height: 4, Format: driver.Gray8,
				Data: [][]byte{make([]byte, 8), make([]byte, 8)}},
			Mask:    diffusion.Pixels{Host: make([]byte, 16)},
			Picture: diffusion.Pixels{Host: make([]byte, 16)},
		}
		o := &diffusion.Options{}
		x.spoil(h, o)
		_, err := diffusion.Fill(context.Background(), d, h, o)
		var bad *kernels.InvalidError
		if !errors.As(err, &bad) || bad.Violations[0].Path.String() != x.field {
			t.Errorf("%v, want an error about %s", err, x.field)
		}
	}
	big := &diffusion.Holes{Image: kernels.Picture{Width: 1000, Height: 1000, Format: driver.Gray8,
		Data: [][]byte{make([]byte, 1000*1000)}}}
	torn := errors.New("torn")
	h := drawn(&diffusion.Holes{
		Image: kernels.Picture{Width: 2, Height: 1, Format: driver.Gray8, Data: [][]byte{{1, 2}}},
	}, nil, 0, torn)
	if _, err := diffusion.Fill(context.Background(), d, h, nil); !errors.Is(err, torn) {
		t.Errorf("a mask that can't be drawn: %v", err)
	}
	var full *kernels.CapacityError
	for m, label := range map[diffusion.Method]string{diffusion.Multigrid: "fill", diffusion.Naive: "fill by NAIVE"} {
		if _, err := diffusion.Fill(context.Background(), d, big, &diffusion.Options{Method: m}); !errors.As(err, &full) ||
			full.Label != label {
			t.Errorf("an image that has no room, by %v: %v", m, err)
		}
	}
}

// TestFillRandom: any holes in any picture.
func TestFillRandom(t *testing.T) {
	d := openCPU(t, 4<<20)
	formats := devicetest.PictureFormats()
	rapid.Check(t, func(t *rapid.T) {
		p := devicetest.Picture{Width: rapid.IntRange(1, 9).Draw(t, "width"),
			Height: rapid.IntRange(1, 9).Draw(t, "height"), Format: rapid.SampledFrom(formats).Draw(t, "format")}
		p.Stride = p.Width * p.Format.PixelBytes()
		p.Pixels = rapid.SliceOfN(rapid.Byte(), p.Stride*p.Height, p.Stride*p.Height).Draw(t, "pixels")
		n := p.Width * p.Height
		h := &holed{Picture: p, mask: rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 255}), n, n).Draw(t, "mask")}
		picture, residual := make([]byte, len(p.Pixels)), make([]byte, len(p.Pixels))
		holes := &diffusion.Holes{Image: h.image(), Mask: diffusion.Pixels{Host: h.mask},
			Picture: diffusion.Pixels{Host: picture}, Residual: diffusion.Pixels{Host: residual}}
		_, err := diffusion.Fill(context.Background(), d, holes, nil)
		given, _ := h.Unpack(h.mask)
		if !slices.Contains(given, driver.DiffusionFixed) {
			if err == nil {
				t.Fatal("nothing is given, and no error")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		h.differ(t, picture, residual, p.Format)

		again := make([]byte, len(picture))
		holes.Mask = diffusion.Pixels{}
		drawn(holes, h.mask, rapid.IntRange(0, 200_000).Draw(t, "scratch"), nil)
		holes.Picture.Host = again
		if _, err := diffusion.Fill(context.Background(), d, holes, nil); err != nil ||
			!slices.Equal(again, picture) {
			t.Fatalf("with a mask that is drawn: %v, or another picture", err)
		}
	})
}
