package cpu

import (
	"testing"
	"time"
)

// Memory counts as the host's where it was written, and no longer once it is given back.
func TestHostBytes(t *testing.T) {
	dev, err := Driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const (
		least, most = 4 << 10, 4 << 20   // of a byte: two large pages, where one isn't aligned
		size        = 600<<20 + 256*3    // more than two calls ask for, and no whole pages
		asked       = 256 << 20          // by one call, where pages are small
		written     = 5<<20 + 4096 - 256 // at the end
	)
	m, err := dev.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	x := m.(*mem)
	now := func() int64 {
		x.next = time.Time{}
		return x.HostBytes()
	}
	if n := now(); n != 0 {
		t.Errorf("%d bytes of new memory are there", n)
	}
	had := int64(0)
	for _, at := range []int{0, asked - 1, asked + most, size - 1} {
		x.data[at] = 1
		n := now()
		if n-had < min(least, size-int64(at)) || n-had > most {
			t.Errorf("byte %d: %d bytes are there, and were %d", at, n, had)
		}
		had = n
	}
	x.next = time.Now().Add(time.Hour)
	clear(x.data[size-written:])
	if n := x.HostBytes(); n != had {
		t.Errorf("%d bytes are there, and were %d: asked again at once", n, had)
	}
	if n := now(); n-had < written-most || n-had > written+most {
		t.Errorf("%d bytes written: %d are there, and were %d", written, n, had)
	}
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	if n := x.HostBytes(); n != 0 {
		t.Errorf("%d bytes are there of memory that was given back", n)
	}
}
