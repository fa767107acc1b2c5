//lint:file-ignore U1000 launched under the tag cuda

// What Islands shares with islands.cu, and the ops behind it with theirs.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// islandsScratch is a counter, and a list that any pixel may be in.
func islandsScratch(width, height int) int64 { return driver.Align + 4*int64(width)*int64(height) }
