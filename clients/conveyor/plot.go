package main

// --plot: latency over the time of the run, and its percentiles, as SVG or PNG by the file's name.

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	// The formats.
	_ "gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth  = 900
	plotHeight = 640
)

var (
	inkColour    = color.NRGBA{0x22, 0x29, 0x33, 0xff}
	gridColour   = color.NRGBA{0xe6, 0xe9, 0xee, 0xff}
	medianColour = color.NRGBA{0x2f, 0x6f, 0xde, 0xff}
	tailColour   = color.NRGBA{0xe0, 0x7a, 0x1f, 0xff}
	maxColour    = color.NRGBA{0xb9, 0xc1, 0xcc, 0xff}
	budgetColour = color.NRGBA{0xd0, 0x1c, 0x33, 0xff}
)

// plotFormat is the format that a file's name asks for.
func plotFormat(name string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".svg", ".png":
		return ext[1:], nil
	default:
		return "", usage("--plot %s: want a name that ends in .svg or .png", name)
	}
}

// plotLatency draws a report.
func plotLatency(r *report, format string) ([]byte, error) {
	over, err := overTime(r)
	if err != nil {
		return nil, err
	}
	spectrum, err := percentilePlot(r)
	if err != nil {
		return nil, err
	}
	c, err := draw.NewFormattedCanvas(plotWidth, plotHeight, format)
	if err != nil {
		return nil, err
	}
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: 18, PadTop: 10, PadBottom: 10, PadLeft: 10, PadRight: 16}
	for i, row := range plot.Align([][]*plot.Plot{{over}, {spectrum}}, tiles, dc) {
		[]*plot.Plot{over, spectrum}[i].Draw(row[0])
	}
	var b bytes.Buffer
	_, err = c.WriteTo(&b)
	return b.Bytes(), err
}

// newPanel is an empty plot in the style of all.
func newPanel(title, x string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font = sans(13)
	p.Title.Padding = 6
	p.X.Label.Text, p.Y.Label.Text = x, "ms"
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(11), sans(10)
		a.Label.TextStyle.Color, a.Tick.Label.Color = inkColour, inkColour
	}
	p.Legend.Top = true
	p.Legend.TextStyle.Font = sans(11)
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = gridColour, gridColour
	p.Add(g)
	p.Y.Min = 0
	return p
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// addLine draws a curve and names it.
func addLine(p *plot.Plot, name string, xy plotter.XYs, c color.Color, dashed bool) error {
	if len(xy) == 0 {
		return nil
	}
	l, err := plotter.NewLine(xy)
	if err != nil {
		return err
	}
	l.LineStyle = draw.LineStyle{Color: c, Width: 1.3}
	if dashed {
		l.LineStyle.Dashes = []vg.Length{5, 4}
	}
	p.Add(l)
	p.Legend.Add(name, l)
	return nil
}

// addBudget draws the budget over the whole width, and leaves room above everything.
func addBudget(p *plot.Plot, r *report) error {
	err := addLine(p, "budget", plotter.XYs{{X: 0, Y: r.Setup.Budget}, {X: p.X.Max, Y: r.Setup.Budget}}, budgetColour,
		true)
	p.Y.Max *= 1.06
	return err
}

func overTime(r *report) (*plot.Plot, error) {
	p := newPanel(fmt.Sprintf("Latency from a part's last line to its result: %s", r.Latency.All), "seconds")
	curves := make([]plotter.XYs, 3)
	end := 1e-3
	for _, h := range r.History {
		end = max(end, h.Seconds)
		if h.Max == 0 {
			continue // nothing came
		}
		for i, v := range []float64{h.Max, h.P99, h.P50} {
			curves[i] = append(curves[i], plotter.XY{X: h.Seconds, Y: v})
		}
	}
	for i, c := range []struct {
		name   string
		colour color.Color
	}{{"max", maxColour}, {"p99", tailColour}, {"p50", medianColour}} {
		if err := addLine(p, c.name, curves[i], c.colour, false); err != nil {
			return nil, err
		}
	}
	p.X.Min, p.X.Max = 0, end
	return p, addBudget(p, r)
}

// percentilePlot has 90 %, 99 %, 99.9 % at equal distances.
func percentilePlot(r *report) (*plot.Plot, error) {
	p := newPanel("By percentile", "percentile")
	nines := func(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
	var xy plotter.XYs
	top := 1.0
	for _, s := range r.Spectrum {
		if s.Percentile < 100 {
			top = max(top, nines(s.Percentile))
			xy = append(xy, plotter.XY{X: nines(s.Percentile), Y: s.Latency})
		}
	}
	if err := addLine(p, "latency", xy, tailColour, false); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max = 0, math.Ceil(top)
	p.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick {
		ticks := []plot.Tick{{Value: 0, Label: "0"}, {Value: nines(50), Label: "50"}}
		for n := 1.0; n <= hi; n++ {
			ticks = append(ticks,
				plot.Tick{Value: n, Label: fmt.Sprintf("%.*f", max(0, int(n)-2), 100-math.Pow(10, 2-n))})
		}
		return ticks
	})
	return p, addBudget(p, r)
}
