// The suite: images to planes of numbers and back.

package devicetest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// pack checks pictures of every kind, with masks, and numbers of every kind, against the oracles.
func (s Suite) pack(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 29))
	for i, p := range Pictures(s.Seed, s.Random) {
		var mask []byte
		if i%2 == 1 {
			mask = make([]byte, p.Width*p.Height)
			for k := range mask {
				mask[k] = byte(g.IntN(256) * g.IntN(2))
			}
		}
		flags, planes, err := r.unpack(t, &p, mask, i%3*int(p.Format.SampleBytes))
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		wantFlags, wantPlanes := p.Unpack(mask)
		if d := CompareUnpacked(flags, wantFlags, planes, wantPlanes, p.Width); d != nil {
			t.Errorf("%s: %v", p.Name, d)
		}

		if i%4 != 0 { // else what was unpacked comes back
			planes = Numbers(g, len(planes), p.Format.Levels())
		}
		given := flags
		if i%3 == 0 {
			given = nil
		}
		got, residual, err := r.pack(t, &p, planes, given, i%5 != 0)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		want, wantResidual := p.Pack(planes, given)
		if d := ComparePainted("Pack", got, want.Pixels, want); d != nil {
			t.Errorf("%s: %v", p.Name, d)
		}
		if residual == nil {
			continue
		}
		if d := ComparePainted("Pack", residual, wantResidual.Pixels, wantResidual); d != nil {
			t.Errorf("%s: residual: %v", p.Name, d)
		}
	}
}

// Numbers are numbers for samples: within the range and beyond it, halfway between two levels, and none at all.
func Numbers(g *rand.Rand, n, levels int) []float32 {
	most := float32(levels - 1)
	out := make([]float32, n)
	for i := range out {
		switch g.IntN(8) {
		case 0:
			out[i] = (float32(g.IntN(levels)) + 0.5) / most
		case 1:
			out[i] = math.Nextafter32((float32(g.IntN(levels))+0.5)/most, float32(g.IntN(2)))
		case 2:
			out[i] = float32(g.NormFloat64())
		case 3:
			out[i] = pick(g, []float32{
				0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)),
				float32(math.Inf(-1)),
				math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -0.5 / most, -0.49999 / most,
			})
		default:
			out[i] = g.Float32()
		}
	}
	return out
}

// unpack runs one Unpack on a picture that is offset from alignment.
func (r *rig) unpack(t T, p *Picture, mask []byte, offset int) ([]byte, []float32, error) {
	t.Helper()
	n := p.Width * p.Height
	flags, planes := make([]byte, n), make([]float32, n*p.Format.Colours())
	r.reserve(t, 4, int64(len(p.Pixels)+offset+2*n+4*len(planes)))
	op := driver.Unpack{Src: p.Image(r.slice(t, int64(len(p.Pixels)), offset))}
	op.Flags, op.Planes = r.slice(t, int64(n), offset), r.slice(t, 4*int64(len(planes)), 0)
	r.upload(t, op.Src.Data, p.Pixels)
	if mask != nil {
		op.Mask = r.slice(t, int64(n), 0)
		r.upload(t, op.Mask, mask)
	}
	r.fill(t, op.Flags, dirtyByte)
	r.fill(t, op.Planes, dirtyByte)
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, nil, err
	}
	r.download(t, flags, op.Flags)
	r.download(t, bytesOf(planes), op.Planes)
	r.wait(t)
	r.checkGuards(t)
	return flags, planes, nil
}

// pack runs one Pack whose images have the layout of src. The residual is nil where it is not asked for.
func (r *rig) pack(t T, src *Picture, planes []float32, flags []byte, withResidual bool) (dst, residual []byte,
	err error) {
	t.Helper()
	size := int64(len(src.Pixels))
	r.reserve(t, 5, 3*size+4*int64(len(planes))+int64(len(flags)))
	op := driver.Pack{Planes: r.slice(t, 4*int64(len(planes)), 0), Dst: src.Image(r.slice(t, size, 0))}
	r.upload(t, op.Planes, bytesOf(planes))
	r.fill(t, op.Dst.Data, dirtyByte)
	if flags != nil {
		op.Flags = r.slice(t, int64(len(flags)), 0)
		r.upload(t, op.Flags, flags)
	}
	if withResidual {
		op.Residual = src.Image(r.slice(t, size, 0))
		r.fill(t, op.Residual.Data, dirtyByte)
		residual = make([]byte, size)
	}
	if flags != nil || withResidual {
		op.Src = src.Image(r.slice(t, size, 0))
		r.upload(t, op.Src.Data, src.Pixels)
	}
	r.wait(t)
	if err := errors.Join(r.stream.Run(&op), r.stream.Wait(context.Background())); err != nil {
		return nil, nil, err
	}
	dst = make([]byte, size)
	r.download(t, dst, op.Dst.Data)
	if withResidual {
		r.download(t, residual, op.Residual.Data)
	}
	r.wait(t)
	r.checkGuards(t)
	return dst, residual, nil
}
