// The oracle of Voronoi diagrams.

package devicetest

import (
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

// NearestSites labels each pixel as [driver.Voronoi] does, by looking at every site.
func NearestSites(sites []driver.Point, width, height int) []uint32 {
	labels := make([]uint32, width*height)
	for i := range labels {
		labels[i] = nearestSite(sites, i%width, i/width)
	}
	return labels
}

func nearestSite(sites []driver.Point, x, y int) uint32 {
	label, least := uint32(driver.NoSite), int64(-1)
	for i, p := range sites {
		if d := squared(p, x, y); least < 0 || d < least {
			label, least = uint32(i), d
		}
	}
	return label
}

func squared(p driver.Point, x, y int) int64 {
	dx, dy := int64(p.X)-int64(x), int64(p.Y)-int64(y)
	return dx*dx + dy*dy
}

// FloodedSites labels each pixel as [driver.Voronoi] does by jump flooding, a step after the other.
func FloodedSites(sites []driver.Point, width, height int) []uint32 {
	labels := make([]uint32, width*height)
	for i := range labels {
		labels[i] = driver.NoSite
	}
	for i, p := range slices.Backward(sites) {
		labels[int(p.Y)*width+int(p.X)] = uint32(i)
	}
	side := 1
	for side < max(width, height) {
		side *= 2
	}
	for step := max(side/2, 1); step > 0; step /= 2 {
		before := slices.Clone(labels)
		for i := range labels {
			x, y := i%width, i/width
			for _, v := range []int{y - step, y, y + step} {
				for _, u := range []int{x - step, x, x + step} {
					if u < 0 || u >= width || v < 0 || v >= height || before[v*width+u] == driver.NoSite {
						continue
					}
					other, best := before[v*width+u], labels[i]
					if best == driver.NoSite {
						labels[i] = other
						continue
					}
					d, least := squared(sites[other], x, y), squared(sites[best], x, y)
					if d < least || d == least && other < best {
						labels[i] = other
					}
				}
			}
		}
	}
	return labels
}
