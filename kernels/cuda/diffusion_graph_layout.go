//lint:file-ignore U1000 launched under the tag cuda

package cuda

// Kernels of diffusion_graph.cu.
var (
	graphJoinPixels     = listKernel[graphParams]("diffusion_graph", "diffusion_graph_join_pixels")
	graphNumberPixels   = listKernel[graphParams]("diffusion_graph", "diffusion_graph_number_pixels")
	graphAmidPixels     = listKernel[graphParams]("diffusion_graph", "diffusion_graph_amid_pixels")
	graphMultiplyPixels = listKernel[graphParams]("diffusion_graph", "diffusion_graph_multiply_pixels")
	graphJoin           = listKernel[graphCellParams]("diffusion_graph", "diffusion_graph_join")
	graphJoinFirst      = listKernel[graphCellParams]("diffusion_graph", "diffusion_graph_join_first")
	graphJoinMany       = listKernel[graphCellParams]("diffusion_graph", "diffusion_graph_join_many")
	graphNumber         = listKernel[graphCellParams]("diffusion_graph", "diffusion_graph_number")
	graphSmooth         = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_smooth")
	graphProduct        = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_product")
	graphMultiply       = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_multiply")
	graphSmoothFirst    = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_smooth_first")
	graphProductFirst   = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_product_first")
	graphMultiplyFirst  = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_multiply_first")
	graphSmoothDeep     = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_smooth_deep")
	graphProductDeep    = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_product_deep")
	graphMultiplyDeep   = listKernel[graphRowsParams]("diffusion_graph", "diffusion_graph_multiply_deep")
	graphFinish         = listKernel[graphFinishParams]("diffusion_graph", "diffusion_graph_finish")
	graphInvert         = listKernel[graphParams]("diffusion_graph", "diffusion_graph_invert")

	graphBegin      = listKernel[graphSolveParams]("diffusion_graph", "diffusion_graph_begin")
	graphStep       = listKernel[graphStepParams]("diffusion_graph", "diffusion_graph_step")
	graphDown       = listKernel[graphSolveParams]("diffusion_graph", "diffusion_graph_down")
	graphLevelSolve = listKernel[graphSolveParams]("diffusion_graph", "diffusion_graph_levels").together()
	graphUp         = listKernel[graphSolveParams]("diffusion_graph", "diffusion_graph_up")
	graphSmoothOut  = listKernel[graphOutParams]("diffusion_graph", "diffusion_graph_smooth_out")
	graphLast       = listKernel[graphSolveParams]("diffusion_graph", "diffusion_graph_last")
	graphStatus     = listKernel[graphSolveParams]("diffusion_graph", "diffusion_graph_status")
)

// graphSetup is Graph of diffusion_graph.cu: addresses of the parts of a set-up.
type graphSetup struct {
	Head, Table, Open, Parent, Cell, NodeParent, NodeBlock      uint64
	Row, Prolong, Restricts                                     uint64
	Sink, Diagonal, Inv, Sum                                    uint64
	Edges, ProlongPool, RestrictPool                            uint64
	Product, Lack, ProductPool                                  uint64
	Labels, Parts, Dense                                        uint64
	Width, Height, NodeRoom, EdgeRoom, ProlongRoom, ProductRoom uint32
}

// graphSolve is GraphSolve of diffusion_graph.cu.
type graphSolve struct {
	G                       graphSetup
	State, Status           uint64
	Flags, Colours          uint64
	X, R0, R1, Q, P0, P1    uint64
	Sums, Largest           uint64
	Nx, Nb, Nr              uint64
	Fault                   uint64
	Channels, Start, Method uint32
	Tolerance               float32
}

// Parameters of kernels.
type (
	graphParams struct{ G graphSetup }

	graphCellParams struct {
		G                 graphSetup
		Cell, Next, Parts uint64
		Level, _          int32
	}

	graphRowsParams struct {
		G          graphSetup
		Cell, Next uint64
		Level, _   int32
	}

	graphFinishParams struct {
		G              graphSetup
		Counts         uint64
		Levels, Method uint32
	}

	graphSolveParams struct{ S graphSolve }

	graphStepParams struct {
		S             graphSolve
		Across, Start uint32
	}

	graphOutParams struct {
		S             graphSolve
		Across, Tiles uint32
	}
)

// Constants of diffusion_graph.cu, by the names that they have there.
const (
	graphThreads        = 256  // THREADS
	graphLevelThreads   = 1024 // LEVEL_THREADS
	graphFirstLanes     = 4    // FIRST_LANES
	graphFirstBlocks    = 5    // FIRST_BLOCKS
	graphInvertThreads  = 544  // INVERT_THREADS
	graphAmidX          = 32   // AMID_TILE_X
	graphAmidY          = 8    // AMID_TILE_Y
	graphMultiplyWarps  = 4
	graphMultiplyBlocks = 8 // MULTIPLY_BLOCKS
	graphLevels         = 20
	graphParts          = 1024
	graphDenseNodes     = 192                                                // DENSE_NODES
	graphTileX          = 64                                                 // TILE_X
	graphTileRows       = 8                                                  // TILE_ROWS
	graphRim            = 4                                                  // RIM
	graphInnerX         = graphTileX - 2*graphRim                            // INNER_X
	graphInnerY         = graphThreads/graphTileX*graphTileRows - 2*graphRim // INNER_Y
	graphTableBytes     = 4 * (2*(graphLevels+2) + 6)                        // the size of GraphTable
	graphStateBytes     = 192                                                // of GraphState
)
