//go:build cuda

package cuda

import (
	"cmp"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) islands(op *driver.Islands) error {
	labels, scratch := at(op.Labels), at(op.Scratch)
	if err := s.fill(scratch, 0, 4); err != nil {
		return err
	}
	v := meshDiagram{Sites: at(op.Sites), Labels: labels, N: uint32(op.N), Width: int32(op.Width),
		Height: int32(op.Height)}
	find := islandsFindParams{V: v, List: scratch + driver.Align, Found: scratch}
	settle := islandsSettleParams{V: v, List: find.List, Found: find.Found, Count: at(op.Count)}
	return cmp.Or(
		islandsFind.launch(s, ceilDiv(op.Height, islandRows), ceilDiv(op.Width, islandThreads), islandThreads, 0,
			&find),
		islandsSettle.launch(s, 1, 1, settleThreads, 0, &settle))
}
