// Solving: jobs on a device.

package diffusion

import (
	"context"
	"math"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Solution is what became of a problem.
type Solution struct {
	// Values in planes, as they were given where pixels are fixed.
	Values []float32
	// Cycles of the solver, and whether the estimated error came down to the tolerance, or the global difference to the
	// threshold. A slow method looks at the error after some cycles only: of a picture on the way it may be less before
	// that. A cycle of a slow method is 64 sweeps, with a threshold 32.
	Cycles    int
	Converged bool
	Stopped   StopReason
	// Estimate is about how far values may be from the exact solution, and Residual how far pixels are from solving
	// their equation: the sum of the differences to their neighbours. Both are the maximum over all.
	Estimate, Residual float32
	// ErrorUnknown says that Estimate is 0 as nothing is known of the error: with a threshold, unless it was measured.
	ErrorUnknown bool
	// With a threshold: the global difference, and by how much it fell from one of the last sweeps to the next.
	Difference, Fall float32
	// FixedPixels and VoidPixels are how many there are: see the package's comment.
	FixedPixels, VoidPixels int
	// SetupKept says that no new set-up was needed: one for the same constraints was there.
	SetupKept bool
	kernels.Timing
	// Check is how much of Compute went into measuring the error of a slow method.
	Check time.Duration
}

// StopReason is why a solve has ended.
type StopReason uint8

const (
	// NotStopped is of a picture on the way.
	NotStopped StopReason = iota
	// ByTolerance is a solve whose estimated error came down to the tolerance.
	ByTolerance
	// ByThreshold is one whose global difference fell by no more than the threshold.
	ByThreshold
	// ByCycles is one that made all the cycles it was allowed.
	ByCycles
	// ByRounding is one that nothing changes any more, for rounding.
	ByRounding
)

// Solve computes the values of the pixels that are not fixed, in one job on dev. p is only read, and only during the
// call; opts may be nil. The job lets more urgent ones go first about every millisecond of the device's time. A
// solution that has not converged in the cycles allowed is no error. Bad input is an [*kernels.InvalidError]; where the
// device has no room the error is a [*kernels.CapacityError].
func Solve(ctx context.Context, dev *kernels.Device, p *Problem, opts *Options) (*Solution, error) {
	g, err := p.grid(opts.method())
	if err != nil {
		return nil, err
	}
	s, err := newSolve(dev, p, g, opts)
	if err != nil {
		return nil, err
	}
	s.job.Footprint += kernels.Bytes[uint8](len(p.Flags)) + s.setupFootprint()
	return s.do(ctx, func(q *kernels.Queue) (in given, err error) {
		if in.flags, err = kernels.Alloc[uint8](q, len(p.Flags), "flags"); err != nil {
			return in, err
		}
		if err = upload(q, in.flags, p.Flags); err != nil {
			return in, err
		}
		if err = s.setUp(q, &in); err != nil {
			return in, err
		}
		in.values, err = s.uploadValues(q)
		return in, err
	})
}

// setupKey is that of the memo of a set-up: all that it depends on.
type setupKey struct {
	grid  driver.DiffusionGrid
	flags kernels.Fingerprint
}

// setUp finds a set-up for flags, or makes one, which others find if there is memory to keep it in. It yields. Two
// calls that make the same at the same time don't wait for each other: a job that waits for another could wait for one
// that it holds up.
func (s *solve) setUp(q *kernels.Queue, in *given) error {
	flags, err := kernels.FingerprintOf(q, in.flags)
	if err != nil {
		return err
	}
	key := setupKey{s.grid, flags}
	if kept, counts, ok := q.Recall(key); ok {
		in.setup, s.counts, s.kept = kept, counts.(driver.DiffusionCounts), true
		if err := q.GiveBack(kernels.Bytes[byte](s.setupBytes)); err != nil {
			return err
		}
		return q.Yield()
	}
	memo, keep := q.NewMemo(s.setupBytes, "diffusion set-up")
	if keep {
		in.setup = memo.Buffer()
		err = q.GiveBack(kernels.Bytes[byte](s.setupBytes))
	} else {
		in.setup, err = kernels.Alloc[byte](q, s.setupBytes, "set-up")
	}
	if err != nil {
		return err
	}
	if err = s.prepare(q, in); err == nil && keep {
		memo.Publish(key, s.counts)
	}
	return err
}

// setupFootprint is what setUp takes. The job has memory for a set-up even where a kept one will do, as that shows in
// the job only. Then it gives that back at once: with a set-up that it shares, or leaves to others, it holds no more of
// the device than with one of its own, and nobody waits or is refused who would not have been.
func (s *solve) setupFootprint() int64 {
	return kernels.Bytes[byte](s.setupBytes) + kernels.FingerprintBytes() + kernels.Bytes[driver.DiffusionCounts](1)
}

// prepare makes a set-up of flags in the memory that there is for it, and yields.
func (s *solve) prepare(q *kernels.Queue, in *given) error {
	counts, err := kernels.Alloc[driver.DiffusionCounts](q, 1, "counts")
	if err != nil {
		return err
	}
	s.counts, err = prepare(q, driver.DiffusionSetup{Grid: s.grid, Renew: s.renew}, in.flags, in.setup, counts)
	return err
}

// prepare makes a set-up of flags, and yields.
func prepare(q *kernels.Queue, op driver.DiffusionSetup, flags kernels.Buffer[uint8], setup kernels.Buffer[byte],
	counts kernels.Buffer[driver.DiffusionCounts]) (driver.DiffusionCounts, error) {
	var found [1]driver.DiffusionCounts
	op.Flags, op.Dst, op.Counts = flags.Slice(), setup.Slice(), counts.Slice()
	err := q.Run(&op)
	if err == nil {
		err = kernels.Download(q, found[:], counts)
	}
	if err == nil {
		err = q.Yield()
	}
	return found[0], err
}

// given is what a solve works with, in device memory.
type given struct {
	flags  kernels.Buffer[uint8]
	setup  kernels.Buffer[byte]
	values kernels.Buffer[float32]
	x      kernels.Buffer[float32] // where the solution is to be; memory of the job where it is empty
	warm   *bool                   // whether there is something in x to begin with, and is to be
}

// solve is a solve to come, or under way.
type solve struct {
	dev        *kernels.Device
	grid       driver.DiffusionGrid
	channels   int
	values     []float32
	opts       Options
	setupBytes int
	stateBytes int
	reference  *reference // nil where the solver's own estimate will do
	job        kernels.Job
	counts     driver.DiffusionCounts
	kept       bool // there was a set-up
	renew      bool // there is one for other flags where it is to be
	stopped    StopReason
	// finish, where it is not nil, turns the solution into what is asked for.
	finish func(q *kernels.Queue, x kernels.Buffer[float32]) (kernels.Buffer[float32], error)
	// progress, where it is not nil, is called after each cycle but the last.
	progress func(q *kernels.Queue, x kernels.Buffer[float32], sofar *Solution) error
}

func newSolve(dev *kernels.Device, p *Problem, g driver.DiffusionGrid, opts *Options) (*solve, error) {
	if err := p.checkValues(); err != nil {
		return nil, err
	}
	s, err := newSolveOf(dev, g, p.Channels, opts)
	if err != nil {
		return nil, err
	}
	s.values = p.Values
	return s, nil
}

// newSolveOf is newSolve for values that are in device memory. The method of g is that of opts.
func newSolveOf(dev *kernels.Device, g driver.DiffusionGrid, channels int, opts *Options) (*solve, error) {
	n := g.Width * g.Height * channels
	o, err := opts.settled(n)
	if err != nil {
		return nil, err
	}
	setup, err := dev.Scratch(&driver.DiffusionSetup{Grid: g})
	if err != nil {
		return nil, err
	}
	op := driver.DiffusionSolve{Grid: g, Channels: channels, Cycles: 1, Tolerance: o.Tolerance}
	if o.Threshold > 0 {
		op.Tolerance, op.Threshold = 0, o.Threshold
	}
	state, err := dev.Scratch(&op)
	if err != nil {
		return nil, err
	}
	s := &solve{dev: dev, grid: g, channels: channels, opts: o, setupBytes: int(setup), stateBytes: int(state)}
	s.job = kernels.Job{
		Footprint: 2 * kernels.Bytes[float32](n),
		Units:     int64(n),
	}
	if g.Barriers {
		s.label("diffuse with barriers")
	} else {
		s.label("diffuse")
	}
	if o.Threshold == 0 || o.MeasureError {
		if s.reference, err = newReference(dev, g, channels); err != nil {
			return nil, err
		}
	}
	solver := kernels.Bytes[byte](s.stateBytes) + kernels.Bytes[driver.DiffusionStatus](1)
	if s.reference != nil {
		s.job.Footprint += kernels.Bytes[float32](n)
		solver = max(solver, s.reference.scratch())
	}
	s.job.Footprint += solver
	return s, nil
}

// label says what the job is. What one of a slow method takes says nothing of others.
func (s *solve) label(work string) {
	if s.job.Label = work; s.grid.Method != Multigrid {
		s.job.Label += " by " + s.grid.Method.String()
	}
	if s.opts.Threshold > 0 {
		s.job.Label += " to a threshold"
	}
}

// do runs the job. begin says where flags, the set-up and values are.
func (s *solve) do(ctx context.Context, begin func(*kernels.Queue) (given, error)) (*Solution, error) {
	var out *Solution
	var timing kernels.Timing
	s.job.Timing = &timing
	err := s.dev.Do(ctx, s.job, func(q *kernels.Queue) error {
		start := time.Now()
		in, err := begin(q)
		if err != nil {
			return err
		}
		x, status, err := s.run(q, in, start)
		if err != nil {
			return err
		}
		if s.finish != nil {
			if x, err = s.finish(q, x); err != nil {
				return err
			}
		}
		values := make([]float32, x.Len())
		if err := download(q, values, x); err != nil {
			return err
		}
		out = s.sofar(status, start)
		out.Values = values
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Timing = timing
	return out, nil
}

func (s *solve) uploadValues(q *kernels.Queue) (kernels.Buffer[float32], error) {
	values, err := kernels.Alloc[float32](q, len(s.values), "values")
	if err != nil {
		return values, err
	}
	return values, upload(q, values, s.values)
}

// run solves.
func (s *solve) run(q *kernels.Queue, in given, start time.Time) (x kernels.Buffer[float32], _ driver.DiffusionStatus,
	err error) {
	var status driver.DiffusionStatus
	n := in.values.Len()
	if x = in.x; x.Len() == 0 {
		if x, err = kernels.Alloc[float32](q, n, "solution"); err != nil {
			return x, status, err
		}
	}
	if s.reference != nil {
		if err := s.reference.solve(q, in, s.channels, s.opts.Tolerance); err != nil {
			return x, status, err
		}
	}
	state, err := kernels.Alloc[byte](q, s.stateBytes, "solver")
	if err != nil {
		return x, status, err
	}
	result, err := kernels.Alloc[driver.DiffusionStatus](q, 1, "status")
	if err != nil {
		return x, status, err
	}
	op := driver.DiffusionSolve{
		Grid: s.grid, Channels: s.channels, Tolerance: s.opts.Tolerance, Flags: in.flags.Slice(),
		Setup:   in.setup.Slice(),
		Colours: in.values.Slice(), X: x.Slice(), State: state.Slice(), Status: result.Slice(),
	}
	threshold := s.opts.Threshold > 0
	if threshold {
		op.Tolerance, op.Threshold = 0, s.opts.Threshold
	}
	if s.opts.Start != nil {
		op.Start = driver.DiffusionFromX
		if err := upload(q, x, s.opts.Start); err != nil {
			return x, status, err
		}
	}
	if in.warm != nil && *in.warm {
		op.Start = driver.DiffusionFromX
	}
	slow := s.grid.Method != Multigrid
	check := uint32(1) // after so many cycles a slow method is looked at, whatever pieces they come in
	for left := s.opts.MaxCycles; left > 0 && status.Converged == 0; {
		before, most := status.Cycles, left
		if slow && !threshold {
			most = min(left, int(check-before))
		}
		// A cycle is the smallest piece there is.
		op.Cycles = 1
		if s.progress == nil {
			op.Cycles = max(1, int(q.Chunk(s.job.Label, int64(most)*int64(n))/int64(n)))
		}
		if status, err = step(q, op, result); err != nil {
			return x, status, err
		}
		made := max(1, status.Cycles-before) // by which it may have converged, long before all that it was to make
		q.SetChunkUnits(int64(made) * int64(n))
		if err := q.Yield(); err != nil {
			return x, status, err
		}
		if in.warm != nil {
			*in.warm = true
		}
		left -= int(made)
		if threshold && s.reference != nil && (status.Converged != 0 || left == 0 || s.progress != nil) {
			if status.Estimate, err = s.reference.estimate(q, x); err != nil {
				return x, status, err
			}
		}
		due := slow && !threshold && (status.Cycles >= check || left == 0)
		if due {
			check = nextCheck(status.Cycles)
		}
		// by rounding: nor will those that are left change anything
		if due && status.Update == 0 && alike(s.grid.Method, status.Cycles) {
			left, s.stopped = 0, ByRounding
		}
		if s.reference != nil && !threshold {
			if due || s.progress != nil {
				if status.Estimate, err = s.reference.estimate(q, x); err != nil {
					return x, status, err
				}
			}
			status.Converged = 0
			if due && status.Estimate <= s.opts.Tolerance {
				status.Converged = 1
			}
			op.Tolerance = math.SmallestNonzeroFloat32 // what the solver thinks doesn't count any more
		}
		switch {
		case status.Converged != 0 && threshold:
			s.stopped = ByThreshold
		case status.Converged != 0:
			s.stopped = ByTolerance
		case left == 0 && s.stopped == NotStopped:
			s.stopped = ByCycles
		}
		if s.progress != nil && status.Converged == 0 && left > 0 {
			if err := s.progress(q, x, s.sofar(status, start)); err != nil {
				return x, status, err
			}
		}
		op.Start = driver.DiffusionContinue
	}
	return x, status, nil
}

// step runs an op, and returns its status when it is done.
func step(q *kernels.Queue, op driver.DiffusionSolve,
	result kernels.Buffer[driver.DiffusionStatus]) (driver.DiffusionStatus, error) {
	var status [1]driver.DiffusionStatus
	err := q.Run(&op)
	if err == nil {
		err = kernels.Download(q, status[:], result)
	}
	if err == nil {
		err = q.Wait()
	}
	return status[0], err
}

// alike reports whether cycles of a slow method from the one with that number on do the same: where it changes nothing,
// none behind it does.
func alike(m Method, cycle uint32) bool {
	return m != VariableStencil || cycle > driver.DiffusionFarCycles
}

// upload copies src to dst in chunks, and yields after each.
func upload[T kernels.Elem](q *kernels.Queue, dst kernels.Buffer[T], src []T) error {
	return inChunks(q, "upload", len(src), func(from, to int) error {
		return kernels.Upload(q, dst.Range(from, to), src[from:to])
	})
}

// download copies src to dst in chunks, and yields after each.
func download[T kernels.Elem](q *kernels.Queue, dst []T, src kernels.Buffer[T]) error {
	return inChunks(q, "download", len(dst), func(from, to int) error {
		return kernels.Download(q, dst[from:to], src.Range(from, to))
	})
}

func inChunks(q *kernels.Queue, label string, n int, f func(from, to int) error) error {
	for at := 0; at < n; {
		k := int(q.Chunk(label, int64(n-at)))
		if err := f(at, at+k); err != nil {
			return err
		}
		if err := q.Yield(); err != nil {
			return err
		}
		at += k
	}
	return nil
}
