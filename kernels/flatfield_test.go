package kernels_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// flatOf is a field of the oracle's. Gains of 0 become 1, and alpha stays as it is.
func flatOf(t testing.TB, f *devicetest.Field) *kernels.FlatField {
	t.Helper()
	var dark, gain []byte
	for i := range f.Gain {
		f.Gain[i] = max(f.Gain[i], 1)
		if f.Format.HasAlpha() && i%int(f.Format.Channels) == int(f.Format.Order[f.Format.Channels-1]) {
			f.Dark[i], f.Gain[i] = 0, 1<<f.Fraction
		}
		if i < int(f.Format.Channels) { // one pixel that isn't blinded: no field may bring all of a channel to 0
			f.Dark[i], f.Gain[i] = 0, 1<<f.Fraction
		}
		if dark = append(dark, byte(f.Dark[i])); f.Format.SampleBytes == 2 {
			dark = append(dark, byte(f.Dark[i]>>8))
		}
		gain = append(gain, byte(f.Gain[i]), byte(f.Gain[i]>>8))
	}
	out, err := kernels.NewFlatField(f.Width, f.Height, f.Format, f.Fraction, dark, gain)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return out
}

// Rows of pictures of all formats, from the host and on the device, are corrected as the definition says; those of
// cameras once they are developed. A field that was uploaded is found by the next job.
func TestIntakeCorrects(t *testing.T) {
	dev := cpuDevice(t)
	g := rand.New(rand.NewPCG(15, 6))
	compare := func(name string, p *kernels.Picture, plain *devicetest.Picture, f *devicetest.Field) {
		from := g.IntN(p.Height)
		to := from + 1 + g.IntN(p.Height-from)
		rows := *plain
		rows.Height, rows.Pixels = to-from, plain.Pixels[from*plain.Stride:]
		want := f.Correct(&rows, from)
		for range 2 {
			got, err := take(t, dev, p, from, to)
			if err != nil || !bytes.Equal(got, want.Pixels) {
				t.Errorf("%s, %s, rows %d to %d: %v", name, f.Name, from, to, err)
			}
		}
	}
	for _, p := range devicetest.Pictures(4, 20) {
		for _, f := range devicetest.Fields(&p, g) {
			picture := kernels.Picture{Width: p.Width, Height: p.Height, Stride: p.Stride, Format: p.Format,
				Data: [][]byte{p.Pixels}, Flat: flatOf(t, &f)}
			if err := picture.Check("frame"); err != nil {
				t.Fatal(err)
			}
			compare(p.Name, &picture, &p, &f)
			kept, err := kernels.Store[byte](dev, len(p.Pixels), "test")
			if err != nil {
				t.Fatal(err)
			}
			err = dev.Do(t.Context(), kernels.Job{Label: "test"}, func(q *kernels.Queue) error {
				return kernels.Upload(q, kept.Buffer(), p.Pixels)
			})
			if err != nil {
				t.Fatal(err)
			}
			picture.Data, picture.Resident = nil, kept.Buffer()
			compare(p.Name+" on the device", &picture, &p, &f)
			kept.Drop()
			kept.Release()
		}
	}
	if s := dev.Memos(); s.Hits < s.Misses {
		t.Errorf("%+v: fields are uploaded again and again", s)
	}
	for i, s := range devicetest.Shots(5, 0) {
		if i%7 != 0 {
			continue
		}
		plain, beyond := s.Develop(0, s.Height)
		if beyond > 0 {
			continue
		}
		f := devicetest.Fields(&plain, g)[3+i%2*5]
		p := pictureOf(&s)
		p.Flat = flatOf(t, &f)
		compare(s.Name, &p, &plain, &f)
	}
}

// What is wrong with a field names what it is, and a picture of another size or format is refused.
func TestFlatFieldRefuses(t *testing.T) {
	dark, gain := make([]byte, 12), bytes.Repeat([]byte{0, 64}, 12)
	for _, c := range []struct {
		width, height, fraction int
		f                       kernels.PixelFormat
		dark, gain              []byte
		says                    string
	}{
		{4, 3, 14, kernels.Gray8, dark, gain, ""},
		{1, 3, 14, kernels.RGBA8, dark, gain, ""},
		{0, 3, 14, kernels.Gray8, dark, gain, "width = 0: must be 1 to"},
		{4, 3, 8, kernels.Gray8, dark, gain, "fraction_bits = 8: must be 9 to 15"},
		{4, 3, 16, kernels.Gray8, dark, gain, "fraction_bits = 16: must be 9 to 15"},
		{4, 3, 14, kernels.PixelFormat{}, dark, gain, "is no known pixel format"},
		{4, 3, 14, kernels.Gray8, dark[1:], gain, "dark = 11 bytes: must hold 12: 4x3 pixels of GRAY8"},
		{4, 3, 14, kernels.Gray16(12), dark, gain, "dark = 12 bytes: must hold 24"},
		{4, 3, 14, kernels.Gray8, dark, gain[1:], "gain = 23 bytes: must hold 24"},
		{4, 3, 14, kernels.Gray8, dark, append(slicesOf(gain, 10), 0, 0, 0, 64),
			"gain = 1 samples of 0, the first at (2, 2)"},
		{1, 3, 13, kernels.RGBA8, dark, gain, "gain = 3 pixels: change alpha"},
		{4, 3, 15, kernels.Gray8, dark, bytes.Repeat([]byte{1, 0}, 12), "gain = at most 0 in channel 0: must bring"},
		{4, 3, 14, kernels.Gray8, bytes.Repeat([]byte{255}, 12), gain, "gain = at most 0 in channel 0: must bring"},
		{4, 3, 14, kernels.Gray8, bytes.Repeat([]byte{193}, 12), gain, "gain = at most 62 in channel 0: must bring"},
		{4, 3, 14, kernels.Gray8, bytes.Repeat([]byte{192}, 12), gain, ""},
		{1, 3, 14, kernels.RGBA8, bytes.Repeat([]byte{0, 0, 255, 0}, 3), gain, "gain = at most 0 in channel 2: must bring"},
	} {
		f, err := kernels.NewFlatField(c.width, c.height, c.f, c.fraction, c.dark, c.gain)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c, err, c.says)
		}
		if err != nil || c.f != kernels.Gray8 {
			continue
		}
		for _, other := range []kernels.Picture{{Width: 5, Height: 3, Format: kernels.Gray8},
			{Width: 4, Height: 2, Format: kernels.Gray8}, {Width: 4, Height: 3, Format: driver.Gray16(8)}} {
			other.Flat = f
			if _, _, err := other.Sizes("frame"); err == nil || !strings.Contains(err.Error(), "flat_field = 4x3 of GRAY8") {
				t.Errorf("%+v: %v", other, err)
			}
		}
	}
}

func slicesOf(b []byte, samples int) []byte { return bytes.Clone(b[:2*samples]) }
