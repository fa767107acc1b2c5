package lowpoly

import (
	"context"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// Diagram is a discrete Voronoi diagram.
type Diagram struct {
	// Labels of the pixels, rows from the top: the index of the nearest site, of several equally near ones the least;
	// [driver.NoSite] where there are no sites.
	Labels []uint32
	kernels.Timing
}

// Voronoi labels the pixels of an image of a size with their nearest sites, which are pixels, in one job on dev.
// Methods are those of [VoronoiMethod]; the default is exact. sites are only read, and only during the call.
// Bad input is an [*kernels.InvalidError]; where the device has no room the error is a [*kernels.CapacityError].
func Voronoi(ctx context.Context, dev *kernels.Device, sites []Point, width, height int,
	method VoronoiMethod) (*Diagram, error) {
	if err := kernels.CheckSize(width, height); err != nil {
		return nil, err
	}
	switch {
	case len(sites) > driver.MaxPoints:
		return nil, invalid(path{"sites"}, len(sites), "are more than %d", driver.MaxPoints)
	case method > Banding:
		return nil, invalid(path{"method"}, uint8(method), "is no method")
	}
	for i, p := range sites {
		if p.X < 0 || int(p.X) >= width {
			return nil, invalid(path{"sites", i, "x"}, p.X, "must be 0 to %d", width-1)
		}
		if p.Y < 0 || int(p.Y) >= height {
			return nil, invalid(path{"sites", i, "y"}, p.Y, "must be 0 to %d", height-1)
		}
	}
	size, err := dev.Scratch(&driver.Voronoi{N: len(sites), Width: width, Height: height, Method: method})
	if err != nil {
		return nil, err
	}
	pixels, out := width*height, &Diagram{}
	job := kernels.Job{
		Label: "voronoi",
		Footprint: kernels.Bytes[driver.Point](len(sites)) + kernels.Bytes[uint32](pixels) +
			kernels.Bytes[byte](int(size)),
		Units: int64(pixels), Timing: &out.Timing,
	}
	err = dev.Do(ctx, job, func(q *kernels.Queue) error {
		s := &stack{q: q}
		in := take[driver.Point](s, len(sites), "sites")
		labels := take[uint32](s, pixels, "labels")
		scratch := take[byte](s, int(size), "scratch")
		if s.err != nil {
			return s.err
		}
		if len(sites) > 0 {
			if err := kernels.Upload(q, in, sites); err != nil {
				return err
			}
		}
		if err := q.Run(&driver.Voronoi{
			Sites: in.Slice(), N: len(sites), Width: width, Height: height, Method: method, Labels: labels.Slice(),
			Scratch: scratch.Slice(),
		}); err != nil {
			return err
		}
		if err := q.Wait(); err != nil { // a call that ends before has made no labels
			return err
		}
		out.Labels = make([]uint32, pixels)
		kernels.Made(ctx, 4*pixels)
		if err := kernels.Download(q, out.Labels, labels); err != nil {
			return err
		}
		return q.Wait()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
