// Options: what a conversion can be told.

package lowpoly

import (
	"math"
	"sort"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Stage is the step of a conversion that the picture shows.
type Stage uint8

const (
	// StageShaded is the result: triangles in their colours, in the format of the image.
	StageShaded Stage = iota
	// StageEdges is what vertices go by: the magnitude of the gradient, an eighth of [driver.Edges], in GRAY8.
	StageEdges
	// StagePoints is the vertices, white squares of 3 by 3 pixels on the edges at half their brightness, in GRAY8.
	StagePoints
	// StageVoronoi is the image in which each pixel has the colour of the pixel at its nearest vertex.
	StageVoronoi
	// StageWireframe is the result with the edges of the triangles drawn in black.
	StageWireframe
)

// Defaults of [Options].
const (
	DefaultVertices = 2500
	// defaultFloor is where the colour error of photos is about least: see TestColorError. It grows by a percent or two
	// to 64.
	defaultFloor = 16
	// DefaultStrength and DefaultHold are for videos. With them one of a camera that stands still flickers less than a
	// fifth as much as without either: see TestFlicker. Less of them follows a picture that moves more closely.
	DefaultStrength = 11
	DefaultHold     = 6
	// Off turns a spacing off that has a default.
	Off = -1
)

// Options say how to convert. The zero value is fine.
//
// The mean distance of vertices is the square root of the pixels that there are for each; several defaults follow from
// it.
type Options struct {
	// Vertices is how many there are to be, with those on the border: 4 to 2^28; 0 means DefaultVertices. Exactly so
	// many are chosen, unless fewer places are left that keep their distance: then all of these. There are no more than
	// corners of pixels. Where nearly all places are on the border, as in images of one row, there may be fewer, as its
	// parts are equal.
	Vertices int
	// Seed is of the choice. The same one chooses the same vertices in the same picture.
	Seed uint64
	// Floor is the weight of places without any edge, 1 to [MaxFloor]; the strongest edge has
	// 4*[driver.MaxEdge]. 0 means 16.
	Floor int
	// Spacing is the distance in pixels, by columns or rows, that vertices are to be farther apart than: up to
	// [MaxSpacing], or Off. 0 means a fifth of the mean distance, or less in images that are narrow.
	Spacing int
	// Border is the largest distance of vertices along the border, up to [kernels.MaxSide]. 0 means twice the mean
	// distance, or more where that would put more than half of the vertices there, or less, but more than Spacing,
	// where the others don't have places inside.
	Border int
	// Cell is the side of the squares, more than Spacing and up to [kernels.MaxSide], of which each has a vertex, which
	// keeps triangles small in flat areas; or Off. 0 means four times the mean distance, or more or none where that
	// would take more than half of the vertices.
	Cell int
	// Color is what colours triangles have, Method how they are painted.
	Color  ShadeColor
	Method ShadeMethod
	// Route is how the vertices are triangulated.
	Route Route
	// Stage is what the picture shows, and Voronoi how StageVoronoi is computed.
	Stage   Stage
	Voronoi VoronoiMethod
	// Previous is the vertices of the frame before, in a video: places among them have 1 + Strength times the weight,
	// so that vertices stay where they are unless the picture changes. Strength is 0 to [MaxStrength].
	Previous []Point
	Strength int
	// Hold is how far the colours of a [Video] may be from those that its frames have by themselves, in levels of 255,
	// so that they stay where the picture does: 0 to 255. Convert doesn't look at it.
	Hold int
}

// rule is the settings of the choice, for an image of a size, and how many vertices are wanted.
func (o *Options) rule(width, height int) (rule driver.VertexRule, n int, err error) {
	if n = o.Vertices; n == 0 {
		n = DefaultVertices
	}
	rule = driver.VertexRule{Seed: o.Seed, Floor: o.Floor, Spacing: o.Spacing, Border: o.Border, Cell: o.Cell,
		Strength: o.Strength}
	if rule.Floor == 0 {
		rule.Floor = defaultFloor
	}
	for _, f := range []struct {
		field           string
		value, from, to int
	}{
		{"vertices", n, 4, driver.MaxPoints},
		{"floor", rule.Floor, 1, driver.MaxVertexFloor},
		{"spacing", o.Spacing, Off, driver.MaxVertexSpacing},
		{"border", o.Border, 0, driver.MaxSide},
		{"cell", o.Cell, Off, driver.MaxSide},
		{"color", int(o.Color), 0, int(driver.CentroidColor)},
		{"method", int(o.Method), 0, int(driver.PerTile)},
		{"route", int(o.Route), 0, int(RouteVoronoi)},
		{"stage", int(o.Stage), 0, int(StageWireframe)},
		{"voronoi", int(o.Voronoi), 0, int(driver.Banding)},
		{"strength", o.Strength, 0, driver.MaxVertexStrength},
		{"hold", o.Hold, 0, 255},
		{"previous", len(o.Previous), 0, driver.MaxPoints},
	} {
		if f.value < f.from || f.value > f.to {
			return rule, 0, invalid(path{f.field}, f.value, "must be %d to %d", f.from, f.to)
		}
	}
	n = int(min(int64(n), int64(width+1)*int64(height+1)))
	// The square root is exact enough to be the same everywhere: it is rounded correctly by definition.
	mean := math.Sqrt(float64(width) * float64(height) / float64(n))
	switch o.Spacing {
	case 0:
		rule.Spacing = min(int(mean/5), (min(width, height)-1)/8, driver.MaxVertexSpacing)
	case Off:
		rule.Spacing = 0
	}
	if o.Border == 0 {
		rule.Border = defaultBorder(width, height, n, int(2*mean), rule.Spacing)
	}
	border := driver.BorderVertices(width, height, rule.Border)
	if border > n {
		return rule, 0, invalid(path{"border"}, rule.Border, "puts %d vertices on the border, there are to be %d",
			border, n)
	}
	switch {
	case o.Cell == Off:
		rule.Cell = 0
	case o.Cell == 0:
		rule.Cell = min(max(int(4*mean), rule.Spacing+1), driver.MaxSide)
		for rule.Cell != 0 && driver.VertexCells(width, height, rule.Cell) > min(n/2, n-border) {
			if rule.Cell *= 2; rule.Cell > max(width, height) {
				rule.Cell = 0
			}
		}
	case o.Cell <= rule.Spacing:
		return rule, 0, invalid(path{"cell"}, o.Cell, "must be more than the spacing, %d", rule.Spacing)
	}
	if cells := driver.VertexCells(width, height, rule.Cell); border+cells > n {
		return rule, 0, invalid(path{"cell"}, rule.Cell,
			"makes %d squares with a vertex each, beside %d on the border; there are to be %d", cells, border, n)
	}
	return rule, n, nil
}

// defaultBorder is the border for n vertices: as wanted, unless that puts more than half of them there. Where the
// places inside are too few for the others it is as small as it may be: a spacing that leaves few holds there, too.
func defaultBorder(width, height, n, wanted, spacing int) int {
	least := func(most int) int { // that puts no more there
		return 1 + sort.Search(max(width, height)-1,
			func(i int) bool { return driver.BorderVertices(width, height, 1+i) <= most })
	}
	inside := max(width-1-2*spacing, 0) * max(height-1-2*spacing, 0) / ((spacing + 1) * (spacing + 1))
	border := max(wanted, least(max(n/2, n-inside, 4)))
	if driver.BorderVertices(width, height, border)+inside < n {
		border = min(border, max(least(n), spacing+1))
	}
	return border
}

type path = kernels.Path

func invalid(path path, value any, format string, args ...any) error {
	return kernels.Invalid("lowpoly", path, value, format, args...)
}
