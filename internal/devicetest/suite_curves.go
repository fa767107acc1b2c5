// The suite: curves and blur.

package devicetest

import (
	"context"
	"errors"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// curves checks sketches against the oracle, to the bit.
func (s Suite) curves(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for _, p := range Sketches(s.Seed, s.Random/4, 26) {
		flags, values, err := r.sketch(t, p)
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		wantFlags, wantValues := p.Draw()
		if d := CompareConstraints(flags, wantFlags, values, wantValues, p.Width); d != nil {
			t.Errorf("%s: %v", p.Name, d)
		}
	}
}

// sketch runs one CurveRaster.
func (r *rig) sketch(t T, p *Sketch) ([]byte, []float32, error) {
	t.Helper()
	op := driver.CurveRaster{Segments: p.Segments, Curves: p.Curves, Stops: p.Stops, Width: p.Width, Height: p.Height,
		Channels: p.Channels}
	n := int64(p.Width * p.Height)
	r.reserve(t, 3, n*int64(1+4*p.Channels)+op.ScratchBytes())
	op.Flags = r.slice(t, n, 0)
	op.Values = r.slice(t, 4*n*int64(p.Channels), 0)
	op.Scratch = r.slice(t, op.ScratchBytes(), 0)
	r.upload(t, op.Flags, p.Flags)
	r.upload(t, op.Values, bytesOf(p.Values))
	r.fill(t, op.Scratch, dirtyByte)
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, nil, err
	}
	flags, values := make([]byte, n), slices.Clone(p.Values)
	r.download(t, flags, op.Flags)
	r.download(t, bytesOf(values), op.Values)
	r.wait(t)
	r.checkGuards(t)
	return flags, values, nil
}

// blur checks pictures against the oracle.
func (s Suite) blur(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	for _, p := range Foci(s.Seed, 70) {
		got, err := r.blur(t, p)
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if d := CompareBlur(got, p.Exact(), p.Width, BlurRounding); d != nil {
			t.Errorf("%s: %v", p.Name, d)
		}
		for i, v := range got {
			if k := i % len(p.Sigma); !(p.Sigma[k] > 0) && v != p.Src[i] {
				t.Errorf("%s: value %d of deviation %v changed", p.Name, i, p.Sigma[k])
				break
			}
		}
	}
}

// blur runs one Blur.
func (r *rig) blur(t T, p *Focus) ([]float32, error) {
	t.Helper()
	op := driver.Blur{Width: p.Width, Height: p.Height, Channels: p.Channels, Scale: p.Scale}
	plane := 4 * int64(p.Width*p.Height)
	r.reserve(t, 4, plane*int64(2*p.Channels+1)+op.ScratchBytes()+4)
	op.Src = r.slice(t, plane*int64(p.Channels), 0)
	op.Sigma = r.slice(t, plane, 4)
	op.Dst = r.slice(t, plane*int64(p.Channels), 0)
	op.Scratch = r.slice(t, op.ScratchBytes(), 0)
	r.upload(t, op.Src, bytesOf(p.Src))
	r.upload(t, op.Sigma, bytesOf(p.Sigma))
	r.fill(t, op.Dst, dirtyByte)
	r.fill(t, op.Scratch, dirtyByte)
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, err
	}
	out := make([]float32, len(p.Src))
	r.download(t, bytesOf(out), op.Dst)
	r.wait(t)
	r.checkGuards(t)
	return out, nil
}
