// Reductions, with regions that are prepared where that is worth while.

package inspect

import (
	"context"
	"errors"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// run reduces a frame.
func (s *Service) run(ctx context.Context, dev device.Lease, in *wire.Inspection, f kernels.Picture) (*polygon.Result,
	error) {
	var res *polygon.Result
	if in.Keep && frameFits(f) {
		p, err := s.Prepared.get(ctx, dev, in.Set, f.Width, f.Height, in.Method)
		if err != nil {
			return nil, in.Paths.Translate(err)
		}
		if p != nil {
			res, err := p.Reduce(ctx, f, in.Reductions)
			if !errors.Is(err, polygon.ErrEvicted) && !errors.Is(err, polygon.ErrClosed) { // just now
				return res, in.Paths.Translate(err)
			}
		}
	}
	res, err := polygon.Reduce(ctx, dev.Device, in.Set, f, in.Reductions, in.Method)
	return res, in.Paths.Translate(err)
}

// frameFits says that a frame has a size for which regions can be prepared; if not, Reduce says what is wrong.
func frameFits(f kernels.Picture) bool {
	return kernels.CheckSize(f.Width, f.Height) == nil
}
