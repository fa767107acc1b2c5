//lint:file-ignore U1000 launched under the tag cuda

// What the kernels of Voronoi share with the host. Keep in sync with kernels/cu/voronoi.cu.

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// voronoiFewSites is up to how many sites each tile looks at all of them, which takes one launch instead of six. A tile
// has room for as many.
const voronoiFewSites = voronoiList

// voronoiLayout lays out the scratch of a diagram. Addresses count from that of the scratch, and what has to be cleared
// is at its start.
type voronoiLayout struct {
	voronoiArgs
	cleared, bytes int64
}

// layVoronoi lays out what a method needs for n sites. It expects arguments that have been checked.
func layVoronoi(n, width, height int, m driver.VoronoiMethod) voronoiLayout {
	cells, strips := (width+voronoiCell-1)/voronoiCell, (height+voronoiCell-1)/voronoiCell
	l := voronoiLayout{voronoiArgs: voronoiArgs{
		N: uint32(n), Width: int32(width), Height: int32(height), Pitch: int32(cells * voronoiCell),
		Cells:         int32(cells),
		OccupiedPitch: int32((cells + 31) / 32),
	}}
	take := func(n, size int) uint64 {
		at := uint64(l.bytes)
		l.bytes += alignUp(int64(n) * int64(size))
		return at
	}
	pixels, words := width*height, strips*cells*voronoiCell
	switch {
	case n == 0 || m == driver.BruteForce || m == driver.VoronoiDefault && n <= voronoiFewSites:
	case m == driver.JumpFlood:
		l.Plane = take(pixels, 4)
	default:
		l.Words, l.Occupied = take(words, 4), take(strips*int(l.OccupiedPitch), 4)
		l.Blocks, l.Next = take((strips+31)/32*int(l.OccupiedPitch), 4), take(2, 4)
		l.cleared = l.bytes
		l.Ranks, l.Heads = take(words, 8), take(strips*cells, 8)
		l.Entries = take(min(n, pixels), 8)
		if m == driver.Banding {
			l.Above, l.Below, l.Plane = take(words, 4), take(words, 4), take(pixels, 4)
		} else {
			l.Hard = take(16*strips*cells, 4)
		}
	}
	return l
}

// at moves the addresses to where the scratch is.
func (l *voronoiLayout) at(scratch uint64) {
	for _, p := range []*uint64{&l.Words, &l.Occupied, &l.Blocks, &l.Next, &l.Hard, &l.Ranks, &l.Heads, &l.Entries,
		&l.Plane, &l.Above, &l.Below} {
		*p += scratch
	}
}

// wide tells whether squared distances exceed 31 bits.
func (l *voronoiLayout) wide() bool {
	w, h := int64(l.Width), int64(l.Height)
	return w*w+h*h >= 1<<31
}
