//lint:file-ignore U1000 launched under the tag cuda

// What Islands shares with islands.cu, and the ops behind it with theirs.

package cuda

import (
	"fmt"

	"github.com/polyscan/polyscan/kernels/driver"
)

// checkDiagram checks the size of a Voronoi diagram.
func checkDiagram(op string, n, width, height int) error {
	switch {
	case n < 0 || n > driver.MaxPoints:
		return fmt.Errorf("cuda: %s: N = %d: must be 0 to %d", op, n, driver.MaxPoints)
	case width < 1 || width > driver.MaxSide || height < 1 || height > driver.MaxSide ||
		width*height > driver.MaxPixels:
		return fmt.Errorf("cuda: %s: Width, Height = %d, %d: sides must be 1 to %d, and no more than %d pixels", op,
			width, height, driver.MaxSide, driver.MaxPixels)
	}
	return nil
}

// islandsScratch is a counter, and a list that any pixel may be in.
func islandsScratch(n, width, height int) (int64, error) {
	if err := checkDiagram("Islands", n, width, height); err != nil {
		return 0, err
	}
	return driver.Align + 4*int64(width)*int64(height), nil
}
