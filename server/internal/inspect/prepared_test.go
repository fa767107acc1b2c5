package inspect

import (
	"sync"
	"testing"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/servertest"
)

// A set is prepared once for calls that come together, and what is dropped meanwhile is not kept.
func TestPreparedOnce(t *testing.T) {
	h := servertest.NewHost(t, cpu.New(cpu.Options{Threads: 2}))
	dev, err := h.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer dev.End()
	set, err := polygon.NewSet([]polygon.Region{{Rings: []polygon.Ring{{{X: 0, Y: 0}, {X: 9, Y: 0}, {X: 9, Y: 9}}}}},
		polygon.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	c := newPreparedCache(1 << 20)
	const calls = 8
	var wg sync.WaitGroup
	var got [calls]*polygon.Prepared
	for i := range calls {
		wg.Go(func() {
			p, err := c.get(t.Context(), dev, set, 16, 16, 0)
			if got[i] = p; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range got {
		if p == nil || p != got[0] || p.Gone() {
			t.Fatalf("%v", got)
		}
	}
	if s := c.Stats(); s.Misses != 1 || s.Hits != calls-1 || s.Entries != 1 || s.Bytes != got[0].Bytes() {
		t.Errorf("%+v", s)
	}
	c.drop(set)
	if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 || s.Evictions != 0 || !got[0].Gone() {
		t.Errorf("dropped: %+v", s)
	}

	key := preparedKey{set, 16, 16, 0}
	now := &preparation{ready: make(chan struct{})}
	c.preparing[key] = now
	c.drop(set)
	p, err := c.prepare(t.Context(), dev, key, now)
	if err != nil || !p.Gone() || len(c.preparing) != 0 {
		t.Errorf("dropped while it was prepared: %v, gone: %v", err, p.Gone())
	}
	c.close()
	if p, err := c.get(t.Context(), dev, set, 16, 16, 0); err != nil || !p.Gone() {
		t.Errorf("of a cache that is closed: %v, gone: %v", err, p.Gone())
	}
	if m := dev.Memory(); m.Used != 0 {
		t.Errorf("%+v", m)
	}
}
