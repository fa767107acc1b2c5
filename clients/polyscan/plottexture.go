package main

// --plot with --texture: how many pairs there are of each two grey levels, as heat maps.

import (
	"fmt"
	"image"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/polyscan/polyscan/clients/internal/cli"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// plotTextures draws a panel for each region, channel and offset, as many as there is room for.
func plotTextures(title string, res *polyscanv1.FrameResult) (image.Image, error) {
	var panels []*plot.Plot
	all := 0
	for _, g := range res.GetRegions() {
		for _, c := range g.GetChannels() {
			if c.GetChannel() == polyscanv1.Channel_CHANNEL_ALPHA && len(g.GetChannels()) > 1 {
				continue
			}
			for _, t := range c.GetTextures() {
				if all++; all > maxPanels {
					continue
				}
				p := panelOf(g)
				letter := ""
				if len(g.GetChannels()) > 1 {
					letter = " " + channelLetter(c.GetChannel())
				}
				p.Title.Text = fmt.Sprintf("%s%s (%d,%d)   n = %d", shorten(cli.Printable(g.GetName()), 24), letter,
					t.GetOffset().GetDx(), t.GetOffset().GetDy(), t.GetPairs())
				p.X.Min, p.Y.Min = 0, 0
				p.X.Max, p.Y.Max = max(float64(t.GetLevels()), 1), max(float64(t.GetLevels()), 1)
				p.Add(pairMap{t})
				panels = append(panels, p)
			}
		}
	}
	note := ""
	if all > maxPanels {
		note = fmt.Sprintf("   the first %d of %d", maxPanels, all)
	}
	return plotPanels(title, note, res, panels)
}

// pairMap draws the counts of a texture: levels of the first pixel to the right, of the second one upwards. Cells are
// the darker the more pairs they hold, by the logarithm; those without any stay white.
type pairMap struct{ of *polyscanv1.Texture }

// Plot implements plot.Plotter.
func (m pairMap) Plot(c draw.Canvas, p *plot.Plot) {
	levels, counts := int(m.of.GetLevels()), m.of.GetCounts()
	if len(counts) != levels*levels {
		return
	}
	most := uint32(0)
	for _, n := range counts {
		most = max(most, n)
	}
	x, y := p.Transforms(&c)
	for i := range levels {
		for k := range levels {
			n := counts[i*levels+k]
			if n == 0 {
				continue
			}
			share := math.Log1p(float64(n)) / math.Log1p(float64(most))
			c.FillPolygon(heat(share), c.ClipPolygonXY([]vg.Point{{X: x(float64(i)), Y: y(float64(k))}, {X: x(float64(i + 1)), Y: y(float64(k))},
				{X: x(float64(i + 1)), Y: y(float64(k + 1))}, {X: x(float64(i)), Y: y(float64(k + 1))}}))
		}
	}
}

// heat goes from a light blue by violet to a dark red.
func heat(share float64) color.NRGBA {
	stops := [...][3]float64{{0xc6, 0xdb, 0xf7}, {0x7a, 0x6f, 0xd0}, {0xb0, 0x1c, 0x4c}, {0x4a, 0x05, 0x10}}
	at := min(max(share, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	var to [3]uint8
	for k := range to {
		to[k] = uint8(math.Round(stops[i][k] + (at-float64(i))*(stops[i+1][k]-stops[i][k])))
	}
	return color.NRGBA{to[0], to[1], to[2], 0xff}
}
