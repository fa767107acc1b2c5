package cli

import (
	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Regions are the regions of a file as the server takes them.
func Regions(file *regionfile.File) []*polyscanv1.Region {
	out := make([]*polyscanv1.Region, len(file.Regions))
	for i, g := range file.Regions {
		m := &polyscanv1.Region{Name: g.Name, Limits: g.Limits, Shape: g.Shape,
			FillRule: polyscanv1.FillRule_FILL_RULE_NON_ZERO}
		if from := g.Reference; from != nil {
			m.Reference = &polyscanv1.Reference{Region: from.Region}
			for _, counts := range from.Counts {
				m.Reference.Counts = append(m.Reference.Counts, &polyscanv1.ReferenceCounts{Counts: counts})
			}
		}
		if g.Fill == regionfile.FillEvenOdd {
			m.FillRule = polyscanv1.FillRule_FILL_RULE_EVEN_ODD
		}
		if g.Mask != nil {
			m.Mask = &polyscanv1.Mask{Runs: make([]int32, 0, 3*len(g.Mask))}
			for _, u := range g.Mask {
				m.Mask.Runs = append(m.Mask.Runs, u[:]...)
			}
		}
		for _, ring := range g.Rings {
			r := &polyscanv1.Ring{Xy: make([]float64, 0, 2*len(ring))}
			for _, p := range ring {
				r.Xy = append(r.Xy, p[0], p[1])
			}
			m.Rings = append(m.Rings, r)
		}
		out[i] = m
	}
	return out
}
