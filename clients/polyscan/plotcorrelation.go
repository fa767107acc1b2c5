package main

// --plot with --correlate: how far pixels vary together, by their distance.

import (
	"image"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// plotCorrelations draws a panel for each region, as many as there is room for: a line through the correlations of
// distances, and a dot for each lag at its length.
func plotCorrelations(title string, res *polyscanv1.FrameResult) (image.Image, error) {
	shown := res.GetRegions()
	note := ""
	if len(shown) > maxPanels {
		shown, note = shown[:maxPanels], "   the first regions"
	}
	var panels []*plot.Plot
	for _, g := range shown {
		p := panelOf(g)
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
		for _, c := range g.GetChannels() {
			if c.GetChannel() == polyscanv1.Channel_CHANNEL_ALPHA && len(g.GetChannels()) > 1 {
				continue
			}
			line, dots := correlogram(c)
			for _, at := range append(line[:len(line):len(line)], dots...) {
				p.X.Max, p.Y.Min = max(p.X.Max, at.X), min(p.Y.Min, at.Y)
			}
			if len(line) > 0 {
				l, err := plotter.NewLine(line)
				if err != nil {
					return nil, err
				}
				l.LineStyle = draw.LineStyle{Color: channelColour(c.GetChannel()), Width: 1.5}
				p.Add(l)
			}
			if len(dots) > 0 {
				d, err := plotter.NewScatter(dots)
				if err != nil {
					return nil, err
				}
				d.GlyphStyle = draw.GlyphStyle{Color: channelColour(c.GetChannel()), Radius: vg.Points(2.5),
					Shape: draw.CircleGlyph{}}
				p.Add(d)
			}
		}
		panels = append(panels, p)
	}
	return plotPanels(title, note, res, panels)
}

// correlogram is the correlations of a channel by distance, and those of lags by their lengths.
func correlogram(c *polyscanv1.ChannelStatistics) (line, dots plotter.XYs) {
	for _, v := range c.GetCorrelations() {
		if v.Correlation == nil {
			continue
		}
		switch of := v.GetOf(); of.GetKind() {
		case polyscanv1.CorrelationKind_CORRELATION_KIND_RADIAL:
			line = append(line, plotter.XY{X: float64(of.GetRadius()), Y: v.GetCorrelation()})
		case polyscanv1.CorrelationKind_CORRELATION_KIND_LAG:
			o := of.GetOffset()
			dots = append(dots, plotter.XY{X: math.Hypot(float64(o.GetDx()), float64(o.GetDy())),
				Y: v.GetCorrelation()})
		}
	}
	return line, dots
}
