// Filling holes of pictures, and what their content has over the background.

package diffusion

import (
	"context"
	"fmt"

	"github.com/polyscan/polyscan/kernels"
)

// Picture is values of all pixels.
type Picture struct {
	Width, Height, Channels int
	Values                  []float32 // planes; finite outside of holes, and not looked at inside
}

// Fill replaces the pixels where mask, one byte for each pixel, is not 0: each becomes the mean of its neighbours, and those of the
// hole's border have neighbours outside. The solution has all other pixels as they were. A mask that covers all of the picture is an
// [*InvalidError]; one that covers nothing gives the picture itself.
func Fill(ctx context.Context, dev *kernels.Device, p *Picture, mask []uint8, opts *Options) (*Solution, error) {
	if len(mask) != p.Width*p.Height {
		return nil, invalid("mask", fmt.Sprintf("%d values", len(mask)), "must be %d, one for each pixel of %dx%d", p.Width*p.Height, p.Width, p.Height)
	}
	flags := make([]uint8, len(mask))
	outside := false
	for i, m := range mask {
		if m == 0 {
			flags[i] = Fixed
			outside = true
		}
	}
	if !outside && len(mask) > 0 {
		return nil, invalid("mask", "all pixels", "must leave out at least one, or there is nothing to fill with")
	}
	return Solve(ctx, dev, &Problem{Constraints{Width: p.Width, Height: p.Height, Flags: flags}, p.Channels, p.Values}, opts)
}

// Residual is a picture without its background: 0 outside of the holes.
type Residual struct {
	// Background is the picture with its holes filled.
	Background *Solution
	// Values are the picture's less those of the background, in planes.
	Values []float32
}

// Background estimates what a picture would be without what the mask covers, as [Fill] does, and returns that and the difference. All
// of the picture's values are finite.
func Background(ctx context.Context, dev *kernels.Device, p *Picture, mask []uint8, opts *Options) (*Residual, error) {
	for i, v := range p.Values {
		if !finite(v) {
			return nil, invalid(fmt.Sprintf("values[%d]", i), v, "must be finite")
		}
	}
	s, err := Fill(ctx, dev, p, mask, opts)
	if err != nil {
		return nil, err
	}
	r := &Residual{s, make([]float32, len(p.Values))}
	for i, v := range p.Values {
		r.Values[i] = v - s.Values[i]
	}
	return r, nil
}
