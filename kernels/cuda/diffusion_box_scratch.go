//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// diffusionHeaderRoom is the room of the header that begins a set-up, and of that which begins a state.
const diffusionHeaderRoom = 2 * driver.Align

// arena hands out addresses of parts of a block, in the order in which they are asked for; from address 0 on it counts
// bytes.
type arena struct{ end uint64 }

// take is the address of so many bytes, a multiple of driver.Align.
func (a *arena) take(bytes int64) uint64 {
	at := a.end
	a.end += uint64((bytes + driver.Align - 1) &^ (driver.Align - 1))
	return at
}

// floats is the address of so many float32.
func (a *arena) floats(n int) uint64 { return a.take(4 * int64(n)) }

// boxSetup is where the parts of a set-up are.
type boxSetup struct {
	head    uint64 // a diffusionHeader
	levels  []boxLevel
	inverse uint64 // of the last level's operator
}

// layBox lays out a set-up for a grid. Each level has half the sides of that above it, until 64 points or fewer are
// left; images as small as that have one level, and those of up to 2x2 pixels none.
func layBox(a *arena, g driver.DiffusionGrid) (b boxSetup) {
	b.head = a.take(diffusionHeaderRoom)
	w, h := g.Width, g.Height
	for last := max(w, h) <= 2; !last; last = w <= boxCoarsest && h <= boxCoarsest {
		w, h = (w+1)/2, (h+1)/2
		l := boxLevel{Width: int32(w), Height: int32(h), Stride: int32(w+3) &^ 3}
		points := l.points()
		l.Couplings, l.Sinks = a.floats(4*points), a.floats(2*points)
		if len(b.levels) > 0 { // the interpolation of the image is made of the flags each time
			l.Sides, l.Centres = a.floats(4*points), a.floats(4*points)
		}
		b.levels = append(b.levels, l)
	}
	b.inverse = a.floats(boxCoarsest * boxCoarsest * boxCoarsest * boxCoarsest)
	return b
}

func (l *boxLevel) points() int { return int(l.Stride) * int(l.Height) }

// bottom is the first level that a single block does, with all below it.
func (b *boxSetup) bottom() int {
	for i, l := range b.levels {
		if l.Width <= boxBottomSide && l.Height <= boxBottomSide {
			return i
		}
	}
	return 0
}

// boxVectors are those of a level: right-hand side, solution after the way down, and after the way up.
type boxVectors struct{ B, X, E uint64 }

// boxStateParts is where the parts of a state are.
type boxStateParts struct {
	head, sums, y uint64
	vectors       []boxVectors // of the levels that the blocks of several kernels share
}

func layBoxState(a *arena, g driver.DiffusionGrid, b *boxSetup, channels int) (s boxStateParts) {
	s.head, s.sums = a.take(diffusionHeaderRoom), a.take(boxMeanBlocks*4*8)
	s.y = a.floats(g.Width * g.Height * channels)
	for i := range b.levels {
		n := channels * b.levels[i].points()
		v := boxVectors{B: a.floats(n), E: a.floats(n)}
		if i == b.bottom() {
			s.vectors = append(s.vectors, v)
			break
		}
		v.X = a.floats(n)
		s.vectors = append(s.vectors, v)
	}
	return s
}

// tiles is how many of a size cover a plane: in a row, and in all.
func tiles(width, height, tileWidth, tileHeight int) (x, all int) {
	x = (width + tileWidth - 1) / tileWidth
	return x, x * ((height + tileHeight - 1) / tileHeight)
}
