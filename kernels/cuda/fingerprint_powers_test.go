package cuda

import (
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/seed"
)

// evaluate does what fingerprint.cu does, word by word and with whole powers.
func (p *fingerprintPolynomialsParams) evaluate(blocks int, k *fingerprintKey, places []uint64, b []byte) uint64 {
	add := func(a, b uint64) uint64 { return modMul(a+b, 1) }
	word := func(i int) (w uint64) {
		for k := range 4 {
			if 4*i+k < len(b) {
				w |= uint64(b[4*i+k]) << (8 * k)
			}
		}
		return w
	}
	var sum uint64
	for block := range blocks {
		var threads [fingerprintThreads]uint64
		for r := range int(p.Rounds) {
			first := (block*int(p.Rounds) + r) * fingerprintRound
			for t := range threads {
				threads[t] = modMul(threads[t], k.Round)
				for v := range fingerprintVectors {
					for i := range 4 {
						dot := k.Dot[(4*v+i)*fingerprintLimbs:]
						threads[t] = add(threads[t],
							modMul(word(first+(v*fingerprintThreads+t)*4+i), uint64(dot[0])|uint64(dot[1])<<32))
					}
				}
			}
		}
		var h uint64
		for w := 0; w < fingerprintThreads; w += 32 {
			lanes := threads[w:][:32]
			for l, power := range k.Lanes {
				for i := 0; i < 32; i += 2 << l {
					lanes[i] = add(modMul(lanes[i], power), lanes[i+1<<l])
				}
			}
			h = add(modMul(h, k.Warp), lanes[0])
		}
		for l, power := range places {
			if (blocks-1-block)>>l&1 != 0 {
				h = modMul(h, power)
			}
		}
		sum = add(sum, h)
	}
	return add(modMul(sum, k.Factor), k.Length)
}

// The powers that a launch is given make up the polynomial, for lengths around those where rounds and blocks become
// more.
func TestFingerprintPowers(t *testing.T) {
	g := seed.New(t, 3, 5)
	const round = 4 * fingerprintRound
	lengths := []int{0, 1, 4, 5, round - 1, round, round + 1, fingerprintThreads*round + 3}
	if !testing.Short() {
		lengths = append(lengths, fingerprintBlocks*round, fingerprintBlocks*round+1)
	}
	keys := devicetest.FingerprintKeys(g)
	for i, n := range lengths {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(g.Uint32())
		}
		pair := keys[i%len(keys)]
		blocks, p := newFingerprint(int64(n), pair)
		if blocks < 1 || blocks > fingerprintBlocks || blocks*int(p.Rounds)*round < n {
			t.Errorf("%d bytes: %d blocks of %d rounds", n, blocks, p.Rounds)
		}
		got := [2]uint64{p.evaluate(blocks, &p.A, p.Places.Powers[:16], b),
			p.evaluate(blocks, &p.B, p.Places.Powers[16:], b)}
		if d := devicetest.CompareFingerprints(got, devicetest.Fingerprint(b, pair)); d != nil {
			t.Errorf("%d bytes under keys %d: %v", n, pair, d)
		}
	}
}
