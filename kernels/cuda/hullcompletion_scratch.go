//lint:file-ignore U1000 launched under the tag cuda

package cuda

// layoutHull places the chains, with room for the pixels of all sides, from an address on. It returns how many bytes
// they take.
func layoutHull(width, height int, base uint64) (g hullArgs, bytes int64) {
	take := func(n int) uint64 {
		at := base + uint64(bytes)
		bytes += alignUp(int64(n))
		return at
	}
	sides := 2 * (width + height)
	g.Chains = take(4 * hullChainBytes)
	g.Labels = take(4 * sides)
	g.Points = take(pointBytes * sides)
	g.Cut = take(triangleBytes * sides)
	return g, bytes
}
