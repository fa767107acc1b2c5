package main

// Batch load: large reductions that run beside the cameras.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// batchSide is the width and height of a batch job's frame.
const batchSide = 4096

// batchReport says what the batch jobs got done.
type batchReport struct {
	Jobs    int     `json:"jobs"` // at the same time
	Done    int64   `json:"done"`
	Refused int64   `json:"refused"` // to be tried again later
	Rate    float64 `json:"frames_per_second"`
}

// runBatch keeps n jobs running until ctx ends.
func runBatch(ctx context.Context, t *target, n int, seed uint64) (_ *batchReport, err error) {
	s := synthetic{width: batchSide, partLines: batchSide, regions: 64, seed: seed}
	pix := make([]byte, batchSide*batchSide)
	s.noise(pix, 0, 0, 256)
	c, err := t.dial()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// The frame stays on the device: what is to be measured is who may compute, and not who may copy.
	kept, err := c.PutFrame(ctx, clients.Raw{Width: batchSide, Height: batchSide, Format: clients.Gray8}.Frame(pix), 0)
	if err != nil {
		return nil, fmt.Errorf("--batch-load: the server takes no frame for the jobs: %w", err)
	}
	frame := clients.Resident(kept.GetName())
	in := clients.UseRegions(append(s.inspection(),
		clients.Polygon("all", 0, 0, batchSide, 0, batchSide, batchSide, 0, batchSide))...)
	in.Reductions = clients.AllStatistics()
	in.WorkClass = polyscanv1.WorkClass_WORK_CLASS_BATCH

	start := time.Now()
	r := &batchReport{Jobs: n}
	var done, refused atomic.Int64
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Reduce(ctx, in, frame)
				e := clients.AsError(err)
				switch {
				case err == nil:
					done.Add(1)
				case ctx.Err() != nil:
				case e != nil && e.Code == codes.ResourceExhausted && e.Retry:
					refused.Add(1)
					select {
					case <-time.After(max(e.RetryDelay, time.Millisecond)):
					case <-ctx.Done():
					}
				default:
					errs[i] = err
					return
				}
			}
		})
	}
	running.Wait()
	r.Done, r.Refused = done.Load(), refused.Load()
	r.Rate = float64(r.Done) / time.Since(start).Seconds()
	err = c.ReleaseFrame(context.WithoutCancel(ctx), kept.GetName())
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > 0 { // most have one reason, and it may keep the frame, too
		err = fmt.Errorf("--batch-load: %d of %d jobs ended early: %w", len(errs), n, errs[0])
	}
	return r, err
}
