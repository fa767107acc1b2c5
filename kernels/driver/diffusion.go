// The ops of diffusion: images from pixels whose values are given.

package driver

import (
	"cmp"
	"unsafe"
)

// DiffusionFlags say what is known of a pixel.
type DiffusionFlags = uint8

const (
	// DiffusionFixed marks a pixel whose value is given (a Dirichlet constraint).
	DiffusionFixed DiffusionFlags = 1 << iota
	// DiffusionBlockRight blocks the edge between a pixel and its right neighbour (a Neumann constraint): nothing flows
	// across, either way. In the last column it says nothing, as the border of the image is no edge anyway.
	DiffusionBlockRight
	// DiffusionBlockDown blocks the edge between a pixel and the one below it.
	DiffusionBlockDown
	// DiffusionShutRight closes the edge between a pixel and its right neighbour one way: the pixel takes nothing from
	// there, while that one may take from the pixel. Fixed pixels take nothing anyway. Source: Warren, Solving
	// Diffusion Curves on GPU, 2010, whose Neumann edges are these: a blocked edge is one that both sides have shut.
	DiffusionShutRight
	// DiffusionShutLeft closes the edge to the left neighbour one way.
	DiffusionShutLeft
	// DiffusionShutDown closes the edge to the neighbour below one way.
	DiffusionShutDown
	// DiffusionShutUp closes the edge to the neighbour above one way.
	DiffusionShutUp

	// DiffusionBlocks are the flags that need DiffusionGrid.Barriers, and DiffusionShuts those that need
	// DiffusionGrid.OneWay.
	DiffusionBlocks = DiffusionBlockRight | DiffusionBlockDown
	DiffusionShuts  = DiffusionShutRight | DiffusionShutLeft | DiffusionShutDown | DiffusionShutUp
	// DiffusionAllFlags are all that mean something.
	DiffusionAllFlags = DiffusionFixed | DiffusionBlocks | DiffusionShuts
)

// DiffusionMethod says how a diffusion is solved. All but the first are of the seed, for comparison: they are slow, and
// approach the same solution as far as float32 lets them, which is a level or two of 8 bits away where a way to a fixed
// pixel is hundreds of pixels long. Their estimates count 2^-21 of the largest value for the rounding of each cycle: a
// tolerance below that, times the cycles, is never reached. And they go by updates, which come to nothing by rounding
// before the error does: in a corridor through 1024x1024 pixels one was 75 times too low. Package diffusion measures
// the error where multigrid can solve the same. Source: Warren, Solving Diffusion Curves on GPU, 2010.
type DiffusionMethod uint8

const (
	// DiffusionMultigrid is the default: a cycle takes the error down by about the same factor whatever the size.
	DiffusionMultigrid DiffusionMethod = iota
	// DiffusionNaive replaces all pixels at once by the mean of their neighbours (Jacobi), 64 times a cycle.
	DiffusionNaive
	// DiffusionPyramidCautious begins with the naive solution of an image of half the sides, and so on. There a pixel
	// is fixed where at least three of four are, and an edge blocked or shut where one of two is. DiffusionFromX does
	// without.
	DiffusionPyramidCautious
	// DiffusionPyramidGreedy is the same, but one pixel suffices.
	DiffusionPyramidGreedy
	// DiffusionVariableStencil looks as far as the nearest fixed pixel in four directions (Jeschke and others, A GPU
	// Laplacian solver for diffusion curves and Poisson image editing, 2009), and half as far from cycle to cycle,
	// until it is naive. It is not for barriers, nor for edges that are open one way.
	DiffusionVariableStencil
)

// DiffusionFarCycles is after how many cycles [DiffusionVariableStencil] is naive.
const DiffusionFarCycles = 24

var diffusionNames = [...]string{"MULTIGRID", "NAIVE", "PYRAMID_CAUTIOUS", "PYRAMID_GREEDY", "VARIABLE_STENCIL"}

func (m DiffusionMethod) String() string { return nameOf(diffusionNames[:], m) }

// Thresholds reports whether a method can stop by [DiffusionSolve.Threshold].
func (m DiffusionMethod) Thresholds() bool {
	return m == DiffusionNaive || m == DiffusionPyramidCautious || m == DiffusionPyramidGreedy
}

// DiffusionGrid is what the ops of one problem have in common.
type DiffusionGrid struct {
	Width, Height int  // sides up to MaxSide, and MaxPixels in all
	Barriers      bool // whether edges may be blocked. Where flags block edges without it, the set-up fails
	OneWay        bool // whether edges may be open one way; not with DiffusionMultigrid, whose equations are symmetric
	Method        DiffusionMethod
}

// Allowed are the flags that pixels may have.
func (g DiffusionGrid) Allowed() DiffusionFlags {
	f := DiffusionFixed
	if g.Barriers {
		f |= DiffusionBlocks
	}
	if g.OneWay {
		f |= DiffusionShuts
	}
	return f
}

// MaxDiffusionChannels is how many channels a [DiffusionSolve] can have.
const MaxDiffusionChannels = 4

// DiffusionCounts is what a [DiffusionSetup] found.
type DiffusionCounts struct {
	Fixed uint32 // pixels whose value is given
	Void  uint32 // pixels that take from one of those by no path of open edges
}

// DiffusionSetup prepares a solver for a set of constraints. It depends on where they are, not on their values, and
// serves any number of [DiffusionSolve] ops.
//
// Flags are Width*Height bytes in row-major order. Dst has the bytes that Device.Scratch says, and Counts
// receives one DiffusionCounts. What is in Dst is the backend's own. Flags outside of [DiffusionAllFlags] fail the op.
//
// Complexity: grows with the pixels. Source: Dendy, Black box multigrid, 1982; with barriers, Vaněk and others,
// Algebraic multigrid by smoothed aggregation, 1996, where aggregates are what open edges connect within blocks.
type DiffusionSetup struct {
	Grid   DiffusionGrid
	Flags  Slice
	Dst    Slice
	Counts Slice
	// Renew says that Dst holds what a set-up for the same grid and other flags made, such as those before an edit. A
	// backend may keep what is still right of it; the result is the same.
	Renew bool
}

// DiffusionStart says what a [DiffusionSolve] begins with.
type DiffusionStart uint8

const (
	// DiffusionFromMean begins with the mean of the given values in all pixels that have none.
	DiffusionFromMean DiffusionStart = iota
	// DiffusionFromX begins with what is in X, such as the solution before an edit.
	DiffusionFromX
	// DiffusionContinue goes on where the op before stopped, with the same arguments but for Cycles and Tolerance.
	DiffusionContinue
)

// DiffusionStatus says how far a solve has come. The numbers are the maximum over all pixels and channels.
//
// Mirrored on devices: 32 bytes.
type DiffusionStatus struct {
	Cycles    uint32 // since the start
	Converged uint32 // 1 where Estimate is at most the tolerance
	// by how much the last cycle changed a value; with barriers, the largest correction that it began with
	Update float32
	// of that and the update before, 0.5 for the first cycle, and less than 1; at least 0.15 without barriers, where it
	// is what their steps tell of the error, and 0.9 of the methods of the seed
	Ratio float32
	// of the error that is left: Update / (1 - Ratio), by multigrid times Ratio, with barriers or more, as their
	// slowest mode says; no bound
	Estimate float32
	Residual float32 // sum over the open edges of a pixel of the differences across; 0 where the solution is exact
	// With a threshold: by how much the last sweep changed all values together, and by how much less than the sweep
	// before it, as the mean of 16, where one with a weight counts as so many. Converged says that one of them is at
	// most the threshold; Update is the largest change of the last sweep, and Ratio and Estimate are 0, as nothing is
	// known of the error.
	Difference, Fall float32
}

// DiffusionSolve solves for the pixels that are not fixed: each is to be the mean of its neighbours across open edges.
// The border of the image is no edge. Pixels that no open path connects with a fixed one (void) become the mean of all
// fixed ones; nothing is taken from them, and no error is counted there. Where nothing is fixed X becomes 0, in one
// cycle.
//
// It runs cycles until the estimate of the error is at most Tolerance, or Cycles of them. So long solves can be cut:
// the ops that follow say [DiffusionContinue].
//
// Setup is what [DiffusionSetup] made of Flags on the same grid. Both are only read, by any number of solves at a time.
// Colours are float32 in planes of Width*Height, one for each channel; pixels that are not fixed are not looked at, the
// others are finite. X, of the same size, receives the solution, with the colours where pixels are fixed. State has the
// bytes that Device.Scratch says; it is the solver's memory between ops. Status receives one
// DiffusionStatus.
//
// Threshold in the place of Tolerance is Warren's own stop, for his methods: an image, and each smaller one of a
// pyramid, is done when the global difference hardly changes any more. That is the sum over all pixels and channels of
// what a sweep changes, and his library waits until it falls by no more than a threshold from one sweep to the next.
// Here that is looked at every 32 sweeps, which are a cycle then, as the mean of the last 16, where one with a weight
// counts as so many (see Weights); a global difference of at most the threshold will do, too, as it can't fall by more.
// A backend may lack it: then Device.Scratch says so.
//
// The arithmetic is float32; backends differ by rounding. One backend gives the same bits whatever its number of
// threads. Complexity: a cycle grows with the pixels; how many are needed hardly depends on them. Source of the
// problem: Warren, Solving Diffusion Curves on GPU, 2010.
type DiffusionSolve struct {
	Grid      DiffusionGrid
	Channels  int // 1 to MaxDiffusionChannels
	Start     DiffusionStart
	Cycles    int     // 1 or more
	Tolerance float32 // more than 0, or 0 with a threshold
	Threshold float32 // more than 0, or 0 for none, as with MULTIGRID and VARIABLE_STENCIL
	Flags     Slice
	Setup     Slice
	Colours   Slice
	X         Slice
	State     Slice
	Status    Slice
}

// Weights says how far the sweeps of the seed's methods go: a sweep adds to a pixel's value so many times what takes it
// to the mean of its neighbours; after 8 they repeat. All weights are 1 (plain sweeps) but for PYRAMID_GREEDY with a
// threshold and without closed edges. There 8 sweeps take away as much of what is smooth, which is most of the error, as
// 33.75 plain ones. The weights are about 1/λ of the zeros λ of a Chebyshev polynomial on [0.015, 2], where 0 to 2 is
// what eigenvalues can be, and a plain sweep, which measures the global difference as it is with plain ones. In this
// order no product of the first factors 1-wλ is more than 1, so no eigenvector grows on the way.
//
// The threshold of Warren's table needs 96 or 128 sweeps of 1024x1024 pixels with 300 curves instead of 416, and no
// drawing that was tried is farther off. What else could have weights has none. With barriers some images are farther
// off (a corridor by 3 of 255 levels more). By PYRAMID_CAUTIOUS to the threshold of the table the RMS of those curves
// grows by 5 %. Edges that are open one way have complex eigenvalues, whose vectors the weights make grow. Source: Yang
// and Mittal, Acceleration of the Jacobi iterative method by factors exceeding 100 using scheduled relaxation, 2014.
func (op *DiffusionSolve) Weights() [8]float32 {
	g := op.Grid
	if g.Method == DiffusionPyramidGreedy && op.Threshold > 0 && !g.Barriers && !g.OneWay {
		return [...]float32{1, 0.6875, 1.75, 0.5625, 4.25, 0.5, 24, 1}
	}
	return [...]float32{1, 1, 1, 1, 1, 1, 1, 1}
}

func (g *DiffusionGrid) check(op string) error {
	return cmp.Or(CheckSize(op, "Grid.", g.Width, g.Height),
		named(op, "Grid.Method", g.Method, DiffusionVariableStencil, "method"))
}

func (op *DiffusionSetup) name() string { return "DiffusionSetup" }

func (op *DiffusionSetup) check() error { return op.Grid.check(op.name()) }

func (op *DiffusionSetup) operands(to []Operand) []Operand {
	return append(to,
		exact("Flags", &op.Flags, int64(op.Grid.Width)*int64(op.Grid.Height), Read),
		exact("Counts", &op.Counts, int64(unsafe.Sizeof(DiffusionCounts{})), Write),
		scratch("Dst", &op.Dst, BackendSized))
}

func (op *DiffusionSolve) name() string { return "DiffusionSolve" }

func (op *DiffusionSolve) check() error {
	name := op.name()
	if err := cmp.Or(
		op.Grid.check(name),
		between(name, "Channels", op.Channels, 1, MaxDiffusionChannels),
		named(name, "Start", op.Start, DiffusionContinue, "start"),
	); err != nil {
		return err
	}
	switch {
	case op.Cycles < 1:
		return refuse(name, "Cycles", op.Cycles, "must be 1 or more")
	case op.Threshold != 0 && !(op.Threshold > 0):
		return refuse(name, "Threshold", op.Threshold, "must be more than 0, or 0 for none")
	case op.Threshold != 0 && !op.Grid.Method.Thresholds():
		return refuse(name, "Threshold", op.Threshold, "must be 0 with %v", op.Grid.Method)
	case op.Threshold != 0 && op.Tolerance != 0:
		return refuse(name, "Tolerance", op.Tolerance, "must be 0 beside a threshold")
	case op.Threshold == 0 && !(op.Tolerance > 0):
		return refuse(name, "Tolerance", op.Tolerance, "must be more than 0")
	}
	return nil
}

func (op *DiffusionSolve) operands(to []Operand) []Operand {
	pixels := int64(op.Grid.Width) * int64(op.Grid.Height)
	return append(to,
		exact("Flags", &op.Flags, pixels, Read),
		made("Setup", &op.Setup),
		exact("Colours", &op.Colours, 4*pixels*int64(op.Channels), Read),
		exact("X", &op.X, 4*pixels*int64(op.Channels), Read|Write),
		scratch("State", &op.State, BackendSized),
		exact("Status", &op.Status, int64(unsafe.Sizeof(DiffusionStatus{})), Read|Write))
}
