package diffusion_test

import (
	"context"
	"testing"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// watched is a driver that calls a function before each solve.
type watched struct {
	driver.Driver
	solving func()
}

func (d *watched) Open(ordinal int) (driver.Device, error) {
	dev, err := d.Driver.Open(ordinal)
	return watchedDevice{dev, d}, err
}

type watchedDevice struct {
	driver.Device
	d *watched
}

func (d watchedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return watchedStream{s, d.d}, err
}

type watchedStream struct {
	driver.Stream
	d *watched
}

func (s watchedStream) Run(op driver.Op) error {
	if _, ok := op.(*driver.DiffusionSolve); ok {
		s.d.solving()
	}
	return s.Stream.Run(op)
}

// Calls hold as much of the device as without set-ups that are kept, whether they find one or leave one to others:
// nobody is refused memory, nor waits for it, because of those.
func TestSetupsTakeNoMemoryOfOthers(t *testing.T) {
	const w, h = 90, 70
	ctx := context.Background()
	drawing := arcs(seed.New(t, 4, 9), w, h, 4, false)
	blurred := arcs(seed.New(t, 4, 10), w, h, 4, true)
	mask := make([]byte, w*h)
	for i := w*h/2 + 20; i < w*h/2+60; i++ {
		mask[i] = 1
	}
	picture := kernels.Picture{Data: [][]byte{make([]byte, 3*w*h)}, Width: w, Height: h, Format: driver.RGB8}
	plain, err := diffusion.Rasterize(ctx, openWithout(t), drawing)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(dev *kernels.Device) (*diffusion.Solution, error){
		"Solve": func(dev *kernels.Device) (*diffusion.Solution, error) {
			return diffusion.Solve(ctx, dev, plain, nil)
		},
		"SolveDrawing": func(dev *kernels.Device) (*diffusion.Solution, error) {
			return diffusion.SolveDrawing(ctx, dev, drawing, nil)
		},
		"SolveDrawing, blurred": func(dev *kernels.Device) (*diffusion.Solution, error) {
			return diffusion.SolveDrawing(ctx, dev, blurred, nil)
		},
		"Render": func(dev *kernels.Device) (*diffusion.Solution, error) {
			return diffusion.Render(ctx, dev, blurred, rgb(w, h), nil)
		},
		"Fill": func(dev *kernels.Device) (*diffusion.Solution, error) {
			return diffusion.Fill(ctx, dev, &diffusion.Holes{Image: picture, Mask: diffusion.Pixels{Host: mask}}, nil)
		},
		"Fill, drawn": func(dev *kernels.Device) (*diffusion.Solution, error) {
			return diffusion.Fill(ctx, dev,
				drawn(&diffusion.Holes{Image: picture}, mask, 1<<16, nil), nil)
		},
	} {
		var used [2]int64 // without, and with what is kept
		for i, kept := range []int64{-1, 0} {
			d := &watched{Driver: cpu.New(cpu.Options{})}
			dev, err := kernels.Open(d, kernels.Config{MemoryBytes: 16 << 20, MemoBytes: kept})
			if err != nil {
				t.Fatal(err)
			}
			d.solving = func() { used[i] = max(used[i], dev.Memory().Used) }
			for k := range 3 {
				if got, err := call(dev); err != nil || got.SetupKept != (kept == 0 && k > 0) {
					t.Errorf("%s, call %d: %v, kept: %v", name, k, err, got.SetupKept)
				}
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
		if used[0] == 0 || used[1] != used[0] {
			t.Errorf("%s: %d bytes are in use, %d where nothing is kept", name, used[1], used[0])
		}
	}
}
