// Problem: what is given, and the checks of it.

package diffusion

import (
	"fmt"
	"math"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Flags of pixels. They can be combined.
const (
	// Fixed marks a pixel whose values are given (a Dirichlet constraint).
	Fixed = driver.DiffusionFixed
	// BlockRight blocks the edge between a pixel and its right neighbour, both ways (a Neumann constraint).
	BlockRight = driver.DiffusionBlockRight
	// BlockDown blocks the edge between a pixel and the one below.
	BlockDown = driver.DiffusionBlockDown
	// ShutRight closes the edge to the right neighbour one way: the pixel takes nothing from there, while that one may
	// take from it. Naive, PyramidCautious and PyramidGreedy can do that.
	ShutRight = driver.DiffusionShutRight
	// ShutLeft, ShutDown and ShutUp close the other edges of a pixel one way.
	ShutLeft = driver.DiffusionShutLeft
	ShutDown = driver.DiffusionShutDown
	ShutUp   = driver.DiffusionShutUp
)

// MaxValue bounds the absolute value of what is given, so that sums over all pixels, and of squares, stay finite in
// float32.
const MaxValue = 1 << 40

type path = kernels.Path

func invalid(path path, value any, format string, args ...any) error {
	return kernels.Invalid("diffusion", path, value, format, args...)
}

// Method says how a problem is solved. See [driver.DiffusionMethod].
type Method = driver.DiffusionMethod

const (
	// Multigrid is the default.
	Multigrid = driver.DiffusionMultigrid
	// Naive, PyramidCautious, PyramidGreedy and VariableStencil are for comparison: a thousand times slower.
	// VariableStencil is not for blocked edges.
	Naive           = driver.DiffusionNaive
	PyramidCautious = driver.DiffusionPyramidCautious
	PyramidGreedy   = driver.DiffusionPyramidGreedy
	VariableStencil = driver.DiffusionVariableStencil
)

// Problem says where values are given and where nothing flows.
type Problem struct {
	Width, Height int       // 1 to driver.MaxSide, and driver.MaxPixels in all
	Flags         []uint8   // of each pixel, in row-major order; at least one is Fixed
	Channels      int       // 1 to 4
	Values        []float32 // planes; -MaxValue to MaxValue where pixels are fixed, and not looked at elsewhere
}

// grid checks the constraints, and that m can solve them.
func (p *Problem) grid(m Method) (driver.DiffusionGrid, error) {
	if err := kernels.CheckSize(p.Width, p.Height); err != nil {
		return driver.DiffusionGrid{}, err
	}
	all, err := p.checkFlags()
	if err != nil {
		return driver.DiffusionGrid{}, err
	}
	if all&Fixed == 0 {
		return driver.DiffusionGrid{},
			invalid(path{"flags"}, "no pixel fixed", "at least one must be, or nothing is known of the image")
	}
	return gridOf(p.Width, p.Height, m, all&(BlockRight|BlockDown) != 0, all&driver.DiffusionShuts != 0)
}

// gridOf checks the method. barriers is whether edges may be blocked, and oneWay whether they may be open one way.
func gridOf(width, height int, m Method, barriers, oneWay bool) (driver.DiffusionGrid, error) {
	g := driver.DiffusionGrid{Width: width, Height: height, Barriers: barriers, OneWay: oneWay, Method: m}
	switch {
	case m > VariableStencil:
		return g, invalid(path{"method"}, uint8(m), "must be 0 to %d", VariableStencil)
	case barriers && m == VariableStencil:
		return g, invalid(path{"method"}, m, "looks across edges, and some are blocked")
	case oneWay && m == VariableStencil:
		return g, invalid(path{"method"}, m, "looks across edges, and some are open one way only")
	case oneWay && m == Multigrid:
		return g, invalid(path{"method"}, m,
			"needs edges that are open both ways or not at all, and some are open one way only: %v, %v and %v "+
				"solve that", Naive, PyramidCautious, PyramidGreedy)
	}
	return g, nil
}

// checkFlags returns all flags that there are.
func (p *Problem) checkFlags() (all uint8, _ error) {
	if len(p.Flags) != p.Width*p.Height {
		return 0, invalid(path{"flags"}, fmt.Sprintf("%d values", len(p.Flags)),
			"must be %d, one for each pixel of %dx%d", p.Width*p.Height, p.Width, p.Height)
	}
	for i, f := range p.Flags {
		if all |= f; f&^driver.DiffusionAllFlags != 0 {
			return 0, invalid(path{"flags", i}, fmt.Sprintf("%#x", f), "has bits other than %#x",
				driver.DiffusionAllFlags)
		}
	}
	return all, nil
}

// checkValues checks the values.
func (p *Problem) checkValues() error {
	if err := checkPlanes(p.Width, p.Height, p.Channels, p.Values); err != nil {
		return err
	}
	n := len(p.Flags)
	for i, v := range p.Values {
		if p.Flags[i%n]&Fixed != 0 && !usable(v) {
			return unusable(path{"values", valueIndex{i / n, i % n % p.Width, i % n / p.Width}}, v)
		}
	}
	return nil
}

// checkPlanes checks how many values there are.
func checkPlanes(width, height, channels int, values []float32) error {
	need := width * height * channels
	switch {
	case channels < 1 || channels > driver.MaxDiffusionChannels:
		return invalid(path{"channels"}, channels, "must be 1 to %d", driver.MaxDiffusionChannels)
	case len(values) != need:
		return invalid(path{"values"}, fmt.Sprintf("%d values", len(values)), "must be %d, in %d planes of %dx%d", need,
			channels, width, height)
	}
	return nil
}

// valueIndex is the index of a value in planes.
type valueIndex struct{ channel, x, y int }

func (p valueIndex) String() string {
	return fmt.Sprintf("channel %d, pixel (%d, %d)", p.channel, p.x, p.y)
}

func usable(v float32) bool { return math.Abs(float64(v)) <= MaxValue }

func unusable(path path, v float32) error {
	return invalid(path, v, "must be -%d to %[1]d", MaxValue)
}

const (
	// defaultTolerance is a quarter of a level of an 8-bit channel, for values from 0 to 1.
	defaultTolerance = 0.25 / 255
	// defaultMaxCycles is far more than any scene that we know of takes.
	defaultMaxCycles = 500
	maxCycles        = 100_000
)

// Options of a solve. The zero value, and nil, are the defaults.
type Options struct {
	// Method is how the problem is solved; the zero value is [Multigrid].
	Method Method
	// Tolerance is when to stop: once the estimated error of all values is at most this. 0 means 0.25/255, a
	// quarter of a level of an 8-bit channel for values from 0 to 1. Where
	// it is less than what float32 rounds off, about 1e-7 of the largest value, a solve may go on to MaxCycles, and the
	// estimate of one that does is far too high.
	Tolerance float32
	// Threshold, where it is not 0, is when to stop instead, as Warren's library does: an image, and each smaller one of
	// a pyramid, is done when the global difference hardly changes any more. That is the sum over all pixels and
	// channels, blur included, of what a sweep changes, and falls by no more than this from one sweep to the next, as
	// the mean of 16, where one with a weight counts as so many. It is more than 0, or [WarrenThreshold], and for the
	// methods that are there. Nothing is known of the error then.
	Threshold float32
	// MeasureError makes a solve with a threshold compute a solution by multigrid besides, to within an eighth of the
	// tolerance where float32 allows that, and say how far the result is from it.
	MeasureError bool
	// MaxCycles is when to stop at the latest. 0 means 500.
	MaxCycles int
	// Start is what to begin with in pixels that are not fixed, in planes, such as the solution before an edit. nil
	// begins with the mean of the values given. All of it is -MaxValue to MaxValue.
	Start []float32
}

// WarrenThreshold stands for what Warren's table 6.1 has for a method, for values from 0 to 1: 0.2 levels of 8 bits
// with [Naive], 1 with [PyramidCautious] and 50 with [PyramidGreedy].
const WarrenThreshold = -1

var warrenThresholds = map[Method]float32{Naive: 0.2 / 255, PyramidCautious: 1.0 / 255, PyramidGreedy: 50.0 / 255}

// settledThreshold checks a threshold for a method.
func settledThreshold(v float32, m Method) (float32, error) {
	of := warrenThresholds[m]
	switch {
	case v == 0:
		return 0, nil
	case of == 0:
		return 0, invalid(path{"threshold"}, v, "can't be given with %v: %v, %v and %v stop by one", m, Naive,
			PyramidCautious, PyramidGreedy)
	case v == WarrenThreshold:
		return of, nil
	case !(v > 0 && v <= math.MaxFloat32):
		return 0, invalid(path{"threshold"}, v, "must be more than 0, and finite")
	}
	return v, nil
}

// method is that of options that may be nil.
func (o *Options) method() Method {
	if o == nil {
		return Multigrid
	}
	return o.Method
}

// settled returns the options with defaults, for so many values.
func (o *Options) settled(values int) (Options, error) {
	out := Options{Tolerance: defaultTolerance, MaxCycles: defaultMaxCycles}
	if o == nil {
		return out, nil
	}
	out.Method = o.Method
	if o.Tolerance != 0 {
		if out.Tolerance = o.Tolerance; !(o.Tolerance > 0 && o.Tolerance <= math.MaxFloat32) {
			return out, invalid(path{"tolerance"}, o.Tolerance, "must be more than 0, and finite")
		}
	}
	var err error
	if out.Threshold, err = settledThreshold(o.Threshold, o.Method); err != nil {
		return out, err
	}
	out.MeasureError = o.MeasureError
	if o.MeasureError && o.Threshold == 0 {
		return out, invalid(path{"measure error"}, true, "must go with a threshold: otherwise it is known anyway")
	}
	if o.MaxCycles != 0 {
		if out.MaxCycles = o.MaxCycles; o.MaxCycles < 0 || o.MaxCycles > maxCycles {
			return out, invalid(path{"max cycles"}, o.MaxCycles, "must be 1 to %d", maxCycles)
		}
	}
	if out.Start = o.Start; o.Start != nil {
		if len(o.Start) != values {
			return out, invalid(path{"start"}, fmt.Sprintf("%d values", len(o.Start)), "must be %d", values)
		}
		for i, v := range o.Start {
			if !usable(v) {
				return out, unusable(path{"start", i}, v)
			}
		}
	}
	return out, nil
}
