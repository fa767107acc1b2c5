package cpu

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels/driver"
)

// The conformance suite has the cases of Fingerprint; here are the algebra of its polynomials, arbitrary input, and its
// speed.

func (f *fixture) fingerprint(b []byte, keys [2]uint64) [2]uint64 {
	f.t.Helper()
	f.reset()
	op := driver.Fingerprint{Src: f.upload(b), Keys: keys, Dst: f.slice(driver.FingerprintBytes)}
	f.ok(f.s.Run(&op))
	return [2]uint64(download[uint64](f, op.Dst))
}

// fingerprintKeys draws keys, often those at the ends of their range.
var fingerprintKeys = rapid.Custom(func(t *rapid.T) (keys [2]uint64) {
	const most = driver.FingerprintPrime - 2
	for k := range keys {
		keys[k] = rapid.OneOf(rapid.Uint64Range(2, most), rapid.SampledFrom([]uint64{2, 3, most - 1, most})).Draw(t,
			"key")
	}
	return keys
})

// The hash of two contents, one behind the other, follows from theirs where the first is whole words: its words move up
// by as many powers as the second has words.
func TestFingerprintOfConcatenation(t *testing.T) {
	f := newFixture(t, 2, 1<<20)
	rapid.Check(t, func(t *rapid.T) {
		keys := fingerprintKeys.Draw(t, "keys")
		draw := func(name string) []byte {
			seed := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, name)
			b := make([]byte, rapid.OneOf(rapid.IntRange(0, 600), rapid.IntRange(0, 3*fingerprintPiece)).Draw(t,
				"bytes of "+name))
			for i := range b {
				b[i] = seed[i%len(seed)] + byte(i/len(seed))
			}
			return b
		}
		a, b := draw("a"), draw("b")
		a = a[:len(a)&^3]
		ha, hb, got := f.fingerprint(a, keys), f.fingerprint(b, keys),
			f.fingerprint(append(a[:len(a):len(a)], b...), keys)
		wordsA, wordsB := uint64(len(a)/4), uint64(len(b)+3)/4
		for k, key := range keys {
			negative := func(length int, words uint64) uint64 {
				return modMul(driver.FingerprintPrime-uint64(length), modPow(key, words+1))
			}
			want := modMul(modAdd(ha[k], negative(len(a), wordsA)), modPow(key, wordsB))
			want = modAdd(want, modAdd(hb[k], negative(len(b), wordsB)))
			want = modAdd(want, modMul(uint64(len(a)+len(b)), modPow(key, wordsA+wordsB+1)))
			if got[k] != want {
				t.Fatalf("%d and %d bytes: hash %d under key %d, from the parts %d", len(a), len(b), got[k], key, want)
			}
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	for i, n := range []int{0, 1, 4, 7, 256, 300} {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(k * i)
		}
		f.Add(b, uint16(i*i*20), uint64(i)<<60, uint64(1<<61-3-i))
	}
	f.Fuzz(func(t *testing.T, b []byte, times uint16, k0, k1 uint64) {
		const keys = driver.FingerprintPrime - 3
		b = b[:min(len(b), 1<<10)]
		var long []byte
		for range 1 + int(times)%200 {
			long = append(long, b...)
		}
		pair := [2]uint64{2 + k0%keys, 2 + k1%keys}
		x := newFixture(t, 2, int64(len(long)+2*driver.Align))
		if d := devicetest.CompareFingerprints(x.fingerprint(long, pair),
			devicetest.Fingerprint(long, pair)); d != nil {
			t.Errorf("%d bytes under %d: %v", len(long), pair, d)
		}
	})
}

func BenchmarkFingerprint(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, n := range []int{1 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("%d/threads=%d", n, threads), func(b *testing.B) {
				f := newFixture(b, threads, int64(n+2*driver.Align))
				op := driver.Fingerprint{Src: f.upload(texture(n)), Keys: [2]uint64{1<<60 + 12345, 1<<59 + 54321},
					Dst: f.slice(driver.FingerprintBytes)}
				f.wait()
				b.SetBytes(int64(n))
				for b.Loop() {
					if err := errors.Join(f.s.Run(&op), f.s.Wait(context.Background())); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
