//go:build cuda

package cuda

// The benchmark table: fingerprints of flags of a diffusion.

import (
	"fmt"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// fingerprintRows adds a row for the flags of an image: a few fixed pixels, and barriers. There are as many copies of
// them as exceed the caches.
func fingerprintRows(t *testing.T, dev driver.Device, side int, goal float64) {
	counted(t)
	b := &bench{t: t, dev: dev.(*device), s: newStream(t, dev).(*stream)}
	g := seed.New(t, 11, 13)
	flags := make([]byte, side*side)
	for range len(flags) / 20 {
		flags[g.IntN(len(flags))] = 1 << g.IntN(5)
	}
	copies := min(max(96<<20/len(flags), 2), 100)
	all := alloc(t, dev, int64(copies*len(flags)))
	for i := range copies {
		b.must(b.s.Upload(part(all, int64(i*len(flags)), int64(len(flags))), [][]byte{flags}))
	}
	op := driver.Fingerprint{Keys: [2]uint64{1<<60 + 12345, 1<<59 + 54321}, Dst: alloc(t, dev, driver.FingerprintBytes)}
	run := func(i int) error {
		op.Src = part(all, int64(i%copies*len(flags)), int64(len(flags)))
		return b.s.Run(&op)
	}
	var got [2]uint64
	b.must(b.s.Run(&driver.Fill{Dst: op.Dst, Value: 0xa5}), run(copies-1), b.s.Download(bytesOf(got[:]), op.Dst), b.s.Wait(t.Context()))
	if d := devicetest.CompareFingerprints(got, devicetest.Fingerprint(flags, op.Keys)); d != nil {
		t.Error(d)
	}
	b.timed(fmt.Sprintf("fingerprint of %dx%d bytes", side, side), int64(len(flags)), goal, copies, run, run)
}
