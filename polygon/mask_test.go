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
	mask, err := set.Mask(dev, width, height, m)
	if err != nil {
		return nil, err
	}
	w, h := mask.Size()
	pix := make([]byte, w*h)
	job := kernels.Job{Label: "mask", Footprint: kernels.Bytes[byte](len(pix)) + mask.Scratch()}
	return pix, dev.Do(ctx, job, func(q *kernels.Queue) error {
		dst, err := kernels.Alloc[byte](q, len(pix), "mask")
		if err != nil {
			return err
		}
		if err := mask.Draw(q, dst); err != nil {
			return err
		}
		if _, err := kernels.Alloc[byte](q, int(mask.Scratch()), "again"); err != nil {
			return err
		}
		return kernels.Download(q, pix, dst)
	})
}

// A mask is not drawn into memory of another size, nor where the job has no room.
func TestMaskRefuses(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	mask, err := mustSet(t, Region{Rings: []Ring{rectangle(1, 0, 3, 2)}}).Mask(dev, 5, 3, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ bytes, spare int64 }{{14, 0}, {15, -driver.Align}} {
		job := kernels.Job{Label: "mask", Footprint: driver.Align + mask.Scratch() + x.spare}
		err := dev.Do(context.Background(), job, func(q *kernels.Queue) error {
			dst, err := kernels.Alloc[byte](q, int(x.bytes), "mask")
			if err != nil {
				return err
			}
			return mask.Draw(q, dst)
		})
		var bad *kernels.ArgError
		if !errors.As(err, &bad) {
			t.Errorf("%d bytes, %d spare: %v", x.bytes, x.spare, err)
		}
	}
}
