//lint:file-ignore U1000 launched under the tag cuda

package cuda

// layoutFlips places what n points need, about 130 bytes each, from an address on. Of the bytes, the first zeroed have
// to be 0 at first.
func layoutFlips(n int, base uint64) (f flipArgs, zeroed, bytes int64) {
	take := func(size int) uint64 {
		at := base + uint64(bytes)
		bytes += alignUp(int64(size))
		return at
	}
	f.State = take(flipStateBytes)
	f.Places, f.Leaving = take(8*n), take(4*n)
	zeroed = bytes
	f.Twins, f.Claims = take(4*6*n), take(8*2*n)
	// Lists are over when rounds begin.
	shared := bytes
	f.List, f.Border = take(8*6*n), take(4*6*n)
	f.Follows, f.Big = take(4*n), take(4*n)
	matched := bytes
	bytes = shared
	f.Turned, f.Queued, f.Wrong = take(4*2*n), take(4*2*n), take(4*2*n)
	f.List0, f.List1, f.Won = take(4*2*n), take(4*2*n), take(4*n)
	bytes = max(bytes, matched)
	f.N = uint32(n)
	return f, zeroed, bytes
}
