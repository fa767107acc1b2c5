package cuda

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels/driver"
)

// inside applies the crossing rule of driver.Edge to a pixel, in the plainest way. The products are exact: see
// driver.MaxCoord.
func inside(edges []driver.Edge, fill driver.FillRule, x, y int) bool {
	xc, yc := int64(x)*driver.Subpixel+driver.Subpixel/2, int64(y)*driver.Subpixel+driver.Subpixel/2
	var winding int32
	for _, e := range edges {
		sign := int32(1)
		x0, y0, x1, y1 := int64(e.X0), int64(e.Y0), int64(e.X1), int64(e.Y1)
		if y0 > y1 {
			x0, y0, x1, y1 = x1, y1, x0, y0
			sign = -1
		}
		if y0 <= yc && yc < y1 && (x0-xc)*(y1-y0)+(yc-y0)*(x1-x0) > 0 {
			winding += sign
		}
	}
	return fill.Inside(winding)
}

// find does what mask_prepare does for a region, pixel by pixel.
func find(p *devicetest.Problem, region int) []item {
	r := p.Regions.Regions[region]
	edges := p.Regions.EdgesOf(region)
	var masked []bool
	if r.Fill == driver.ByRuns {
		masked = make([]bool, p.Width*p.Height)
		for _, u := range p.Regions.RunsOf(region) {
			for x := max(u.X0, 0); x < min(u.X1, int32(p.Width)) && u.Y >= 0 && int(u.Y) < p.Height; x++ {
				masked[int(u.Y)*p.Width+int(x)] = true
			}
		}
	}
	in := func(x, y int) bool {
		if masked != nil {
			return masked[y*p.Width+x]
		}
		return inside(edges, r.Fill, x, y)
	}
	var items []item
	for y := range p.Height {
		from := -1
		for x := 0; x <= p.Width; x++ {
			in := x < p.Width && in(x, y)
			if from >= 0 && (!in || x%itemPixels == 0) {
				items = append(items, item(from|y<<20|(x-from)<<40))
				from = -1
			}
			if in && from < 0 {
				from = x
			}
		}
	}
	return items
}

// TestTables: every item lies within the bounds of its region, and there is a slot for each, for all geometry there is.
func TestTables(t *testing.T) {
	race.Skip(t)
	cases := devicetest.Cases(7, 150)
	tried := 0
	for _, c := range cases {
		p := c.Problem()
		work := 0
		for i := range p.Regions.Regions {
			work += len(p.Regions.EdgesOf(i)) * p.Width * p.Height
		}
		if work > 30e6 || c.Heavy {
			continue
		}
		tried++
		s, err := newSet(p.Regions, p.Width, p.Height, driver.Tiled)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		need, err := preparedBytes(p.Regions, p.Width, p.Height, driver.Tiled)
		if err != nil || need != s.lay.bytes {
			t.Errorf("%s: preparedBytes = %d, %v; the set has %d", c.Name, need, err, s.lay.bytes)
		}
		for i := range s.regions {
			r := &s.regions[i]
			items := find(p, i)
			if uint64(len(items)) > r.ItemEnd-r.Item0 {
				t.Errorf("%s: region %d: %d items, %d slots", c.Name, i, len(items), r.ItemEnd-r.Item0)
			}
			for _, it := range items {
				if it.x() < int(r.X0) || it.x()+it.n() > int(r.X1) || it.y() < int(r.Y0) || it.y() >= int(r.Y1) {
					t.Errorf("%s: region %d: item of %d pixels at %d, %d is outside of columns [%d, %d), rows [%d, %d)",
						c.Name, i, it.n(), it.x(), it.y(), r.X0, r.X1, r.Y0, r.Y1)
				}
			}
			of := p.Regions.Regions[i]
			if of.Fill == driver.ByRuns {
				if n := uint64(len(items)); n != r.ItemEnd-r.Item0 {
					t.Errorf("%s: region %d: %d items, %d slots, all of which runs take", c.Name, i, n, r.ItemEnd-r.Item0)
				}
				of = driver.Region{Fill: driver.ByRuns} // kernels see no edges
			}
			if r.Edge0 != of.First || r.Edges != of.Count || r.Fill != uint32(of.Fill) {
				t.Errorf("%s: region %d: %+v for %+v", c.Name, i, r, p.Regions.Regions[i])
			}
		}
		checkBands(t, c.Name, s)
		checkRunItems(t, c.Name, s, p)
	}
	if tried < 100 {
		t.Errorf("only %d of %d cases tried", tried, len(cases))
	}
}

// checkRunItems: the items of regions of runs that the host writes are those that a kernel would, in their slots,
// however small the memory is that they are made in.
func checkRunItems(t *testing.T, name string, s *set, p *devicetest.Problem) {
	t.Helper()
	want := make([]item, s.head.Items)
	for i, r := range p.Regions.Regions {
		if r.Fill == driver.ByRuns {
			copy(want[s.regions[i].Item0:], find(p, i))
		}
	}
	for _, room := range []int{1, 7, 1 << 16} {
		got := make([]item, s.head.Items)
		var n uint64
		if err := s.runItems(&p.Regions, make([]item, room), func(slot uint64, items []item) error {
			n += uint64(copy(got[slot:], items))
			return nil
		}); err != nil || n != s.runs || !slices.Equal(got, want) {
			t.Errorf("%s, %d items at a time: %v, %d of %d items, the right ones: %v", name, room, err, n, s.runs,
				slices.Equal(got, want))
		}
	}
	if s.runs > 0 {
		stopped := errors.New("stopped")
		if err := s.runItems(&p.Regions, make([]item, 1), func(uint64, []item) error { return stopped }); err != stopped {
			t.Errorf("%s: an error of put came back as %v", name, err)
		}
	}
}

// checkBands: the bands of a region cut its rows without gaps, in order.
func checkBands(t *testing.T, name string, s *set) {
	t.Helper()
	head := make([]byte, s.lay.edges)
	for i := range head {
		head[i] = 0xa5
	}
	s.writeHead(head)
	bands := valuesOf[band](head[s.lay.bands : s.lay.bands+int64(s.head.Bands)*bandBytes])
	n := 0
	counts := valuesOf[uint32](head[s.lay.counts:])
	for i, r := range s.regions {
		var count uint64
		if driver.FillRule(r.Fill) == driver.ByRuns {
			count, r.Y1 = r.ItemEnd-r.Item0, r.Y0 // no bands
		}
		if uint64(counts[i]) != count {
			t.Errorf("%s: region %d starts with %d items, want %d", name, i, counts[i], count)
		}
		for y := r.Y0; y < r.Y1; y += bandRows {
			if n >= len(bands) || bands[n] != (band{uint32(i), y}) {
				t.Fatalf("%s: band %d is not that of region %d from row %d on", name, n, i, y)
			}
			n++
		}
	}
	if n != len(bands) {
		t.Errorf("%s: %d bands, %d are needed", name, len(bands), n)
	}
}

// whole makes a finished set, as the kernels would leave it.
func whole(t *testing.T, p *devicetest.Problem) []byte {
	t.Helper()
	s, err := newSet(p.Regions, p.Width, p.Height, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, s.lay.bytes)
	s.writeHead(b[:s.lay.edges])
	copy(b[s.lay.edges:], bytesOf(p.Regions.Edges))
	counts, prefix, slots := valuesOf[uint32](b[s.lay.counts:]), valuesOf[uint64](b[s.lay.prefix:]),
		valuesOf[item](b[s.lay.items:])
	for i := range slots {
		slots[i] = ^item(0) // unused slots may hold anything
	}
	for i := range s.regions {
		items := find(p, i)
		copy(slots[s.regions[i].Item0:], items)
		counts[i] = uint32(len(items))
		prefix[i+1] = prefix[i] + uint64(len(items))
	}
	return b
}

// read opens a set as the stream does, from bytes.
func read(b []byte) (*set, error) {
	s, err := openHeader(b[:min(len(b), int(headerBytes))], int64(len(b)))
	if err != nil {
		return nil, err
	}
	n := int64(s.head.Regions)
	if err := s.setRegions(b[s.lay.regions:][:n*regionBytes]); err != nil {
		return nil, err
	}
	counts := valuesOf[uint32](b[s.lay.counts:][:n*4])
	if err := s.checkCounts(counts, valuesOf[uint64](b[s.lay.prefix:][:(n+1)*8])); err != nil {
		return nil, err
	}
	c := itemCheck{set: s, counts: counts}
	items := valuesOf[item](b[s.lay.items:][:int64(s.head.Items)*itemBytes])
	for len(items) > 0 { // in pieces
		k := min(len(items), 7)
		if err := c.next(items[:k]); err != nil {
			return nil, err
		}
		items = items[k:]
	}
	return s, nil
}

func problem(t *testing.T, name string) *devicetest.Problem {
	t.Helper()
	cases := devicetest.Cases(1, 0)
	i := slices.IndexFunc(cases, func(c devicetest.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %q", name)
	}
	return cases[i].Problem()
}

func TestReadBack(t *testing.T) {
	p := problem(t, "shape holes")
	b := whole(t, p)
	s, err := read(b)
	if err != nil {
		t.Fatalf("a whole set: %v", err)
	}
	want, err := newSet(p.Regions, p.Width, p.Height, driver.RowSpans)
	if err != nil {
		t.Fatal(err)
	}
	if s.head != want.head || s.lay != want.lay || !slices.Equal(s.regions, want.regions) || s.largest != want.largest {
		t.Errorf("read back as %+v, written as %+v", s, want)
	}
	for _, c := range []struct{ first, count, fits int }{
		{0, len(s.regions), 1}, {len(s.regions), 0, 1}, {0, 0, 1}, {1, 1, 1},
		{-1, 1, 0}, {0, -1, 0}, {0, len(s.regions) + 1, 0}, {len(s.regions), 1, 0}, {math.MaxInt, 1, 0},
		{1, math.MaxInt, 0},
	} {
		err := s.rangeOf(c.first, c.count)
		if (err == nil) != (c.fits == 1) {
			t.Errorf("regions %d+%d of %d: %v", c.first, c.count, len(s.regions), err)
		}
	}
	if n := s.slots(0, len(s.regions)); n != s.head.Items || s.slots(1, 0) != 0 || s.slots(0, 1)+
		s.slots(1, len(s.regions)-1) != n {
		t.Errorf("%d slots of %d", n, s.head.Items)
	}
	const base = 1 << 40
	if v := s.view(base); v.Regions != base+uint64(driver.Align) || v.Items != base+uint64(s.lay.items) ||
		v.Counts >= v.Edges ||
		v.Edges >= v.Prefix || v.Prefix >= v.Items || v.Bands >= v.Counts || int(v.Width) != p.Width ||
		int(v.Height) != p.Height || v.RegionCount != uint32(len(s.regions)) {
		t.Errorf("view %+v of %+v", v, s.lay)
	}
	if _, err := read(b[:len(b)-1]); !errors.Is(err, errNotPrepared) {
		t.Errorf("a slice that is too short: %v", err)
	}
	if _, err := openHeader(nil, 0); !errors.Is(err, errNotPrepared) {
		t.Errorf("nothing: %v", err)
	}
	refused := func(what string, change func([]byte)) {
		t.Helper()
		c := slices.Clone(b)
		change(c)
		if _, err := read(c); !errors.Is(err, errNotPrepared) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Any byte of the header, and of the regions.
	for i := range int(headerBytes) {
		refused("a changed header", func(b []byte) { b[i] ^= 1 })
	}
	for i := range len(s.regions) * int(regionBytes) {
		refused("a changed region", func(b []byte) { b[int(s.lay.regions)+i] ^= 0x80 })
	}
	refused("a set of garbage", func(b []byte) {
		g := seed.New(t, 1, 2)
		for i := range b {
			b[i] = byte(g.Uint32())
		}
	})
	counts := func(b []byte) []uint32 { return valuesOf[uint32](b[s.lay.counts:]) }
	prefix := func(b []byte) []uint64 { return valuesOf[uint64](b[s.lay.prefix:]) }
	items := func(b []byte) []item { return valuesOf[item](b[s.lay.items:]) }
	refused("counts that were never written", func(b []byte) { clear(b[s.lay.counts:s.lay.edges]) })
	refused("a count beyond its slots", func(b []byte) { counts(b)[0] = 1 << 20; prefix(b)[1] = 1 << 20 })
	refused("sums that don't start at 0", func(b []byte) { prefix(b)[0] = 1 })
	refused("sums that don't add up", func(b []byte) { prefix(b)[2]++ })
	for what, it := range map[string]item{
		"an item of no pixel":         item(1),
		"an item that is too long":    item((itemPixels + 1) << 40),
		"an item past the right side": item(p.Width-1) | 2<<40,
		"an item below the image":     item(p.Height<<20) | 1<<40,
	} {
		refused(what, func(b []byte) { items(b)[0] = it })
	}
	last := slices.IndexFunc(s.regions, func(r preparedRegion) bool { return r.ItemEnd == s.head.Items })
	refused("an item of the last region", func(b []byte) { items(b)[s.regions[last].Item0] = 0 })
}

func TestScanRefuses(t *testing.T) {
	edges := []driver.Edge{{X0: 0, Y0: 0, X1: 256, Y1: 256}}
	ok := driver.MaskRegions{Edges: edges, Regions: []driver.Region{{Count: 1}}}
	for _, c := range []struct {
		r             driver.MaskRegions
		width, height int
		method        driver.Method
		want          string
	}{
		{ok, 1, 1, driver.RowSpans + 1, "not supported"},
		{driver.MaskRegions{Edges: edges, Regions: []driver.Region{{First: 1, Count: 1}}}, 1, 1, 0,
			"Regions[0]"},
		{driver.MaskRegions{Edges: edges, Regions: []driver.Region{{}, {First: ^uint32(0), Count: ^uint32(0)}}},
			1, 1, 0, "Regions[1]"},
	} {
		n, err := preparedBytes(c.r, c.width, c.height, c.method)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%dx%d, method %d: %d, %v; want an error with %q", c.width, c.height, c.method, n, err, c.want)
		}
	}
	if _, err := preparedBytes(ok, 1, 1, driver.RowSpans+1); !errors.Is(err, driver.ErrNotSupported) {
		t.Errorf("%v does not match ErrNotSupported", err)
	}
}

// Sizes don't overflow, whatever the counts.
func TestPartsOverflow(t *testing.T) {
	for _, h := range []header{
		{Items: ^uint64(0)},
		{Items: 1 << 57},
		{Edges: 1 << 33},
		{Regions: 1 << 31},
		{Bands: 1 << 31},
	} {
		if p, err := h.parts(); err == nil {
			t.Errorf("%+v: %+v, no error", h, p)
		}
	}
	h := header{Regions: 1<<31 - 1, Bands: 1<<31 - 1, Edges: 1<<32 - 1, Items: 1 << 55}
	p, err := h.parts()
	if err != nil || p.bytes < 1<<58 || p.bytes > maxBytes || p.items%driver.Align != 0 {
		t.Errorf("%+v: %+v, %v", h, p, err)
	}
}

func BenchmarkScan(b *testing.B) {
	p := devicetest.Cases(1, 0)
	i := slices.IndexFunc(p, func(c devicetest.Case) bool { return c.Name == "shape ring of thousands" })
	pr := p[i].Problem()
	b.SetBytes(int64(len(pr.Regions.Edges)) * edgeBytes)
	for b.Loop() {
		if _, err := preparedBytes(pr.Regions, pr.Width, pr.Height, driver.MethodDefault); err != nil {
			b.Fatal(err)
		}
	}
}
