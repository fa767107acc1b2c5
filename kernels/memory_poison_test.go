package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// openPoisoned opens the oracle with Config.Poison. close closes it and returns the error.
func openPoisoned(t *testing.T, bytes int64) (d *Device, close func() error) {
	t.Helper()
	d, err := Open(devicetest.Oracle(), Config{MemoryBytes: bytes, Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, d.Close
}

// read returns what lies somewhere in the memory, whoever's that is.
func read(t *testing.T, d *Device, off, n int64) []byte {
	t.Helper()
	got := make([]byte, n)
	err := d.Do(context.Background(), Job{}, func(q *Queue) error {
		return q.stream.Download(got, driver.Slice{Mem: d.mem.mem, Off: off, Len: n})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// poisoned checks that a range was overwritten.
func poisoned(t *testing.T, d *Device, when string, off, n int64) {
	t.Helper()
	for i, v := range read(t, d, off, n) {
		if v != poison {
			t.Errorf("%s: byte %d of %d is %#x", when, i, n, v)
			return
		}
	}
}

// fill has a job set all bytes of a buffer.
func fill(t *testing.T, d *Device, b Buffer[byte]) {
	t.Helper()
	if err := d.Do(context.Background(), Job{}, func(q *Queue) error { return Fill(q, b, 1) }); err != nil {
		t.Fatal(err)
	}
}

func TestPoisonOfJobs(t *testing.T) {
	d, done := openPoisoned(t, 1<<16)
	var off int64
	for range 2 {
		got := make([]byte, 1000)
		err := d.Do(context.Background(), Job{Label: "x", Footprint: 1024}, func(q *Queue) error {
			b, err := Alloc[byte](q, 1000, "b")
			if err != nil {
				return err
			}
			off = b.Slice().Off
			return errors.Join(Download(q, got, b), Fill(q, b, 1))
		})
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{poison}, 1000)) {
			t.Errorf("a job found %x", got[:10])
		}
		poisoned(t, d, "after a job", off, 1000)
	}
	// The memory of a job that is cancelled is overwritten too.
	ctx, cancel := context.WithCancelCause(context.Background())
	err := d.Do(ctx, Job{Label: "y", Footprint: 1024}, func(q *Queue) error {
		b, err := Alloc[byte](q, 1000, "b")
		off = b.Slice().Off
		err = errors.Join(err, Fill(q, b, 1), q.Wait())
		cancel(errCause)
		return errors.Join(err, Fill(q, b, 2)) // not done any more
	})
	if !errors.Is(err, errCause) {
		t.Error(err)
	}
	poisoned(t, d, "after a job that was cancelled", off, 1000)
	// What a job gives back is overwritten when its turn has come, and not before.
	got := make([]byte, 300)
	err = d.Do(context.Background(), Job{Label: "z", Footprint: 1024}, func(q *Queue) error {
		a, err := Alloc[byte](q, 300, "a")
		if err != nil {
			return err
		}
		before := make([]byte, 300)
		if err := errors.Join(Fill(q, a, 7), Download(q, before, a), Free(q, a), Download(q, got, a),
			q.Wait()); err != nil {
			return err
		}
		if before[0] != 7 || before[299] != 7 {
			t.Errorf("before Free: %x", before[:10])
		}
		return nil
	})
	if err != nil || got[0] != poison || got[299] != poison {
		t.Errorf("after Free: %x, %v", got[:10], err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}

// Kept memory and residents are overwritten before and after, evicted ones too.
func TestPoisonOfWhatIsKept(t *testing.T) {
	d, done := openPoisoned(t, 4096)
	k, err := AllocPersistent[byte](d, 1000, "kept")
	if err != nil {
		t.Fatal(err)
	}
	off := k.Slice().Off
	poisoned(t, d, "before", off, 1000)
	fill(t, d, k.Buffer)
	k.Free()
	poisoned(t, d, "after Free", off, 1000)

	store := func(n int) *Resident[byte] {
		t.Helper()
		r, err := Store[byte](d, n, "resident")
		if err != nil {
			t.Fatal(err)
		}
		poisoned(t, d, "before", r.Buffer().Slice().Off, int64(n))
		fill(t, d, r.Buffer())
		return r
	}
	r := store(1000)
	r.Drop()
	if got := read(t, d, r.Buffer().Slice().Off, 1000); got[0] != 1 {
		t.Errorf("dropped and held: %x", got[:10])
	}
	r.Release()
	poisoned(t, d, "after Drop and Release", r.Buffer().Slice().Off, 1000)

	r = store(3000)
	r.Release()
	small, err := Store[byte](d, 1500, "another")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Acquire(); ok {
		t.Errorf("it is still there")
	}
	poisoned(t, d, "after eviction", r.Buffer().Slice().Off, 3000)
	small.Release() // what nobody holds is no leak
	if err := done(); err != nil {
		t.Error(err)
	}
}

// A write beyond the end of a block shows, one byte behind it as well as in the guard.
func TestOverrun(t *testing.T) {
	beyond := func(q *Queue, s driver.Slice, by int64) error {
		return q.stream.Run(&driver.Fill{Dst: driver.Slice{Mem: s.Mem, Off: s.Off + s.Len + by, Len: 1}, Value: 0})
	}
	for _, by := range []int64{0, 23, 24, 255} { // 1000 bytes are 24 short of 1024, and 256 are guard
		d, done := openPoisoned(t, 1<<16)
		err := d.Do(context.Background(), Job{Label: "job", Footprint: 1000}, func(q *Queue) error {
			b, err := Alloc[byte](q, 1000, "b")
			return errors.Join(err, beyond(q, b.Slice(), by))
		})
		want := `"job" of 1000 bytes: byte 1255 was written`
		if by < 24 { // the job's own buffer and the job's memory end there
			want = fmt.Sprintf("\"b\" of 1000 bytes: byte %d was written", 1000+by)
		} else if by == 24 {
			want = `"job" of 1000 bytes: byte 1024 was written`
		}
		if !errors.Is(err, ErrOverrun) || !strings.Contains(err.Error(), want) {
			t.Errorf("job, %d beyond: %v", by, err)
		}
		k, err1 := AllocPersistent[byte](d, 1000, "kept")
		r, err2 := Store[byte](d, 1000, "resident")
		e, err3 := Store[byte](d, 1000, "evicted")
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		err = d.Do(context.Background(), Job{}, func(q *Queue) error {
			return errors.Join(beyond(q, k.Slice(), by), beyond(q, r.Buffer().Slice(), by),
				beyond(q, e.Buffer().Slice(), by))
		})
		if err != nil {
			t.Error(err)
		}
		e.Release()
		k.Free()
		r.Drop()
		r.Release()
		err = done()
		if !errors.Is(err, ErrOverrun) || strings.Count(err.Error(), "was written") != 3 ||
			!strings.Contains(err.Error(), `"kept"`) || !strings.Contains(err.Error(), `"resident"`) ||
			!strings.Contains(err.Error(), `"evicted"`) {
			t.Errorf("kept, %d beyond: %v", by, err)
		}
	}
}

// A buffer that writes into the next one of its job is caught where it is padded, and not once it is free.
func TestOverrunWithinAJob(t *testing.T) {
	d, done := openPoisoned(t, 1<<16)
	for _, free := range []bool{false, true} {
		err := d.Do(context.Background(), Job{Label: "job", Footprint: 2048}, func(q *Queue) error {
			a, err1 := Alloc[byte](q, 1000, "a")
			b, err2 := Alloc[byte](q, 1024, "b")
			if err := errors.Join(err1, err2, Fill(q, b, 0)); err != nil {
				return err
			}
			if free {
				if err := Free(q, a); err != nil {
					return err
				}
				c, err := Alloc[byte](q, 1024, "c")
				return errors.Join(err, Fill(q, c, 0))
			}
			return q.stream.Run(&driver.Fill{Dst: driver.Slice{Mem: a.slice.Mem, Off: a.slice.Off, Len: 1010}, Value: 0})
		})
		if free && err != nil || !free &&
			(!errors.Is(err, ErrOverrun) ||
				!strings.Contains(err.Error(), `"a" of 1000 bytes: byte 1000 was written`)) {
			t.Errorf("freed %v: %v", free, err)
		}
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}

// What fits without a guard fits.
func TestPoisonOfAllThereIs(t *testing.T) {
	d, done := openPoisoned(t, 4096)
	err := d.Do(context.Background(), Job{Label: "x", Footprint: 4096}, func(q *Queue) error {
		b, err := Alloc[byte](q, 4096, "b")
		return errors.Join(err, Fill(q, b, 1))
	})
	if err != nil {
		t.Error(err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}
