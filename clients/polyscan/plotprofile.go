package main

// --plot with --profile: the means of bins as lines.

import (
	"image"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/polyscan/polyscan/clients/internal/reductions"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// plotProfiles draws a panel for each profile of each region, as many as there is room for: for each channel a line
// through the means of bins at their middles, which is broken where a bin has no pixels, and an upright one at the edge.
func plotProfiles(title string, res *polyscanv1.FrameResult) (image.Image, error) {
	var panels []*plot.Plot
	note := ""
	for _, g := range res.GetRegions() {
		most := 0
		for _, c := range g.GetChannels() {
			most = max(most, len(c.GetProfiles()))
		}
		for k := range most {
			if len(panels) == maxPanels {
				note = "   the first ones"
				break
			}
			p := panelOf(g)
			lo, hi := math.Inf(1), math.Inf(-1)
			var edges []*polyscanv1.ChannelStatistics
			for _, c := range g.GetChannels() {
				if k >= len(c.GetProfiles()) || c.GetChannel() == polyscanv1.Channel_CHANNEL_ALPHA && len(g.GetChannels()) > 1 {
					continue
				}
				f := c.GetProfiles()[k]
				p.X.Label.Text = reductions.FormatProfile(f.GetOf())
				p.X.Label.TextStyle = textStyle(9, false, plotDim)
				for line := range profileLines(f) {
					for _, at := range line {
						lo, hi = min(lo, at.Y), max(hi, at.Y)
					}
					l, err := plotter.NewLine(line)
					if err != nil {
						return nil, err
					}
					l.LineStyle = draw.LineStyle{Color: channelColour(c.GetChannel()), Width: 1.5}
					p.Add(l)
				}
				if f.Edge != nil {
					edges = append(edges, c)
				}
			}
			for _, c := range edges {
				at := c.GetProfiles()[k].GetEdge()
				l, err := plotter.NewLine(plotter.XYs{{X: at, Y: lo}, {X: at, Y: hi}})
				if err != nil {
					return nil, err
				}
				l.LineStyle = draw.LineStyle{Color: channelColour(c.GetChannel()), Width: 0.7}
				p.Add(l)
			}
			panels = append(panels, p)
		}
	}
	return plotPanels(title, note, res, panels)
}

// profileLines are the means of bins, in runs of bins that have pixels.
func profileLines(f *polyscanv1.Profile) func(yield func(plotter.XYs) bool) {
	return func(yield func(plotter.XYs) bool) {
		var line plotter.XYs
		b := 0
		for _, p := range f.GetPieces() {
			for k := range int(p.GetBins()) {
				if n := f.GetCounts()[b]; n > 0 {
					line = append(line, plotter.XY{X: p.GetStart() + (float64(k)+0.5)*p.GetSize(),
						Y: float64(f.GetSums()[b]) / float64(n)})
				} else if line != nil {
					if !yield(line) {
						return
					}
					line = nil
				}
				b++
			}
		}
		if line != nil {
			yield(line)
		}
	}
}
