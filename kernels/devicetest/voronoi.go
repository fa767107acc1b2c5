// The oracle of Voronoi diagrams.

package devicetest

import "github.com/polyscan/polyscan/kernels/driver"

// NearestSites labels each pixel as [driver.Voronoi] does, by looking at every site.
func NearestSites(sites []driver.Point, width, height int) []uint32 {
	labels := make([]uint32, width*height)
	for i := range labels {
		labels[i] = driver.NoSite
		least := int64(-1)
		for j, p := range sites {
			if d := squared(p, i%width, i/width); least < 0 || d < least {
				least = d
				labels[i] = uint32(j)
			}
		}
	}
	return labels
}

func squared(p driver.Point, x, y int) int64 {
	dx, dy := int64(p.X)-int64(x), int64(p.Y)-int64(y)
	return dx*dx + dy*dy
}
