// The checks in front of Shade.

package kernels

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// ShadeScratch says how much Scratch [Queue.Shade] needs for up to n triangles on an image of a size.
func (d *Device) ShadeScratch(n, width, height int, m driver.ShadeMethod) (int64, error) {
	return d.shadeScratch("ShadeScratch", n, width, height, m)
}

func (d *Device) shadeScratch(op string, n, width, height int, m driver.ShadeMethod) (int64, error) {
	if err := cmp.Or(checkCount(op, "Max", n, 2*driver.MaxPoints), checkSize(op, width, height)); err != nil {
		return 0, err
	}
	if m > driver.PerTile {
		return 0, &ArgError{op, "Method", uint8(m), "is no method"}
	}
	return d.dev.ShadeScratch(n, width, height, m)
}

// Shade enqueues the op after checking its arguments. See [driver.Shade].
func (q *Queue) Shade(op driver.Shade) error {
	const name = "Shade"
	p := painting{
		from: "Src", src: op.Src, dst: op.Dst, n: op.N, max: op.Max,
		points: op.Points, triangles: op.Triangles, count: op.Count, colors: op.Colors,
	}
	if err := p.check(name); err != nil {
		return err
	}
	if op.Color > driver.CentroidColor {
		return &ArgError{name, "Color", uint8(op.Color), "is no colour rule"}
	}
	scratch, err := q.dev.shadeScratch(name, op.Max, op.Src.Width, op.Src.Height, op.Method)
	if err != nil {
		return err
	}
	if err := q.checkPainting(name, &p, slot{"Scratch", op.Scratch, scratch, true}); err != nil {
		return err
	}
	return q.stream.Shade(op)
}

// painting is what Shade and Hold have in common: triangles, and the picture of them beside another.
type painting struct {
	from                             string // the field of src
	src, dst                         driver.Image
	n, max                           int // points, and triangles at most
	points, triangles, count, colors driver.Slice
}

// check checks images and numbers.
func (p *painting) check(op string) error {
	if err := cmp.Or(checkImage(op, p.from, p.src), checkImage(op, "Dst", p.dst)); err != nil {
		return err
	}
	switch {
	case p.dst.Width != p.src.Width:
		return &ArgError{op, "Dst.Width", p.dst.Width, fmt.Sprintf("must be that of %s, %d", p.from, p.src.Width)}
	case p.dst.Height != p.src.Height:
		return &ArgError{op, "Dst.Height", p.dst.Height, fmt.Sprintf("must be that of %s, %d", p.from, p.src.Height)}
	case p.dst.Format != p.src.Format:
		return &ArgError{op, "Dst.Format", p.dst.Format, fmt.Sprintf("must be that of %s, %v", p.from, p.src.Format)}
	}
	return cmp.Or(checkCount(op, "N", p.n, driver.MaxPoints), checkCount(op, "Max", p.max, 2*driver.MaxPoints))
}

// checkPainting checks the memory of a painting that is right by itself, and of more slices.
func (q *Queue) checkPainting(op string, p *painting, more ...slot) error {
	if err := cmp.Or(
		q.checkSlices(op, append([]slot{
			{"Points", p.points, 8 * int64(p.n), false},
			{"Triangles", p.triangles, 12 * int64(p.max), false},
			{"Count", p.count, 4, false},
			{"Colors", p.colors, int64(p.dst.Format.PixelBytes()) * int64(p.max), false},
		}, more...)...),
		q.check(op, p.from+".Data", p.src.Data),
		q.check(op, "Dst.Data", p.dst.Data),
	); err != nil {
		return err
	}
	if a, b := p.src.Data, p.dst.Data; overlap(a, b) {
		return &ArgError{op, "Dst.Data", [2]int64{b.Off, b.Len},
			fmt.Sprintf("(offset, length) overlaps %s.Data, %d", p.from, [2]int64{a.Off, a.Len})}
	}
	return nil
}
