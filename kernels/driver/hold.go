// The op that keeps colours from frame to frame.

package driver

import (
	"cmp"
	"math"
)

// Hold keeps the colours of the frame before, in a video, on triangles that [Shade] has painted, as far as they are
// near.
//
// For each triangle and channel, let m be its sample in Colors, and b the mean of Before over the pixels that it
// covers, rounded to the nearest, halves up. Its sample becomes b, brought within Limit of m; or it stays m where b is
// more than Jump away: there the picture has changed. So no colour is more than Limit from what it would be, a colour
// moves only as far as it must, and triangles over a picture that stays the same keep theirs. Vertices needn't be those
// of the frame before.
//
// What a triangle covers is as in [Shade]; those that cover nothing keep their colours. Dst and Colors change where
// colours do. Changed receives how many pixels are in triangles of which at least one sample is more than Jump away, a
// uint32. The op fails as [Shade] does. All of it is integers, the same on every backend. Time grows with the pixels
// and with the triangles. Source: the play operator of hysteresis (Krasnosel'skii and Pokrovskii, 1989), which of all
// that follow a signal within a limit varies least.
type Hold struct {
	Before    Image // the picture of the frame before: as large as Dst, and of its format; other memory
	Limit     int   // in units of samples, 0 to Jump
	Jump      int   // likewise, up to 65535
	Points    Slice // of N Point
	N         int
	Triangles Slice // of Max Triangle
	Count     Slice // one uint32: how many triangles there are
	Max       int
	Dst       Image // painted by Shade
	Colors    Slice // of Max pixels without a gap, as Shade wrote them
	Changed   Slice // one uint32
}

func (op *Hold) name() string { return "Hold" }

func (op *Hold) check() error {
	name := op.name()
	if err := cmp.Or(
		op.Before.check(name, "Before."),
		op.Dst.check(name, "Dst."),
		op.Dst.as(name, "Dst", &op.Before, "Before"),
		between(name, "N", op.N, 0, MaxPoints),
		between(name, "Max", op.Max, 0, 2*MaxPoints),
		between(name, "Jump", op.Jump, 0, math.MaxUint16),
	); err != nil {
		return err
	}
	if op.Limit < 0 || op.Limit > op.Jump {
		return refuse(name, "Limit", op.Limit, "must be 0 to Jump, %d", op.Jump)
	}
	return nil
}

func (op *Hold) operands(to []Operand) []Operand {
	dst := op.Dst.operand("Dst.Data", Read|Write)
	dst.Apart = true
	return append(to,
		exact("Points", &op.Points, 8*int64(op.N), Read),
		exact("Triangles", &op.Triangles, 12*int64(op.Max), Read),
		exact("Count", &op.Count, 4, Read),
		exact("Colors", &op.Colors, int64(op.Dst.Format.PixelBytes())*int64(op.Max), Read|Write),
		exact("Changed", &op.Changed, 4, Write),
		op.Before.operand("Before.Data", Read),
		dst)
}
