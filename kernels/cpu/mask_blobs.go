// MaskBlobs: foreground of each region as bits, and blobs of runs of bits.
//
// A region has a bitmap of its own, as wide as its bounds. Rows are shared between threads in bands. A run of bits has
// a label: the place of its first word, times the starts of runs that a word has room for, plus those before it in the
// word. So labels are in row-major order without counting, and the least of a blob is that of its first pixel.
//
// What a label holds, in this order: itself; then the label of another run of the blob, which is less; and of a root,
// the first run of a blob, the label plus the pixels of the blob, and later the number of the blob. So what holds less
// than itself is no root.

package cpu

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// blobStarts is how many runs can start in a word.
	blobStarts = 32
	// blobBandPixels is about how many pixels a band has: runs of a band are few enough for the caches.
	blobBandPixels = 1 << 17

	blobStrong   = 1 << 31 // of a root, as long as it holds pixels: one is strong
	blobNumbered = 1 << 31 // of a root, later: it holds a number
	blobShared   = 1 << 30 // of a root: the blob is in several bands
	blobValue    = blobShared - 1
	blobDropped  = blobValue // instead of a number
)

// blobWords is how many words of bits a frame takes, and a region at most.
func blobWords(f *driver.Image) int64 { return int64(f.Height) * int64((f.Width+63)/64) }

// blobScratch has room for the bitmaps and labels of a region that covers the frame.
func blobScratch(op *driver.MaskBlobs) int64 {
	n := blobWords(&op.Frame)
	maps := int64(1)
	if len(op.Steps) > 0 {
		maps = 3
	}
	return n * (8*maps + 4*blobStarts)
}

// blobMap is where the bits of a region are.
type blobMap struct {
	region int // counted from First
	at     int // its first word
	x0     int // a multiple of 64
	y0, y1 int
	words  int // of a row
}

// blobRun is a run of a row, in columns of the image.
type blobRun struct {
	x0, x1 int32
	label  uint32
}

// blobBand is rows [y0, y1) of a region.
type blobBand struct {
	*blobMap
	y0, y1          int
	all, kept, runs uint32 // blobs that begin here, and runs of kept ones
	first, firstRun uint32 // how many kept ones there are before
}

// blobbing is an op in progress.
type blobbing struct {
	*driver.MaskBlobs
	dev      *device
	stop     *stopFlag
	prepared prepared
	frame    []byte
	counts   []driver.BlobCount
	blobs    []driver.Blob
	out      []driver.BlobRun

	bits, inside, spare []uint64 // foreground, the pixels of the regions, and what a step writes
	labels              []uint32
	maps                []blobMap
	bands               []blobBand
	kept, runs          uint32 // of all regions before those at hand
	pixels              int    // of the boxes of those at hand
	mu                  sync.Mutex
}

func (d *device) maskBlobs(op *driver.MaskBlobs, stop *stopFlag) error {
	b := &blobbing{MaskBlobs: op, dev: d, stop: stop}
	im := op.Frame
	var err error
	if b.prepared, err = openPreparedFor(op.Prepared, &im, op.Row0, op.First, op.Count); err != nil {
		return err
	}
	b.frame = view(im.Data)
	b.counts, b.blobs = viewAs[driver.BlobCount](op.Counts), viewAs[driver.Blob](op.Blobs)
	b.out = viewAs[driver.BlobRun](op.Runs)
	clear(b.counts)
	words := int(blobWords(&im))
	all := viewAs[uint64](op.Scratch)
	b.bits = all[:words]
	all = all[words:]
	if len(op.Steps) > 0 {
		b.inside, b.spare = all[:words], all[words:2*words]
		all = all[2*words:]
	}
	behind := op.Scratch
	behind.Off += 8 * int64(len(viewAs[uint64](op.Scratch))-len(all))
	behind.Len = 4 * blobStarts * int64(words)
	b.labels = viewAs[uint32](behind)
	for i := 0; i < op.Count; {
		if i, err = b.lay(i, words); err != nil {
			return err
		}
		if err := b.batch(); err != nil {
			return err
		}
	}
	return nil
}

// lay gives regions from i on room for their bits, as many as there is room for, and returns the first that has none.
func (b *blobbing) lay(i, room int) (int, error) {
	b.maps = b.maps[:0]
	at := 0
	for ; i < b.Count; i++ {
		e := &b.prepared.regions[b.First+i]
		y0, y1 := max(int(e.Y0), b.Row0), min(int(e.Y1), b.Row0+b.Frame.Height)
		m := blobMap{region: i, at: at, x0: int(e.X0) &^ 63, y0: y0, y1: y1}
		if e.Count > 0 && y0 < y1 {
			if e.X0 < 0 || int(e.X1) > b.Frame.Width || e.X0 > e.X1 {
				return 0, errCorrupt
			}
			m.words = (int(e.X1) - m.x0 + 63) / 64
			if at+m.words*(y1-y0) > room {
				break
			}
			at += m.words * (y1 - y0)
		} else {
			m.y1 = m.y0
		}
		b.maps = append(b.maps, m)
	}
	b.bands, b.pixels = b.bands[:0], 64*at
	for k := range b.maps {
		m := &b.maps[k]
		rows := max(blobBandPixels/(64*max(m.words, 1)), 1)
		for y := m.y0; y < m.y1; y += rows {
			b.bands = append(b.bands, blobBand{blobMap: m, y0: y, y1: min(y+rows, m.y1)})
		}
	}
	return i, nil
}

// each calls f for all bands, on all threads.
func (b *blobbing) each(f func(sc *scratch, t *blobBand) error) error {
	var next atomic.Int64
	n := min(b.dev.threads, len(b.bands), 1+b.pixels/int(2*minTaskPixels))
	return b.dev.share("MaskBlobs", n, b.stop, func(sc *scratch) error {
		for {
			i := int(next.Add(1) - 1)
			if i >= len(b.bands) {
				return nil
			}
			if err := f(sc, &b.bands[i]); err != nil {
				return err
			}
		}
	})
}

// batch finds the blobs of the regions at hand.
func (b *blobbing) batch() error {
	if len(b.bands) == 0 {
		for i := range b.maps {
			c := &b.counts[b.maps[i].region]
			c.First, c.FirstRun = b.kept, b.runs
		}
		return nil
	}
	if err := b.each(b.binarise); err != nil {
		return err
	}
	for i := range b.Steps {
		step := &b.Steps[i]
		if err := b.each(func(sc *scratch, t *blobBand) error { return b.morph(sc, t, step) }); err != nil {
			return err
		}
		b.bits, b.spare = b.spare, b.bits
	}
	if err := b.each(b.label); err != nil {
		return err
	}
	if err := b.dev.share("MaskBlobs", 1, b.stop, func(sc *scratch) error {
		for k := 1; k < len(b.bands); k++ {
			if t := &b.bands[k]; t.blobMap == b.bands[k-1].blobMap {
				b.border(sc, t)
				if sc.pace.spend(20 * len(sc.blobs)) {
					return errAborted
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := b.each(b.tally); err != nil {
		return err
	}
	k := 0
	for i := range b.maps {
		c := &b.counts[b.maps[i].region]
		c.First, c.FirstRun = b.kept, b.runs
		for ; k < len(b.bands) && b.bands[k].blobMap == &b.maps[i]; k++ {
			t := &b.bands[k]
			t.first, t.firstRun = b.kept, b.runs
			c.All += t.all
			c.Kept += t.kept
			c.Runs += t.runs
			b.kept += t.kept
			b.runs += t.runs
		}
	}
	if err := b.each(b.number); err != nil {
		return err
	}
	return b.each(b.measure)
}

// row is the bits of row y.
func (m *blobMap) row(all []uint64, y int) []uint64 {
	return all[m.at+(y-m.y0)*m.words:][:m.words:m.words]
}

// rowOrNone is row, of zeros where the map has no such row.
func (m *blobMap) rowOrNone(all, none []uint64, y int) []uint64 {
	if y < m.y0 || y >= m.y1 {
		return none[:m.words]
	}
	return m.row(all, y)
}

// binarise finds the foreground of a band.
func (b *blobbing) binarise(sc *scratch, t *blobBand) error {
	spans, err := b.prepared.regionSpans(b.First + t.region)
	if err != nil {
		return err
	}
	f := b.Frame.Format
	v := newForeground(f, b.Channel, b.Ranges[t.region])
	at := search(spans, t.y0)
	for y := t.y0; y < t.y1; y++ {
		row := t.row(b.bits, y)
		clear(row)
		var inside []uint64
		if b.inside != nil {
			inside = t.row(b.inside, y)
			clear(inside)
		}
		line := b.frame[(y-b.Row0)*b.Frame.Stride:]
		for ; at < len(spans) && int(spans[at].Y) == y; at++ {
			x0, x1 := int(spans[at].X0), int(spans[at].X1)
			if x0 < t.x0 || x1 > min(t.x0+64*t.words, b.Frame.Width) || x0 >= x1 {
				return errCorrupt
			}
			v.mark(row, line, x0, x1, t.x0)
			if inside != nil {
				setBits(inside, x0-t.x0, x1-t.x0)
			}
			if sc.pace.spend(20 + (x1-x0)/4) {
				return errAborted
			}
		}
	}
	return nil
}

// setBits sets bits [from, to).
func setBits(row []uint64, from, to int) {
	for w := from >> 6; w<<6 < to; w++ {
		row[w] |= wordMask(w, from, to)
	}
}

// wordMask is the bits of word w that are in [from, to).
func wordMask(w, from, to int) uint64 {
	m := ^uint64(0)
	if lo := from - w<<6; lo > 0 {
		m <<= uint(lo)
	}
	if hi := to - w<<6; hi < 64 {
		m &= 1<<uint(hi) - 1
	}
	return m
}

// foreground tells the samples of a range from others.
type foreground struct {
	pixel, at   int // bytes of a pixel, and which of them is the sample
	wide        bool
	lo, hi      uint32
	los, his    uint64 // in each byte
	low7, high7 uint64
}

func newForeground(f driver.PixelFormat, channel int, r driver.BlobRange) foreground {
	v := foreground{pixel: f.PixelBytes(), wide: f.SampleBytes == 2, lo: uint32(r.Lo), hi: uint32(r.Hi)}
	if !v.wide {
		v.at = int(f.Order[channel])
		if v.hi = min(v.hi, 255); v.lo > 255 {
			v.lo, v.hi = 1, 0 // none
		}
	}
	if v.lo > v.hi {
		v.lo, v.hi = 1, 0
	}
	v.los, v.his = uint64(v.lo&255)*everyByte, uint64(v.hi&255)*everyByte
	v.low7, v.high7 = v.los&^highBits, v.his|highBits
	return v
}

const (
	everyByte = 0x0101_0101_0101_0101
	highBits  = 0x80 * everyByte
)

// has says whether a sample is foreground.
func (v *foreground) has(sample uint32) bool { return sample-v.lo <= v.hi-v.lo && v.lo <= v.hi }

// eight is a bit for each of eight bytes, the first in memory the lowest.
//
// A byte is at least lo where it has the high bit and lo has not, or both or neither have it and the rest is at least
// that of lo, which a subtraction tells that borrows from nothing beyond the byte.
func (v *foreground) eight(x uint64) uint64 {
	from := (x | highBits) - v.low7
	least := x&^v.los | ^(x^v.los)&from
	upto := v.high7 - x&^highBits // of hi: at least x
	most := v.his&^x | ^(x^v.his)&upto
	return ((least & most & highBits) >> 7) * 0x0102_0408_1020_4080 >> 56
}

// mark sets the bits of the pixels [x0, x1) of a line that are foreground, in a row whose first bit is column base.
func (v *foreground) mark(row []uint64, line []byte, x0, x1, base int) {
	if v.lo > v.hi {
		return
	}
	x := x0
	if v.pixel == 1 {
		for ; x < x1 && x&7 != 0; x++ {
			if v.has(uint32(line[x])) {
				row[(x-base)>>6] |= 1 << uint(x&63)
			}
		}
		for ; x+8 <= x1; x += 8 {
			row[(x-base)>>6] |= v.eight(binary.LittleEndian.Uint64(line[x:])) << uint(x&63)
		}
	}
	for ; x < x1; x++ {
		if v.has(v.sample(line, x)) {
			row[(x-base)>>6] |= 1 << uint(x&63)
		}
	}
}

// sample is that of column x.
func (v *foreground) sample(line []byte, x int) uint32 {
	if v.wide {
		return uint32(binary.LittleEndian.Uint16(line[2*x:]))
	}
	return uint32(line[x*v.pixel+v.at])
}

// rowRuns appends the runs of a row.
func (b *blobbing) rowRuns(dst []blobRun, m *blobMap, y int) []blobRun {
	row := m.row(b.bits, y)
	label := uint32(m.at+(y-m.y0)*m.words) * blobStarts
	carry, open := uint64(0), false
	for w, v := range row {
		n := uint32(0)
		for t := v ^ (v<<1 | carry); t != 0; t &= t - 1 {
			x := int32(m.x0 + w<<6 + bits.TrailingZeros64(t))
			if open {
				dst[len(dst)-1].x1 = x
			} else {
				dst = append(dst, blobRun{x0: x, label: label + n})
				n++
			}
			open = !open
		}
		carry = v >> 63
		label += blobStarts
	}
	if open {
		dst[len(dst)-1].x1 = int32(m.x0 + m.words<<6)
	}
	return dst
}

// touching calls f for the runs of two neighbouring rows that are connected.
func (b *blobbing) touching(above, below []blobRun, f func(a, b uint32)) {
	reach := int32(0)
	if b.Eight {
		reach = 1
	}
	for i, k := 0, 0; i < len(above) && k < len(below); {
		a, c := &above[i], &below[k]
		if a.x0 < c.x1+reach && c.x0 < a.x1+reach {
			f(a.label, c.label)
		}
		if a.x1 < c.x1 {
			i++
		} else {
			k++
		}
	}
}

// root is the first run of a blob.
func (b *blobbing) root(l uint32) uint32 {
	for b.labels[l] < l {
		l = b.labels[l]
	}
	return l
}

// join makes one blob of those of two runs of a band.
func (b *blobbing) join(x, y uint32) {
	if x, y = b.root(x), b.root(y); x < y {
		b.labels[y] = x
	} else {
		b.labels[x] = y
	}
}

// label labels the runs of a band: roots are those of the band, and hold its pixels.
func (b *blobbing) label(sc *scratch, t *blobBand) error {
	runs, above := sc.blobs[:0], 0
	for y := t.y0; y < t.y1; y++ {
		from := len(runs)
		runs = b.rowRuns(runs, t.blobMap, y)
		for i := range runs[from:] {
			l := runs[from+i].label
			b.labels[l] = l
		}
		b.touching(runs[above:from], runs[from:], b.join)
		if above = from; sc.pace.spend(t.words + 20*(len(runs)-from)) {
			return errAborted
		}
	}
	sc.blobs = runs
	r := b.Ranges[t.region]
	var strong foreground
	if r.Strong != 0 {
		strong = newForeground(b.Frame.Format, b.Channel, driver.BlobRange{Lo: r.StrongLo, Hi: r.StrongHi})
	}
	y := t.y0
	for i := range runs {
		u := &runs[i]
		root := u.label
		if up := b.labels[root]; up < root { // those above hold their root already
			if root = up; b.labels[up] < up {
				root = b.labels[up]
			}
			b.labels[u.label] = root
		}
		b.labels[root] += uint32(u.x1 - u.x0)
		if r.Strong == 0 || b.labels[root]&blobStrong != 0 {
			continue
		}
		for int(u.label) >= (t.at+(y+1-t.blobMap.y0)*t.words)*blobStarts {
			y++
		}
		line := b.frame[(y-b.Row0)*b.Frame.Stride:]
		for x := u.x0; x < u.x1; x++ {
			if strong.has(strong.sample(line, int(x))) {
				b.labels[root] |= blobStrong
				break
			}
		}
		if sc.pace.spend(int(u.x1-u.x0) * 2) {
			return errAborted
		}
	}
	return nil
}

// border joins the blobs of a band with those of the one above it.
func (b *blobbing) border(sc *scratch, t *blobBand) {
	runs := b.rowRuns(sc.blobs[:0], t.blobMap, t.y0-1)
	n := len(runs)
	runs = b.rowRuns(runs, t.blobMap, t.y0)
	sc.blobs = runs
	b.touching(runs[:n], runs[n:], func(x, y uint32) {
		x, y = b.root(x), b.root(y)
		if x == y {
			return
		}
		x, y = min(x, y), max(x, y)
		v, w := b.labels[x], b.labels[y]
		b.labels[x] = v + (w&blobValue - y) | (v|w)&blobStrong | blobShared
		b.labels[y] = x
	})
}

// eachRun calls f for the runs of a band with their roots.
func (b *blobbing) eachRun(sc *scratch, t *blobBand, ns int, f func(y int, u *blobRun, root uint32)) error {
	for y := t.y0; y < t.y1; y++ {
		sc.blobs = b.rowRuns(sc.blobs[:0], t.blobMap, y)
		for i := range sc.blobs {
			u := &sc.blobs[i]
			f(y, u, b.root(u.label))
		}
		if sc.pace.spend(t.words + ns*len(sc.blobs)) {
			return errAborted
		}
	}
	return nil
}

// counts says whether the blob of a root that holds pixels counts, and whether it is kept.
func (b *blobbing) counted(t *blobBand, root uint32) (counts, kept bool) {
	v := b.labels[root]
	if b.Ranges[t.region].Strong != 0 && v&blobStrong == 0 {
		return false, false
	}
	return true, v&blobValue-root >= b.MinCount
}

// tally counts the blobs that begin in a band, and the runs in it of those that are kept.
func (b *blobbing) tally(sc *scratch, t *blobBand) error {
	return b.eachRun(sc, t, 5, func(_ int, u *blobRun, root uint32) {
		counts, kept := b.counted(t, root)
		if kept {
			t.runs++
		}
		if root == u.label && counts {
			t.all++
			if kept {
				t.kept++
			}
		}
	})
}

// number numbers the blobs that begin in a band.
func (b *blobbing) number(sc *scratch, t *blobBand) error {
	n := t.first
	for y := t.y0; y < t.y1; y++ {
		sc.blobs = b.rowRuns(sc.blobs[:0], t.blobMap, y)
		for i := range sc.blobs {
			u := &sc.blobs[i]
			if b.labels[u.label] < u.label {
				continue
			}
			if _, kept := b.counted(t, u.label); !kept {
				b.labels[u.label] = blobNumbered | blobDropped
				continue
			}
			b.labels[u.label] = blobNumbered | b.labels[u.label]&blobShared | n
			if int(n) < len(b.blobs) {
				b.blobs[n] = driver.Blob{Region: uint32(b.First + t.region), First: uint32(y*b.Frame.Width) +
					uint32(u.x0), X0: math.MaxUint32, Y0: math.MaxUint32, Min: math.MaxUint32}
			}
			n++
		}
		if sc.pace.spend(t.words + 10*len(sc.blobs)) {
			return errAborted
		}
	}
	return nil
}

// measure adds the runs of a band to their blobs, and writes them to the results.
func (b *blobbing) measure(sc *scratch, t *blobBand) error {
	n := int(t.firstRun)
	none := make([]uint64, t.words)
	v := newForeground(b.Frame.Format, b.Channel, driver.BlobRange{})
	return b.eachRun(sc, t, 50, func(y int, u *blobRun, root uint32) {
		l := b.labels[root]
		blob := l & blobValue
		if blob == blobDropped {
			return
		}
		if n < len(b.out) {
			b.out[n] = driver.BlobRun{Y: uint32(y), X0: uint32(u.x0), X1: uint32(u.x1), Blob: blob}
		}
		if n++; int(blob) >= len(b.blobs) {
			return
		}
		var o driver.Blob
		b.outline(&o, t.blobMap, none, y, u)
		b.samples(&o, sc, &v, b.frame[(y-b.Row0)*b.Frame.Stride:], int(u.x0), int(u.x1))
		x0, k := uint64(u.x0), uint64(u.x1-u.x0)
		first, row := k*(k-1)/2, uint64(y) // sums of columns and their squares, counted from x0
		o.Count, o.SumX, o.SumY = k, k*x0+first, k*row
		o.SumXX = k*x0*x0 + 2*x0*first + first*(2*k-1)/3
		o.SumXY, o.SumYY = row*o.SumX, row*o.SumY
		o.X0, o.X1, o.Y0, o.Y1 = uint32(u.x0), uint32(u.x1), uint32(y), uint32(y+1)
		if l&blobShared != 0 {
			b.mu.Lock()
			defer b.mu.Unlock()
		}
		addBlob(&b.blobs[blob], &o)
	})
}

// addBlob adds one part of a blob to another.
func addBlob(to, o *driver.Blob) {
	to.Count += o.Count
	to.SumX += o.SumX
	to.SumY += o.SumY
	to.SumXX += o.SumXX
	to.SumXY += o.SumXY
	to.SumYY += o.SumYY
	to.Sum += o.Sum
	to.SumSq += o.SumSq
	to.Min, to.Max = min(to.Min, o.Min), max(to.Max, o.Max)
	to.X0, to.Y0 = min(to.X0, o.X0), min(to.Y0, o.Y0)
	to.X1, to.Y1 = max(to.X1, o.X1), max(to.Y1, o.Y1)
	to.SidesX += o.SidesX
	to.SidesY += o.SidesY
	to.Convex += o.Convex
	to.Concave += o.Concave
}

// outline counts the sides and corners of a run.
func (b *blobbing) outline(o *driver.Blob, m *blobMap, none []uint64, y int, u *blobRun) {
	at, above, below := m.row(b.bits, y), m.rowOrNone(b.bits, none, y-1), m.rowOrNone(b.bits, none, y+1)
	from, to := int(u.x0)-m.x0, int(u.x1)-m.x0
	faced := ^uint64(0) // corners with foreground across alone are concave with Eight, else convex
	if !b.Eight {
		faced = 0
	}
	o.SidesX = 2
	for w := from >> 6; w<<6 < to; w++ {
		mask := wordMask(w, from, to)
		r := newNeighbours(at, w)
		for _, side := range [2]neighbours{newNeighbours(above, w), newNeighbours(below, w)} {
			o.SidesY += uint32(bits.OnesCount64(mask &^ side.at))
			for _, c := range [2][2]uint64{{r.left, side.left}, {r.right, side.right}} {
				beside, across := c[0], c[1]
				alone := mask &^ beside &^ side.at
				o.Convex += uint32(bits.OnesCount64(alone &^ (across & faced)))
				o.Concave += uint32(bits.OnesCount64(alone&across&faced | mask&beside&side.at&^across))
			}
		}
	}
}

// neighbours are a word of a row, and at each bit the one to the left, or to the right, of it.
type neighbours struct{ at, left, right uint64 }

func newNeighbours(row []uint64, w int) neighbours {
	n := neighbours{row[w], row[w] << 1, row[w] >> 1}
	if w > 0 {
		n.left |= row[w-1] >> 63
	}
	if w+1 < len(row) {
		n.right |= row[w+1] << 63
	}
	return n
}

// samples adds up those of pixels [x0, x1) of a line.
func (b *blobbing) samples(o *driver.Blob, sc *scratch, v *foreground, line []byte, x0, x1 int) {
	all := noSums
	c := &sc.reduce.packed
	for x := x0; x < x1; {
		if v.wide {
			n := min(x1-x, chunkBytes/2)
			copy(c[:2*n], line[2*x:])
			all.add(sums16(c, n))
			x += n
			continue
		}
		n := min(x1-x, chunkBytes)
		if v.pixel == 1 {
			copy(c[:n], line[x:])
		} else {
			for i := range n {
				c[i] = line[(x+i)*v.pixel+v.at]
			}
		}
		all.add(sums8(c, 0, n))
		x += n
	}
	o.Sum, o.SumSq, o.Min, o.Max = all.sum, all.sumSq, uint32(all.least), uint32(all.most)
}

// morph does a step for a band: from bits to spare.
//
// To erode is to dilate the background of the region.
func (b *blobbing) morph(sc *scratch, t *blobBand, step *driver.BlobStep) error {
	flip := uint64(0)
	if step.Erode {
		flip = ^uint64(0)
	}
	reach := len(step.Half) - 1
	for y := t.y0; y < t.y1; y++ {
		to := t.row(b.spare, y)
		clear(to)
		for dy := max(-reach, t.blobMap.y0-y); dy <= min(reach, t.blobMap.y1-1-y); dy++ {
			half := uint(step.Half[max(dy, -dy)])
			from, inside := t.row(b.bits, y+dy), t.row(b.inside, y+dy)
			var before, at uint64
			next := (from[0] ^ flip) & inside[0]
			for w := range to {
				before, at, next = at, next, 0
				if w+1 < len(from) {
					next = (from[w+1] ^ flip) & inside[w+1]
				}
				to[w] |= spread(before, at, next, half)
			}
			if sc.pace.spend(10 * len(to)) {
				return errAborted
			}
		}
		inside := t.row(b.inside, y)
		for w := range to {
			to[w] = (to[w] ^ flip) & inside[w]
		}
	}
	return nil
}

// spread sets each bit of a word that has one set up to half bits away, half < 64, with the words before and behind it.
func spread(before, at, next uint64, half uint) uint64 {
	out := at
	up, down := at, at // the words whose bits come from lower, and from higher ones
	low, high := before, next
	for left, n := half, uint(1); left > 0; n *= 2 {
		n = min(n, left)
		up, low = up|up<<n|low>>(64-n), low|low<<n
		down, high = down|down>>n|high<<(64-n), high|high>>n
		left -= n
	}
	return out | up | down
}
