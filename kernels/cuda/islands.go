//go:build cuda

package cuda

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (d *device) IslandsScratch(n, width, height int) (int64, error) {
	return islandsScratch(n, width, height)
}

func (s *stream) Islands(op driver.Islands) error {
	return s.enqueue("Islands", 0, func() error { return s.islands(op) })
}

// argument is a slice of an op's, of at least so many bytes.
type argument struct {
	to    *span
	from  driver.Slice
	field string
	need  int64
}

// place finds the slices of an op.
func (s *stream) place(args ...argument) (err error) {
	for _, p := range args {
		if *p.to, err = s.dev.structs(p.from, p.field); err != nil {
			return err
		}
		if p.to.n < p.need {
			return fmt.Errorf("%s: %d bytes, %d are needed", p.field, p.to.n, p.need)
		}
	}
	return nil
}

func (s *stream) islands(op driver.Islands) error {
	need, err := islandsScratch(op.N, op.Width, op.Height)
	if err != nil {
		return err
	}
	var sites, labels, count, scratch span
	if err := s.place(
		argument{&sites, op.Sites, "Sites", pointBytes * int64(op.N)},
		argument{&labels, op.Labels, "Labels", 4 * int64(op.Width) * int64(op.Height)},
		argument{&count, op.Count, "Count", 4},
		argument{&scratch, op.Scratch, "Scratch", need},
	); err != nil {
		return err
	}
	for _, x := range []span{labels, count, scratch} {
		x.overwritten()
	}
	if err := s.fill(scratch.at(), 0, 4); err != nil {
		return err
	}
	v := meshDiagram{Sites: sites.at(), Labels: labels.at(), N: uint32(op.N), Width: int32(op.Width),
		Height: int32(op.Height)}
	find := islandsFindParams{V: v, List: scratch.at() + driver.Align, Found: scratch.at()}
	settle := islandsSettleParams{V: v, List: find.List, Found: find.Found, Count: count.at()}
	return cmp.Or(
		islandsFind.launch(s, ceilDiv(op.Height, islandRows), ceilDiv(op.Width, islandThreads), islandThreads, 0,
			&find),
		islandsSettle.launch(s, 1, 1, settleThreads, 0, &settle))
}
