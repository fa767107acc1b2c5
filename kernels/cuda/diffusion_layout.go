//lint:file-ignore U1000 launched under the tag cuda

package cuda

import "github.com/polyscan/polyscan/kernels/driver"

// diffusionHeaderBytes is the room of the header that begins a set-up, and of that which begins a state.
const diffusionHeaderBytes = 2 * driver.Align

// diffusionHeader is DiffusionHeader of diffusion.cuh: it begins each set-up, and is the device's own.
type diffusionHeader struct {
	Magic, Width, Height, Barriers, Method, _, Fixed, VoidPixels uint32
}
