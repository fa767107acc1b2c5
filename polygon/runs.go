// Regions that are runs of pixels: masks, label images, and what expressions of regions come to.

package polygon

import (
	"fmt"
	"image"
	"image/color"
	"iter"
	"math"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Run is the pixels [X0, X1) of row Y.
type Run = driver.Run

// addMask checks and appends the runs of region i. It returns an error of pace alone.
func (s *Set) addMask(bad *kernels.InvalidError, i int, r *Region, b Bounds, pace *pacer) error {
	if len(r.Rings) > 0 {
		bad.Add(path{"regions", i, "mask"}, fmt.Sprintf("%d runs", len(r.Mask)),
			"and %d rings: a region has one of them", len(r.Rings))
		return nil
	}
	if n := len(r.Mask); n > b.MaxRegionVertices {
		bad.Add(path{"regions", i, "mask"}, fmt.Sprintf("%d runs", n),
			"are too many: the limit is %d vertices in a region, as one of which a run counts", b.MaxRegionVertices)
		return nil
	}
	box := emptyBox
	first := len(s.runs)
	var area int64
	last := Run{Y: math.MinInt32}
	for k, u := range r.Mask {
		if k%setPiece == 0 {
			if err := pace.took(min(len(r.Mask)-k, setPiece)); err != nil {
				return err
			}
		}
		why := ""
		switch {
		case min(u.Y, u.X0) <= -maxCoordinate || max(u.Y, u.X1-1) >= maxCoordinate:
			why = fmt.Sprintf("must be less than %d px from 0", maxCoordinate)
		case u.X0 >= u.X1:
			why = "must hold a pixel"
		case u.Y < last.Y || u.Y == last.Y && u.X0 <= last.X1:
			why = "must lie behind the run before it, row by row, and not touch it"
		}
		if why != "" {
			bad.Add(path{"regions", i, "mask", k}, fmt.Sprintf("row %d, columns [%d, %d)", u.Y, u.X0, u.X1), "%s", why)
			return nil
		}
		last = u
		area += int64(u.X1 - u.X0)
		box.x0, box.x1 = min(box.x0, u.X0*driver.Subpixel), max(box.x1, u.X1*driver.Subpixel)
		box.y0, box.y1 = min(box.y0, u.Y*driver.Subpixel), max(box.y1, (u.Y+1)*driver.Subpixel)
	}
	s.runs = append(s.runs, r.Mask...)
	s.regions[i] = driver.Region{First: uint32(first), Count: uint32(len(r.Mask)), Fill: driver.ByRuns}
	s.boxes[i] = box
	s.areas[i] = float64(area)
	return nil
}

// Pixels are the pixels of region i where it is a mask or was given by a shape, in the form of [Region.Mask], and nil
// where it has rings. They must not be written to.
func (s *Set) Pixels(i int) []Run { return s.runsOf(i) }

// runsOf are the runs of region i; none of one that has edges.
func (s *Set) runsOf(i int) []Run {
	m := s.maskRegions()
	return m.RunsOf(i)
}

// runsInside is the smallest rectangle around the pixels of runs inside a frame, and their number.
func runsInside(runs []Run, width, height int) (r Rect, n uint64) {
	r = Rect{X0: width, Y0: height}
	for _, u := range runs {
		x0, x1, y := max(int(u.X0), 0), min(int(u.X1), width), int(u.Y)
		if x0 >= x1 || y < 0 || y >= height {
			continue
		}
		n += uint64(x1 - x0)
		r.X0, r.X1 = min(r.X0, x0), max(r.X1, x1)
		r.Y0, r.Y1 = min(r.Y0, y), max(r.Y1, y+1)
	}
	if n == 0 {
		return Rect{}, 0
	}
	return r, n
}

// LabelRuns are the runs of pixels of an image that have the same label other than 0, row by row: of a gray image the
// sample, of a palette the index, of others the colour as 0xrrggbb, whatever its alpha. The image's first pixel is
// pixel (x, y) of frames.
func LabelRuns(img image.Image, x, y int) iter.Seq2[uint32, Run] {
	return func(yield func(uint32, Run) bool) {
		value := pixelValues(img)
		b := img.Bounds()
		for py := b.Min.Y; py < b.Max.Y; py++ {
			for px := b.Min.X; px < b.Max.X; {
				from, v := px, value(px, py)
				for px++; px < b.Max.X && value(px, py) == v; px++ {
				}
				if v != 0 && !yield(v, Run{Y: int32(y + py - b.Min.Y), X0: int32(x + from - b.Min.X),
					X1: int32(x + px - b.Min.X)}) {
					return
				}
			}
		}
	}
}

// MaskOf is a mask for [Region.Mask]: the pixels of an image with a label, as [LabelRuns] has them. It is not nil.
func MaskOf(img image.Image, x, y int) []Run {
	out := []Run{}
	for _, u := range LabelRuns(img, x, y) {
		out = AppendRun(out, u)
	}
	return out
}

// AppendRun appends a run that lies behind those of a mask to it, or makes the last one longer where they touch.
func AppendRun(mask []Run, u Run) []Run {
	if n := len(mask); n > 0 && mask[n-1].Y == u.Y && mask[n-1].X1 == u.X0 {
		mask[n-1].X1 = u.X1
		return mask
	}
	return append(mask, u)
}

// pixelValues says what label a pixel has.
func pixelValues(img image.Image) func(x, y int) uint32 {
	switch img := img.(type) {
	case *image.Gray:
		return func(x, y int) uint32 { return uint32(img.Pix[img.PixOffset(x, y)]) }
	case *image.Gray16:
		return func(x, y int) uint32 { return uint32(img.Gray16At(x, y).Y) }
	case *image.Paletted:
		return func(x, y int) uint32 { return uint32(img.Pix[img.PixOffset(x, y)]) }
	}
	return func(x, y int) uint32 {
		c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
		return uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B)
	}
}
