package main

// --plot: the histograms of regions as small multiples.

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const (
	// maxPanels is how many regions a plot shows; a panel has to stay large enough to read.
	maxPanels = 24
	// maxPlotBins is how many bins a panel draws; finer histograms are added up.
	maxPlotBins = 256

	panelWidth  = 300 // in pixels, which are points at 72 dpi
	panelHeight = 190
	plotMargin  = 14
	plotHeader  = 42
)

var (
	plotInk  = color.NRGBA{0x22, 0x29, 0x33, 0xff}
	plotDim  = color.NRGBA{0x6b, 0x76, 0x86, 0xff}
	plotGrid = color.NRGBA{0xe6, 0xe9, 0xee, 0xff}
	plotFail = color.NRGBA{0xd0, 0x1c, 0x33, 0xff}
	plotPass = color.NRGBA{0x0e, 0x8a, 0x4f, 0xff}
)

// channelColour is the colour of a channel's histogram.
func channelColour(c polyscanv1.Channel) color.NRGBA {
	switch c {
	case polyscanv1.Channel_CHANNEL_RED:
		return color.NRGBA{0xe0, 0x36, 0x3f, 0xff}
	case polyscanv1.Channel_CHANNEL_GREEN:
		return color.NRGBA{0x1d, 0x9d, 0x57, 0xff}
	case polyscanv1.Channel_CHANNEL_BLUE:
		return color.NRGBA{0x2f, 0x6f, 0xde, 0xff}
	}
	return color.NRGBA{0x4a, 0x57, 0x68, 0xff}
}

// plotHistograms draws a panel for each region, those that failed first if there are too many.
func plotHistograms(title string, res *polyscanv1.FrameResult) (image.Image, error) {
	shown := res.GetRegions()
	note := ""
	if len(shown) > maxPanels {
		note = fmt.Sprintf("   %d of %d regions, failed ones first", maxPanels, len(shown))
		order := slices.Clone(shown)
		slices.SortStableFunc(order, func(a, b *polyscanv1.RegionResult) int {
			return rank(b.GetVerdict()) - rank(a.GetVerdict())
		})
		shown = order[:maxPanels]
	}
	panels := make([]*plot.Plot, len(shown))
	for i, g := range shown {
		var err error
		if panels[i], err = panel(g); err != nil {
			return nil, err
		}
	}
	return plotPanels(title, note, res, panels)
}

// plotPanels draws panels under a heading.
func plotPanels(title, note string, res *polyscanv1.FrameResult, shown []*plot.Plot) (image.Image, error) {
	columns, rows := gridOf(len(shown))

	c := vgimg.NewWith(
		vgimg.UseWH(vg.Length(columns*panelWidth+2*plotMargin), vg.Length(rows*panelHeight+plotHeader+plotMargin)),
		vgimg.UseDPI(72), vgimg.UseBackgroundColor(color.White))
	dc := draw.New(c)
	writeHeading(dc, title, note, res)

	body := draw.Crop(dc, plotMargin, -plotMargin, plotMargin, -plotHeader)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 18, PadY: 24}
	panels := make([][]*plot.Plot, rows)
	for i := range panels {
		panels[i] = make([]*plot.Plot, columns)
	}
	for i, p := range shown {
		panels[i/columns][i%columns] = p
	}
	for y, line := range plot.Align(panels, tiles, body) {
		for x, area := range line {
			if p := panels[y][x]; p != nil {
				p.Draw(area)
			}
		}
	}
	return c.Image(), nil
}

// gridOf arranges n panels a little wider than high, with as few empty places as can be.
func gridOf(n int) (columns, rows int) {
	n = max(n, 1)
	least := int(math.Ceil(math.Sqrt(float64(n))))
	waste := math.MaxInt
	for c := least; c <= max(least, int(math.Sqrt(1.8*float64(n)))); c++ {
		if r := (n + c - 1) / c; c*r-n < waste {
			columns, rows, waste = c, r, c*r-n
		}
	}
	return columns, rows
}

// textStyle is the style of letters of a size in pixels.
func textStyle(size float64, bold bool, c color.Color) draw.TextStyle {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
	if bold {
		f.Weight = 700
	}
	return draw.TextStyle{Color: c, Font: f, Handler: plot.DefaultTextHandler}
}

func writeHeading(dc draw.Canvas, title, note string, res *polyscanv1.FrameResult) {
	base := vg.Point{X: dc.Min.X + plotMargin + 4, Y: dc.Max.Y - 25}
	s := textStyle(16, true, plotInk)
	text := cli.Printable(title)
	dc.FillText(s, base, text)
	base.X += s.Width(text) + 14
	if v := verdictName(res.GetVerdict()); v != nil {
		s = textStyle(13, true, plotPass)
		if res.GetVerdict() == polyscanv1.Verdict_VERDICT_FAIL {
			s.Color = plotFail
		}
		dc.FillText(s, base, *v)
		base.X += s.Width(*v) + 14
	}
	dc.FillText(textStyle(12, false, plotDim), base, fmt.Sprintf("%d × %d %s%s",
		res.GetLayout().GetWidth(), res.GetLayout().GetHeight(), cli.FormatName(res.GetLayout().GetPixelFormat()), note))
}

// panelOf is a plot for a region, with its title and axes.
func panelOf(g *polyscanv1.RegionResult) *plot.Plot {
	p := plot.New()
	p.Title.Text = shorten(cli.Printable(g.GetName()), 30) + "   n = " + strconv.FormatUint(g.GetCount(), 10)
	p.Title.TextStyle = textStyle(11.5, true, plotInk)
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	p.Title.Padding = 5
	switch g.GetVerdict() {
	case polyscanv1.Verdict_VERDICT_FAIL:
		p.Title.Text += "   FAIL"
		p.Title.TextStyle.Color = plotFail
	case polyscanv1.Verdict_VERDICT_PASS:
		p.Title.TextStyle.Color = plotPass
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.LineStyle = draw.LineStyle{Color: plotDim, Width: 0.7}
		a.Tick.LineStyle = draw.LineStyle{Color: plotDim, Width: 0.7}
		a.Tick.Label.Font = textStyle(9, false, plotDim).Font
		a.Tick.Label.Color = plotDim
		a.Tick.Length = 3
		a.Padding = 2
	}
	p.X.Tick.Marker = plot.TickerFunc(fewTicks)
	p.Y.Tick.Marker = plot.TickerFunc(fewTicks)
	return p
}

// panel is the plot of one region's histograms.
func panel(g *polyscanv1.RegionResult) (*plot.Plot, error) {
	p := panelOf(g)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Vertical.Color = nil
	grid.Horizontal = draw.LineStyle{Color: plotGrid, Width: 0.7}
	p.Add(grid)

	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	first := true
	for _, c := range g.GetChannels() {
		h := c.GetHistogram()
		if h == nil || c.GetChannel() == polyscanv1.Channel_CHANNEL_ALPHA && len(g.GetChannels()) > 1 {
			continue
		}
		if !first && (h.GetLower() != p.X.Min || h.GetUpper() != p.X.Max) {
			continue // a channel derived from colours, of other values
		}
		steps, top := outlineOf(h)
		if first {
			p.X.Min, p.X.Max, p.Y.Max = h.GetLower(), h.GetUpper(), 0
			first = false
		}
		p.Y.Max = max(p.Y.Max, top)
		if top == 0 {
			continue
		}
		area, err := plotter.NewPolygon(steps)
		if err != nil {
			return nil, err
		}
		fill := channelColour(c.GetChannel())
		fill.A = 0x50
		area.Color = fill
		area.LineStyle.Width = 0
		line, err := plotter.NewLine(steps)
		if err != nil {
			return nil, err
		}
		line.LineStyle = draw.LineStyle{Color: channelColour(c.GetChannel()), Width: 1}
		p.Add(area, line)
	}
	marks := limitMarks(g)
	p.Y.Max = max(p.Y.Max*(1.05+0.1*float64(len(marks))), 1) // room for the marks
	p.Add(marks)
	return p, nil
}

// outlineOf is the outline of a histogram as steps, from the base line back to it, and its height.
func outlineOf(h *polyscanv1.Histogram) (plotter.XYs, float64) {
	counts := h.GetCounts()
	if len(counts) == 0 {
		return nil, 0
	}
	group := (len(counts) + maxPlotBins - 1) / maxPlotBins
	width := (h.GetUpper() - h.GetLower()) / float64(len(counts))
	steps := plotter.XYs{{X: h.GetLower(), Y: 0}}
	top := 0.0
	for i := 0; i < len(counts); i += group {
		end := min(i+group, len(counts))
		sum := 0.0
		for _, n := range counts[i:end] {
			sum += float64(n)
		}
		top = max(top, sum)
		steps = append(steps,
			plotter.XY{X: h.GetLower() + width*float64(i), Y: sum},
			plotter.XY{X: h.GetLower() + width*float64(end), Y: sum})
	}
	return append(steps, plotter.XY{X: h.GetUpper(), Y: 0}), top
}

// fewTicks puts about four labelled ticks at round numbers on an axis.
func fewTicks(lo, hi float64) []plot.Tick {
	if !(hi > lo) {
		return nil
	}
	raw := (hi - lo) / 4
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, k := range []float64{1, 2, 2.5, 5, 10} {
		if k*step >= raw {
			step *= k
			break
		}
	}
	var ticks []plot.Tick
	for v := math.Ceil(lo/step) * step; v <= hi+step*1e-9; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: compact(v)})
	}
	return ticks
}

// compact writes 1500 as 1.5k.
func compact(v float64) string {
	for _, u := range []struct {
		n float64
		s string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= u.n {
			n := u.n
			if u.s == "k" {
				n = 1e3
			}
			return strconv.FormatFloat(v/n, 'g', 4, 64) + u.s
		}
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}
