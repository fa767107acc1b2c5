// Image: the pixels that a conversion reads.

package lowpoly

import "github.com/polyscan/polyscan/kernels"

// Image is pixels to convert.
type Image = kernels.Image

// checkImage turns what is wrong with an image into an error of this package.
func checkImage(m *Image) error {
	if err := m.Check(); err != nil {
		return invalid("image."+err.Field, err.Value, "%s", err.Reason)
	}
	return nil
}
