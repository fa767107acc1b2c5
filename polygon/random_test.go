// Random regions, frames and requests, and the comparison of all methods with the oracle over them.

package polygon

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// choices is where random cases come from: a generator, or a fuzzer's bytes.
type choices interface{ IntN(n int) int }

// byteChoices takes choices from bytes, and 0 when they have run out.
type byteChoices struct{ data []byte }

func (b *byteChoices) IntN(n int) int {
	v := 0
	for m := 1; m < n; m <<= 8 {
		if len(b.data) > 0 {
			v = v<<8 | int(b.data[0])
			b.data = b.data[1:]
		}
	}
	return v % n
}

func pick[T any](c choices, from ...T) T { return from[c.IntN(len(from))] }

// methods are all there are.
var methods = []driver.Method{driver.MethodDefault, driver.Naive, driver.Tiled, driver.EdgeFiltered,
	driver.TiledEdgeFiltered, driver.RowSpans}

// testCase is regions, a frame and a request.
type testCase struct {
	regions []Region
	frame   kernels.Picture
	request Reductions
}

func randomCase(c choices) testCase {
	t := testCase{frame: randomFrame(c)}
	for range 1 + c.IntN(3) {
		t.regions = append(t.regions, randomShape(c, t.frame.Width, t.frame.Height))
	}
	t.request = randomRequest(c, t.frame.Format)
	return t
}

// randomShape is a region of rings, or a mask.
func randomShape(c choices, w, h int) Region {
	if c.IntN(4) > 0 {
		return randomRegion(c, w, h)
	}
	r := Region{Name: "mask", Mask: []Run{}}
	share := c.IntN(5)
	x0, y0, y1 := c.IntN(2*w)-w, c.IntN(2*h)-h, c.IntN(2*h)
	for y := y0; y < y1; y++ {
		for x, n := x0, c.IntN(2*w); n > 0; n-- {
			to := x + 1 + c.IntN(3)
			if c.IntN(4) < share {
				r.Mask = append(r.Mask, Run{Y: int32(y), X0: int32(x), X1: int32(to)})
				to++
			}
			x = to
		}
	}
	switch c.IntN(8) {
	case 0:
		r.Mask = append([]Run{{Y: 1 - maxCoordinate, X0: 1 - maxCoordinate, X1: maxCoordinate}}, r.Mask...)
	case 1:
		r.Mask = append(r.Mask, Run{Y: maxCoordinate - 1, X0: int32(w), X1: int32(w) + 1})
	}
	return r
}

// randomRegion has one to three rings of one kind of coordinates each.
func randomRegion(c choices, w, h int) Region {
	r := Region{Fill: FillRule(c.IntN(2))}
	if c.IntN(2) == 0 {
		r.Name = fmt.Sprintf("region %d", c.IntN(100))
	}
	for range pick(c, 1, 1, 1, 2, 2, 3) {
		ring := randomRing(c, w, h)
		if len(r.Rings) > 0 && c.IntN(6) == 0 { // twice the winding, or none
			ring = reversed(r.Rings[0], c.IntN(2) == 0)
		}
		r.Rings = append(r.Rings, ring)
	}
	return r
}

func reversed(ring Ring, really bool) Ring {
	out := make(Ring, len(ring))
	copy(out, ring)
	if really {
		slices.Reverse(out)
	}
	return out
}

func randomRing(c choices, w, h int) Ring {
	// coordinate is somewhere around [0, n).
	grid := pick(c, 256, 256, 2, 1, 3, 8, 1024)
	half := c.IntN(2) == 0 // on pixel centres
	coordinate := func(n int) float64 {
		v := float64(c.IntN((n+6)*grid))/float64(grid) - 3
		if half && grid <= 2 {
			v = math.Floor(v) + 0.5
		}
		return v
	}
	point := func() Point { return Point{coordinate(w), coordinate(h)} }
	switch c.IntN(12) {
	case 0: // a rectangle, perhaps around the frame
		a, b := point(), point()
		return Ring{a, {b.X, a.Y}, b, {a.X, b.Y}}
	case 1: // nothing but a point or a line
		a, b := point(), point()
		return pick(c, Ring{a, a, a}, Ring{a, b, a}, Ring{a, b, b, a}, Ring{a, {a.X, b.Y}, a, {a.X, b.Y}},
			Ring{a, {b.X, a.Y}, b, {b.X, a.Y}})
	case 2: // vertices far away
		var ring Ring
		for range 3 + c.IntN(3) {
			far := pick(c, 1e3, 1e5, 4194303.99, 4194303.9999)
			ring = append(ring, pick(c, point(), Point{far, coordinate(h)}, Point{-far, coordinate(h)},
				Point{coordinate(w), far},
				Point{coordinate(w), -far}, Point{far, far}, Point{-far, -far}, Point{far, -far}, Point{-far, far}))
		}
		return ring
	case 3: // a star
		n := 5 + 2*c.IntN(3)
		m, radius := point(), 0.5+float64(c.IntN(2*max(w, h)*8))/16
		ring := make(Ring, n)
		for i := range ring {
			sin, cos := math.Sincos(2 * math.Pi * float64(i*2) / float64(n))
			ring[i] = Point{m.X + radius*cos, m.Y + radius*sin}
		}
		return ring
	case 4: // repeated and collinear vertices, spikes
		var ring Ring
		for range 3 + c.IntN(4) {
			p := point()
			switch ring = append(ring, p); c.IntN(4) {
			case 0:
				ring = append(ring, p)
			case 1:
				q := point()
				ring = append(ring, q, p)
			case 2:
				q := point()
				ring = append(ring, Point{(p.X + q.X) / 2, (p.Y + q.Y) / 2}, q)
			}
		}
		return ring
	case 5: // ties of the rounding
		var ring Ring
		for range 3 + c.IntN(4) {
			ring = append(ring, Point{(float64(c.IntN(w*256)) + 0.5) / 256, (float64(c.IntN(h*256)) + 0.5) / 256})
		}
		return ring
	}
	ring := make(Ring, 3+c.IntN(8))
	for i := range ring {
		ring[i] = point()
	}
	return ring
}

func randomFrame(c choices) kernels.Picture {
	f := kernels.Picture{
		Width:  1 + c.IntN(14),
		Height: 1 + c.IntN(12),
		Format: pick(c, driver.Gray8, driver.Gray8, driver.RGB8, driver.BGR8, driver.RGBA8, driver.Gray16(10),
			driver.Gray16(12), driver.Gray16(14), driver.Gray16(16),
			driver.PixelFormat{Channels: 2, SampleBytes: 1, Bits: 8, Order: [4]uint8{1, 0}},
			driver.PixelFormat{Channels: 4, SampleBytes: 1, Bits: 8, Order: [4]uint8{2, 1, 0, 3}}),
	}
	if c.IntN(40) == 0 {
		f.Width = pick(c, 31, 32, 33, 64, 65)
	}
	if c.IntN(40) == 0 {
		f.Height = pick(c, 31, 32, 33)
	}
	row := f.Width * f.Format.PixelBytes()
	stride := row
	if c.IntN(2) == 0 {
		stride += c.IntN(5) * int(f.Format.SampleBytes)
		f.Stride = stride
	}
	n := stride * f.Height
	if c.IntN(2) == 0 {
		n -= stride - row
	}
	data := make([]byte, n)
	most := f.Format.Levels() - 1
	var value func() int
	switch c.IntN(4) {
	case 0: // few values
		few := []int{c.IntN(most + 1), c.IntN(most + 1), c.IntN(most + 1)}
		value = func() int { return few[c.IntN(3)] }
	case 1:
		v := pick(c, 0, most, c.IntN(most+1))
		value = func() int { return v }
	case 2: // the ends
		value = func() int { return pick(c, 0, most) }
	default:
		value = func() int { return c.IntN(most + 1) }
	}
	for i := range data {
		data[i] = 0xff // gaps; for 16 bits above the limit, and nobody may look
	}
	for y := range f.Height {
		for k := 0; k < row; k += int(f.Format.SampleBytes) {
			v := value()
			data[y*stride+k] = byte(v)
			if f.Format.SampleBytes == 2 {
				data[y*stride+k+1] = byte(v >> 8)
			}
		}
	}
	for len(data) > 0 {
		k := len(data)
		if c.IntN(3) == 0 {
			k = 1 + c.IntN(k)
		}
		f.Data = append(f.Data, data[:k])
		data = data[k:]
	}
	return f
}

func randomRequest(c choices, f driver.PixelFormat) (r Reductions) {
	switch c.IntN(4) {
	case 0: // the default
	case 1:
		r.Statistics = 1 << c.IntN(bits.Len32(uint32(AllStatistics)))
	default:
		r.Statistics = Statistics(c.IntN(int(AllStatistics) + 1))
	}
	if f.Bits > 10 && c.IntN(8) != 0 {
		r.Statistics &^= Histogram | Cumulative // large
	}
	r.PercentileMethod = PercentileMethod(c.IntN(2))
	if c.IntN(2) == 0 {
		for range 1 + c.IntN(4) {
			r.Percentiles = append(r.Percentiles, pick(c, 0, 100, 50, 99.9, 0.1, 33.333333333333336, 1e-300, 12.5,
				float64(c.IntN(101)), float64(c.IntN(10001))/100))
		}
	}
	if c.IntN(2) == 0 {
		levels := float64(f.Levels())
		r.Histogram = pick(c,
			HistogramSpec{Bins: 1},
			HistogramSpec{Bins: 1 + c.IntN(300)},
			HistogramSpec{Bins: 7, Lower: 0.1, Upper: 70.1},
			HistogramSpec{Bins: 10, Lower: -3.5, Upper: levels / 3},
			HistogramSpec{Bins: 1 + c.IntN(20), Lower: levels / 2, Upper: levels * 2},
			HistogramSpec{Bins: 5, Lower: 1e-20, Upper: 1e20},
			HistogramSpec{Bins: 3, Lower: -2, Upper: -1},
			HistogramSpec{Bins: 200, Lower: 0.1, Upper: 20.1},
		)
	}
	return r
}

// TestMain has tests collect garbage a quarter as often: small regions and oracles leave much of it beside little that
// stays, and a fifth of the tests' time went there. Benchmarks have what users have.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

// openCPU opens the CPU backend, and closes it with the test, which fails if memory was left in use.
func openCPU(t testing.TB, cfg kernels.Config) *kernels.Device {
	t.Helper()
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = 64 << 20
	}
	dev, err := kernels.Open(cpu.New(cpu.Options{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func mustSet(t testing.TB, regions ...Region) *Set {
	t.Helper()
	s, err := NewSet(regions, Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// upload returns f with its pixels on the device and nowhere else. free takes them away.
func upload(ctx context.Context, dev *kernels.Device, f kernels.Picture) (_ kernels.Picture, free func(), err error) {
	data := slices.Concat(f.Data...)
	memory, err := kernels.AllocPersistent[byte](dev, len(data), "frame")
	if err != nil {
		return f, nil, err
	}
	f.Data, f.Resident = nil, memory.Buffer
	err = dev.Do(ctx, kernels.Job{Label: "upload"}, func(q *kernels.Queue) error {
		return kernels.Upload(q, memory.Buffer, data)
	})
	if err != nil {
		memory.Free()
	}
	return f, memory.Free, err
}

// checkCase reduces a case by every method, at once and prepared, and compares each result with the oracle.
func checkCase(dev *kernels.Device, tc testCase) error {
	ctx := context.Background()
	set, err := NewSet(tc.regions, Bounds{})
	if err != nil {
		return err
	}
	want := make([]oracleRegion, len(tc.regions))
	for i, r := range tc.regions {
		want[i] = oracle(r, tc.frame)
	}
	compare := func(res *Result, how string) error {
		if len(res.Regions) != len(tc.regions) {
			return fmt.Errorf("%s: %d results for %d regions", how, len(res.Regions), len(tc.regions))
		}
		for i, r := range res.Regions {
			if r.Index != i || r.Name != tc.regions[i].Name || r.Verdict != NoVerdict || r.Limits != nil {
				return fmt.Errorf("%s: region %d is %d %q %v", how, i, r.Index, r.Name, r.Verdict)
			}
			if diff := differences(r, want[i], tc.frame, tc.request); diff != nil {
				return fmt.Errorf("%s: region %d: %v", how, i, diff)
			}
		}
		return nil
	}
	for _, m := range methods {
		res, err := Reduce(ctx, dev, set, tc.frame, tc.request, m)
		if err != nil {
			return fmt.Errorf("%v: %w", m, err)
		}
		if err := compare(res, m.String()); err != nil {
			return err
		}
		if used := res.Method; used != m && (m != driver.MethodDefault || used == driver.MethodDefault) {
			return fmt.Errorf("%v: used %v", m, used)
		}
	}
	p, err := set.Prepare(ctx, dev, tc.frame.Width, tc.frame.Height, driver.MethodDefault)
	if err != nil {
		return err
	}
	defer p.Close()
	resident, free, err := upload(ctx, dev, tc.frame)
	if err != nil {
		return err
	}
	defer free()
	for pass, f := range []kernels.Picture{tc.frame, tc.frame, resident} { // the second one has the geometry from the first
		res, err := p.Reduce(ctx, f, tc.request)
		if err != nil {
			return fmt.Errorf("prepared: %w", err)
		}
		if err := compare(res, fmt.Sprintf("prepared, pass %d", pass)); err != nil {
			return err
		}
	}
	columns := tc.request
	columns.Output.Columns = true
	for range 2 { // the second one may get the memory of the first
		res, err := p.Reduce(ctx, tc.frame, columns)
		if err != nil {
			return fmt.Errorf("columns: %w", err)
		}
		rows := res.AsRows()
		if res.Release(); res.Regions != nil {
			return errors.New("columns: there are rows, too")
		}
		if err := compare(rows, "columns"); err != nil {
			return err
		}
	}
	// The mask and the labels.
	for _, m := range methods[1:] {
		mask, err := Rasterize(ctx, dev, set, tc.frame.Width, tc.frame.Height, driver.RasterMask, m)
		if err != nil {
			return err
		}
		labels, err := Rasterize(ctx, dev, set, tc.frame.Width, tc.frame.Height, driver.RasterLabels, m)
		if err != nil {
			return err
		}
		pix, err := drawMask(ctx, dev, set, tc.frame.Width, tc.frame.Height, m)
		if err != nil {
			return err
		}
		if !bytes.Equal(pix, mask.Data[0]) {
			return fmt.Errorf("%v: the mask drawn on the device is another one", m)
		}
		for i := range want {
			if mask.Counts[i] != want[i].count || labels.Counts[i] != want[i].count {
				return fmt.Errorf("%v: raster counts %d and %d pixels of region %d, want %d", m, mask.Counts[i],
					labels.Counts[i], i, want[i].count)
			}
		}
		for k := range tc.frame.Width * tc.frame.Height {
			label, in := 0, byte(0)
			for i := range want {
				if want[i].mask[k] {
					label, in = i+1, 255
				}
			}
			if got := int(labels.Data[0][2*k]) + int(labels.Data[0][2*k+1])<<8; got != label || mask.Data[0][k] != in {
				return fmt.Errorf("%v: pixel (%d, %d) has mask %d and label %d, want %d and %d", m,
					k%tc.frame.Width, k/tc.frame.Width, mask.Data[0][k], got, in, label)
			}
		}
	}
	return nil
}

// TestRandomCases compares all methods with the oracle.
func TestRandomCases(t *testing.T) {
	n := 12000
	if testing.Short() {
		n = 600
	}
	if race.Enabled {
		n /= 5
	}
	dev := openCPU(t, kernels.Config{Poison: true})
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for seed := w; seed < n && !t.Failed(); seed += workers {
				tc := randomCase(testseed.New(t, uint64(seed), 0))
				if err := checkCase(dev, tc); err != nil {
					t.Errorf("seed %d: %v\n%+v", seed, err, tc)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzReduce(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	dev := openCPU(f, kernels.Config{})
	f.Fuzz(func(t *testing.T, data []byte) {
		tc := randomCase(&byteChoices{data})
		if err := checkCase(dev, tc); err != nil {
			t.Errorf("%v\n%+v", err, tc)
		}
	})
}

// TestComparatorSeesEveryField perturbs a right answer, one field at a time, and expects the comparison to notice.
func TestComparatorSeesEveryField(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	tc := testCase{
		regions: []Region{{Name: "a", Rings: []Ring{{{1, 1}, {9, 2}, {5, 9}, {-2, 5}}}}},
		request: Reductions{Statistics: AllStatistics},
	}
	tc.frame = kernels.Picture{Width: 8, Height: 8, Format: driver.RGB8, Data: [][]byte{make([]byte, 8*8*3)}}
	for i := range tc.frame.Data[0] {
		tc.frame.Data[0][i] = byte(i * 37)
	}
	want := oracle(tc.regions[0], tc.frame)
	reduce := func() RegionResult {
		res, err := Reduce(context.Background(), dev, mustSet(t, tc.regions...), tc.frame, tc.request,
			driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		return res.Regions[0]
	}
	if diff := differences(reduce(), want, tc.frame, tc.request); diff != nil {
		t.Fatal(diff)
	}
	n := 0
	var walk func(path string, get func(*RegionResult) reflect.Value)
	walk = func(path string, get func(*RegionResult) reflect.Value) {
		fresh := reduce()
		v := get(&fresh)
		change := func(f func(reflect.Value)) {
			r := reduce()
			f(get(&r))
			n++
			if differences(r, want, tc.frame, tc.request) == nil {
				t.Errorf("a changed %s went unnoticed", path)
			}
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				switch v.Type().Field(i).Name {
				case "Index", "Name", "Verdict", "Limits", // not of the oracle's; checkCase looks at them
					"CoveredCount", "Covered", // TestCovered has an oracle of its own
					"Blobs": // which were not asked for
					continue
				}
				walk(path+"."+v.Type().Field(i).Name, func(r *RegionResult) reflect.Value { return get(r).Field(i) })
			}
		case reflect.Pointer:
			walk(path, func(r *RegionResult) reflect.Value { return get(r).Elem() })
		case reflect.Slice:
			for i := range v.Len() {
				if i < 4 {
					walk(fmt.Sprintf("%s[%d]", path, i), func(r *RegionResult) reflect.Value { return get(r).Index(i) })
				}
			}
		case reflect.Uint64, reflect.Uint32, reflect.Uint8:
			change(func(v reflect.Value) { v.SetUint(v.Uint() ^ 1) })
		case reflect.Int:
			change(func(v reflect.Value) { v.SetInt(v.Int() + 1) })
		case reflect.Float64:
			change(func(v reflect.Value) {
				if strings.HasSuffix(path, ".Entropy") { // which is no exact number
					v.SetFloat(v.Float() * (1 + 2*entropyError))
				} else {
					v.SetFloat(math.Nextafter(v.Float(), math.Inf(1)))
				}
			})
		case reflect.Bool:
			change(func(v reflect.Value) { v.SetBool(!v.Bool()) })
		default:
			t.Fatalf("%s: a %v", path, v.Kind())
		}
	}
	walk("result", func(r *RegionResult) reflect.Value { return reflect.ValueOf(r).Elem() })
	if n < 100 {
		t.Errorf("only %d fields were changed", n)
	}
}
