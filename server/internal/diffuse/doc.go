// Package diffuse answers the calls of DiffusionService: drawings and pictures that are solved once, progressively, or
// while they are edited on a canvas; holes that are filled, and backgrounds.
package diffuse
