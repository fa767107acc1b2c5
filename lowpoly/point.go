// What calls take and return besides pictures: points, triangles and methods.

package lowpoly

import "github.com/polyscan/polyscan/kernels/driver"

// Point is a place on the integer grid: a corner of pixels, or anything else that is to be triangulated.
type Point = driver.Point

// Triangle is the indices of its points.
type Triangle = driver.Triangle

// MaxPoints is how many points a call may take; the others bound [Options].
const (
	MaxPoints   = driver.MaxPoints
	MaxFloor    = driver.MaxVertexFloor
	MaxSpacing  = driver.MaxVertexSpacing
	MaxStrength = driver.MaxVertexStrength
)

// VoronoiMethod says how the nearest site of each pixel is found. The zero value is the backend's fastest exact one.
type VoronoiMethod = driver.VoronoiMethod

// All methods are exact but for JumpFlood.
const (
	BruteForce = driver.BruteForce
	Grid       = driver.Grid
	JumpFlood  = driver.JumpFlood
	Banding    = driver.Banding
)

// ShadeMethod says how the pixels of triangles are found. The zero value is the backend's fastest one; all give the
// same pixels.
type ShadeMethod = driver.ShadeMethod

// The methods of shading.
const (
	PerTriangle = driver.PerTriangle
	PerTile     = driver.PerTile
)

// ShadeColor says which colour a triangle gets.
type ShadeColor = driver.ShadeColor

const (
	// MeanColor is the mean of the pixels that the triangle covers.
	MeanColor = driver.MeanColor
	// CentroidColor is that of the pixel at the triangle's centroid.
	CentroidColor = driver.CentroidColor
)
