// Unpack and Pack: images to planes of numbers and back.

package cpu

import (
	"encoding/binary"

	"github.com/polyscan/polyscan/kernels/driver"
)

// packRows is how many rows a thread takes at a time.
const packRows = 16

func (d *device) unpack(op *driver.Unpack, stop *stopFlag) error {
	im := op.Src
	src := view(im.Data)
	n := im.Width * im.Height
	flags := view(op.Flags)
	planes := viewAs[float32](op.Planes)
	mask := view(op.Mask)
	f := im.Format
	most := f.Levels() - 1
	var table [256]float32
	for v := range table {
		table[v] = float32(v) / 255
	}
	return d.pieces("Unpack", (im.Height+packRows-1)/packRows, stop, func(i int) int {
		lo, hi := i*packRows, min((i+1)*packRows, im.Height)
		for y := lo; y < hi; y++ {
			row, at := src[y*im.Stride:], y*im.Width
			given := flags[at:][:im.Width]
			for x := range given {
				given[x] = driver.DiffusionFixed
			}
			if mask != nil {
				for x, m := range mask[at:][:im.Width] {
					if m != 0 {
						given[x] = 0
					}
				}
			}
			if f.HasAlpha() {
				size, alpha := int(f.Channels), int(f.Order[f.Channels-1])
				for x := range given {
					if row[x*size+alpha] != 255 {
						given[x] = 0
					}
				}
			}
			if f.SampleBytes == 2 {
				for x := range given {
					v := min(int(binary.LittleEndian.Uint16(row[2*x:])), most)
					planes[at+x] = float32(v) / float32(most)
				}
				continue
			}
			for c := range f.Colours() {
				plane := planes[c*n+at:][:im.Width]
				k, size := int(f.Order[c]), int(f.Channels)
				for x := range plane {
					plane[x] = table[row[k]]
					k += size
				}
			}
		}
		return (hi - lo) * im.Width * 2 * f.Colours()
	})
}

func (d *device) pack(op *driver.Pack, stop *stopFlag) error {
	w, h, colours := op.Dst.Width, op.Dst.Height, op.Dst.Format.Colours()
	p := packer{op: op, planes: viewAs[float32](op.Planes), flags: view(op.Flags), dst: view(op.Dst.Data),
		residual: view(op.Residual.Data), most: op.Dst.Format.Levels() - 1}
	if op.TakesSrc() {
		p.src = view(op.Src.Data)
	}
	return d.pieces("Pack", (h+packRows-1)/packRows, stop, func(i int) int {
		lo, hi := i*packRows, min((i+1)*packRows, h)
		for y := lo; y < hi; y++ {
			if op.Dst.Format.SampleBytes == 2 {
				p.row16(y)
			} else {
				p.row8(y)
			}
		}
		return (hi - lo) * w * 3 * colours
	})
}

// packer is what the rows of a Pack need.
type packer struct {
	op                        *driver.Pack
	planes                    []float32
	flags, src, dst, residual []byte
	most                      int
}

// round returns the sample nearest to a number.
func round(v float32, most int) int {
	v = float32(v*float32(most)) + 0.5 // the conversion keeps the two from being fused, which rounds otherwise
	if !(v > 0) {
		return 0
	}
	return int(min(v, float32(most)))
}

func (p *packer) row8(y int) {
	dst, src, res := p.op.Dst, p.op.Src, p.op.Residual
	w, n := dst.Width, dst.Width*dst.Height
	for c := range dst.Format.Colours() {
		plane := p.planes[c*n+y*w:][:w]
		to, size := y*dst.Stride+int(dst.Format.Order[c]), int(dst.Format.Channels)
		if p.src == nil {
			for x, v := range plane {
				p.dst[to+x*size] = uint8(round(v, 255))
			}
			continue
		}
		from, fromSize := y*src.Stride+int(src.Format.Order[c]), int(src.Format.Channels)
		for x, v := range plane {
			s := p.src[from+x*fromSize]
			d := s
			if p.flags == nil || p.flags[y*w+x]&driver.DiffusionFixed == 0 {
				d = uint8(round(v, 255))
			}
			p.dst[to+x*size] = d
			if p.residual != nil {
				p.residual[y*res.Stride+x*int(res.Format.Channels)+
					int(res.Format.Order[c])] = uint8(min(max(int(s)-int(d)+128, 0), 255))
			}
		}
	}
	opaque(p.dst, dst, y)
	if p.residual != nil {
		opaque(p.residual, res, y)
	}
}

// opaque writes the alpha of a row, if there is one.
func opaque(b []byte, im driver.Image, y int) {
	if f := im.Format; f.HasAlpha() {
		for x := range im.Width {
			b[y*im.Stride+x*int(f.Channels)+int(f.Order[f.Channels-1])] = 255
		}
	}
}

func (p *packer) row16(y int) {
	w := p.op.Dst.Width
	for x, v := range p.planes[y*w:][:w] {
		d := round(v, p.most)
		if p.src != nil {
			s := min(int(binary.LittleEndian.Uint16(p.src[y*p.op.Src.Stride+2*x:])), p.most)
			if p.flags != nil && p.flags[y*w+x]&driver.DiffusionFixed != 0 {
				d = s
			}
			if p.residual != nil {
				r := min(max(s-d+(p.most+1)/2, 0), p.most)
				binary.LittleEndian.PutUint16(p.residual[y*p.op.Residual.Stride+2*x:], uint16(r))
			}
		}
		binary.LittleEndian.PutUint16(p.dst[y*p.op.Dst.Stride+2*x:], uint16(d))
	}
}
