package kernels

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestGiveBack(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	var late *Queue
	used := func(when string, want int64) {
		t.Helper()
		if m := d.Memory(); m.Used != want || m.ByTenant.Scratch != want || m.ByLabel["job"] != want ||
			m.Largest != 4096-want {
			t.Errorf("%s: %+v, want %d bytes in use", when, m, want)
		}
	}
	give := func(q *Queue, n int64) {
		t.Helper()
		if err := q.GiveBack(n); err != nil {
			t.Error(err)
		}
	}
	alloc := func(q *Queue, n int) Buffer[byte] {
		t.Helper()
		b, err := Alloc[byte](q, n, "b")
		if err != nil {
			t.Error(err)
		}
		return b
	}
	if err := d.Do(context.Background(), Job{Label: "job", Footprint: 3000}, func(q *Queue) error {
		late = q
		give(q, 512)
		used("before it has allocated anything", 3072)
		first, second := alloc(q, 1280), alloc(q, 512)
		give(q, 0)
		used("nothing", 3072)
		give(q, 2048)
		used("all that is left", 3072)
		give(q, 512)
		used("some", 2560)
		give(q, 256)
		used("some more", 2304)
		if err := Free(q, first); err != nil {
			t.Error(err)
		}
		give(q, 256)
		used("what is in two pieces", 2304)
		alloc(q, 1280)
		alloc(q, 512)
		give(q, 256)
		used("what it does not have", 2304)
		if _, err := Alloc[byte](q, 1, "b"); err == nil {
			t.Error("the job has more than it has left")
		}
		if err := Free(q, second); err != nil {
			t.Error(err)
		}
		give(q, 256)
		used("what does not lie at the end", 2304)
		alloc(q, 512)
		for _, n := range []int64{-256, 255, 1} {
			var arg *ArgError
			if err := q.GiveBack(n); !errors.As(err, &arg) || arg.Field != "n" {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		used("in the end", 2304)
		return nil
	}); err != nil {
		t.Error(err)
	}
	idle(t, d)
	if err := late.GiveBack(256); !errors.Is(err, ErrEnded) {
		t.Errorf("after the job: %v", err)
	}
}

// It waits for what may still use the memory, and keeps that where it can't.
func TestGiveBackWaits(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	ctx, cancel := context.WithCancel(context.Background())
	err := d.Do(ctx, Job{Label: "job", Footprint: 2048}, func(q *Queue) error {
		b, err := Alloc[byte](q, 256, "b")
		if err = errors.Join(err, Fill(q, b, 1)); err != nil {
			t.Error(err)
		}
		cancel()
		if err := q.GiveBack(1024); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if m := d.Memory(); m.Used != 2048 {
			t.Errorf("%+v", m)
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	idle(t, d)
}

// What a job gives back others get at once.
func TestGiveBackServesWhoWaits(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 4096})
	done := make(chan error, 1)
	if err := d.Do(context.Background(), Job{Label: "job", Footprint: 3072}, func(q *Queue) error {
		if _, err := Alloc[byte](q, 512, "b"); err != nil {
			return err
		}
		go func() {
			done <- d.Do(context.Background(), Job{Label: "other", Footprint: 2048}, func(*Queue) error { return nil })
		}()
		for d.Memory().Waiting == 0 {
		}
		if err := q.GiveBack(1024); err != nil {
			return err
		}
		return <-done
	}); err != nil {
		t.Error(err)
	}
	idle(t, d)
}

// It waits for ops that may still have the memory, overwrites it, and looks at the guard behind it, which moves.
func TestGiveBackUnderPoison(t *testing.T) {
	for _, beyond := range []int64{0, 1, 2} {
		d, done := openPoisoned(t, 1<<16)
		var end int64
		err := d.Do(context.Background(), Job{Label: "job", Footprint: 3072}, func(q *Queue) error {
			a, err := Alloc[byte](q, 1024, "a")
			if err != nil {
				return err
			}
			if err := q.stream.Run(&driver.Fill{Dst: driver.Slice{Mem: d.mem.mem, Off: q.arena.off + 2048, Len: 1024},
				Value: 1}); err != nil {
				return err
			}
			over := driver.Slice{Mem: d.mem.mem, Off: q.arena.off + 3072, Len: 1}
			if beyond == 1 { // before it moves
				if err := q.stream.Run(&driver.Fill{Dst: over, Value: 0}); err != nil {
					return err
				}
			}
			end = q.arena.off + 2048
			if err := q.GiveBack(1024); err != nil {
				return err
			}
			poisoned(t, d, "given back", end, 1024)
			if beyond == 2 {
				over.Off = end
				return q.stream.Run(&driver.Fill{Dst: over, Value: 0})
			}
			return Fill(q, a, 2)
		})
		if over := errors.Is(err, ErrOverrun); over != (beyond > 0) || !over && err != nil {
			t.Errorf("%d: %v", beyond, err)
		}
		poisoned(t, d, "after the job", end-2048, 3072)
		if err := done(); err != nil {
			t.Error(err)
		}
	}
}

// With a memo in the place of memory of its own, new or recalled, a job holds no more of the device than without.
func TestMemoInThePlaceOfFootprint(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 8192})
	for _, what := range []string{"new", "recalled", "recalled again"} {
		if err := d.Do(context.Background(), Job{Label: "job", Footprint: 4096}, func(q *Queue) error {
			if _, err := Alloc[byte](q, 1024, "b"); err != nil {
				return err
			}
			if _, _, ok := q.Recall(1); !ok {
				m, ok := q.NewMemo(2048, "memo")
				if !ok {
					return errors.New("no memory for it")
				}
				m.Publish(1, nil)
			} else if what == "new" {
				return errors.New("recalled from nowhere")
			}
			if err := q.GiveBack(Bytes[byte](2048)); err != nil {
				return err
			}
			k, err := AllocPersistent[byte](d, 4096, "state") // all that the footprint leaves
			if err != nil {
				return fmt.Errorf("%w: %+v", err, d.Memory())
			}
			k.Free()
			return nil
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantMemos(t, "in the end", d, CacheStats{Bytes: 2048, Entries: 1, Hits: 2, Misses: 1})
}
