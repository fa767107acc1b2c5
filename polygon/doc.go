// Package polygon reduces the pixels inside polygons to exact numbers: counts, sums, extrema, histograms and what
// follows from them, and verdicts.
//
// [NewSet] checks regions and rounds them to a grid of 1/256 px; [Reduce] computes their statistics over a [Frame] on a
// device; [Set.Prepare] keeps the regions on the device for a stream of frames; [Rasterize] draws them.
//
// # Conventions
//
// Pixel (i, j) covers [i, i+1) x [j, j+1) and is inside a region when its centre, (i+0.5, j+0.5), is. x grows to the
// right, y grows down. An edge from a to b counts for the row with centre yc when min(a.y, b.y) <= yc < max(a.y, b.y),
// +1 where it runs down and -1 where it runs up, and there for the pixels whose centre lies strictly left of its
// crossing. The sum is the pixel's winding number, and the region's [FillRule] says which are inside. So regions that
// share edges partition the pixels: each centre belongs to exactly one, also where it lies on an edge or a vertex.
//
// All of it is exact: vertices are integers after the one rounding, the devices compute in integers, and what is not an
// integer is derived from them and rounded once. Every backend, method and number of threads gives the same result.
package polygon
