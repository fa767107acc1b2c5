// Perturb: the driver that gets an op wrong.

package devicetest

import (
	"context"
	"errors"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Perturbation changes what mask ops wrote. Functions that are nil change nothing.
type Perturbation struct {
	Stats  func(op *driver.MaskReduce, stats []driver.MaskStats)
	Hist   func(op *driver.MaskReduce, hist []uint32)
	Raster func(op *driver.MaskRaster, pix []byte)
}

// Perturb returns d with mistakes. It waits for each op that it changes the outputs of.
func Perturb(d driver.Driver, p Perturbation) driver.Driver {
	return &wrapped{Driver: d, hooks: perturbHooks{p}}
}

type perturbHooks struct{ p Perturbation }

func (perturbHooks) before(Event) (atOnce, inWait error) { return nil, nil }

func (h perturbHooks) after(e Event, s driver.Stream, _ time.Time, err error) error {
	if err != nil {
		return nil
	}
	switch op := e.Args.(type) {
	case *driver.MaskReduce:
		if h.p.Stats != nil {
			err = rewrite(s, op.Stats, func(v []driver.MaskStats) { h.p.Stats(op, v) })
		}
		if h.p.Hist != nil {
			err = errors.Join(err, rewrite(s, op.Hist, func(v []uint32) { h.p.Hist(op, v) }))
		}
	case *driver.MaskRaster:
		if h.p.Raster != nil {
			err = rewrite(s, op.Dst.Data, func(v []byte) { h.p.Raster(op, v) })
		}
	}
	return err
}

// rewrite downloads what is in a slice, lets f change it and uploads it.
func rewrite[E any](s driver.Stream, at driver.Slice, f func([]E)) error {
	if at.Len == 0 {
		return nil
	}
	var z E
	v := make([]E, int(at.Len)/len(bytesOf([]E{z})))
	if err := errors.Join(s.Download(bytesOf(v), at), s.Wait(context.Background())); err != nil {
		return err
	}
	f(v)
	return errors.Join(s.Upload(at, [][]byte{bytesOf(v)}), s.Wait(context.Background()))
}
