// Package lowpoly makes triangles: of pictures, and of bare points.
//
// [Convert] is edges, vertices where they are, the Delaunay triangulation of these, and a colour for each triangle;
// [Video] does it frame after frame, with vertices and colours that stay where the picture does. [Triangulate] is the
// triangulation alone, by either [Route], and [Voronoi] labels pixels with their nearest points. All check their input,
// declare what the work takes to the device's memory manager, and leave computing to the ops of package kernels.
// Results are exact and the same on every backend.
package lowpoly
