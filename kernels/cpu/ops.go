// The ops: what each needs beside its arguments, and what does it.

package cpu

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// handler is how the backend does an op.
type handler struct {
	run     func(*device, driver.Op, *stopFlag) error
	scratch func(driver.Op) (int64, error)
}

// ops are the handlers by the name of their op.
var ops = map[string]handler{}

func init() {
	handle((*device).fill, nil)
	handle((*device).maskPrepare, maskPrepareBytes)
	handle((*device).maskReduce, nil)
	handle((*device).maskRaster, nil)
	handle((*device).maskCooccurrence, nil)
	handle((*device).maskWeigh, nil)
	handle((*device).maskBlobs, sized(blobScratch))
	handle((*device).maskCorrelate, nil)
	handle((*device).triangulate, sized(triangulateScratch))
	handle((*device).voronoi, sized(voronoiScratch))
	handle((*device).islands, sized(islandsScratch))
	handle((*device).dualTriangles, sized(dualTrianglesScratch))
	handle((*device).hullCompletion, sized(hullScratch))
	handle((*device).flips, sized(flipsScratch))
	handle((*device).edges, nil)
	handle((*device).derivatives, nil)
	handle((*device).selectVertices, sized(selectVerticesScratch))
	handle((*device).shade, sized(shadeScratch))
	handle((*device).hold, nil)
	handle((*device).diffusionSetup, func(op *driver.DiffusionSetup) (int64, error) {
		return diffusionSetupBytes(op.Grid)
	})
	handle((*device).diffusionSolve, func(op *driver.DiffusionSolve) (int64, error) {
		return diffusionStateBytes(op.Grid, op.Channels)
	})
	handle((*device).curveRaster, nil)
	handle((*device).blur, nil)
	handle((*device).develop, nil)
	handle((*device).correct, nil)
	handle((*device).unpack, nil)
	handle((*device).pack, nil)
	handle((*device).fingerprint, nil)
}

// handle adds an op to those that the backend can do. scratch is what [driver.Device] says of Scratch; an op without
// one needs nothing.
func handle[T any, P interface {
	*T
	driver.Op
}](run func(*device, P, *stopFlag) error, scratch func(P) (int64, error)) {
	ops[driver.Name(P(new(T)))] = handler{
		run: func(d *device, op driver.Op, stop *stopFlag) error { return run(d, op.(P), stop) },
		scratch: func(op driver.Op) (int64, error) {
			if scratch == nil {
				return 0, nil
			}
			return scratch(op.(P))
		},
	}
}

// sized is the scratch of an op that is supported whatever its arguments are.
func sized[P any](scratch func(P) int64) func(P) (int64, error) {
	return func(op P) (int64, error) { return scratch(op), nil }
}

func (d *device) Scratch(op driver.Op) (int64, error) {
	h, ok := ops[driver.Name(op)]
	if !ok {
		return 0, fmt.Errorf("cpu: %s: %w", driver.Name(op), driver.ErrNotSupported)
	}
	n, err := h.scratch(op)
	if err != nil {
		err = fmt.Errorf("cpu: %s: %w", driver.Name(op), err)
	}
	return n, err
}

func (s *stream) Run(op driver.Op) error {
	h, ok := ops[driver.Name(op)]
	if !ok {
		return fmt.Errorf("cpu: %s: %w", driver.Name(op), driver.ErrNotSupported)
	}
	return s.enqueue(task{name: driver.Name(op), op: op, run: h.run})
}
