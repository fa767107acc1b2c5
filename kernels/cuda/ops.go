//go:build cuda

// The ops: what each needs beside its arguments, and what enqueues its kernels.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// handler is how the backend does an op.
type handler struct {
	run     func(*stream, driver.Op) error
	scratch func(*device, driver.Op) (int64, error)
	// hostBytes is how much host memory the op copies, where it isn't little.
	hostBytes func(driver.Op) int64
}

// ops are the handlers by the name of their op.
var ops = map[string]*handler{}

func init() {
	handle((*stream).fillOp, nil)
	handle((*stream).maskPrepare, func(_ *device, op *driver.MaskPrepare) (int64, error) {
		return preparedBytes(op.Regions, op.Width, op.Height, op.Method)
	}).hostBytes = func(op driver.Op) int64 {
		r := &op.(*driver.MaskPrepare).Regions
		return int64(len(r.Edges))*edgeBytes + int64(len(r.Runs))*itemBytes
	}
	handle((*stream).maskReduce, nil)
	handle((*stream).maskRaster, nil)
	handle((*stream).maskCooccurrence, func(_ *device, op *driver.MaskCooccurrence) (int64, error) {
		return pairScratch(&op.Frame), nil
	})
	handle((*stream).maskWeigh, nil)
	handle((*stream).maskBlobs, func(_ *device, op *driver.MaskBlobs) (int64, error) {
		return layBlobs(op).bytes, nil
	})
	handle((*stream).maskCorrelate, func(_ *device, op *driver.MaskCorrelate) (int64, error) {
		return correlateScratch(op), nil
	})
	handle((*stream).triangulate, func(_ *device, op *driver.Triangulate) (int64, error) {
		return triangulateScratch(op.N), nil
	})
	handle((*stream).voronoi, func(_ *device, op *driver.Voronoi) (int64, error) {
		return layVoronoi(op.N, op.Width, op.Height, op.Method).bytes, nil
	})
	handle((*stream).islands, func(_ *device, op *driver.Islands) (int64, error) {
		return islandsScratch(op.Width, op.Height), nil
	})
	handle((*stream).dualTriangles, func(_ *device, op *driver.DualTriangles) (int64, error) {
		_, bytes := dualScratch(op.Width, op.Height)
		return bytes, nil
	})
	handle((*stream).hullCompletion, func(_ *device, op *driver.HullCompletion) (int64, error) {
		_, bytes := layoutHull(op.Width, op.Height, 0)
		return bytes, nil
	})
	handle((*stream).flips, func(_ *device, op *driver.Flips) (int64, error) {
		_, _, bytes := layoutFlips(op.N, 0)
		return bytes, nil
	})
	handle((*stream).edges, nil)
	handle((*stream).derivatives, nil)
	handle((*stream).selectVertices, func(d *device, op *driver.SelectVertices) (int64, error) {
		_, bytes := selectionOf(op.N, op.Width, op.Height, op.VertexRule, d.info.ComputeUnits, 0)
		return bytes, nil
	})
	handle((*stream).shade, func(_ *device, op *driver.Shade) (int64, error) {
		_, bytes, _ := layShading(op.Max, op.Src.Width, op.Src.Height, op.Method, 0)
		return bytes, nil
	})
	handle((*stream).hold, nil)
	handle((*stream).diffusionSetup, func(_ *device, op *driver.DiffusionSetup) (int64, error) {
		return diffusionSetupBytes(op.Grid)
	})
	handle((*stream).diffusionSolve, func(_ *device, op *driver.DiffusionSolve) (int64, error) {
		return diffusionStateBytes(op)
	})
	handle((*stream).curveRaster, nil).hostBytes = func(op driver.Op) int64 {
		c := op.(*driver.CurveRaster)
		return c.ScratchBytes() - 8*int64(c.Width)*int64(c.Height)
	}
	handle((*stream).blur, nil)
	handle((*stream).develop, nil)
	handle((*stream).correct, nil)
	handle((*stream).unpack, nil)
	handle((*stream).pack, nil)
	handle((*stream).fingerprint, nil)
}

// handle adds an op to those that the backend can do. scratch is what [driver.Device] says of Scratch; an op without
// one needs nothing.
func handle[T any, P interface {
	*T
	driver.Op
}](run func(*stream, P) error, scratch func(*device, P) (int64, error)) *handler {
	h := &handler{
		run: func(s *stream, op driver.Op) error { return run(s, op.(P)) },
		scratch: func(d *device, op driver.Op) (int64, error) {
			if scratch == nil {
				return 0, nil
			}
			return scratch(d, op.(P))
		},
		hostBytes: func(driver.Op) int64 { return 0 },
	}
	ops[driver.Name(P(new(T)))] = h
	return h
}

func (d *device) Scratch(op driver.Op) (int64, error) {
	h, ok := ops[driver.Name(op)]
	if !ok {
		return 0, fmt.Errorf("cuda: %s: %w", driver.Name(op), driver.ErrNotSupported)
	}
	n, err := h.scratch(d, op)
	if err != nil {
		err = fmt.Errorf("cuda: %s: %w", driver.Name(op), err)
	}
	return n, err
}

func (s *stream) Run(op driver.Op) error {
	h, ok := ops[driver.Name(op)]
	if !ok {
		return fmt.Errorf("cuda: %s: %w", driver.Name(op), driver.ErrNotSupported)
	}
	return s.enqueue(h.hostBytes(op), task{name: driver.Name(op), op: op, run: h.run})
}
