package kernels

import (
	"context"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

// quietStream takes ops and does nothing.
type quietStream struct{ driver.Stream }

func (quietStream) Run(driver.Op) error { return nil }

// What a strip costs on top of its op: checking it allocates nothing, so that one that is enqueued allocates the op.
func TestRunAllocatesNothing(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 20})
	err := d.Do(context.Background(), Job{Label: "strip", Footprint: 1 << 19}, func(q *Queue) error {
		all, err := Alloc[byte](q, 1<<19, "all")
		if err != nil {
			return err
		}
		stream := q.stream
		q.stream = quietStream{stream}
		defer func() { q.stream = stream }()
		op := reduceOp(all.Slice())
		if n := testing.AllocsPerRun(100, func() {
			if err := q.Run(op); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("Run of an op that is there allocates %v times", n)
		}
		if n := testing.AllocsPerRun(100, func() {
			strip := *op
			strip.Row0++
			if err := q.Run(&strip); err != nil {
				t.Error(err)
			}
		}); n != 1 {
			t.Errorf("Run of an op that is made for it allocates %v times, want 1: the op itself", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
