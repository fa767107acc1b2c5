//lint:file-ignore U1000 launched under the tag cuda

package cuda

// Constants of hullcompletion.cu, by the names they have there.
const (
	hullThreads     = 1024 // THREADS
	hullChainBytes  = 16   // of HullChain
	meshCountsBytes = 16
)

// hullArgs is HullArgs of hullcompletion.cu.
type hullArgs struct {
	V                 meshDiagram
	Chains, Labels    uint64
	Points, Cut       uint64
	Triangles, Counts uint64
}

type hullParams struct{ G hullArgs }

var (
	hullChains = listKernel[hullParams]("hullcompletion", "hull_chains")
	hullJoin   = listKernel[hullParams]("hullcompletion", "hull_join")
)

// layoutHull places the chains, with room for the pixels of all sides, from an address on. It returns how many bytes
// they take.
func layoutHull(n, width, height int, base uint64) (g hullArgs, bytes int64, err error) {
	if err := checkDiagram("HullCompletion", n, width, height); err != nil {
		return g, 0, err
	}
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
	return g, bytes, nil
}
