// Sets of pixels, combined.

package polygon

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
	out := []Run{}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		// The runs of a row in each; none where it begins in the other one.
		var ra, rb []Run
		switch {
		case j == len(b) || i < len(a) && a[i].Y < b[j].Y:
			ra, i = rowAt(a, i)
		case i == len(a) || b[j].Y < a[i].Y:
			rb, j = rowAt(b, j)
		default:
			ra, i = rowAt(a, i)
			rb, j = rowAt(b, j)
		}
		switch {
		case len(rb) == 0 && op != Intersection:
			out = append(out, ra...)
		case len(ra) == 0 && (op == Union || op == SymmetricDifference):
			out = append(out, rb...)
		case len(ra) > 0 && len(rb) > 0:
			out = combineRow(out, op, ra, rb)
		}
	}
	return out
}

// rowAt is the runs of the row that runs[i] is of, and where the next row begins.
func rowAt(runs []Run, i int) ([]Run, int) {
	from := i
	for i < len(runs) && runs[i].Y == runs[from].Y {
		i++
	}
	return runs[from:i], i
}

// combineRow appends what op takes of two rows.
func combineRow(out []Run, op SetOp, a, b []Run) []Run {
	y, since := a[0].Y, int32(0)
	eachEnd(a, b, func(x int32, inA, inB bool) {
		// inA and inB are of what lies between the end before and x.
		if op.takes(inA, inB) && since < x {
			out = AppendRun(out, Run{Y: y, X0: since, X1: x})
		}
		since = x
	})
	return out
}

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
