// What a problem has to keep: the promises of package driver to backends, which package kernels checks for its users.

package devicetest

import (
	"cmp"
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (p *Problem) check() error {
	if want := p.Stride*(p.Height-1) + p.rowBytes(); len(p.Pixels) != want {
		return fmt.Errorf("%d bytes of pixels, not %d", len(p.Pixels), want)
	}
	if p.Offset < 0 || p.Offset%int(p.Format.SampleBytes) != 0 {
		return fmt.Errorf("offset %d", p.Offset)
	}
	return cmp.Or(p.checkRegions(), p.checkUse())
}

// checkUse checks the image, the strips and the range of regions.
func (p *Problem) checkUse() error {
	if !p.Format.Valid() {
		return fmt.Errorf("format %v", p.Format)
	}
	if p.Stride < p.rowBytes() || p.Stride%int(p.Format.SampleBytes) != 0 {
		return fmt.Errorf("stride %d", p.Stride)
	}
	if p.First < 0 || p.Count < 0 || p.First+p.Count > len(p.Regions.Regions) {
		return fmt.Errorf("regions %d+%d of %d", p.First, p.Count, len(p.Regions.Regions))
	}
	for _, s := range p.Strips {
		if s.Row0 < 0 || s.Height < 1 || s.Row0+s.Height > p.Height {
			return fmt.Errorf("strip %+v of %d rows", s, p.Height)
		}
	}
	return nil
}

// checkRegions checks the regions and the size of the image that they are for.
func (p *Problem) checkRegions() error {
	if p.Width < 1 || p.Height < 1 || p.Width > driver.MaxSide || p.Height > driver.MaxSide ||
		p.Width*p.Height > driver.MaxPixels {
		return fmt.Errorf("size %dx%d", p.Width, p.Height)
	}
	for i, r := range p.Regions.Regions {
		if r.Fill == driver.ByRuns {
			if err := p.checkRuns(i); err != nil {
				return err
			}
			continue
		}
		if int64(r.First)+int64(r.Count) > int64(len(p.Regions.Edges)) {
			return fmt.Errorf("region %d: %+v of %d edges", i, r, len(p.Regions.Edges))
		}
		ends := map[point]int{}
		for _, e := range p.Regions.Edges[r.First : r.First+r.Count] {
			for _, v := range []int32{e.X0, e.Y0, e.X1, e.Y1} {
				if v < -driver.MaxCoord || v > driver.MaxCoord {
					return fmt.Errorf("region %d: edge %+v", i, e)
				}
			}
			ends[point{e.X0, e.Y0}]++
			ends[point{e.X1, e.Y1}]--
		}
		for v, n := range ends {
			if n != 0 {
				return fmt.Errorf("region %d is open at %v", i, v)
			}
		}
	}
	return nil
}

// checkRuns checks the runs of a region.
func (p *Problem) checkRuns(i int) error {
	r := p.Regions.Regions[i]
	if int64(r.First)+int64(r.Count) > int64(len(p.Regions.Runs)) {
		return fmt.Errorf("region %d: %+v of %d runs", i, r, len(p.Regions.Runs))
	}
	runs := p.Regions.Runs[r.First : r.First+r.Count]
	for k, u := range runs {
		for _, v := range []int32{u.Y, u.X0, u.X1} {
			if v < -driver.MaxPixel || v > driver.MaxPixel {
				return fmt.Errorf("region %d: run %+v", i, u)
			}
		}
		if u.X0 >= u.X1 || k > 0 && (u.Y < runs[k-1].Y || u.Y == runs[k-1].Y && u.X0 <= runs[k-1].X1) {
			return fmt.Errorf("region %d: run %+v behind %+v", i, u, runs[max(k-1, 0)])
		}
	}
	return nil
}
