//lint:file-ignore U1000 launched under the tag cuda

// Where MaskBlobs has what in scratch memory, and which regions it does at a time.

package cuda

import (
	"github.com/polyscan/polyscan/kernels/driver"
)

// blobMapWords is what the words of a region are a multiple of, and blobManyWords how many a launch has at least, as
// long as there are regions: so that small ones go together.
const (
	blobMapWords  = 32 * blobRows
	blobManyWords = 1 << 19
)

// blobLayout is the offsets of the parts of scratch memory.
type blobLayout struct {
	words                                  int64 // that the regions of a launch have together, at most
	maps, starts, status                   int64
	bits, inside, spare, runPrefix, labels int64
	bytes                                  int64
}

// blobRegionWords is how many words a region of so many rows, whose rows have so many, takes.
func blobRegionWords(rows, rowWords int64) int64 {
	rows = (rows + blobRows - 1) / blobRows * blobRows
	return max((rows*rowWords+blobMapWords-1)/blobMapWords, 1) * blobMapWords
}

func layBlobs(op *driver.MaskBlobs) (l blobLayout) {
	whole := blobRegionWords(int64(op.Frame.Height), int64(op.Frame.Width+31)/32)
	l.words = max(whole, min(4*whole, blobManyWords))
	put := func(bytes int64) int64 {
		at := l.bytes
		l.bytes = alignUp(l.bytes + bytes)
		return at
	}
	n := int64(op.Count) + 1
	l.maps = put(n * blobMapBytes)
	l.starts = put(n * blobStartBytes)
	l.status = put(4 * (3*l.tiles(l.words) + 1))
	l.bits = put(4 * l.words)
	if len(op.Steps) > 0 {
		l.inside = put(4 * l.words)
		l.spare = put(4 * l.words)
	}
	if op.MaxRuns > 0 {
		l.runPrefix = put(4 * l.words)
	}
	l.labels = put(4 * blobStarts * l.words)
	return l
}

// tiles is how many blocks number the roots in so many words.
func (l *blobLayout) tiles(words int64) int64 {
	return (words + blobThreads*blobPer - 1) / (blobThreads * blobPer)
}

// blobMaps makes the maps of all regions of an op. Word0 counts from the first region of a launch, which batches says
// for each launch, with the end behind the last.
func (s *set) blobMaps(op *driver.MaskBlobs, room int64) (maps []blobMap, batches []int) {
	maps = make([]blobMap, op.Count+1)
	word := int64(0)
	for i := range op.Count {
		r := &s.regions[op.First+i]
		m := &maps[i]
		y0, y1 := max(int(r.Y0), op.Row0), min(int(r.Y1), op.Row0+op.Frame.Height)
		m.X0 = r.X0 &^ 31
		m.Y0, m.Y1 = int32(y0), int32(max(y1, y0))
		if y0 < y1 {
			m.RowWords = uint32(r.X1-m.X0+31) / 32
		}
		g := op.Ranges[i]
		m.Lo, m.Hi, m.StrongLo, m.StrongHi = uint32(g.Lo), uint32(g.Hi), uint32(g.StrongLo), uint32(g.StrongHi)
		m.Strong = uint32(g.Strong)
		n := blobRegionWords(int64(m.Y1-m.Y0), int64(m.RowWords))
		if i == 0 || word+n > room {
			batches = append(batches, i)
			word = 0
		}
		m.Word0 = uint32(word)
		word += n
	}
	batches = append(batches, op.Count)
	return maps, batches
}
