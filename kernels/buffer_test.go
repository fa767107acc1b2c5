package kernels

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// What a job frees it gets again, within its footprint.
func TestFreeWithinAJob(t *testing.T) {
	d := openFake(t, &fakeDriver{}, Config{MemoryBytes: 1 << 16})
	err := d.Do(context.Background(), Job{Label: "x", Footprint: 3 * 1024}, func(q *Queue) error {
		a, err1 := Alloc[byte](q, 1000, "a")
		b, err2 := Alloc[uint32](q, 256, "b")
		c, err3 := Alloc[byte](q, 1024, "c")
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		var bad *ArgError
		for name, x := range map[string]Buffer[byte]{
			"a part": a.Range(0, 512), "the end": a.Range(256, 1000), "nothing": {},
			"of another length": {driver.Slice{Mem: a.slice.Mem, Off: a.slice.Off, Len: 700}, 700},
			"beyond the job":    {driver.Slice{Mem: a.slice.Mem, Off: a.slice.Off + 4096, Len: 1000}, 1000},
			"other memory":      {driver.Slice{Mem: plainMem(1 << 16), Off: a.slice.Off, Len: 1000}, 1000},
		} {
			if err := Free(q, x); !errors.As(err, &bad) || bad.Op != "Free" || bad.Field != "b" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(Free(q, a), Free(q, c)); err != nil {
			return err
		}
		if err := Free(q, a); !errors.As(err, &bad) || !strings.Contains(err.Error(), "or it is free already") {
			t.Errorf("twice: %v", err)
		}
		_, err := Alloc[byte](q, 2048, "d")
		if !errors.As(err, &bad) ||
			!strings.Contains(err.Error(), "(1024 of 3072 bytes taken, at most 1024 free in one piece)") {
			t.Errorf("2048 bytes, in two pieces: %v", err)
		}
		if err := Free(q, b); err != nil {
			return err
		}
		if _, err := Alloc[byte](q, 3072, "d"); err != nil {
			t.Errorf("all: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var left *Queue
	var b Buffer[byte]
	if err := d.Do(context.Background(), Job{Label: "x", Footprint: 1024}, func(q *Queue) (err error) {
		left = q
		b, err = Alloc[byte](q, 1, "b")
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := Free(left, b); !errors.Is(err, ErrEnded) {
		t.Errorf("after the job: %v", err)
	}
	idle(t, d)
}

// A job that frees and allocates at will never sees a buffer change that it holds, and one that frees in the reverse
// order of its allocs needs no more than it holds at a time.
func TestScratchAgainstModel(t *testing.T) {
	d, done := openPoisoned(t, 1<<16)
	rapid.Check(t, func(t *rapid.T) {
		type held struct {
			buf  Buffer[byte]
			fill byte
		}
		var out []held
		stack := rapid.Bool().Draw(t, "stack")
		footprint := driver.Align * rapid.Int64Range(1, 20).Draw(t, "footprint")
		used := func() (n int64) {
			for _, h := range out {
				n += Bytes[byte](h.buf.Len())
			}
			return n
		}
		err := d.Do(context.Background(), Job{Label: "scratch", Footprint: footprint}, func(q *Queue) error {
			for range rapid.IntRange(0, 30).Draw(t, "steps") {
				if len(out) > 0 && rapid.IntRange(0, 2).Draw(t, "free") == 0 {
					i := len(out) - 1
					if !stack {
						i = rapid.IntRange(0, i).Draw(t, "i")
					}
					if err := Free(q, out[i].buf); err != nil {
						return err
					}
					out = slices.Delete(out, i, i+1)
					continue
				}
				n := rapid.IntRange(1, 1500).Draw(t, "n")
				b, err := Alloc[byte](q, n, "b")
				if fits := used()+Bytes[byte](n) <= footprint; stack && fits != (err == nil) || !fits && err == nil {
					t.Fatalf("%d bytes with %d of %d in use: %v", n, used(), footprint, err)
				}
				if err != nil {
					continue
				}
				h := held{b, byte(rapid.IntRange(1, 100).Draw(t, "fill"))}
				if err := Fill(q, b, h.fill); err != nil {
					return err
				}
				out = append(out, h)
			}
			for _, h := range out {
				got := make([]byte, h.buf.Len())
				if err := errors.Join(Download(q, got, h.buf), q.Wait()); err != nil {
					return err
				}
				if !bytes.Equal(got, bytes.Repeat([]byte{h.fill}, len(got))) {
					t.Fatalf("%d bytes at %d hold %x, not %x", len(got), h.buf.Slice().Off, got[:1], h.fill)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	idle(t, d)
	if err := done(); err != nil {
		t.Error(err)
	}
}

// What scratch of a job costs: 100 allocs, of which every second is freed.
func BenchmarkScratch(b *testing.B) {
	d, err := Open(&fakeDriver{}, Config{MemoryBytes: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	g := seed.New(b, 1, 2)
	b.ReportAllocs()
	for b.Loop() {
		err := d.Do(context.Background(), Job{Label: "bench", Footprint: 1 << 24}, func(q *Queue) error {
			for i := range 100 {
				x, err := Alloc[byte](q, g.IntN(1<<16), "x")
				if err == nil && i%2 == 0 {
					err = Free(q, x)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
