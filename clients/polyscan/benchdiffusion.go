package main

// polyscan bench --solver: a picture of diffusion curves by each method, and how far off it is.

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/polyscan/polyscan/diffusion"
	"github.com/polyscan/polyscan/kernels"
)

// diffusionSizes are those of the GPU report.
var diffusionSizes = []string{"256x256", "512x512", "1024x1024"}

// solvers are the methods by the names that flags have for them.
var solvers = map[string]diffusion.Method{
	"multigrid": diffusion.Multigrid, "naive": diffusion.Naive, "pyramid-cautious": diffusion.PyramidCautious,
	"pyramid-greedy": diffusion.PyramidGreedy, "variable-stencil": diffusion.VariableStencil,
}

// exactTolerance is a quarter of a thousandth of a level: so far may be off what solutions are compared with.
const exactTolerance = 0.00025 / 255

// diffusion times pictures of curves from their control points to pixels on the device, after a look at how far the
// solution is from the exact one, where that is asked for.
func (b *bench) diffusion(ctx context.Context, w, h int) error {
	d := benchCurves(w, h)
	var exact *diffusion.Solution
	var err error
	if b.cmd.MeasureError {
		b.say(benchRow{Op: "exact solution", Width: w, Height: h})
		if exact, err = diffusion.SolveDrawing(ctx, b.dev, d, &diffusion.Options{Tolerance: exactTolerance}); err != nil {
			return err
		}
		if !exact.Converged {
			return fmt.Errorf("%dx%d: the exact solution was not found: the error is still %v", w, h, exact.Estimate)
		}
	}
	picture, err := b.store(ctx, make([]byte, w*h*kernels.RGB8.PixelBytes()))
	if err != nil {
		return err
	}
	defer picture.Drop()
	defer picture.Release()
	to := &diffusion.Target{Format: kernels.RGB8, Pixels: diffusion.Pixels{Resident: picture.Buffer()}}
	for _, name := range b.cmd.Solver {
		opts := &diffusion.Options{Method: solvers[name], MaxCycles: b.cmd.MaxCycles}
		if opts.Method.Thresholds() {
			if opts.Threshold, err = thresholdOf(b.cmd.Threshold, name); err != nil {
				return err
			}
			if opts.Threshold > 0 {
				opts.Threshold /= 255
			}
		}
		b.say(benchRow{Op: "diffusion", Method: name, Width: w, Height: h})
		got, err := diffusion.SolveDrawing(ctx, b.dev, d, opts)
		if err != nil {
			return err
		}
		row := benchRow{Op: "diffusion", Method: name, Width: w, Height: h, Format: b.cmd.Format,
			Bytes:  int64(w * h * kernels.RGB8.PixelBytes()),
			Cycles: got.Cycles, Converged: got.Converged}
		if exact != nil {
			most, rms := apart(got.Values, exact.Values)
			row.Error, row.RMS = &most, &rms
		}
		if !got.ErrorUnknown {
			estimate := 255 * float64(got.Estimate)
			row.Estimate = &estimate
		}
		// which is enough of one that takes longer than a row has to
		took, checks := []time.Duration{got.Compute - got.Check}, []time.Duration{got.Check}
		if got.Compute < b.cmd.Time {
			took, checks = took[:0], checks[:0]
			for total := time.Duration(0); total < b.cmd.Time || len(took) < 3; {
				got, err := diffusion.Render(ctx, b.dev, d, to, opts)
				if err != nil {
					return err
				}
				took, checks = append(took, got.Compute-got.Check), append(checks, got.Check)
				total += got.Compute
			}
		}
		row.CheckNs = float64(median(checks))
		b.add(row, took, 0)
	}
	return nil
}

// apart is the largest difference, and that on root mean square, in levels.
func apart(a, b []float32) (most, rms float64) {
	for i, v := range a {
		d := 255 * math.Abs(float64(v)-float64(b[i]))
		most, rms = max(most, d), rms+d*d
	}
	return most, math.Sqrt(rms / float64(max(len(a), 1)))
}

// benchCurves is a drawing of 300 curves all over a canvas, the same in each run, but for its scale.
func benchCurves(w, h int) *diffusion.Drawing {
	r := rand.New(rand.NewPCG(1, 0))
	d := &diffusion.Drawing{Width: w, Height: h, Channels: 3}
	color := func() []float32 { return []float32{r.Float32(), r.Float32(), r.Float32()} }
	side := float64(max(w, h))
	for range 300 {
		x, y := r.Float64()*float64(w), r.Float64()*float64(h)
		angle, step := 2*math.Pi*r.Float64(), side*(0.03+0.17*r.Float64())
		c := diffusion.Curve{Points: []diffusion.Point{{X: x, Y: y}}}
		for range 3 {
			x, y = x+step*math.Cos(angle), y+step*math.Sin(angle)
			c.Points = append(c.Points, diffusion.Point{X: x, Y: y})
			angle += 2 * (r.Float64() - 0.5)
		}
		c.Left = []diffusion.Stop{{Values: color()}, {At: 1, Values: color()}}
		c.Right = []diffusion.Stop{{Values: color()}, {At: 1, Values: color()}}
		d.Curves = append(d.Curves, c)
	}
	return d
}

// printDiffusion prints a line for each method and size.
func (b *bench) printDiffusion() error {
	if err := b.printHead(); err != nil {
		return err
	}
	t := &table{columns: []column{{title: "FRAME"}, {title: "METHOD"}, {title: "CYCLES", right: true},
		{title: "ERROR", right: true}, {title: "RMS", right: true}, {title: "ESTIMATE", right: true},
		{title: "MEDIAN", right: true}, {title: "BEST", right: true},
		{title: "RUNS", right: true}}}
	level := func(v *float64) cell {
		if v == nil {
			return cell{text: "-"}
		}
		return cell{text: fmt.Sprintf("%.3f", *v)}
	}
	for _, k := range b.report.Rows {
		t.add(cell{text: fmt.Sprintf("%dx%d %s", k.Width, k.Height, k.Format)}, cell{text: k.Method},
			cell{text: fmt.Sprint(k.Cycles)}, level(k.Error),
			level(k.RMS), level(k.Estimate), cell{text: pretty(time.Duration(k.NsOp))},
			cell{text: pretty(time.Duration(k.NsMin))},
			cell{text: fmt.Sprint(k.Runs)})
	}
	if err := t.write(b.env, b.env.stdout); err != nil {
		return err
	}
	if slices.ContainsFunc(b.report.Rows, func(k benchRow) bool {
		return !k.Converged && k.Cycles >= b.cmd.MaxCycles
	}) {
		b.env.warn("some methods were not done after %d cycles: see --max-cycles", b.cmd.MaxCycles)
	}
	if slices.ContainsFunc(b.report.Rows, func(k benchRow) bool { return !k.Converged && k.Cycles < b.cmd.MaxCycles }) {
		b.env.warn("some methods come no closer than they did: rounding leaves nothing that a cycle changes")
	}
	return nil
}
