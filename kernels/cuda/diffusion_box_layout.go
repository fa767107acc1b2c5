//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// Constants of diffusion_box.cu, by the names they have there.
const (
	boxCheckThreads   = 256 // CHECK_THREADS
	boxCoarsenWidth   = 32  // COARSEN_W
	boxCoarsenHeight  = 8   // COARSEN_H
	boxCoarsenThreads = 416 // COARSEN_THREADS
	boxCoarsest       = 8   // COARSEST: sides of the coarsest level, but for images that are as small
	boxInvertThreads  = 256 // INVERT_THREADS
	boxMeanThreads    = 512 // MEAN_THREADS
	boxMeanBlocks     = 256 // MEAN_BLOCKS
	boxFineThreads    = 512 // FINE_THREADS
	boxFineWidth      = 112 // FINE_W: pixels of a tile of the image
	boxFineHeight     = 48  // FINE_H
	boxFineMargin     = 8   // MARGIN: of other tiles, but for those at the sides of the image
	boxDownThreads    = 832 // DOWN_THREADS
	boxDownBlocks     = 1   // DOWN_BLOCKS: that share a multiprocessor
	boxDownWidth      = 48  // DOWN_W: points of a tile of a level on the way down
	boxDownHeight     = 44  // DOWN_H
	boxTileChannels   = 3   // TILE_CHANNELS: that a block does at once
	boxUpThreads      = 512 // UP_THREADS
	boxUpBlocks       = 2   // UP_BLOCKS
	boxUpWidth        = 48  // UP_W
	boxUpHeight       = 24  // UP_H
	boxBottomSide     = 32  // BOTTOM_SIDE: of the levels that one block does
	boxBottomThreads  = 256 // BOTTOM_THREADS
	boxEndThreads     = 256 // END_THREADS
	boxStopAt         = 8   // STOP_AT
	boxFlagsPerThread = 16  // that diffusion_box_check looks at in one go
)

// boxLevel is BoxLevel of diffusion_box.cu.
type boxLevel struct {
	Width, Height, Stride, _         int32
	Couplings, Sinks, Sides, Centres uint64
}

// boxBottom is BoxBottom.
type boxBottom struct {
	L0, L1, L2    boxLevel
	Inverse, B, E uint64
	Levels, _     uint32
}

// boxSolve is BoxSolve.
type boxSolve struct {
	Flags, Head, Colours, X, Y, State, Sums, Fault uint64
	Width, Height, Channels, Start                 int32
	Tolerance                                      float32
	_                                              uint32
}

// Parameters of kernels.
type (
	boxCheckParams struct{ Flags, N, Head, Counts, Fault uint64 }

	boxCoarsenFlagsParams struct {
		Flags         uint64
		Width, Height int32
		To            boxLevel
	}

	boxCoarsenParams struct{ From, To boxLevel }

	boxInvertParams struct {
		L             boxLevel
		Inverse, Head uint64
		Width, Height uint32
	}

	boxBeginParams struct{ P boxSolve }

	boxFineParams struct {
		P    boxSolve
		L    boxLevel
		E, B uint64
	}

	boxDownParams struct {
		State                       uint64
		L, Next                     boxLevel
		B, X, NextB                 uint64
		TilesX, Channels, Groups, _ uint32
	}

	boxUpParams struct {
		State                       uint64
		L, Next                     boxLevel
		B, X, NextE, E              uint64
		TilesX, Channels, Groups, _ uint32
	}

	boxBottomParams struct {
		State uint64
		P     boxBottom
	}

	boxEndParams struct {
		P      boxSolve
		Status uint64
	}
)

var (
	boxCheck        = listKernel[boxCheckParams]("diffusion_box", "diffusion_box_check")
	boxCoarsenFlags = listKernel[boxCoarsenFlagsParams]("diffusion_box", "diffusion_box_coarsen_flags")
	boxCoarsen      = listKernel[boxCoarsenParams]("diffusion_box", "diffusion_box_coarsen")
	boxInvert       = listKernel[boxInvertParams]("diffusion_box", "diffusion_box_invert")
	boxBegin        = listKernel[boxBeginParams]("diffusion_box", "diffusion_box_begin")
	boxStart        = listKernel[boxFineParams]("diffusion_box", "diffusion_box_start")
	boxDown         = listKernel[boxDownParams]("diffusion_box", "diffusion_box_down")
	boxUp           = listKernel[boxUpParams]("diffusion_box", "diffusion_box_up")
	boxBottomUp     = listKernel[boxBottomParams]("diffusion_box", "diffusion_box_bottom")
	boxFine         = listKernel[boxFineParams]("diffusion_box", "diffusion_box_fine")
	boxEnd          = listKernel[boxEndParams]("diffusion_box", "diffusion_box_end")
)

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
	b.head = a.take(diffusionHeaderBytes)
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

// boxState is where the parts of a state are.
type boxState struct {
	head, sums, y uint64
	vectors       []boxVectors // of the levels that the blocks of several kernels share
}

func layBoxState(a *arena, g driver.DiffusionGrid, b *boxSetup, channels int) (s boxState) {
	s.head, s.sums = a.take(diffusionHeaderBytes), a.take(boxMeanBlocks*4*8)
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
