// How pixels are found, and what a raster shows.

package polygon

import "github.com/polyscan/polyscan/kernels/driver"

// Method says how pixels are tested against edges. All methods give identical pixels; the zero value is the backend's
// fastest one.
type Method = driver.Method

// The methods: see [driver.Method].
const (
	MethodDefault     = driver.MethodDefault
	Naive             = driver.Naive
	Tiled             = driver.Tiled
	EdgeFiltered      = driver.EdgeFiltered
	TiledEdgeFiltered = driver.TiledEdgeFiltered
	RowSpans          = driver.RowSpans
)

// RasterMode says what [Rasterize] draws.
type RasterMode = driver.RasterMode

const (
	// RasterMask is 255 for the pixels of any region, in GRAY8.
	RasterMask = driver.RasterMask
	// RasterLabels is 1 + the index of the last region that holds the pixel, in GRAY16LE.
	RasterLabels = driver.RasterLabels
)
