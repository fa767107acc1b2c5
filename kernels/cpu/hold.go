// Hold: colours that stay from frame to frame.

package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) Hold(op driver.Hold) error {
	return s.enqueue("Hold", func(stop *stopFlag) error { return s.dev.hold(op, stop) })
}

func (d *device) hold(op driver.Hold, stop *stopFlag) error {
	if op.Limit < 0 || op.Limit > math.MaxUint16 {
		return fmt.Errorf("Limit = %d: must be 0 to %d", op.Limit, math.MaxUint16)
	}
	// What a triangle covers, and the mean over it, are those of shading the picture before.
	v := &shading{
		Shade: driver.Shade{Src: op.Before, Dst: op.Dst, Max: op.Max},
		pixel: op.Dst.Format.PixelBytes(),
	}
	if err := v.view(op.Before, "Before", op.Dst, op.Points, op.N, op.Triangles, op.Max, op.Count, op.Colors); err != nil {
		return err
	}
	return d.eachTriangle(v, 0, len(v.triangles), stop, func(i int) int { return v.hold(i, op.Limit) })
}

// hold does one triangle of Hold.
func (v *shading) hold(i, limit int) int {
	var t totals
	for y, s := range v.spans(i, 0, v.Src.Height) {
		t.add(v.src[y*v.Src.Stride+s.lo*v.pixel:][:(s.hi-s.lo)*v.pixel], v.Src.Format)
	}
	if t.pixels == 0 {
		return 0
	}
	color := v.colors[i*v.pixel:][:v.pixel]
	var old [4]byte
	copy(old[:], color)
	if v.Src.Format.SampleBytes == 2 {
		binary.LittleEndian.PutUint16(color, uint16(held(int(t.mean(0)), int(binary.LittleEndian.Uint16(color)), limit)))
	} else {
		for c, m := range color {
			color[c] = uint8(held(int(t.mean(c)), int(m), limit))
		}
	}
	if !bytes.Equal(color, old[:v.pixel]) {
		p := newPattern(color)
		for y, s := range v.spans(i, 0, v.Src.Height) {
			p.paint(v.dst[y*v.Dst.Stride+s.lo*v.pixel:][:(s.hi-s.lo)*v.pixel])
		}
	}
	return int(t.pixels)
}

// held is a sample of a triangle, m, that was before.
func held(before, m, limit int) int {
	if d := before - m; max(d, -d) > 2*limit {
		return m
	}
	return min(max(before, m-limit), m+limit)
}
