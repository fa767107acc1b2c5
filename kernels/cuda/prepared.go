// The layout of prepared regions in device memory, and what the host computes of them: bounds, bands, and how much room
// there has to be for items.

package cuda

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	preparedMagic   = 0x756463_6b73616d // "maskcu"
	preparedVersion = 1
)

// header is at the start of a prepared set. What follows it is, each part at a multiple of driver.Align:
//
//	regions  preparedRegion for each region
//	bands    band for each bandRows rows of a region
//	counts   uint32 for each region: its items, written by mask_prepare; by the host for a region of runs
//	edges    driver.Edge as they were given
//	prefix   uint64 for each region and one more: items of all regions before it
//	items    item, in the slots that a region says are its own; the host writes those of a region of runs, which has no
//	         bands
//
// It holds no addresses, so that a set can be moved as bytes.
type header struct {
	Magic          uint64
	Version        uint32
	Method         uint32 // driver.Method, never MethodDefault
	Width, Height  uint32
	Regions, Bands uint32
	Edges, Items   uint64 // Items: slots
	Sum            uint32 // CRC-32C of the header, with 0 here, and of the regions
	_              uint32
}

const (
	headerBytes = int64(unsafe.Sizeof(header{}))
	regionBytes = int64(unsafe.Sizeof(preparedRegion{}))
	itemBytes   = int64(unsafe.Sizeof(item(0)))

	// maxBytes bounds all sizes, so that they add up without overflow. No device has as much.
	maxBytes = 1 << 60
	// maxBands is how many blocks a grid can have.
	maxBands = math.MaxInt32
)

// parts are the offsets of a set's parts, and its size.
type parts struct{ regions, bands, counts, edges, prefix, items, bytes int64 }

func (h *header) parts() (parts, error) {
	if h.Regions > math.MaxInt32 || h.Bands > maxBands || h.Edges > math.MaxUint32 ||
		h.Items > maxBytes/2/uint64(itemBytes) {
		return parts{}, fmt.Errorf("%d regions with %d edges, %d bands of rows and up to %d runs of pixels are too "+
			"many", h.Regions, h.Edges, h.Bands, h.Items)
	}
	at := alignUp(headerBytes)
	put := func(n int64) int64 {
		off := at
		at = alignUp(at + n)
		return off
	}
	n := int64(h.Regions)
	var p parts
	p.regions = put(n * regionBytes)
	p.bands = put(int64(h.Bands) * bandBytes)
	p.counts = put(n * 4)
	p.edges = put(int64(h.Edges) * edgeBytes)
	p.prefix = put((n + 1) * 8)
	p.items = put(int64(h.Items) * itemBytes)
	p.bytes = at
	return p, nil
}

func alignUp(n int64) int64 { return (n + driver.Align - 1) &^ (driver.Align - 1) }

// scan computes the header for regions, without its sum, in time linear in the number of edges and runs. Where table is
// not nil it has an element for each region, which scan writes.
func scan(r driver.MaskRegions, width, height int, method driver.Method, table []preparedRegion) (header, error) {
	switch {
	case len(r.Regions) > math.MaxInt32:
		return header{}, fmt.Errorf("Regions.Regions: %d are more than %d", len(r.Regions), math.MaxInt32)
	case len(r.Edges) > math.MaxUint32:
		return header{}, fmt.Errorf("Regions.Edges: %d are more than %d", len(r.Edges), uint32(math.MaxUint32))
	}
	if _, _, ok := methodKernels(method); !ok {
		return header{}, fmt.Errorf("method %d: %w", method, driver.ErrNotSupported)
	}
	if method == driver.MethodDefault {
		method = driver.RowSpans
	}
	h := header{
		Magic: preparedMagic, Version: preparedVersion, Method: uint32(method),
		Width: uint32(width), Height: uint32(height),
		Regions: uint32(len(r.Regions)), Edges: uint64(len(r.Edges)),
	}
	var bands int64
	for i, g := range r.Regions {
		first, count := uint64(g.First), uint64(g.Count)
		have, what := len(r.Edges), "edges"
		if g.Fill == driver.ByRuns {
			have, what = len(r.Runs), "runs"
		}
		if first+count > uint64(have) {
			return header{}, fmt.Errorf("Regions.Regions[%d]: %s [%d, %d+%d) reach past the %d there are", i, what, first,
				first, count, have)
		}
		var p preparedRegion
		if g.Fill == driver.ByRuns {
			p = boundRuns(r.RunsOf(i), width, height)
		} else {
			p = bound(r.EdgesOf(i), width, height)
			p.Edge0 = g.First
		}
		p.Fill = uint32(g.Fill)
		p.Item0 = h.Items
		p.ItemEnd += h.Items
		h.Items = p.ItemEnd
		bands += p.bands()
		if h.Items > maxBytes/2/uint64(itemBytes) || bands > maxBands {
			return header{}, fmt.Errorf("Regions.Regions[%d]: the regions up to here have %d bands of rows and up "+
				"to %d runs of pixels, which are too many", i, bands, h.Items)
		}
		if table != nil {
			table[i] = p
		}
	}
	h.Bands = uint32(bands)
	return h, nil
}

// bound finds the rows and columns of a region within an image, and in ItemEnd how many items it has at most.
//
// Rings are closed, so that the crossings of a row with edges are even in number, and each span of pixels takes two of
// its own; and two spans don't touch, so that a row of w columns has at most (w+1)/2. An item ends where a span does or
// at a multiple of itemPixels, of which at most w/itemPixels+1 lie within w columns.
func bound(edges []driver.Edge, width, height int) preparedRegion {
	p := preparedRegion{Edges: uint32(len(edges))}
	if len(edges) == 0 {
		return p
	}
	const up = driver.Subpixel/2 - 1 // the first row centre at or below y is ceil((y-128)/256)
	h := int32(height)
	var crossings int64
	x0, y0 := int32(math.MaxInt32), int32(math.MaxInt32)
	x1, y1 := int32(math.MinInt32), int32(math.MinInt32)
	for i := range edges {
		e := &edges[i]
		top, bottom := min(e.Y0, e.Y1), max(e.Y0, e.Y1)
		x0 = min(x0, e.X0, e.X1)
		x1 = max(x1, e.X0, e.X1)
		y0 = min(y0, top)
		y1 = max(y1, bottom)
		a := max((top+up)>>driver.SubpixelBits, 0)
		b := min((bottom+up)>>driver.SubpixelBits, h)
		crossings += int64(max(b-a, 0))
	}
	clip := func(v, most int32) int32 { return min(max(v, 0), most) }
	p.X0, p.X1 = clip(x0>>driver.SubpixelBits, int32(width)), clip(x1>>driver.SubpixelBits+1, int32(width))
	p.Y0, p.Y1 = clip((y0+up)>>driver.SubpixelBits, h), clip((y1+up)>>driver.SubpixelBits, h)
	if p.X0 >= p.X1 || p.Y0 >= p.Y1 {
		p.X0, p.X1, p.Y0, p.Y1 = 0, 0, 0, 0
		return p
	}
	rows, w := int64(p.Y1-p.Y0), int64(p.X1-p.X0)
	p.ItemEnd = uint64(min(crossings/2, rows*((w+1)/2)) + rows*(w/itemPixels+1))
	return p
}

// bands is how many bands of rows a region has.
func (p *preparedRegion) bands() int64 {
	if driver.FillRule(p.Fill) == driver.ByRuns {
		return 0
	}
	return (int64(p.Y1-p.Y0) + bandRows - 1) / bandRows
}

// boundRuns is bound for a region of runs. The number of items is what it has.
func boundRuns(runs []driver.Run, width, height int) preparedRegion {
	p := preparedRegion{X0: math.MaxInt32, Y0: math.MaxInt32}
	for _, u := range runs {
		x0, x1 := max(u.X0, 0), min(u.X1, int32(width))
		if x0 >= x1 || u.Y < 0 || u.Y >= int32(height) {
			continue
		}
		p.X0, p.X1 = min(p.X0, x0), max(p.X1, x1)
		p.Y0, p.Y1 = min(p.Y0, u.Y), u.Y+1
		p.ItemEnd += uint64((x1-1)/itemPixels - x0/itemPixels + 1)
	}
	if p.ItemEnd == 0 {
		return preparedRegion{}
	}
	return p
}

// runItems makes the items of the regions that have runs. It calls put with items that lie beside each other, from a
// slot on, in the order of slots; they are in buf, which holds one at least, and valid until put returns.
func (s *set) runItems(r *driver.MaskRegions, buf []item, put func(slot uint64, items []item) error) error {
	n, slot := 0, uint64(0)
	flush := func() error {
		if n == 0 {
			return nil
		}
		err := put(slot, buf[:n])
		slot += uint64(n)
		n = 0
		return err
	}
	for i := range s.regions {
		if r.Regions[i].Fill != driver.ByRuns {
			continue
		}
		if at := s.regions[i].Item0; at != slot+uint64(n) {
			if err := flush(); err != nil {
				return err
			}
			slot = at
		}
		for _, u := range r.RunsOf(i) {
			if u.Y < 0 || u.Y >= int32(s.head.Height) {
				continue
			}
			for x, end := max(u.X0, 0), min(u.X1, int32(s.head.Width)); x < end; {
				to := min(end, (x/itemPixels+1)*itemPixels)
				if n == len(buf) {
					if err := flush(); err != nil {
						return err
					}
				}
				buf[n] = item(x) | item(u.Y)<<20 | item(to-x)<<40
				n++
				x = to
			}
		}
	}
	return flush()
}

// preparedBytes is the size of a set. It fails where no device could hold it.
func preparedBytes(r driver.MaskRegions, width, height int, method driver.Method) (int64, error) {
	h, err := scan(r, width, height, method, nil)
	if err != nil {
		return 0, err
	}
	p, err := h.parts()
	return p.bytes, err
}

// set is what the host keeps of a prepared set.
type set struct {
	head    header
	lay     parts
	regions []preparedRegion
	largest uint64 // the most slots that a region has
	runs    uint64 // slots of the regions that have runs
}

// newSet computes what the host writes of a set.
func newSet(r driver.MaskRegions, width, height int, method driver.Method) (*set, error) {
	s := &set{regions: make([]preparedRegion, len(r.Regions))}
	var err error
	if s.head, err = scan(r, width, height, method, s.regions); err != nil {
		return nil, err
	}
	if s.lay, err = s.head.parts(); err != nil {
		return nil, err
	}
	s.head.Sum = s.sum()
	s.measure()
	return s, nil
}

func (s *set) measure() {
	s.largest, s.runs = 0, 0
	for i := range s.regions {
		n := s.regions[i].ItemEnd - s.regions[i].Item0
		s.largest = max(s.largest, n)
		if driver.FillRule(s.regions[i].Fill) == driver.ByRuns {
			s.runs += n
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *set) sum() uint32 {
	h := s.head
	h.Sum = 0
	return crc32.Update(crc32.Checksum(bytesOf(unsafe.Slice(&h, 1)), castagnoli), castagnoli, bytesOf(s.regions))
}

// writeHead writes the parts before the edges: header, regions, bands, and counts, which are 0 for a region with bands.
// b has s.lay.edges bytes.
func (s *set) writeHead(b []byte) {
	clear(b)
	copy(b, bytesOf(unsafe.Slice(&s.head, 1)))
	copy(b[s.lay.regions:], bytesOf(s.regions))
	bands := valuesOf[band](b[s.lay.bands:])
	counts := valuesOf[uint32](b[s.lay.counts:])
	n := 0
	for i := range s.regions {
		if r := &s.regions[i]; driver.FillRule(r.Fill) == driver.ByRuns {
			counts[i] = uint32(r.ItemEnd - r.Item0)
			continue
		}
		for y := s.regions[i].Y0; y < s.regions[i].Y1; y += bandRows {
			bands[n] = band{uint32(i), y}
			n++
		}
	}
}

// view is the set at an address for kernels.
func (s *set) view(base uint64) view {
	at := func(off int64) uint64 { return base + uint64(off) }
	return view{
		Edges: at(s.lay.edges), Regions: at(s.lay.regions), Bands: at(s.lay.bands),
		Counts: at(s.lay.counts), Prefix: at(s.lay.prefix), Items: at(s.lay.items),
		Width: int32(s.head.Width), Height: int32(s.head.Height), RegionCount: s.head.Regions,
	}
}

// slots is how many items regions [first, first+count) have room for.
func (s *set) slots(first, count int) uint64 {
	if count == 0 {
		return 0
	}
	return s.regions[first+count-1].ItemEnd - s.regions[first].Item0
}

// rangeOf checks the range of regions that an op asks for.
func (s *set) rangeOf(first, count int) error {
	if n := len(s.regions); first < 0 || count < 0 || first > n || count > n-first {
		return fmt.Errorf("regions [%d, %d+%d): First and Count reach past the %d that are prepared", first, first,
			count, n)
	}
	return nil
}

var errNotPrepared = errors.New("the memory of Prepared does not hold regions prepared by the cuda backend")

// openHeader reads the header of a set from the first bytes of a slice of so many.
func openHeader(b []byte, room int64) (*set, error) {
	if int64(len(b)) < headerBytes {
		return nil, errNotPrepared
	}
	s := &set{}
	copy(bytesOf(unsafe.Slice(&s.head, 1)), b)
	h := &s.head
	if h.Magic != preparedMagic || h.Version != preparedVersion ||
		driver.CheckSize("", "", int(h.Width), int(h.Height)) != nil {
		return nil, errNotPrepared
	}
	if m := driver.Method(h.Method); uint32(m) != h.Method || m == driver.MethodDefault {
		return nil, errNotPrepared
	} else if _, _, ok := methodKernels(m); !ok {
		return nil, errNotPrepared
	}
	var err error
	if s.lay, err = h.parts(); err != nil || s.lay.bytes > room {
		return nil, errNotPrepared
	}
	return s, nil
}

// setRegions takes the table of regions, after checking it against the header.
func (s *set) setRegions(b []byte) error {
	s.regions = append([]preparedRegion(nil), valuesOf[preparedRegion](b)...)
	if len(s.regions) != int(s.head.Regions) || s.sum() != s.head.Sum {
		return errNotPrepared
	}
	var items uint64
	for i := range s.regions {
		r := &s.regions[i]
		if uint64(r.Edge0)+uint64(r.Edges) > s.head.Edges || r.Item0 != items || r.ItemEnd < r.Item0 ||
			r.ItemEnd > s.head.Items ||
			r.X0 < 0 || r.X0 > r.X1 || r.X1 > int32(s.head.Width) || r.Y0 < 0 || r.Y0 > r.Y1 ||
			r.Y1 > int32(s.head.Height) {
			return errNotPrepared
		}
		items = r.ItemEnd
	}
	s.measure()
	return nil
}

// checkCounts checks the number of items of each region and their sums.
func (s *set) checkCounts(counts []uint32, prefix []uint64) error {
	if len(counts) != len(s.regions) || len(prefix) != len(s.regions)+1 || prefix[0] != 0 {
		return errNotPrepared
	}
	for i, n := range counts {
		if uint64(n) > s.regions[i].ItemEnd-s.regions[i].Item0 || prefix[i+1]-prefix[i] != uint64(n) {
			return errNotPrepared
		}
	}
	return nil
}

// itemCheck checks items as they come, from slot 0 on: those in use have to be within the image.
type itemCheck struct {
	set    *set
	counts []uint32
	region int
	slot   uint64
}

func (c *itemCheck) next(items []item) error {
	w, h := int(c.set.head.Width), int(c.set.head.Height)
	for _, it := range items {
		for c.region < len(c.counts) && c.slot >= c.set.regions[c.region].ItemEnd {
			c.region++
		}
		if c.region == len(c.counts) {
			return nil
		}
		if c.slot-c.set.regions[c.region].Item0 < uint64(c.counts[c.region]) {
			if it.n() < 1 || it.n() > itemPixels || it.x()+it.n() > w || it.y() >= h {
				return errNotPrepared
			}
		}
		c.slot++
	}
	return nil
}

// bytesOf views values as bytes, and valuesOf bytes as as many values as they hold. Host and device are little endian,
// and memory that values are read from is aligned: it starts at a multiple of driver.Align.
func bytesOf[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

func valuesOf[T any](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
