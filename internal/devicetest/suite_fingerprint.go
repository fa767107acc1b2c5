// The suite: fingerprints.

package devicetest

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// FingerprintLengths are lengths of contents: none, around words, and around what backends take at a time, which are
// powers of two or a few times one.
func FingerprintLengths(short bool) []int {
	lengths := []int{0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33}
	for n := 64; n <= 64<<10; n *= 2 {
		lengths = append(lengths, n-1, n, n+1, n+n/2+3)
	}
	lengths = append(lengths, 1<<20-4, 1<<20, 1<<20+5)
	if !short {
		lengths = append(lengths, 2<<20+1, 3<<20+13, 8<<20, 8<<20+3)
	}
	return lengths
}

// FingerprintKeys are pairs of keys: the ends of their range, and any.
func FingerprintKeys(g *rand.Rand) [][2]uint64 {
	const most = driver.FingerprintPrime - 2
	keys := func() uint64 { return 2 + g.Uint64N(most-1) }
	return [][2]uint64{{2, most}, {most, 3}, {1 << 60, 1<<32 - 1}, {keys(), keys()}, {keys(), keys()}}
}

// fingerprint checks contents of many lengths against the oracle: of any bytes, of none but 0 and of none but 255, and
// that each byte counts.
func (s Suite) fingerprint(t T, dev driver.Device) {
	r := newRig(t, dev)
	defer r.close(t)
	g := rand.New(rand.NewPCG(s.Seed, 31))
	keys := FingerprintKeys(g)
	for i, n := range FingerprintLengths(s.Short) {
		if s.small && n > 4<<10 {
			continue
		}
		b := make([]byte, n)
		switch i % 5 {
		case 0:
		case 1:
			for k := range b {
				b[k] = 255
			}
		default:
			for k := range b {
				b[k] = byte(g.Uint32())
			}
		}
		var flips []int
		if n > 0 {
			flips = []int{0, n / 2, n - 1, g.IntN(n)}
		}
		pair := keys[i%len(keys)]
		got, flipped, err := r.fingerprint(t, b, pair, flips)
		if errors.Is(err, driver.ErrNotSupported) {
			t.Logf("%s lacks the op: %v", s.Driver.Name(), err)
			return
		}
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		if d := CompareFingerprints(got, Fingerprint(b, pair)); d != nil {
			t.Errorf("%d bytes under keys %d: %v", n, pair, d)
		}
		for k, h := range flipped {
			if h[0] == got[0] || h[1] == got[1] {
				t.Errorf("%d bytes under keys %d: %d whether byte %d is another or not", n, pair, got, flips[k])
			}
		}
	}
}

// fingerprint runs a Fingerprint of b, and one for each byte of it that is to be another.
func (r *rig) fingerprint(t T, b []byte, keys [2]uint64, flips []int) (got [2]uint64, flipped [][2]uint64, err error) {
	t.Helper()
	r.reserve(t, 2+len(flips), int64(len(b)+(1+len(flips))*driver.FingerprintBytes))
	op := driver.Fingerprint{Src: r.slice(t, int64(len(b)), 0), Keys: keys, Dst: r.slice(t, driver.FingerprintBytes, 0)}
	r.upload(t, op.Src, b)
	r.fill(t, op.Dst, dirtyByte)
	r.wait(t)
	if err := r.stream.Run(&op); err != nil {
		return got, nil, errors.Join(err, r.stream.Wait(context.Background()))
	}
	r.download(t, bytesOf(got[:]), op.Dst)
	flipped = make([][2]uint64, len(flips))
	for i, at := range flips {
		one := op
		one.Dst = r.slice(t, driver.FingerprintBytes, 0)
		byteAt := driver.Slice{Mem: op.Src.Mem, Off: op.Src.Off + int64(at), Len: 1}
		r.fill(t, byteAt, b[at]^1)
		if err := r.stream.Run(&one); err != nil {
			return got, nil, errors.Join(err, r.stream.Wait(context.Background()))
		}
		r.fill(t, byteAt, b[at])
		r.download(t, bytesOf(flipped[i][:]), one.Dst)
	}
	if err := r.stream.Wait(context.Background()); err != nil {
		return got, nil, err
	}
	r.checkGuards(t)
	return got, flipped, nil
}
