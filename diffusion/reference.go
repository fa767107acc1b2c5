// How far off the slow methods are.

package diffusion

import (
	"errors"
	"math"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// referenceShare is which part of the tolerance the estimated error of a reference may be.
	referenceShare = 8
	// referenceCycles bounds those of a reference, far above what any scene takes that we know of.
	referenceCycles = 500
	// comparedAtOnce is how many values are compared between two yields, at most.
	comparedAtOnce = 1 << 18
)

// reference is the solution by multigrid of what a slow method solves. What a sweep changes says little of the error
// that is left: where ways to the pixels that are given are long it comes to nothing by rounding, long before the error
// does. A corridor through 1024x1024 pixels was 16 levels off by PYRAMID_GREEDY when its updates said 2, and still
// when, after 769 cycles, they said a quarter. So the error is measured.
type reference struct {
	grid                   driver.DiffusionGrid
	setupBytes, stateBytes int
	x                      kernels.Buffer[float32] // in memory of the job
	off                    float32                 // the estimate of its own error
	a, b                   []float32               // of the values compared at the time
	took                   time.Duration           // for it, and for comparisons
}

// newReference returns nil where there is none: multigrid has its own estimate. It doesn't know edges that are open one
// way, nor all sizes on all backends.
func newReference(dev *kernels.Device, g driver.DiffusionGrid, channels int) (*reference, error) {
	if g.Method == Multigrid || g.OneWay {
		return nil, nil
	}
	r := &reference{grid: g}
	r.grid.Method = Multigrid
	setup, err := dev.Scratch(&driver.DiffusionSetup{Grid: r.grid})
	if errors.Is(err, driver.ErrNotSupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state, err := dev.Scratch(&driver.DiffusionSolve{Grid: r.grid, Channels: channels, Cycles: 1, Tolerance: 1})
	r.setupBytes, r.stateBytes = int(setup), int(state)
	return r, err
}

// scratch is how many bytes of the job's footprint solve takes besides x, and gives back.
func (r *reference) scratch() int64 {
	return kernels.Bytes[byte](r.setupBytes) + kernels.Bytes[byte](r.stateBytes) +
		kernels.Bytes[driver.DiffusionCounts](1) + kernels.Bytes[driver.DiffusionStatus](1)
}

// solve makes it, and yields after each cycle.
func (r *reference) solve(q *kernels.Queue, in given, channels int, tolerance float32) (err error) {
	defer r.time(time.Now())
	if r.x, err = kernels.Alloc[float32](q, in.values.Len(), "reference"); err != nil {
		return err
	}
	counts, err := kernels.Alloc[driver.DiffusionCounts](q, 1, "counts of the reference")
	if err != nil {
		return err
	}
	setup, err := kernels.Alloc[byte](q, r.setupBytes, "set-up of the reference")
	if err != nil {
		return err
	}
	if _, err := prepare(q, driver.DiffusionSetup{Grid: r.grid}, in.flags, setup, counts); err != nil {
		return err
	}
	state, err := kernels.Alloc[byte](q, r.stateBytes, "solver of the reference")
	if err != nil {
		return err
	}
	result, err := kernels.Alloc[driver.DiffusionStatus](q, 1, "status of the reference")
	if err != nil {
		return err
	}
	op := driver.DiffusionSolve{
		Grid: r.grid, Channels: channels, Cycles: 1,
		Tolerance: max(tolerance/referenceShare, math.SmallestNonzeroFloat32), Flags: in.flags.Slice(),
		Setup:   setup.Slice(),
		Colours: in.values.Slice(), X: r.x.Slice(), State: state.Slice(), Status: result.Slice(),
	}
	r.off = float32(math.Inf(1))
	// Where the tolerance is less than what rounding leaves estimates don't go down any more, and the least says most.
	for cycles, idle := 0, 0; cycles < referenceCycles && idle < 3; cycles++ {
		status, err := step(q, op, result)
		if err != nil {
			return err
		}
		if err := q.Yield(); err != nil {
			return err
		}
		if idle++; status.Estimate < 0.9*r.off {
			idle = 0
		}
		r.off = min(r.off, status.Estimate)
		if status.Converged != 0 {
			break
		}
		op.Start = driver.DiffusionContinue
	}
	return errors.Join(kernels.Free(q, result), kernels.Free(q, state), kernels.Free(q, setup), kernels.Free(q, counts))
}

// estimate is how far off x may be: its distance, and the reference's own error.
func (r *reference) estimate(q *kernels.Queue, x kernels.Buffer[float32]) (float32, error) {
	defer r.time(time.Now())
	if r.a == nil {
		n := min(x.Len(), comparedAtOnce)
		r.a, r.b = make([]float32, n), make([]float32, n)
	}
	// the bits of a float that is not negative, which are ordered as such are; max of floats takes four times as long
	most := uint32(0)
	for at := 0; at < x.Len(); {
		k := int(min(q.Chunk("compare solutions", int64(x.Len()-at)), comparedAtOnce))
		q.SetChunkUnits(int64(k))
		if err := kernels.Download(q, r.a[:k], x.Range(at, at+k)); err != nil {
			return 0, err
		}
		if err := kernels.Download(q, r.b[:k], r.x.Range(at, at+k)); err != nil {
			return 0, err
		}
		if err := q.Yield(); err != nil {
			return 0, err
		}
		b := r.b[:k]
		for i, v := range r.a[:k] {
			most = max(most, math.Float32bits(v-b[i])&^(1<<31))
		}
		at += k
	}
	return math.Float32frombits(most) + r.off, nil
}

func (r *reference) time(since time.Time) { r.took += time.Since(since) }

// nextCheck is after how many cycles to look again, so that a solve makes a quarter more than it needs at most, and
// looks are few.
func nextCheck(cycles uint32) uint32 { return cycles + max(1, cycles/4) }
