//lint:file-ignore U1000 launched under the tag cuda

package cuda

// Kernels of diffusion_label.cu, and their parameters.
var (
	labelInit = listKernel[labelInitParams]("diffusion_label", "diffusion_label_init")
	labelJoin = listKernel[labelParams]("diffusion_label", "diffusion_label_join")
	labelShut = listKernel[labelParams]("diffusion_label", "diffusion_label_shut")
	labelOpen = listKernel[labelOpenParams]("diffusion_label", "diffusion_label_open")
	labelMean = listKernel[labelFillParams]("diffusion_label", "diffusion_label_mean")
	labelFill = listKernel[labelFillParams]("diffusion_label", "diffusion_label_fill")
)

// labelFilling is LabelFill of diffusion_label.cu.
type labelFilling struct {
	Done, Head, Flags, Open, Colours, X, Sums uint64
	Pixels, Channels, Keep, _                 uint32
}

type (
	labelFillParams struct{ F labelFilling }

	labelInitParams struct {
		Head, Flags, Labels, Fault uint64
		Width, Height              int32
		Allowed, _                 uint32
	}

	labelParams struct {
		Flags, Labels uint64
		Width, Height int32
	}

	labelOpenParams struct {
		Head, Flags, Labels, To uint64
		Width, Height           int32
		OneWay, _               uint32
	}
)

const (
	labelThreads     = 256  // THREADS of diffusion_label.cu
	labelShutThreads = 1024 // SHUT_THREADS
	labelTile        = 32   // TILE
	labelParts       = 256  // PARTS
	labelSumsBytes   = 8 * 4 * labelParts
	// stateDone is where the word is in states that says that there is nothing to do.
	stateDone = 12
)
