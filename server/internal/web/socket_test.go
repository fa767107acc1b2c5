package web

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// A socket's message comes whole behind its prefix, is counted while it is held where it is large, and is refused where
// there is no room.
func TestSocketRead(t *testing.T) {
	for _, n := range []int{0, 1, 4090, 4091, 4092, 100_000, 3 << 20, socketMessage} {
		h := &Handler{Config: Config{Memory: budget.New(64 << 20)}}
		want := bytes.Repeat([]byte{1, 2, 3}, n/3+1)[:n]
		m, release, err := h.read(iotest.DataErrReader(bytes.NewReader(want)))
		if err != nil || !bytes.Equal(m[prefixBytes:], want) {
			t.Fatalf("%d bytes: %d came, %v", n, len(m)-prefixBytes, err)
		}
		used := h.Memory.Used(budget.HTTP)
		if n >= budget.SmallShare && used < int64(n) || n < budget.SmallShare/6 && used > 0 {
			t.Errorf("%d bytes: %d counted", n, used)
		}
		release()
		if used := h.Memory.Used(budget.HTTP); used != 0 {
			t.Errorf("%d bytes: %d counted afterwards", n, used)
		}
	}
	h := &Handler{Config: Config{Memory: budget.New(4 << 20)}}
	if _, _, err := h.read(bytes.NewReader(make([]byte, 3<<20))); err != errSocketRoom {
		t.Errorf("without room: %v", err)
	}
	cut := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, _, err := h.read(cut); err != io.ErrUnexpectedEOF {
		t.Errorf("cut off: %v", err)
	}
	if used := h.Memory.Used(budget.HTTP); used != 0 {
		t.Errorf("%d bytes counted after errors", used)
	}
}
