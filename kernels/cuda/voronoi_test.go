//go:build cuda

package cuda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Sites on a circle are almost equally far from its middle, and of none there few can be left out: the default method
// takes most of the ways that it has for tiles with many candidates. It labels each pixel as BANDING does, which shares
// none of them.
func TestVoronoiOnCircles(t *testing.T) {
	counted(t)
	dev := open(t, Driver)
	s := newStream(t, dev).(*stream)
	sizes := [][3]int{{300, 300, 2000}, {1000, 1033, 5000}, {3000, 900, 20000}, {4096, 4096, 100000}, {9000, 8999, 60000}}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, c := range sizes {
		width, height, n := c[0], c[1], c[2]
		t.Run(fmt.Sprintf("%dx%d, %d sites", width, height, n), func(t *testing.T) {
			counted(t)
			sites := scattered(n, width, height, "on a circle")
			var labels [2][]uint32
			for k, m := range []driver.VoronoiMethod{driver.VoronoiDefault, driver.Banding} {
				op := diagram(t, dev, s, sites, width, height, m)
				labels[k] = make([]uint32, width*height)
				for _, err := range []error{s.Run(&driver.Fill{Dst: op.Labels, Value: 0xa5}), s.Run(op),
					s.Download(bytesOf(labels[k]), op.Labels), s.Wait(t.Context())} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			checkNearest(t, "BANDING", sites, labels[1], width)
			if slices.Equal(labels[0], labels[1]) {
				return
			}
			for i, l := range labels[0] {
				if l != labels[1][i] {
					t.Fatalf("pixel (%d, %d): %d instead of %d", i%width, i/width, l, labels[1][i])
				}
			}
		})
	}
}
