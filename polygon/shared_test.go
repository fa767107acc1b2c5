// Real frames and polygons with exact results, where they are present.

package polygon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// sharedFile finds a file of the shared data, or skips.
func sharedFile(t testing.TB, name ...string) string {
	t.Helper()
	root := os.Getenv("POLYSCAN_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(append([]string{root, "data"}, name...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared data (set POLYSCAN_SHARED to the folder that holds data/): %v", err)
	}
	return path
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func ringsOf(rings [][][2]float64) (out []Ring) {
	for _, r := range rings {
		ring := make(Ring, len(r))
		for i, p := range r {
			ring[i] = Point{p[0], p[1]}
		}
		out = append(out, ring)
	}
	return out
}

type sharedSet struct {
	regions       []Region
	width, height int
	sizes         [][2]int
}

// sharedPolygons reads a file of polygons on one frame.
func sharedPolygons(t testing.TB, name string) (s sharedSet) {
	t.Helper()
	var list []struct {
		Name          string
		Width, Height int
		Rings         [][][2]float64
	}
	readJSON(t, sharedFile(t, "polygons", name), &list)
	for _, p := range list {
		s.regions = append(s.regions, Region{Name: p.Name, Rings: ringsOf(p.Rings)})
		s.width, s.height = max(s.width, p.Width), max(s.height, p.Height)
		s.sizes = append(s.sizes, [2]int{p.Width, p.Height})
	}
	return s
}

// sharedFrame reads a gray picture.
func sharedFrame(t testing.TB, name ...string) kernels.Picture {
	t.Helper()
	f, err := os.Open(sharedFile(t, name...))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		t.Fatalf("%v: %v", name, err)
	}
	b := img.Bounds()
	data := make([]byte, 0, b.Dx()*b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			data = append(data, color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y)
		}
	}
	return kernels.Picture{Width: b.Dx(), Height: b.Dy(), Format: driver.Gray8, Data: [][]byte{data}}
}

// TestOracleSample compares with results that were computed elsewhere, in exact arithmetic.
func TestOracleSample(t *testing.T) {
	race.Skip(t)
	var file struct {
		Cases []struct {
			Name     string
			Frame    string
			Rings    [][][2]float64
			RingsQ8  [][][2]int32 `json:"rings_q8"`
			Expected struct {
				MaskSHA256   string  `json:"mask_sha256"`
				MaskBBox     *[4]int `json:"mask_bbox"`
				CountEvenOdd uint64  `json:"count_evenodd"`
				Channels     []struct {
					Count, Sum, SumSq      uint64
					Min, Max, Mode         *uint32
					Unique                 uint32
					Mean, Variance, StdDev *float64
					Nearest                map[string]*float64 `json:"percentile_nearest_rank"`
					Linear                 map[string]*float64 `json:"percentile_linear"`
					MinLoc                 *[2]int             `json:"min_loc"`
					MaxLoc                 *[2]int             `json:"max_loc"`
					Hist                   []uint64
				}
			}
		}
	}
	readJSON(t, sharedFile(t, "oracle_sample", "cases.json"), &file)
	if len(file.Cases) < 12 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	dev := openCPU(t, kernels.Config{})
	ctx := context.Background()
	frames := map[string]kernels.Picture{}
	for _, c := range file.Cases {
		f, ok := frames[c.Frame]
		if !ok {
			f = sharedFrame(t, "oracle_sample", "frames", c.Frame+".png")
			frames[c.Frame] = f
		}
		set := mustSet(t, Region{Name: c.Name, Rings: ringsOf(c.Rings)})
		odd := mustSet(t, Region{Name: c.Name, Rings: ringsOf(c.Rings), Fill: EvenOdd})
		want := c.Expected
		k := 0
		for _, ring := range c.RingsQ8 {
			for i, p := range ring {
				q := ring[(i+len(ring)-1)%len(ring)]
				if p == q {
					continue
				}
				if e := set.edges[k]; e != (driver.Edge{X0: q[0], Y0: q[1], X1: p[0], Y1: p[1]}) {
					t.Fatalf("%s: edge %d is %v, want %v to %v", c.Name, k, e, q, p)
				}
				k++
			}
		}
		for _, m := range methods {
			if (testing.Short() || race.Enabled) && (m == driver.Naive || m == driver.Tiled) && f.Width > 100 {
				continue // 10^9 tests of a pixel against an edge
			}
			name := fmt.Sprintf("%s, %v", c.Name, m)
			mask, err := Rasterize(ctx, dev, set, f.Width, f.Height, driver.RasterMask, m)
			if err != nil {
				t.Fatal(err)
			}
			ones := make([]byte, len(mask.Data[0]))
			for i, v := range mask.Data[0] {
				ones[i] = v & 1
			}
			if sum := sha256.Sum256(ones); hex.EncodeToString(sum[:]) != want.MaskSHA256 {
				t.Errorf("%s: the mask differs", name)
			}
			if m != driver.Naive || f.Width < 600 { // seconds
				eo, err := Reduce(ctx, dev, odd, f, Reductions{Statistics: Count}, m)
				if err != nil {
					t.Fatal(err)
				}
				if n := eo.Regions[0].Count; n != want.CountEvenOdd {
					t.Errorf("%s: %d pixels by even-odd, want %d", name, n, want.CountEvenOdd)
				}
			}
			prepared, err := set.Prepare(ctx, dev, f.Width, f.Height, m)
			if err != nil {
				t.Fatal(err)
			}
			defer prepared.Close()
			for _, method := range []PercentileMethod{NearestRank, Linear} {
				res, err := prepared.Reduce(ctx, f, Reductions{Statistics: AllStatistics, PercentileMethod: method})
				if err != nil {
					t.Fatal(err)
				}
				r := res.Regions[0]
				if w := want.MaskBBox; w == nil != r.Bounds.Empty() || w != nil &&
					r.Bounds != (Rect{w[0], w[1], w[2], w[3]}) {
					t.Errorf("%s: bounds %v, want %v", name, r.Bounds, w)
				}
				for i, w := range want.Channels {
					g := r.Channels[i]
					if g.Count != w.Count || r.Count != w.Count || g.Sum != w.Sum || g.SumOfSquares != w.SumSq ||
						g.Distinct != w.Unique {
						t.Errorf("%s: count %d, sum %d, sum of squares %d, distinct %d; want %+v", name, g.Count, g.Sum,
							g.SumOfSquares, g.Distinct, w)
					}
					if !slices.Equal(g.Histogram.Counts, w.Hist) && len(w.Hist) > 0 {
						t.Errorf("%s: histogram %v, want %v", name, g.Histogram.Counts, w.Hist)
					}
					if w.Count == 0 {
						if g.Has&^(Count|Sum|SumOfSquares|Distinct|Histogram|Cumulative) != 0 || w.Mean != nil ||
							w.Min != nil {
							t.Errorf("%s: has %v without pixels", name, g.Has)
						}
						continue
					}
					// The sample's stddev is the root of the rounded variance, which is a unit off now and then.
					if g.Mean != *w.Mean || g.Variance != *w.Variance || math.Sqrt(g.Variance) != *w.StdDev {
						t.Errorf("%s: mean %v, variance %v, its root %v; want %v, %v, %v", name, g.Mean, g.Variance,
							math.Sqrt(g.Variance), *w.Mean, *w.Variance, *w.StdDev)
					}
					n, sum, sumSq := ratio(int64(w.Count), 1), ratio(int64(w.Sum), 1), ratio(int64(w.SumSq), 1)
					v := sumSq.Sub(sumSq.Quo(sumSq, n), sum.Mul(sum.Quo(sum, n), sum))
					root := new(big.Float).SetPrec(300).SetRat(v)
					if s, _ := root.Sqrt(root).Float64(); g.StdDev != s {
						t.Errorf("%s: stddev %v, want %v", name, g.StdDev, s)
					}
					if g.Min != *w.Min || g.Max != *w.Max || g.Mode != *w.Mode ||
						g.MinAt != (Position{w.MinLoc[0], w.MinLoc[1]}) ||
						g.MaxAt != (Position{w.MaxLoc[0], w.MaxLoc[1]}) {
						t.Errorf("%s: min %d at %v, max %d at %v, mode %d; want %d at %v, %d at %v, %d", name,
							g.Min, g.MinAt, g.Max, g.MaxAt, g.Mode, *w.Min, *w.MinLoc, *w.Max, *w.MaxLoc, *w.Mode)
					}
					table := w.Nearest
					if method == Linear {
						table = w.Linear
					}
					if len(table) != len(g.Percentiles) {
						t.Errorf("%s: %d percentiles, want %d", name, len(g.Percentiles), len(table))
					}
					for _, p := range g.Percentiles {
						if v := table[strconv.FormatFloat(p.Percentile, 'g', -1, 64)]; v == nil || *v != p.Value {
							t.Errorf("%s: p%v %v = %v, want %v", name, p.Percentile, method, p.Value, table)
						}
					}
				}
			}
		}
	}
}

// TestSharedPolygons: all methods draw the same pixels of real polygons, as many as they count, inside the bounds that
// the host finds; and a handful of rows agree with the oracle.
func TestSharedPolygons(t *testing.T) {
	for _, name := range []string{"world110m_4096x2048.json", "us_states_albers_4096x2562.json",
		"countries50m_fit.json", "glyphs_shared.json", "defect_contours.json"} {
		t.Run(name, func(t *testing.T) {
			s := sharedPolygons(t, name)
			set := mustSet(t, s.regions...)
			dev := openCPU(t, kernels.Config{MemoryBytes: 512 << 20})
			ctx := context.Background()
			draw := func(set *Set, scale int, m driver.Method) *Raster {
				r, err := Rasterize(ctx, dev, set, s.width/scale, s.height/scale, driver.RasterLabels, m)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			first := draw(set, 1, driver.RowSpans)
			// NAIVE takes up to 10^11 tests of a pixel against an edge at full size, and TILED half of that.
			scale := max(1, s.width/2048)
			if name == "countries50m_fit.json" {
				scale = 8
			}
			if testing.Short() {
				scale *= 4
			}
			if race.Enabled {
				scale *= 4
			}
			var small []Region
			for _, r := range s.regions {
				to := Region{Name: r.Name}
				for _, ring := range r.Rings {
					half := make(Ring, len(ring))
					for i, p := range ring {
						half[i] = Point{p.X / float64(scale), p.Y / float64(scale)}
					}
					to.Rings = append(to.Rings, half)
				}
				small = append(small, to)
			}
			smallSet := mustSet(t, small...)
			firstSmall := draw(smallSet, scale, driver.RowSpans)
			for _, m := range []driver.Method{driver.Naive, driver.Tiled, driver.EdgeFiltered,
				driver.TiledEdgeFiltered} {
				slow := m == driver.EdgeFiltered && s.width > 2048
				if race.Enabled && slow {
					continue
				}
				r, want := (*Raster)(nil), first
				if m == driver.Naive || m == driver.Tiled || testing.Short() && slow {
					r, want = draw(smallSet, scale, m), firstSmall
				} else {
					r = draw(set, 1, m)
				}
				if !slices.Equal(r.Data[0], want.Data[0]) || !slices.Equal(r.Counts, want.Counts) {
					t.Errorf("%v and %v differ", m, want.Method)
				}
			}
			for i := range s.regions {
				b, _ := boundsOf(set.edgesOf(i), set.regions[i].Fill, set.boxes[i], s.width, s.height, nil)
				swept, n := Rect{X0: s.width, Y0: s.height}, uint64(0)
				sweep(set.edgesOf(i), 0, s.height, func(y int, turns []turn) bool {
					spans(turns, set.regions[i].Fill, func(x0, x1 int) {
						x0, x1 = max(x0, 0), min(x1, s.width)
						if x0 < x1 {
							swept = Rect{min(swept.X0, x0), min(swept.Y0, y), max(swept.X1, x1), y + 1}
							n += uint64(x1 - x0)
						}
					})
					return true
				})
				if b != swept && !(b.Empty() && swept.Empty()) || n != first.Counts[i] {
					t.Errorf("%s: bounds %v, swept %v; %d pixels, swept %d", s.regions[i].Name, b, swept,
						first.Counts[i], n)
				}
			}
			// One region's rows against the oracle, around its vertices.
			for i := 0; i < len(s.regions); i += 1 + len(s.regions)/5 {
				one, err := Rasterize(context.Background(), dev, mustSet(t, s.regions[i]), s.width, s.height,
					driver.RasterMask, driver.MethodDefault)
				if err != nil {
					t.Fatal(err)
				}
				rings := oracleRings(s.regions[i])
				for k := range 4 {
					ring := s.regions[i].Rings[0]
					y := int(ring[k*len(ring)/4].Y)
					if y < 0 || y >= s.height {
						continue
					}
					for x, in := range oracleRow(rings, NonZero, y, 0, s.width) {
						if (one.Data[0][y*s.width+x] == 255) != in {
							t.Fatalf("%s: pixel (%d, %d) is %d, want %v", s.regions[i].Name, x, y,
								one.Data[0][y*s.width+x], in)
						}
					}
				}
			}
		})
	}
}

// TestStatesPartition: neighbours share their borders, so no pixel is owned twice, and none is missed between them.
func TestStatesPartition(t *testing.T) {
	s := sharedPolygons(t, "us_states_albers_4096x2562.json")
	dev := openCPU(t, kernels.Config{})
	set := mustSet(t, s.regions...)
	all := Region{}
	for _, r := range s.regions {
		all.Rings = append(all.Rings, r.Rings...)
	}
	// Under even-odd, the shared borders of two states cancel: what is left is the union as its outline has it.
	ctx := context.Background()
	each, err := Rasterize(ctx, dev, set, s.width, s.height, driver.RasterMask, driver.MethodDefault)
	if err != nil {
		t.Fatal(err)
	}
	var sum, drawn uint64
	for _, n := range each.Counts {
		sum += n
	}
	for _, v := range each.Data[0] {
		drawn += uint64(v & 1)
	}
	if sum != drawn {
		t.Errorf("%d pixels are owned by more than one state", sum-drawn)
	}
	for _, fill := range []FillRule{EvenOdd, NonZero} {
		all.Fill = fill
		union, err := Rasterize(ctx, dev, mustSet(t, all), s.width, s.height, driver.RasterMask, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		if union.Counts[0] != drawn || !slices.Equal(union.Data[0], each.Data[0]) {
			t.Errorf("the union by %v has %d pixels, the states %d", fill, union.Counts[0], drawn)
		}
	}
}

// TestSharedCorrelations compares correlations of real boards, with their golden pictures, with sums over all pixels,
// and looks at what they should say: the first board resembles its golden picture most where that lies. The other one
// and its picture are some pixels apart.
func TestSharedCorrelations(t *testing.T) {
	dev := openCPU(t, kernels.Config{MemoryBytes: 256 << 20})
	for i, name := range []string{"deeppcb_00041007", "deeppcb_12100007"} {
		board := sharedFrame(t, "images", "pcb", name+"_test.jpg")
		golden := sharedFrame(t, "images", "pcb", name+"_temp.jpg")
		w, h := float64(board.Width), float64(board.Height)
		region := Region{Name: "board", Rings: []Ring{{{w * 0.1, h * 0.2}, {w * 0.9, h * 0.05}, {w * 0.8, h * 0.95},
			{w * 0.3, h * 0.7}}},
			Limits: []string{`ncc of "golden" >= 0.8`}}
		r := Reductions{Frames: map[string]kernels.Picture{"golden": golden}, Correlations: []Correlation{
			{Kind: Framed, Frame: "golden"}, {Kind: Framed, Frame: "golden", Offset: Offset{5, -3}},
			{Kind: Lagged, Offset: Offset{8, 0}}, {Kind: Radial, Radius: 3}}}
		res, err := Reduce(context.Background(), dev, mustSet(t, region), board, r, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		mask, err := Rasterize(context.Background(), dev, mustSet(t, region), board.Width, board.Height,
			driver.RasterMask, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		inside := mask.Bytes()
		found := res.Regions[0].Channels[0].Correlations
		for _, v := range found {
			if v.Kind == Radial {
				continue
			}
			second := board
			if v.Kind == Framed {
				second = golden
			}
			var want driver.PairSums
			for y := range board.Height {
				for x := range board.Width {
					x2, y2 := x+v.Offset.DX, y+v.Offset.DY
					if x2 < 0 || y2 < 0 || x2 >= board.Width || y2 >= board.Height || inside[y*board.Width+x] == 0 ||
						inside[y2*board.Width+x2] == 0 {
						continue
					}
					a, b := uint64(board.Data[0][y*board.Width+x]), uint64(second.Data[0][y2*board.Width+x2])
					want.Pairs, want.A, want.B = want.Pairs+1, want.A+a, want.B+b
					want.SqA, want.SqB, want.Product = want.SqA+a*a, want.SqB+b*b, want.Product+a*b
				}
			}
			n := float64(want.Pairs)
			covariance := float64(want.Product)/n - float64(want.A)/n*float64(want.B)/n
			deviation := func(sum, square uint64) float64 { return math.Sqrt(float64(square)/n - float64(sum)/n*float64(sum)/n) }
			if coefficient := covariance / deviation(want.A, want.SqA) / deviation(want.B,
				want.SqB); v.Pairs != want.Pairs || v.Pairs == 0 || math.Abs(v.Covariance-covariance) > 1e-6 ||
				math.Abs(v.Coefficient-coefficient) > 1e-9 {
				t.Errorf("%s, %v: %d pairs, %v, %v; want %d, %v, %v", name, v.Correlation, v.Pairs, v.Covariance,
					v.Coefficient, want.Pairs, covariance, coefficient)
			}
		}
		if i == 0 && (found[0].Coefficient < 0.8 || found[1].Coefficient > found[0].Coefficient-0.1 ||
			res.Verdict != Pass) {
			t.Errorf("%s: with its golden picture %v, moved %v; %v", name, found[0].Coefficient, found[1].Coefficient,
				res.Verdict)
		}
		if r0, r1, r3 := found[3].Coefficient, found[4].Coefficient, found[6].Coefficient; r0 != 1 || r1 >= 1 ||
			r3 >= r1 {
			t.Errorf("%s: by distance %v, %v, ..., %v", name, r0, r1, r3)
		}
	}
}
