//lint:file-ignore U1000 launched under the tag cuda

// What Triangulate shares with triangulate.cu, and where things lie in its scratch memory.

package cuda

const (
	treeFan    = 32 // nodes below a node, which a warp looks at
	treeLevels = 5  // enough for driver.MaxPoints
	slabLevels = 3  // the lowest ones
	keyDigits  = 8  // of 8 bits in a key: two coordinates of up to 30
)

// triangulateLayout is where things lie in the scratch memory for n points: offsets, multiples of driver.Align.
type triangulateLayout struct {
	// From state to zeroed all has to be 0 at first.
	state, uniqueStatus, emitStatus, sortStatus, zeroed int64

	xy, id, masks, far int64
	boxes              [treeLevels]int64
	slabs              [slabLevels]int64

	// The sort is over when triangles are found, so that both use the same place.
	keys, ids [2]int64
	pairs     int64
	end       int64
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// layoutTriangulate places what n points need: about 72 bytes each.
func layoutTriangulate(n int) (l triangulateLayout) {
	place := func(bytes int) int64 {
		at := l.end
		l.end += alignUp(int64(bytes))
		return at
	}
	l.state = place(triangulateStateBytes)
	l.uniqueStatus = place(4 * ceilDiv(n, triangulateThreads*uniqueItems))
	l.emitStatus = place(4 * ceilDiv(n, triangulateThreads*emitItems))
	status := 4 * 256 * ceilDiv(n, triangulateThreads*sortItems) // of a pass, of two that take turns
	l.sortStatus = place(2 * status)
	l.zeroed = l.sortStatus + int64(status)

	l.xy = place(pointBytes * n)
	l.id = place(4 * n)
	l.masks = place((n + 3) &^ 3) // changed in words
	l.far = place(4 * n)
	for level, nodes := 0, ceilDiv(n, treeLeaf); level < treeLevels; level, nodes = level+1, ceilDiv(nodes, treeFan) {
		l.boxes[level] = place(16 * nodes)
		if level < slabLevels {
			l.slabs[level] = place(slabBytes * nodes)
		}
	}
	shared := l.end
	for i := range l.keys {
		l.keys[i] = place(8 * n)
		l.ids[i] = place(4 * n)
	}
	sorted := l.end
	l.end = shared
	l.pairs = place(8 * pointSlots * n)
	l.end = max(l.end, sorted)
	return l
}

func triangulateScratch(n int) int64 { return layoutTriangulate(n).end }

// args are the parameters for n points, with the scratch memory at base.
func (l *triangulateLayout) args(base uint64, n int) delaunayArgs {
	at := func(off int64) uint64 { return base + uint64(off) }
	return delaunayArgs{
		State: at(l.state), UniqueStatus: at(l.uniqueStatus), EmitStatus: at(l.emitStatus),
		SortStatus: at(l.sortStatus),
		Keys0:      at(l.keys[0]), Keys1: at(l.keys[1]), IDs0: at(l.ids[0]), IDs1: at(l.ids[1]),
		XY: at(l.xy), ID: at(l.id), Masks: at(l.masks), Far: at(l.far), Pairs: at(l.pairs),
		Box0: at(l.boxes[0]), Box1: at(l.boxes[1]), Box2: at(l.boxes[2]), Box3: at(l.boxes[3]), Box4: at(l.boxes[4]),
		Slab0: at(l.slabs[0]), Slab1: at(l.slabs[1]), Slab2: at(l.slabs[2]), N: uint32(n),
	}
}
