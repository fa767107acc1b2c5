package kernels

import (
	"context"
	"errors"
	"testing"
)

// Copies in chunks are as long as the buffers, wherever pieces end; that the bytes are right is tested where there is
// memory.
func TestCopiesInChunks(t *testing.T) {
	fake := &fakeDriver{}
	d := openFake(t, fake, Config{MemoryBytes: 16 << 20})
	host := make([]byte, 5<<20)
	pieces := [][]byte{nil, host[:1], host[1 : 2<<20], {}, host[2<<20 : 2<<20+7], host[2<<20+7:], nil}
	for _, class := range []Class{LineScan, Batch} {
		err := d.Do(WithClass(context.Background(), class), Job{Footprint: 8 << 20}, func(q *Queue) error {
			b, err := Alloc[byte](q, len(host), "bytes")
			if err != nil {
				return err
			}
			var arg *ArgError
			if err := UploadChunks(q, b, pieces[:5]); !errors.As(err, &arg) || arg.Field != "len(src)" {
				t.Errorf("%v: too few bytes: %v", class, err)
			}
			if err := DownloadChunks(q, host[1:], b); !errors.As(err, &arg) || arg.Field != "len(dst)" {
				t.Errorf("%v: too few bytes to download: %v", class, err)
			}
			return errors.Join(UploadChunks(q, b, pieces), DownloadChunks(q, host, b), q.Wait())
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, p := range fake.promises {
		t.Error(p)
	}
}
