package kernels_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

func cpuDevice(t testing.TB) *kernels.Device {
	t.Helper()
	dev, err := kernels.Open(cpu.New(cpu.Options{Threads: 2}), kernels.Config{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func pictureOf(s *devicetest.Shot) kernels.Picture {
	return kernels.Picture{Width: s.Width, Height: s.Height, Stride: s.Stride, Format: s.Coding.Format(),
		Coding: s.Coding, Data: [][]byte{s.Bytes}}
}

// take is rows of a picture after an intake, without gaps between them.
func take(t testing.TB, dev *kernels.Device, p *kernels.Picture, from, to int) ([]byte, error) {
	t.Helper()
	var intake kernels.Intake
	intake.Take(p, from, to)
	defer intake.Forget()
	row := p.Width * p.Format.PixelBytes()
	out := make([]byte, 0, row*(to-from))
	err := dev.Do(context.Background(), kernels.Job{Label: "test", Footprint: intake.Footprint()},
		func(q *kernels.Queue) error {
			im, err := intake.Run(q)
			if err != nil {
				return err
			}
			all := make([]byte, intake.Pixels().Len())
			if err := errors.Join(kernels.Download(q, all, intake.Pixels()), q.Wait()); err != nil {
				return err
			}
			y0, y1 := intake.Rows()
			if im.Height != y1-y0 || im.Width != p.Width || im.Format != p.Format {
				t.Errorf("rows %d to %d: %+v", y0, y1, im)
			}
			for y := from; y < to; y++ {
				out = append(out, all[(y-y0)*im.Stride:][:row]...)
			}
			return intake.Err("frame")
		})
	return out, err
}

// Rows that come from the host in pieces and those that are on the device are what the definition says, and so is the
// whole picture on the host. Samples beyond their bits are an error that says where.
func TestIntake(t *testing.T) {
	dev := cpuDevice(t)
	g := rand.New(rand.NewPCG(5, 6))
	for i, s := range devicetest.Shots(3, 2) {
		if i%3 != 0 && testing.Short() {
			continue
		}
		from := g.IntN(s.Height)
		to := from + 1 + g.IntN(s.Height-from)
		want, beyond := s.Develop(from, to)
		p := pictureOf(&s)
		if err := p.Check("frame"); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		cut := g.IntN(len(s.Bytes) + 1)
		p.Data = [][]byte{s.Bytes[:cut], nil, s.Bytes[cut:]}
		r, err := kernels.Store[byte](dev, len(s.Bytes), "test")
		if err != nil {
			t.Fatal(err)
		}
		err = dev.Do(t.Context(), kernels.Job{Label: "upload"}, func(q *kernels.Queue) error {
			return kernels.Upload(q, r.Buffer(), s.Bytes)
		})
		if err != nil {
			t.Fatal(err)
		}
		resident := p
		resident.Data, resident.Resident = nil, r.Buffer()
		for _, x := range []*kernels.Picture{&p, &resident} {
			got, err := take(t, dev, x, from, to)
			var bad *kernels.InvalidError
			if beyond == 0 && err != nil || beyond > 0 && (!errors.As(err, &bad) ||
				bad.Violations[0].Path.String() != "frame.data") {
				t.Errorf("%s: %v, where %d samples are beyond", s.Name, err, beyond)
			}
			if !bytes.Equal(got, want.Pixels) {
				t.Errorf("%s: rows %d to %d differ", s.Name, from, to)
			}
		}
		r.Drop()
		r.Release()
		whole, beyond := s.Develop(0, s.Height)
		host, err := p.Developed("frame")
		if (err != nil) != (beyond > 0) || host == nil || !bytes.Equal(host.Bytes(), whole.Pixels) {
			t.Errorf("%s: on the host: %v", s.Name, err)
		}
	}
}

// A small picture of a flat frame has its colour, whichever pixels it takes.
func TestPictureSketch(t *testing.T) {
	for _, c := range devicetest.Codings() {
		const w, h = 6, 5
		s := devicetest.Shot{Width: w, Height: h, Coding: c, Stride: c.RowBytes(w)}
		s.Bytes = make([]byte, s.Stride*h)
		// Red, green, blue of Bayer by where they are; the same in all pixels of others.
		for y := range h {
			for x := range w {
				v := 0xaa
				if c.Kind == driver.Bayer {
					red := (x^int(c.Phase))&1 == 0
					v = 0x5a
					if second := (y^int(c.Phase>>1))&1 == 1; red && !second {
						v = 0xc3
					} else if !red && second {
						v = 0x1e
					}
				}
				v <<= c.Bits - 8
				for b := range int(c.Bits) {
					if at := x*c.RowBytes(8) + b; v>>b&1 != 0 {
						s.Bytes[y*s.Stride+at/8] |= 1 << (at % 8)
					}
				}
				if c.Kind == driver.UYVY || c.Kind == driver.YUYV {
					copy(s.Bytes[y*s.Stride+2*x:], []byte{0xaa, 0xaa})
				}
			}
		}
		p, want := pictureOf(&s), [3]byte{0xaa, 0xaa, 0xaa}
		switch c.Kind {
		case driver.Bayer:
			want = [3]byte{0xc3, 0x5a, 0x1e}
		case driver.UYVY, driver.YUYV:
			one, _ := s.Develop(0, 1)
			want = [3]byte(one.Pixels)
		}
		for y := range h {
			for x := range w {
				if got := p.Sketch(x, y, func(i int) byte { return s.Bytes[i] }); got != want {
					t.Fatalf("%v: pixel (%d, %d) is %v, want %v", c, x, y, got, want)
				}
			}
		}
	}
}

// What is wrong with a frame that isn't as ops take it is said by its field.
func TestPictureCheckCoded(t *testing.T) {
	bayer := func(bits uint8) kernels.Coding { return kernels.Coding{Kind: kernels.Bayer, Bits: bits} }
	yuv, mono := kernels.Coding{Kind: kernels.YUYV, Bits: 8}, kernels.Coding{Kind: kernels.Mono, Bits: 12, Packed: true}
	for _, x := range []struct {
		field         string // "": none
		width, height int
		stride, bytes int
		coding        kernels.Coding
	}{
		{"", 3, 2, 0, 10, mono}, {"", 3, 2, 7, 12, mono}, {"data", 3, 2, 0, 9, mono}, {"stride", 3, 2, 4, 8, mono},
		{"", 2, 2, 0, 4, bayer(8)}, {"width", 1, 2, 0, 2, bayer(8)}, {"height", 2, 1, 0, 2, bayer(8)},
		{"", 2, 2, 0, 8, bayer(12)}, {"stride", 2, 2, 5, 9, bayer(12)}, {"coding", 2, 2, 0, 8, bayer(9)},
		{"coding", 2, 2, 0, 8, bayer(18)}, {"width", 3, 2, 0, 12, yuv}, {"", 4, 2, 9, 17, yuv},
		{"width", 0, 2, 0, 0, yuv},
	} {
		p := kernels.Picture{Width: x.width, Height: x.height, Stride: x.stride, Format: x.coding.Format(),
			Coding: x.coding, Data: [][]byte{make([]byte, x.bytes)}}
		var bad *kernels.InvalidError
		err := p.Check("frame")
		if x.field == "" && err != nil || x.field != "" && (!errors.As(err, &bad) ||
			bad.Violations[0].Path.String() != "frame."+x.field) {
			t.Errorf("%+v: %v, want an error about %q", x, err, x.field)
		}
	}
	p := kernels.Picture{Width: 2, Height: 2, Format: kernels.Gray8, Coding: bayer(8), Data: [][]byte{make([]byte, 4)}}
	if err := p.Check("frame"); err == nil {
		t.Error("Bayer that becomes gray: no error")
	}
}

// Whatever a layout says: a frame that passes the checks becomes what the definition says, and others are refused.
func FuzzIntake(f *testing.F) {
	f.Add(uint8(1), uint8(10), true, uint8(0), uint8(0), uint16(5), uint16(3), uint16(0),
		[]byte("0123456789abcdefghijk"))
	f.Add(uint8(4), uint8(12), false, uint8(3), uint8(1), uint16(4), uint16(3), uint16(10), make([]byte, 30))
	f.Add(uint8(2), uint8(8), false, uint8(0), uint8(0), uint16(4), uint16(2), uint16(9), make([]byte, 18))
	dev := cpuDevice(f)
	f.Fuzz(func(t *testing.T, kind, bits uint8, packed bool, phase, demosaic uint8, width, height, stride uint16,
		data []byte) {
		c := kernels.Coding{Kind: driver.CodingKind(kind), Bits: bits, Packed: packed, Phase: phase,
			Demosaic: driver.Demosaic(demosaic)}
		if c.Kind == driver.Plain || int(width)*int(height) > 1<<14 {
			t.Skip()
		}
		p := kernels.Picture{Width: int(width), Height: int(height), Stride: int(stride), Format: c.Format(), Coding: c,
			Data: [][]byte{data}}
		if p.Check("frame") != nil {
			return
		}
		s := devicetest.Shot{Width: p.Width, Height: p.Height, Stride: p.RowBytes(), Coding: c, Bytes: data}
		want, beyond := s.Develop(0, s.Height)
		got, err := take(t, dev, &p, 0, p.Height)
		if (err != nil) != (beyond > 0) || !bytes.Equal(got, want.Pixels) {
			t.Errorf("%+v: %v", p, err)
		}
	})
}
