// Diffusion: what all solvers have in common. diffusion_box.go has the solver for problems without barriers,
// diffusion_graph.go that for others, whose levels diffusion_levels.go makes;
// diffusion_sweeps.go has those of the seed.

package cpu

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// setupMagic marks a set-up that is whole.
const setupMagic = 0x5e7d1ff5

// setupHeader begins a set-up.
type setupHeader struct {
	Magic         uint64
	Width, Height uint32
	Barriers      bool
	OneWay        bool
	Method        driver.DiffusionMethod
	Counts        driver.DiffusionCounts
}

// of reports whether it begins a set-up for a grid.
func (h *setupHeader) of(g driver.DiffusionGrid) bool {
	return h.Magic == setupMagic && int(h.Width) == g.Width && int(h.Height) == g.Height && h.Barriers == g.Barriers &&
		h.OneWay == g.OneWay && h.Method == g.Method
}

// solveHeader begins the state of a solve.
type solveHeader struct {
	Channels, Cycles uint32
	Update           float32 // of the last cycle
	_                uint32
	// Of the conjugate gradients.
	Rho   [driver.MaxDiffusionChannels]float64
	Modes [driver.MaxDiffusionChannels]slowMode
}

// diffusionHeaderBytes is the room of a header.
const diffusionHeaderBytes = driver.Align

// arena hands out parts of a block, in the order in which they are asked for; with a nil block it counts.
type arena struct {
	b   []byte
	end int64
}

func (a *arena) floats(n int) []float32 { return layOut[float32](a, n) }

// layOut hands out a slice.
func layOut[T any](a *arena, n int) []T {
	at := a.end
	a.end += (int64(unsafe.Sizeof(*new(T)))*int64(n) + 63) &^ 63
	if a.b == nil || n == 0 {
		return nil
	}
	return sliceAt[T](a.b, at, n)
}

func diffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	if err := supported(g); err != nil {
		return 0, err
	}
	a := arena{end: diffusionHeaderBytes}
	switch {
	case g.Method != driver.DiffusionMultigrid:
		laySweeper(&a, g)
	case g.Barriers:
		layGraph(&a, g.Width, g.Height)
	default:
		layBox(&a, g.Width, g.Height)
	}
	return a.end, nil
}

func diffusionStateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	if err := supported(g); err != nil {
		return 0, err
	}
	a := arena{end: diffusionHeaderBytes}
	switch {
	case g.Method != driver.DiffusionMultigrid:
		laySweeperState(&a, g, channels)
	case g.Barriers:
		layGraphState(&a, g.Width, g.Height, channels)
	default:
		layBoxState(&a, g.Width, g.Height, channels)
	}
	return a.end, nil
}

// supported says which grids there is no solver for.
func supported(g driver.DiffusionGrid) error {
	if g.Barriers && g.Width*g.Height > maxGraphPixels {
		return fmt.Errorf("Grid = %dx%d: %w with barriers: no more than %d pixels", g.Width, g.Height,
			driver.ErrNotSupported, maxGraphPixels)
	}
	if g.Method == driver.DiffusionVariableStencil && g.Barriers {
		return fmt.Errorf("Grid.Barriers: %w by %v: it looks across them", driver.ErrNotSupported, g.Method)
	}
	if g.OneWay && g.Method == driver.DiffusionVariableStencil {
		return fmt.Errorf("Grid.OneWay: %w by %v: it looks across edges", driver.ErrNotSupported, g.Method)
	}
	if g.OneWay && g.Method == driver.DiffusionMultigrid {
		return fmt.Errorf("Grid.OneWay: %w by %v: its equations have to be symmetric", driver.ErrNotSupported, g.Method)
	}
	return nil
}

func (d *device) diffusionSetup(op *driver.DiffusionSetup, stop *stopFlag) error {
	flags := view(op.Flags)
	dst := view(op.Dst)
	out := viewAs[driver.DiffusionCounts](op.Counts)
	w, h := op.Grid.Width, op.Grid.Height
	head := (*setupHeader)(unsafe.Pointer(&dst[0]))
	was := *head
	*head = setupHeader{Width: uint32(w), Height: uint32(h), Barriers: op.Grid.Barriers, OneWay: op.Grid.OneWay,
		Method: op.Grid.Method}
	means := op.Grid.Allowed()
	pace := newPace(stop)
	var err error
	for y := range h {
		for x, f := range flags[y*w:][:w] {
			if f&^means != 0 {
				return fmt.Errorf("Flags: pixel (%d, %d) has %#x: may have %#x", x, y, f, means)
			}
			head.Counts.Fixed += uint32(f & driver.DiffusionFixed)
		}
		if pace.spend(w) {
			return errAborted
		}
	}
	a := arena{b: dst, end: diffusionHeaderBytes}
	switch {
	case op.Grid.Method != driver.DiffusionMultigrid:
		w := laySweeper(&a, op.Grid)
		w.dev, w.stop = d, stop
		void, err := w.setUp(flags)
		if err != nil {
			return err
		}
		head.Counts.Void = uint32(void)
	case op.Grid.Barriers:
		g := layGraph(&a, w, h)
		g.dev, g.stop = d, stop
		void, err := g.setUp(flags)
		if err != nil {
			return err
		}
		head.Counts.Void = uint32(void)
	default:
		b := layBox(&a, w, h)
		b.dev, b.stop = d, stop
		if head.Counts.Fixed == 0 {
			head.Counts.Void = uint32(w * h)
		}
		void := head.Counts.Fixed == 0
		if op.Renew && was.of(op.Grid) && was.Counts.Fixed > 0 && !void {
			err = b.renew(flags)
		} else {
			err = b.setUp(flags, void)
		}
		if err != nil {
			return err
		}
	}
	head.Magic = setupMagic
	out[0] = head.Counts
	return nil
}

// diffuser solves for the pixels of planes that are not fixed, by cycles.
type diffuser interface {
	// begin is called once, when x has its first values.
	begin(x []float32) error
	// cycle returns by how much it changed a value; with barriers the largest correction that it began with, about the
	// error before it.
	cycle(x []float32) (float32, error)
	// residual is the largest one.
	residual(x []float32) (float32, error)
}

var errNotSetUp = errors.New("Setup: is not what a DiffusionSetup made for this grid")

const (
	boxRatio   = 0.15     // of cycles of box at least: the ratio varies from one to the next
	sweepRatio = 0.98     // of sweeps at least
	firstRatio = 0.5      // assumed before there are two updates
	mostRatio  = 1 - 1e-5 // so that estimates are finite

	pastUpdates = 64   // of sweeps, which are remembered
	leastPower  = 1.02 // so that sums are finite
	// updates that are left, at most, for each that was: where they are as small as rounding, ratios say nothing
	leftPerCycle = 4
	sweepCaution = 1.5 // by which estimates of sweeps are larger
	// sweepRounding is what a cycle may lose by rounding, of values up to 1: a quarter of 64 times half of the last
	// bit.
	sweepRounding = 1.0 / (1 << 21)
)

// outlook says what the update of a cycle tells beside that of the one before, if head has one: ratio is what a cycle
// multiplies the error by, and estimate is about the error that is left, as of the sum of a geometric series.
func outlook(g driver.DiffusionGrid, head *solveHeader, update float32) (ratio, estimate float32) {
	second := head.Cycles > 0 && head.Update > 0
	if ratio = firstRatio; second {
		ratio = update / head.Update
	}
	if g.Barriers {
		ratio = min(ratio, mostRatio)
		return ratio, update * max(ratio/(1-ratio), slowest(head))
	}
	if second { // a step that is longer than the one before changes more by as much
		ratio += 1 - boxStep(head.Cycles)/boxStep(head.Cycles-1)
	}
	ratio = max(min(ratio, mostRatio), boxRatio)
	return ratio, update * ratio / (1 - ratio)
}

// sweepOutlook is outlook for sweeps, of which an update alone says little: what is rough is gone first, and of what is
// smooth an update shows little.
//
// While parts of the error go that are ever smoother, updates go down like a power of the number of cycles, k^-p; in
// the end, when one part is left, by the same ratio q from each to the next. By ratio and number p is k (1-q), and what
// is left of the sum of updates is update/(1-q) p/(p-1), in the end as in between. The ratio is the mean one of the
// last cycle, of two, of four and so on, up to half of all: a few show how it is now, and many what updates near the
// rounding are worth. The one by which the most is left counts.
//
// What rounding has taken away comes on top: where ways are long updates come to nothing before the error does.
//
// The constants are from 1,423 solves of scenes of devicetest, of 25x24 to 682x506 pixels, cycle by cycle, to a quarter
// of a level: none said that it had converged while off by more than twice that, and but for the first cycles of one no
// error was more than twice the estimate. Where nearly all that an update shows is rounding there is no telling: after
// a pyramid a corridor of 256x256 pixels was 3 times as far off as the estimate in the 60th cycle, one of 1024x1024
// pixels 9 times in the 40th and 75 times in the 769th.
func sweepOutlook(head *solveHeader, kept *sweeperState, update float32) (ratio, estimate float32) {
	power := func(p float32) float32 { p = max(p, leastPower); return p / (p - 1) }
	k := head.Cycles + 1
	ratio = sweepRatio
	left := power(0) / (1 - ratio)
	most := max(left, leftPerCycle*float32(k))
	for n := uint32(1); n < k && n <= pastUpdates && (n == 1 || 2*n <= k); n *= 2 {
		q := float32(firstRatio)
		if before := kept.past[(head.Cycles-n)%pastUpdates]; before > 0 {
			q = update / before
			for i := n; i > 1; i /= 2 {
				q = float32(math.Sqrt(float64(q)))
			}
		}
		q = min(q, mostRatio)
		p := (float32(k) - float32(n)/2) * (1 - max(q, firstRatio))
		q = max(q, sweepRatio)
		if l := min(power(p)/(1-q), most); n == 1 || l > left {
			ratio, left = q, l
		}
	}
	kept.past[head.Cycles%pastUpdates] = update
	rounding := float32(sweepRounding * float32(k) * kept.peak[0])
	return ratio, float32(sweepCaution*update*left) + rounding
}

func (d *device) diffusionSolve(op *driver.DiffusionSolve, stop *stopFlag) error {
	g := op.Grid
	setupBytes, err := diffusionSetupBytes(g)
	if err != nil {
		return err
	}
	flags := view(op.Flags)
	setup := view(op.Setup)
	state := view(op.State)
	n := g.Width * g.Height
	colours := viewAs[float32](op.Colours)
	x := viewAs[float32](op.X)
	out := viewAs[driver.DiffusionStatus](op.Status)
	if int64(len(setup)) < setupBytes {
		return errNotSetUp
	}
	made := (*setupHeader)(unsafe.Pointer(&setup[0]))
	if !made.of(g) {
		return errNotSetUp
	}
	head := (*solveHeader)(unsafe.Pointer(&state[0]))
	if made.Counts.Fixed == 0 { // there is no equation: the coarsest operator of a box has no inverse
		clear(x)
		*head = solveHeader{Channels: uint32(op.Channels)}
		out[0] = driver.DiffusionStatus{Cycles: 1, Converged: 1}
		return nil
	}
	sa, a := arena{b: setup, end: diffusionHeaderBytes}, arena{b: state, end: diffusionHeaderBytes}
	var solver diffuser
	var inv []float32
	var kept sweeperState
	switch {
	case g.Method != driver.DiffusionMultigrid:
		s := laySweeper(&sa, g)
		s.dev, s.stop, s.head = d, stop, head
		kept = laySweeperState(&a, g, op.Channels)
		s.open(kept, flags, op)
		solver, inv = s, s.levels[0].inv
	case g.Barriers:
		s := layGraph(&sa, g.Width, g.Height)
		s.dev, s.stop = d, stop
		vectors := layGraphState(&a, g.Width, g.Height, op.Channels)
		vectors.head = head
		s.use(vectors)
		solver, inv = s, s.inv
	default:
		s := layBox(&sa, g.Width, g.Height)
		s.dev, s.stop, s.head = d, stop, head
		s.open(layBoxState(&a, g.Width, g.Height, op.Channels), op.Channels)
		solver, inv = s, s.inv
	}
	if op.Start == driver.DiffusionContinue {
		if int(head.Channels) != op.Channels {
			return errors.New("Start: there is nothing in State to continue with")
		}
	} else {
		*head = solveHeader{}
		for c := range op.Channels {
			if err := d.fillIn(x[c*n:][:n], colours[c*n:][:n], flags, inv, made, op.Start, stop); err != nil {
				return err
			}
		}
		if g.Method != driver.DiffusionMultigrid && op.Threshold == 0 {
			kept.peak[0] = peak(x)
		}
		if err := solver.begin(x); err != nil {
			return err
		}
		head.Channels = uint32(op.Channels)
	}
	var res driver.DiffusionStatus
	for range op.Cycles {
		if res.Update, err = solver.cycle(x); err != nil {
			return err
		}
		over := false
		switch {
		case op.Threshold > 0:
			s := solver.(*sweeper)
			res.Difference, res.Fall, over = float32(s.global[0]), float32(s.fall()), s.settled()
		case g.Method != driver.DiffusionMultigrid:
			res.Ratio, res.Estimate = sweepOutlook(head, &kept, res.Update)
			over = res.Estimate <= op.Tolerance
		default:
			res.Ratio, res.Estimate = outlook(g, head, res.Update)
			over = res.Estimate <= op.Tolerance
		}
		head.Update = res.Update
		head.Cycles++
		if over {
			res.Converged = 1
			break
		}
	}
	res.Cycles = head.Cycles
	if res.Residual, err = solver.residual(x); err != nil {
		return err
	}
	out[0] = res
	return nil
}

// bands runs f on bands of rows, each row of about so many nanoseconds.
func (d *device) bands(name string, rows, ns int, stop *stopFlag, f func(from, to int)) error {
	const bandNs = 30_000 // far more than it takes to hand one out, far less than a chunk
	band := max(1, bandNs/max(ns, 1))
	return d.pieces(name, (rows+band-1)/band, stop, func(i int) int {
		from, to := i*band, min((i+1)*band, rows)
		f(from, to)
		return (to - from) * ns
	})
}

// fillIn sets a plane: the colours where they are given, and elsewhere what the start is to be, or their mean where
// there is no equation.
func (d *device) fillIn(x, colours []float32, flags []byte, inv []float32, made *setupHeader,
	start driver.DiffusionStart, stop *stopFlag) error {
	pace := newPace(stop)
	sum, count := 0.0, 0
	w, h := int(made.Width), int(made.Height)
	for y := range h {
		if start != driver.DiffusionFromMean && made.Counts.Void == 0 {
			break // no pixel gets the mean
		}
		for i := y * w; i < (y+1)*w; i++ {
			if flags[i]&driver.DiffusionFixed != 0 {
				sum += float64(colours[i])
				count++
			}
		}
		if pace.spend(w) {
			return errAborted
		}
	}
	mean := float32(sum / float64(max(count, 1)))
	return d.bands("DiffusionSolve", h, w, stop, func(y0, y1 int) {
		for i := y0 * w; i < y1*w; i++ {
			if flags[i]&driver.DiffusionFixed != 0 {
				x[i] = colours[i]
			} else if start == driver.DiffusionFromMean || inv[i] == 0 {
				x[i] = mean
			}
		}
	})
}

func largest(v []float32) (m float32) {
	for _, x := range v {
		m = max(m, x)
	}
	return m
}
