// Sets of pixels, combined.

package polygon

import "math"

// SetOp says what [Combine] makes of two sets.
type SetOp uint8

const (
	// Union holds the pixels of either.
	Union SetOp = iota
	// Intersection holds the pixels of both.
	Intersection
	// Difference holds the pixels of the first that are not of the second.
	Difference
	// SymmetricDifference holds the pixels of exactly one.
	SymmetricDifference
)

// Combine is the pixels of two masks, as [Region.Mask] has them, that op takes; in the same form, and not nil. It takes
// time linear in the runs of both.
func Combine(op SetOp, a, b []Run) []Run {
	out, _ := combine([]Run{}, op, a, b, func(int) error { return nil }) // it is never told to end
	return out
}

// combinePiece is how many ends of runs are looked at between two calls of took, some 10 ns each.
const combinePiece = 1024

// combine appends to out, which has room for the runs of both. It calls took with how many ends it is going to look at,
// whose error ends it.
func combine(out []Run, op SetOp, a, b []Run, took func(ends int) error) ([]Run, error) {
	i, j := 0, 0 // ends that are passed: before an odd one is a run
	ka, kb, since := endAt(a, 0), endAt(b, 0), end(0)
	for i < 2*len(a) || j < 2*len(b) {
		piece := min(2*len(a)-i+2*len(b)-j, combinePiece)
		if err := took(piece); err != nil {
			return nil, err
		}
		for range piece {
			k := min(ka, kb)
			if since < k && op.takes(i%2 == 1, j%2 == 1) { // in one row: between rows nothing is in either
				out = AppendRun(out, Run{Y: k.y(), X0: since.x(), X1: k.x()})
			}
			since = k
			if ka == k {
				i++
				ka = endAt(a, i)
			}
			if kb == k {
				j++
				kb = endAt(b, j)
			}
			if ka == kb && ka == noEnd {
				break
			}
		}
	}
	return out, nil
}

// end is where a run begins or ends, as a number that grows from row to row and from left to right.
type end int64

const noEnd = end(math.MaxInt64)

// endAt is the start of run i/2 where i is even, its end where it is odd, and noEnd behind the last one.
func endAt(runs []Run, i int) end {
	if i >= 2*len(runs) {
		return noEnd
	}
	u := runs[i/2]
	x := u.X0
	if i%2 == 1 {
		x = u.X1
	}
	return end(u.Y)<<32 | end(uint32(x)^1<<31)
}

func (e end) y() int32 { return int32(e >> 32) }
func (e end) x() int32 { return int32(uint32(e) ^ 1<<31) }

func (op SetOp) takes(a, b bool) bool {
	switch op {
	case Union:
		return a || b
	case Intersection:
		return a && b
	case Difference:
		return a && !b
	}
	return a != b
}
