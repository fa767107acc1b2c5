// Diffusion: what all solvers have in common. diffusion_box.go is the one for problems without barriers.

package cpu

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) DiffusionSetup(op driver.DiffusionSetup) error {
	return s.enqueue("DiffusionSetup", func(stop *stopFlag) error { return s.dev.diffusionSetup(op, stop) })
}

func (s *stream) DiffusionSolve(op driver.DiffusionSolve) error {
	return s.enqueue("DiffusionSolve", func(stop *stopFlag) error { return s.dev.diffusionSolve(op, stop) })
}

// setupMagic marks a set-up that is whole.
const setupMagic = 0x5e7d1ff5

// setupHeader begins a set-up.
type setupHeader struct {
	Magic         uint64
	Width, Height uint32
	Counts        driver.DiffusionCounts
}

// solveHeader begins the state of a solve.
type solveHeader struct {
	Channels, Cycles uint32
	Update           float32 // of the last cycle
	_                uint32
}

// headerRoom is what a header takes.
const diffusionHeaderBytes = driver.Align

// arena hands out parts of a block, in the order in which they are asked for; with a nil block it counts.
type arena struct {
	b   []byte
	end int64
}

func (a *arena) floats(n int) []float32 {
	at := a.end
	a.end += (4*int64(n) + 63) &^ 63
	if a.b == nil || n == 0 {
		return nil
	}
	return sliceAt[float32](a.b, at, n)
}

func (d *device) DiffusionSetupBytes(g driver.DiffusionGrid) (int64, error) {
	if err := checkDiffusion(g); err != nil {
		return 0, fmt.Errorf("cpu: DiffusionSetup: %w", err)
	}
	a := arena{end: diffusionHeaderBytes}
	layBox(&a, g.Width, g.Height)
	return a.end, nil
}

func (d *device) DiffusionStateBytes(g driver.DiffusionGrid, channels int) (int64, error) {
	err := checkDiffusion(g)
	if err == nil && (channels < 1 || channels > driver.MaxDiffusionChannels) {
		err = fmt.Errorf("Channels = %d: must be 1 to %d", channels, driver.MaxDiffusionChannels)
	}
	if err != nil {
		return 0, fmt.Errorf("cpu: DiffusionSolve: %w", err)
	}
	a := arena{end: diffusionHeaderBytes}
	laySolve(&a, g, channels)
	layBoxState(&a, g.Width, g.Height, channels)
	return a.end, nil
}

func checkDiffusion(g driver.DiffusionGrid) error {
	switch {
	case g.Width < 1 || g.Width > driver.MaxSide || g.Height < 1 || g.Height > driver.MaxSide || g.Width*g.Height > driver.MaxPixels:
		return fmt.Errorf("Grid = %dx%d: sides must be 1 to %d, and no more than %d pixels", g.Width, g.Height, driver.MaxSide, driver.MaxPixels)
	case g.Barriers:
		return fmt.Errorf("Grid.Barriers: %w", driver.ErrNotSupported)
	}
	return nil
}

// room is the bytes of a slice, at least need of them, aligned.
func room(s driver.Slice, field string, need int64) ([]byte, error) {
	b, err := view(s, field)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) < need || !aligned(b) {
		return nil, fmt.Errorf("%s: %d bytes at %d are not %d, aligned", field, len(b), s.Off, need)
	}
	return b, nil
}

// diffusionFlags are the flags of a grid.
func diffusionFlags(s driver.Slice, g driver.DiffusionGrid) ([]byte, error) {
	b, err := view(s, "Flags")
	if err == nil && len(b) != g.Width*g.Height {
		err = fmt.Errorf("Flags: %d bytes are not %dx%d", len(b), g.Width, g.Height)
	}
	return b, err
}

func (d *device) diffusionSetup(op driver.DiffusionSetup, stop *stopFlag) error {
	need, err := d.DiffusionSetupBytes(op.Grid)
	if err != nil {
		return err
	}
	flags, err := diffusionFlags(op.Flags, op.Grid)
	if err != nil {
		return err
	}
	dst, err := room(op.Dst, "Dst", need)
	if err != nil {
		return err
	}
	out, err := viewAs[driver.DiffusionCounts](op.Counts, "Counts", 1)
	if err != nil {
		return err
	}
	w, h := op.Grid.Width, op.Grid.Height
	head := (*setupHeader)(unsafe.Pointer(&dst[0]))
	*head = setupHeader{Width: uint32(w), Height: uint32(h)}
	for y := range h {
		for x, f := range flags[y*w:][:w] {
			if f == driver.DiffusionFixed {
				head.Counts.Fixed++
			} else if f != 0 {
				return fmt.Errorf("Flags: pixel (%d, %d) has %#x: without barriers it must be 0 or %#x", x, y, f, driver.DiffusionFixed)
			}
		}
	}
	if head.Counts.Fixed == 0 {
		head.Counts.Void = uint32(w * h)
	}
	a := arena{b: dst, end: diffusionHeaderBytes}
	box := layBox(&a, w, h)
	box.dev, box.stop = d, stop
	if err := box.setUp(flags, head.Counts.Fixed == 0); err != nil {
		return err
	}
	head.Magic = setupMagic
	out[0] = head.Counts
	return nil
}

// diffusionSolve is a solve under way.
type diffusionSolve struct {
	dev      *device
	stop     *stopFlag
	w, h     int
	channels int
	flags    []byte
	x        []float32 // planes
	old      []float32 // x before the cycle
	rowMax   []float32 // of each row
}

func laySolve(a *arena, g driver.DiffusionGrid, channels int) (s diffusionSolve) {
	s.w, s.h, s.channels = g.Width, g.Height, channels
	s.old = a.floats(g.Width * g.Height * channels)
	s.rowMax = a.floats(g.Height)
	return s
}

var errNotSetUp = errors.New("Setup: is not what a DiffusionSetup made for this grid")

const (
	firstRatio = 0.5  // assumed before there are two updates
	mostRatio  = 0.99 // so that estimates are finite
)

func (d *device) diffusionSolve(op driver.DiffusionSolve, stop *stopFlag) error {
	g := op.Grid
	stateBytes, err := d.DiffusionStateBytes(g, op.Channels)
	if err != nil {
		return err
	}
	setupBytes, err := d.DiffusionSetupBytes(g)
	if err != nil {
		return err
	}
	flags, err := diffusionFlags(op.Flags, g)
	if err != nil {
		return err
	}
	setup, err := room(op.Setup, "Setup", setupBytes)
	if err != nil {
		return err
	}
	state, err := room(op.State, "State", stateBytes)
	if err != nil {
		return err
	}
	n := g.Width * g.Height
	colours, err := viewAs[float32](op.Colours, "Colours", n*op.Channels)
	if err != nil {
		return err
	}
	x, err := viewAs[float32](op.X, "X", n*op.Channels)
	if err != nil {
		return err
	}
	out, err := viewAs[driver.DiffusionStatus](op.Status, "Status", 1)
	if err != nil {
		return err
	}
	switch {
	case op.Cycles < 1:
		return fmt.Errorf("Cycles = %d: must be 1 or more", op.Cycles)
	case !(op.Tolerance > 0):
		return fmt.Errorf("Tolerance = %v: must be more than 0", op.Tolerance)
	case op.Start > driver.DiffusionContinue:
		return fmt.Errorf("Start = %d: is none", op.Start)
	}
	made := (*setupHeader)(unsafe.Pointer(&setup[0]))
	if made.Magic != setupMagic || int(made.Width) != g.Width || int(made.Height) != g.Height {
		return errNotSetUp
	}
	a := arena{b: state, end: diffusionHeaderBytes}
	s := laySolve(&a, g, op.Channels)
	s.dev, s.stop, s.flags, s.x = d, stop, flags, x
	head := (*solveHeader)(unsafe.Pointer(&state[0]))
	if op.Start == driver.DiffusionContinue {
		if int(head.Channels) != op.Channels {
			return errors.New("Start: there is nothing in State to continue with")
		}
	} else {
		*head = solveHeader{}
		if err := s.begin(colours, op.Start); err != nil {
			return err
		}
		head.Channels = uint32(op.Channels)
	}

	sa := arena{b: setup, end: diffusionHeaderBytes}
	box := layBox(&sa, g.Width, g.Height)
	box.dev, box.stop = d, stop
	box.layVectors(layBoxState(&a, g.Width, g.Height, op.Channels), op.Channels)
	var res driver.DiffusionStatus
	for range op.Cycles {
		if err := s.keep(); err != nil {
			return err
		}
		if err := box.cycle(x); err != nil {
			return err
		}
		if res.Update, err = s.change(); err != nil {
			return err
		}
		res.Ratio = firstRatio
		if head.Cycles > 0 && head.Update > 0 {
			res.Ratio = min(res.Update/head.Update, mostRatio)
		}
		head.Update = res.Update
		head.Cycles++
		if res.Estimate = res.Update / (1 - res.Ratio); res.Estimate <= op.Tolerance {
			res.Converged = 1
			break
		}
	}
	res.Cycles = head.Cycles
	if res.Residual, err = box.residual(x, s.rowMax); err != nil {
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

// begin sets X: the colours where they are given, and elsewhere what the start is to be.
func (s *diffusionSolve) begin(colours []float32, start driver.DiffusionStart) error {
	n := s.w * s.h
	for c := range s.channels {
		from, to := colours[c*n:][:n], s.x[c*n:][:n]
		// The sum of each row goes by itself, so that it does not depend on who computes it.
		err := s.dev.bands("DiffusionSolve", s.h, s.w, s.stop, func(y0, y1 int) {
			for y := y0; y < y1; y++ {
				sum := float32(0)
				for i := y * s.w; i < (y+1)*s.w; i++ {
					if s.flags[i]&driver.DiffusionFixed != 0 {
						sum += from[i]
					}
				}
				s.rowMax[y] = sum
			}
		})
		if err != nil {
			return err
		}
		sum, count := 0.0, 0
		for _, v := range s.rowMax {
			sum += float64(v)
		}
		for _, f := range s.flags {
			count += int(f & driver.DiffusionFixed)
		}
		mean := float32(sum / math.Max(float64(count), 1))
		err = s.dev.bands("DiffusionSolve", s.h, s.w, s.stop, func(y0, y1 int) {
			for i := y0 * s.w; i < y1*s.w; i++ {
				if s.flags[i]&driver.DiffusionFixed != 0 {
					to[i] = from[i]
				} else if start == driver.DiffusionFromMean || count == 0 {
					to[i] = mean
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *diffusionSolve) keep() error {
	return s.dev.bands("DiffusionSolve", len(s.x)/s.w, s.w/4, s.stop, func(y0, y1 int) {
		copy(s.old[y0*s.w:y1*s.w], s.x[y0*s.w:y1*s.w])
	})
}

// change is by how much a pixel has changed at most since keep.
func (s *diffusionSolve) change() (float32, error) {
	n := s.w * s.h
	err := s.dev.bands("DiffusionSolve", s.h, s.w*s.channels, s.stop, func(y0, y1 int) {
		for y := y0; y < y1; y++ {
			m := float32(0)
			for c := range s.channels {
				a, b := s.x[c*n+y*s.w:][:s.w], s.old[c*n+y*s.w:][:s.w]
				for i, v := range a {
					v -= b[i]
					m = max(m, v, -v)
				}
			}
			s.rowMax[y] = m
		}
	})
	return largest(s.rowMax), err
}

func largest(v []float32) (m float32) {
	for _, x := range v {
		m = max(m, x)
	}
	return m
}
