package polygon

import (
	"context"
	"errors"
	"testing"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// drawMask returns what a mask draws, in a job of just the footprint that it asks for.
func drawMask(ctx context.Context, dev *kernels.Device, set *Set, width, height int, m driver.Method) ([]byte, error) {
	draw, bytes, err := set.Mask(dev, width, height, m)
	if err != nil {
		return nil, err
	}
	pix := make([]byte, width*height)
	job := kernels.Job{Label: "mask", Footprint: kernels.Bytes[byte](len(pix)) + bytes}
	return pix, dev.Do(ctx, job, func(q *kernels.Queue) error {
		dst, err := kernels.Alloc[byte](q, len(pix), "mask")
		if err != nil {
			return err
		}
		if err := draw(q, dst); err != nil {
			return err
		}
		if _, err := kernels.Alloc[byte](q, int(bytes), "again"); err != nil {
			return err
		}
		return kernels.Download(q, pix, dst)
	})
}

// A mask is not drawn into memory of another size, nor where the job has no room.
func TestMaskRefuses(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	draw, bytes, err := mustSet(t, Region{Rings: []Ring{rectangle(1, 0, 3, 2)}}).Mask(dev, 5, 3, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ size, spare int64 }{{14, 0}, {16, 0}, {15, -driver.Align}} {
		job := kernels.Job{Label: "mask", Footprint: driver.Align + bytes + x.spare}
		err := dev.Do(context.Background(), job, func(q *kernels.Queue) error {
			dst, err := kernels.Alloc[byte](q, int(x.size), "mask")
			if err != nil {
				return err
			}
			return draw(q, dst)
		})
		var bad *kernels.ArgError
		if !errors.As(err, &bad) {
			t.Errorf("%d bytes, %d spare: %v", x.size, x.spare, err)
		}
	}
}
