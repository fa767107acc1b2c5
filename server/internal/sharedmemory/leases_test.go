package sharedmemory

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// The check of ranges against arithmetic that can't overflow.
func TestRangeProperty(t *testing.T) {
	edge := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 100),
		rapid.Uint64Range(math.MaxUint64-100, math.MaxUint64))
	rapid.Check(t, func(t *rapid.T) {
		offset, length, size := edge.Draw(t, "offset"), edge.Draw(t, "length"), edge.Draw(t, "size")
		wantRange(t, offset, length, size)
	})
}

func FuzzRange(f *testing.F) {
	f.Add(uint64(0), uint64(9), uint64(4096))
	f.Add(uint64(math.MaxUint64), uint64(1), uint64(4096))
	f.Fuzz(func(t *testing.T, offset, length, size uint64) { wantRange(t, offset, length, size) })
}

func wantRange(t interface{ Errorf(string, ...any) }, offset, length, size uint64) {
	end := new(big.Int).Add(new(big.Int).SetUint64(offset), new(big.Int).SetUint64(length))
	good := length > 0 && end.Cmp(new(big.Int).SetUint64(size)) <= 0
	if err := checkRange(offset, length, size, "x"); (err == nil) != good {
		t.Errorf("[%d, +%d) of %d: %v", offset, length, size, err)
	}
}
