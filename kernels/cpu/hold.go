// Hold: colours that stay from frame to frame.

package cpu

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) hold(op *driver.Hold, stop *stopFlag) error {
	changed := viewAs[uint32](op.Changed)
	// What a triangle covers, and the mean over it, are those of shading the picture before.
	v := &shading{Shade: &driver.Shade{Src: op.Before, Dst: op.Dst, Points: op.Points, N: op.N, Triangles: op.Triangles,
		Max: op.Max, Count: op.Count, Colors: op.Colors}}
	if err := v.open(); err != nil {
		return err
	}
	look := newPace(stop)
	if err := v.check(&look); err != nil {
		return err
	}
	changed[0] = 0
	return d.eachTriangle("Hold", 0, len(v.triangles), stop, func(i int, p *pace) bool {
		n, ok := v.hold(i, op.Limit, op.Jump, p)
		if n > 0 {
			atomic.AddUint32(&changed[0], uint32(n))
		}
		return ok
	})
}

// hold does one triangle of Hold, and returns how many pixels have changed by it. ok is false where it was told to
// stop.
func (v *shading) hold(i, limit, jump int, p *pace) (changed int, ok bool) {
	var t totals
	if !v.sum(i, &t, p) {
		return 0, false
	}
	if t.pixels == 0 {
		return 0, true
	}
	jumped := false
	color := v.colors[i*v.pixel:][:v.pixel]
	var old [4]byte
	copy(old[:], color)
	if v.Src.Format.SampleBytes == 2 {
		var m int
		m, jumped = held(int(t.mean(0)), int(binary.LittleEndian.Uint16(color)), limit, jump)
		binary.LittleEndian.PutUint16(color, uint16(m))
	} else {
		for c, m := range color {
			m, far := held(int(t.mean(c)), int(m), limit, jump)
			color[c] = uint8(m)
			jumped = jumped || far
		}
	}
	if jumped {
		changed = int(t.pixels)
	}
	if bytes.Equal(color, old[:v.pixel]) {
		return changed, true
	}
	return changed, v.paint(i, color, p)
}

// held is a sample of a triangle, m, that was before.
func held(before, m, limit, jump int) (v int, jumped bool) {
	if d := before - m; max(d, -d) > jump {
		return m, true
	}
	return min(max(before, m-limit), m+limit), false
}
