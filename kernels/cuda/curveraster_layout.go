//lint:file-ignore U1000 launched under the tag cuda

package cuda

// Constants of curveraster.cu and blur.cu.
const (
	curveThreads = 128  // THREADS
	curveLanes   = 16   // LANES: threads for each line
	curvePixels  = 1024 // RESOLVE_PIXELS of a block
	blurTileW    = 32   // TILE_W
	blurTileH    = 8    // TILE_H
)

// Parameters of kernels, as they lie in memory.
type (
	drawParams struct {
		Segments, Firsts, Curves, Claims, Flags uint64
		Count, Pieces                           uint32
		Width, Height                           int32
	}

	resolveParams struct {
		Segments, Curves, Stops, Claims, Flags, Values, Pixels uint64
		Channels, _                                            uint32
	}

	blurLevelParams struct {
		Src, Dst     uint64
		W, H, Dw, Dh int32
		Rows, _      uint32
	}

	blurMixParams struct {
		Src, Levels, Sigma, Dst uint64
		W, H                    int32
		Channels                uint32
		Scale                   float32
	}
)

var (
	curveDraw    = listKernel[drawParams]("curveraster", "curveraster_draw")
	curveResolve = listKernel[resolveParams]("curveraster", "curveraster_resolve")
	blurLevel    = listKernel[blurLevelParams]("blur", "blur_level")
	blurMix      = listKernel[blurMixParams]("blur", "blur_mix")
)
