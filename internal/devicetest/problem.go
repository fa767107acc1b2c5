// A problem: regions, a frame and what to do with them, as plain data.

package devicetest

import (
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Problem is a set of regions, a frame in host memory and how to reduce it.
type Problem struct {
	Regions       driver.MaskRegions
	Width, Height int

	Format driver.PixelFormat
	Stride int    // bytes from row to row
	Pixels []byte // Stride*(Height-1) + Width*PixelBytes
	Offset int    // of the frame in device memory from a multiple of driver.Align

	What         driver.MaskWhat
	Colors       driver.Colors
	First, Count int     // the regions to reduce and to draw
	Strips       []Strip // the rows to reduce, in order of arrival; the second and later ones accumulate
}

// Strip is rows [Row0, Row0+Height) of the image.
type Strip struct{ Row0, Height int }

// Traffic is the bytes that ops have to move at least, for benchmarks to relate times to.
type Traffic struct {
	Prepare int64 // edges and runs read
	Reduce  int64 // pixels of the strips read and results written
	Raster  int64 // pixels of a mask written
}

// Traffic says what the problem moves.
func (p *Problem) Traffic() Traffic {
	var edges, rows int64
	for i := range p.Regions.Regions {
		edges += int64(len(p.Regions.EdgesOf(i)))
	}
	for _, s := range p.Strips {
		rows += int64(s.Height)
	}
	return Traffic{
		Prepare: edges*int64(unsafe.Sizeof(driver.Edge{})) + int64(len(p.Regions.Runs))*int64(unsafe.Sizeof(driver.Run{})),
		Reduce:  rows*int64(p.rowBytes()) + p.statsBytes() + p.histBytes(),
		Raster:  int64(p.Width) * int64(p.Height),
	}
}

// tests is how often [driver.Naive] would test a pixel against an edge within the bounds of each region.
func (p *Problem) tests() int64 {
	var n int64
	for i := range p.Regions.Regions {
		edges := p.Regions.EdgesOf(i)
		x0, y0, x1, y1 := p.Width, p.Height, 0, 0
		for _, e := range edges {
			x0, x1 = min(x0, int(e.X0)/driver.Subpixel), max(x1, int(e.X0)/driver.Subpixel)
			y0, y1 = min(y0, int(e.Y0)/driver.Subpixel), max(y1, int(e.Y0)/driver.Subpixel)
		}
		x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, p.Width), min(y1, p.Height)
		if x0 < x1 && y0 < y1 {
			n += int64(x1-x0) * int64(y1-y0) * int64(len(edges))
		}
	}
	return n
}

// Tolerance is by how much a result may differ from the oracle's: nothing, as all are integers whose order of
// summation does not matter.
func (*Problem) Tolerance() uint64 { return 0 }

// channels are those of the frame and those derived from it.
func (p *Problem) channels() int { return int(p.Format.Channels) + p.Colors.Spaces.Channels() }

func (p *Problem) rowBytes() int { return p.Width * p.Format.PixelBytes() }

func (p *Problem) statsBytes() int64 {
	return int64(p.Count) * int64(p.channels()) * int64(unsafe.Sizeof(driver.MaskStats{}))
}

func (p *Problem) histBytes() int64 {
	if p.What&driver.MaskHistogram == 0 {
		return 0
	}
	return int64(p.Count) * int64(p.channels()) * int64(p.Format.Levels()) * 4
}

// wholeStrip is all rows at once.
func (p *Problem) wholeStrip() []Strip { return []Strip{{0, p.Height}} }
