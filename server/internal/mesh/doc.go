// Package mesh answers the calls of LowPolyService: pictures and videos as triangles, triangulations and Voronoi
// diagrams.
package mesh
