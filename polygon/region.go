// Regions as callers give them: points, rings, fill rules, and how many there may be.

package polygon

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Point is a place in a frame, in pixels. The centre of pixel (i, j) is (i + 0.5, j + 0.5).
type Point struct{ X, Y float64 }

// Ring is a closed polygon of at least three vertices; the last one joins the first. It may cross itself,
// repeat vertices and have no area.
type Ring []Point

// FillRule decides which winding numbers are inside.
type FillRule uint8

const (
	// NonZero takes the pixels with any winding number but 0. A hole is a ring of the opposite direction.
	NonZero FillRule = iota
	// EvenOdd takes the pixels with odd winding numbers. A hole is any ring inside another.
	EvenOdd
)

func (f FillRule) String() string {
	switch f {
	case NonZero:
		return "NON_ZERO"
	case EvenOdd:
		return "EVEN_ODD"
	}
	return fmt.Sprintf("FillRule(%d)", uint8(f))
}

// Region is a set of pixels, and what must hold for them.
type Region struct {
	// Name comes back in results. At most 256 bytes of UTF-8; need not be unique, and may be empty.
	Name string
	// Rings, at least one. Coordinates are in pixels, |v| < 2^22.
	Rings []Ring
	Fill  FillRule
	// Mask, unless it is nil, has the pixels instead of rings: in row-major order, no two of its runs touching in a
	// row,
	// |v| < 2^22. It may have none. See [MaskOf].
	Mask []Run
	// Shape, unless it is empty, says what the region is made of, instead of rings and a mask: other regions of the
	// list, circles and rectangles, moved and combined, such as
	//
	//	band of "U7" inwards 4 px
	//
	// docs/regions.md has the grammar, and which pixels each word means. Vertices, centres and radii are rounded to the
	// grid once; everything after that is exact: the pixels whose centres satisfy what the shape says.
	Shape string
	// Limits are expressions such as "mean in [90, 140]"; see [ParseLimit]. A region with limits that catches no pixel
	// fails, and so does one of which any pixel lies outside the frame, unless a limit on its coverage, such as
	// "coverage >= 0.8", says how much has to lie inside.
	Limits []string
	// Reference is what the region's distribution is compared with, by [Distances] and by limits on ks, wasserstein, js
	// and chisquare; nil where nothing.
	Reference *Reference
}

// Reference is the distribution of another region, or one that is kept.
type Reference struct {
	// Region is the name of another region of the set, which no second one has; empty for a distribution that is kept.
	Region string
	// Counts of samples by value, for each channel in the order of results, or one for all of them. They add up to 1 at
	// least and 2^32-1 at most.
	Counts [][]uint32
}

// Bounds of what [NewSet] accepts. A field of 0 or less has its default.
type Bounds struct {
	// MaxRegions in a set; default 100,000.
	MaxRegions int
	// MaxVertices of all regions together, as one of which a run of a mask counts; default 8,388,608.
	MaxVertices int
	// MaxRegionVertices of one region; default 1,048,576.
	MaxRegionVertices int
	// Memory, unless nil, is asked for room before shapes take so many more bytes, and told of a negative number when
	// they need less; and for what the limits of each region are compiled to. An error of it ends [NewSet], and is
	// returned as it is.
	Memory func(bytes int64) error
	// Written, unless nil, is told how many more bytes there are of those that shapes asked for: buffers are for the most
	// runs that may come of them, and the system has no memory behind what nobody has written.
	Written func(bytes int64)
	// Later leaves limits that can't fail where the regions are drawn to [Set.CheckLimits]: those of a set that is moved
	// are judged where it is moved to.
	Later bool
}

// The defaults of [Bounds].
const (
	DefaultMaxRegions        = 100_000
	DefaultMaxVertices       = 8 << 20
	DefaultMaxRegionVertices = 1 << 20
)

// hardMaxVertices is what edges can be counted with in the layouts shared with backends.
const hardMaxVertices = 1 << 30

// maxName is the longest name of a region, in bytes.
const maxName = 256

// MaxLimits is how many limits a region may have.
const MaxLimits = 64

// maxCoordinate bounds coordinates of vertices, in pixels: |v| < maxCoordinate.
const maxCoordinate = driver.MaxCoord / driver.Subpixel

func (b Bounds) withDefaults() Bounds {
	if b.MaxRegions <= 0 {
		b.MaxRegions = DefaultMaxRegions
	}
	if b.MaxVertices <= 0 {
		b.MaxVertices = DefaultMaxVertices
	}
	if b.MaxRegionVertices <= 0 {
		b.MaxRegionVertices = DefaultMaxRegionVertices
	}
	b.MaxVertices = min(b.MaxVertices, hardMaxVertices)
	return b
}
