//lint:file-ignore U1000 launched under the tag cuda

package cuda

// Kernels of diffusion_sweeps.cu.
var (
	sweepsFlags     = listKernel[sweepFlagsParams]("diffusion_sweeps", "diffusion_sweeps_flags")
	sweepsColumns   = listKernel[sweepColumnsParams]("diffusion_sweeps", "diffusion_sweeps_columns")
	sweepsNearest   = listKernel[sweepNearestParams]("diffusion_sweeps", "diffusion_sweeps_nearest")
	sweepsFinish    = listKernel[sweepFinishParams]("diffusion_sweeps", "diffusion_sweeps_finish")
	sweepsPeak      = listKernel[sweepImageParams]("diffusion_sweeps", "diffusion_sweeps_peak")
	sweepsBegin     = listKernel[sweepImageParams]("diffusion_sweeps", "diffusion_sweeps_begin")
	sweepsRun       = listKernel[sweepRunParams]("diffusion_sweeps", "diffusion_sweeps_run")
	sweepsFar       = listKernel[sweepFarParams]("diffusion_sweeps", "diffusion_sweeps_far")
	sweepsSpread    = listKernel[sweepImageParams]("diffusion_sweeps", "diffusion_sweeps_spread")
	sweepsShrink    = listKernel[sweepShrinkParams]("diffusion_sweeps", "diffusion_sweeps_shrink")
	sweepsGrow      = listKernel[sweepGrowParams]("diffusion_sweeps", "diffusion_sweeps_grow")
	sweepsLevelStep = listKernel[sweepSolveParams]("diffusion_sweeps", "diffusion_sweeps_level_step")
	sweepsStep      = listKernel[sweepSolveParams]("diffusion_sweeps", "diffusion_sweeps_step")
	sweepsLast      = listKernel[sweepImageParams]("diffusion_sweeps", "diffusion_sweeps_last")
	sweepsStatus    = listKernel[sweepSolveParams]("diffusion_sweeps", "diffusion_sweeps_status")
)

// sweepImage is SweepLevel of diffusion_sweeps.cu.
type sweepImage struct {
	Flags, Open, X, Spare uint64
	Width, Height         int32
}

// sweepSolve is SweepSolve of diffusion_sweeps.cu.
type sweepSolve struct {
	Head, State, Status, Nearest, Old, Fault uint64
	Channels, Start, Method, Walls           uint32
	Tolerance                                float32
	_                                        uint32
}

// Parameters of kernels.
type (
	sweepFlagsParams struct {
		Fine, To                             uint64
		FineWidth, FineHeight, Width, Height int32
		Greedy, _                            uint32
	}

	sweepColumnsParams struct {
		Flags, Rows   uint64
		Width, Height int32
	}

	sweepNearestParams struct {
		Rows, Nearest uint64
		Width, Height int32
	}

	sweepFinishParams struct {
		Head, Counts                 uint64
		Width, Height, Walls, Method uint32
	}

	sweepSolveParams struct{ S sweepSolve }

	sweepImageParams struct {
		S sweepSolve
		L sweepImage
	}

	sweepRunParams struct {
		S                          sweepSolve
		L                          sweepImage
		From, To                   uint64
		Sweeps, First, Last, Level uint32
	}

	sweepFarParams struct {
		S           sweepSolve
		L           sweepImage
		From, To    uint64
		First, Last uint32
	}

	sweepShrinkParams struct {
		S       sweepSolve
		Fine, L sweepImage
	}

	sweepGrowParams struct {
		S         sweepSolve
		L, Coarse sweepImage
	}
)

// Constants of diffusion_sweeps.cu, by the names that they have there.
const (
	sweepThreads    = 256 // THREADS
	sweepRunThreads = 512
	sweepRegion     = 64
	sweepHalo       = 8
	sweepsInCycle   = 64                 // SWEEPS
	pastUpdates     = 64                 // PAST_UPDATES
	sweepStateBytes = 44 + 4*pastUpdates // of SweepState
)
