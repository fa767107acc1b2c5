package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/polyscan/polyscan/clients/regionfile"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func TestReduceTable(t *testing.T) {
	for _, name := range []string{"board", "metal16"} {
		args := []string{"reduce", frames + name + ".png", "--regions", frames + name + ".regions.json"}
		if name == "metal16" {
			args = append(args, "--bits", "12")
		}
		golden(t, name+".table.txt", timeless(succeed(t, args...)))
	}
}

// TestReduceColumns asks for everything, on a gray frame without limits.
func TestReduceColumns(t *testing.T) {
	regions := write(t, "regions.json",
		`[{"name":"half","rings":[[[0,0],[2,0],[2,4],[0,4]]]},{"name":"outside","rings":[[[9,9],[12,9],[12,12]]]}]`)
	raw := write(t, "frame.raw", "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10")
	got := succeed(t, "reduce", raw, "--raw", "4x4:gray8", "-r", regions, "--stats", "all", "--percentiles",
		"0,99.5,100", "--percentile-method", "linear")
	want := `
REGION   COUNT  SUM  SUM_SQ  MEAN    VAR   STD  MIN  P0  P99.5  P100  MAX
half         8   60     612  7.50  20.25  4.50    1   1  13.96    14   14
outside      0    0       0     -      -     -    -   -      -     -    -

REGION   MEDIAN  MODE  DISTINCT  SKEWNESS  KURTOSIS  ENTROPY   MAD   IQR
half       7.50     1         8      0.00      1.67     3.00  4.00  6.50
outside       -     -         0         -         -        -     -     -

REGION   PLANE.X  PLANE.Y  RESIDUAL   CENTROID  INSIDE
half      1.0000   4.0000      0.00  1.03,2.67   100 %
outside        -        -         -          -     0 %

FILE: 4x4 gray8, 2 regions
cpu row-spans, compute TIME of TIME
no limits
`
	for line := range strings.Lines(got) {
		if len(line)-1 > tableWidth {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	got = regexp.MustCompile(`(?m)^.*frame\.raw:`).ReplaceAllString(got, "FILE:") // of a long path the end is shown
	if got = "\n" + timeless(got); got != want {
		t.Errorf("got%swant%s", got, want)
	}
}

// Where no terminal is, the lines under the table have the whole path of the frame.
func TestReduceSummary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("part/", 30))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(dir, "frame.raw")
	if err := os.WriteFile(raw, make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	regions := write(t, "regions.json",
		`[{"name":"half","rings":[[[0,0],[2,0],[2,4],[0,4]]],"limits":["mean > 1"]}]`)
	got := succeed(t, "reduce", raw, "--raw", "4x4:gray16le", "--bits", "12", "-r", regions)
	for _, want := range []string{"\n" + raw + ": 4x4 gray16le (12 bits), 1 region\ncpu row-spans, compute ",
		"\nFAIL (1 of 1 region with limits)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// On one, they fit, and the file's own name stays.
	var b strings.Builder
	if err := writeSummary(&env{columns: 80}, &b, raw, &polyscanv1.FrameResult{}, 0); err != nil ||
		!strings.HasPrefix(b.String(), "\n…") || !strings.Contains(b.String(), "/frame.raw: 0x0") ||
		uniseg.StringWidth(strings.Split(b.String(), "\n")[1]) != 80 {
		t.Errorf("%v\n%s", err, &b)
	}
	for s, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "…cde", "ねじ穴": "…穴"} {
		if got := shortenLeft(s, 4); got != want {
			t.Errorf("%q is shortened to %q, want %q", s, got, want)
		}
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

var timesObject = regexp.MustCompile(`"times_ms":\{[^}]*\}`)

func TestReduceJSON(t *testing.T) {
	for name, args := range map[string][]string{
		"conveyor.json": {"reduce", frames + "conveyor/frame_007.png", "-r", frames + "conveyor/regions.json",
			"--json"},
		"board.json": {"reduce", frames + "board.png", "-r", frames + "board.regions.json", "--json", "--stats",
			"count,mean,centroid", "--bins", "4", "--range", "0,128"},
	} {
		got := succeed(t, args...)
		if strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %d lines, want one", name, strings.Count(got, "\n"))
		}
		golden(t, name, timesObject.ReplaceAllString(got, `"times_ms":{}`))
	}
}

// report is what the documentation promises of --json, and nothing else.
type report struct {
	Backend string
	Width   int
	Height  int
	Regions []struct {
		Name     string
		Coverage float64
		Channels []channelValues
	}
}

type channelValues struct {
	Count       json.Number
	Sum         json.Number
	SumSq       json.Number `json:"sum_sq"`
	Mean        *float64
	Variance    *float64
	StdDev      *float64
	Min, Max    *int
	MinAt       []int `json:"min_at"`
	MaxAt       []int `json:"max_at"`
	Median      *float64
	Mode        *int
	Distinct    *int
	Percentiles map[string]*int
	Histogram   []uint64
}

// reduceJSON runs reduce --json and decodes the result.
func reduceJSON(t *testing.T, args ...string) report {
	t.Helper()
	var r report
	d := json.NewDecoder(strings.NewReader(succeed(t, append([]string{"reduce", "--json"}, args...)...)))
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReduceJSONKeys pins names, order and nulls of what is documented.
func TestReduceJSONKeys(t *testing.T) {
	regions := write(t, "regions.json",
		`[{"name":"in","rings":[[[0,0],[2,0],[2,1],[0,1]]]},{"name":"out","rings":[[[9,9],[12,9],[12,12]]]}]`)
	raw := write(t, "frame.raw", "\x01\x02\x03\x04\x05\x06")
	got := succeed(t, "reduce", raw, "--raw", "2x1:bgr8", "-r", regions, "--json", "--bins", "2")
	zero := `"histogram":[0,0]`
	percentiles := func(v string) string {
		parts := []string{}
		for _, p := range []int{1, 5, 10, 25, 50, 75, 90, 95, 99} {
			n := v
			if v == "" { // two values: the second from above one half
				n = "LO"
				if p > 50 {
					n = "HI"
				}
			}
			parts = append(parts, fmt.Sprintf(`"%d":%s`, p, n))
		}
		return `"percentiles":{` + strings.Join(parts, ",") + `}`
	}
	channel := func(lo, hi int) string {
		s := fmt.Sprintf(`{"count":2,"sum":%d,"sum_sq":%d,"mean":%v,"variance":2.25,"stddev":1.5,"min":%d,"max":%d,`+
			`"min_at":[0,0],"max_at":[1,0],"median":%v,"mode":%d,"distinct":2,%s,"histogram":[2,0],"name":`,
			lo+hi, lo*lo+hi*hi, float64(lo+hi)/2, lo, hi, float64(lo+hi)/2, lo, percentiles(""))
		return strings.NewReplacer("LO", strconv.Itoa(lo), "HI", strconv.Itoa(hi)).Replace(s)
	}
	empty := `{"count":0,"sum":0,"sum_sq":0,"mean":null,"variance":null,"stddev":null,"min":null,"max":null,` +
		`"min_at":null,"max_at":null,"median":null,"mode":null,"distinct":0,` +
		percentiles("null") + `,` + zero + `,"name":`
	for _, want := range []string{
		`{"backend":"cpu","width":2,"height":1,"regions":[{"name":"in","channels":[`,
		channel(3, 6) + `"red"`, channel(2, 5) + `"green"`, channel(1, 4) + `"blue"`,
		`{"name":"out","channels":[` + empty + `"red"`, empty + `"green"`, empty + `"blue"`,
	} {
		i := strings.Index(got, want)
		if i < 0 {
			t.Fatalf("no\n%s\nin\n%s", want, got)
		}
		got = got[i:] // the order counts too
	}
}

// TestReduceAgainstDefinition computes the numbers of every region of the shipped frames anew, pixel by pixel and edge
// by edge, from the definitions in docs/regions.md, and compares all of them exactly.
func TestReduceAgainstDefinition(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		long bool
	}{
		{"metal", nil, false},
		{"metal16", []string{"--bits", "12"}, false},
		{"conveyor/frame_003", nil, false},
		{"board", nil, true},
		{"plank", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.long && testing.Short() {
				t.Skip("short")
			}
			regions := frames + tt.name + ".regions.json"
			if strings.Contains(tt.name, "/") {
				regions = frames + filepath.Dir(tt.name) + "/regions.json"
			}
			img := readPNG(t, frames+tt.name+".png")
			file, err := regionfile.Load(regions, regionfile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := reduceJSON(t, append([]string{frames + tt.name + ".png", "-r", regions}, tt.args...)...)
			if got.Width != img.Bounds().Dx() || got.Height != img.Bounds().Dy() ||
				len(got.Regions) != len(file.Regions) {
				t.Fatalf("%dx%d, %d regions", got.Width, got.Height, len(got.Regions))
			}
			levels := 256
			if len(tt.args) > 0 {
				levels = 4096
			}
			for i, g := range file.Regions {
				want := define(g, img, levels)
				if got.Regions[i].Name != g.Name || len(got.Regions[i].Channels) != len(want) {
					t.Fatalf("region %d is %q with %d channels, want %q with %d", i, got.Regions[i].Name,
						len(got.Regions[i].Channels), g.Name, len(want))
				}
				for c := range want {
					compareChannel(t, fmt.Sprintf("%s channel %d", g.Name, c), got.Regions[i].Channels[c], want[c])
				}
			}
		})
	}
}

func readPNG(t *testing.T, path string) image.Image {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// samples are the channels of a pixel.
func samples(img image.Image, x, y int) []int {
	switch m := img.(type) {
	case *image.Gray:
		return []int{int(m.GrayAt(x, y).Y)}
	case *image.Gray16:
		return []int{int(m.Gray16At(x, y).Y)}
	}
	c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
	return []int{int(c.R), int(c.G), int(c.B)}
}

// winding counts the edges to the right of a pixel's centre, by the crossing rule, in integers of 1/512 px.
func winding(g regionfile.Region, x, y int) int {
	cx, cy := int64(512*x+256), int64(512*y+256)
	q := func(v float64) int64 { return 2 * int64(math.RoundToEven(v*256)) }
	n := 0
	for _, ring := range g.Rings {
		for i := range ring {
			a, b := ring[i], ring[(i+1)%len(ring)]
			ax, ay, bx, by := q(a[0]), q(a[1]), q(b[0]), q(b[1])
			if !(min(ay, by) <= cy && cy < max(ay, by)) {
				continue
			}
			// cx < ax + (cy-ay)*(bx-ax)/(by-ay)
			left, right := (cx-ax)*(by-ay), (cy-ay)*(bx-ax)
			if by > ay && left < right {
				n++
			}
			if by < ay && left > right {
				n--
			}
		}
	}
	return n
}

// define computes a region's numbers from their definitions.
func define(g regionfile.Region, img image.Image, levels int) []channelValues {
	b := img.Bounds()
	x0, y0, x1, y1 := extent(g.Rings)
	box := image.Rect(int(x0)-1, int(y0)-1, int(x1)+2, int(y1)+2).Intersect(b)
	var lists [][]int
	var at [][2]int
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			w := winding(g, x, y)
			if w == 0 || g.Fill == regionfile.FillEvenOdd && w%2 == 0 {
				continue
			}
			at = append(at, [2]int{x, y})
			s := samples(img, x, y)
			if lists == nil {
				lists = make([][]int, len(s))
			}
			for c, v := range s {
				lists[c] = append(lists[c], v)
			}
		}
	}
	out := make([]channelValues, len(lists))
	for c, list := range lists {
		out[c] = defineChannel(list, at, levels)
	}
	return out
}

func defineChannel(list []int, at [][2]int, levels int) channelValues {
	n := len(list)
	var sum, sq uint64
	hist := make([]uint64, levels)
	for _, v := range list {
		sum += uint64(v)
		sq += uint64(v) * uint64(v)
		hist[v]++
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	lo, hi := sorted[0], sorted[n-1]
	first := func(v int) []int {
		p := at[slices.Index(list, v)]
		return p[:]
	}
	mode, distinct := 0, 0
	for v, k := range hist {
		if k > hist[mode] {
			mode = v
		}
		if k > 0 {
			distinct++
		}
	}
	percentiles := map[string]*int{}
	for _, p := range []int{1, 5, 10, 25, 50, 75, 90, 95, 99} {
		rank := max((p*n+99)/100, 1)
		percentiles[strconv.Itoa(p)] = &sorted[rank-1]
	}
	// Mean and variance as fractions, rounded once.
	fraction := func(a, b *big.Int) *float64 {
		f, _ := new(big.Rat).SetFrac(a, b).Float64()
		return &f
	}
	bn, bs := big.NewInt(int64(n)), new(big.Int).SetUint64(sum)
	num := new(big.Int).Mul(bn, new(big.Int).SetUint64(sq))
	num.Sub(num, new(big.Int).Mul(bs, bs))
	den := new(big.Int).Mul(bn, bn)
	dev := root(num, den)
	median := float64(sorted[(n-1)/2]+sorted[n/2]) / 2
	return channelValues{
		Count: json.Number(strconv.Itoa(n)), Sum: json.Number(strconv.FormatUint(sum, 10)),
		SumSq: json.Number(strconv.FormatUint(sq, 10)),
		Mean:  fraction(bs, bn), Variance: fraction(num, den), StdDev: &dev, Min: &lo, Max: &hi, MinAt: first(lo),
		MaxAt:  first(hi),
		Median: &median, Mode: &mode, Distinct: &distinct, Percentiles: percentiles, Histogram: hist,
	}
}

// root is the square root of a fraction, rounded once.
func root(num, den *big.Int) float64 {
	r := new(big.Float).SetPrec(300).SetRat(new(big.Rat).SetFrac(num, den))
	f, _ := r.Sqrt(r).Float64()
	return f
}

// deviation is the population standard deviation from exact sums.
func deviation(t *testing.T, count, sum, sumSq json.Number) float64 {
	t.Helper()
	integer := func(n json.Number) *big.Int {
		v, ok := new(big.Int).SetString(string(n), 10)
		if !ok {
			t.Fatalf("%q is no integer", n)
		}
		return v
	}
	n, s, q := integer(count), integer(sum), integer(sumSq)
	num := new(big.Int).Mul(n, q)
	return root(num.Sub(num, new(big.Int).Mul(s, s)), new(big.Int).Mul(n, n))
}

// compareChannel compares all fields exactly.
func compareChannel(t *testing.T, what string, got, want channelValues) {
	t.Helper()
	a, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, a, b)
	}
}

// TestCompareChannel: the comparison above must see a difference in each field.
func TestCompareChannel(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 4, 4))
	for i := range img.Pix {
		img.Pix[i] = uint8(i * i)
	}
	g := regionfile.Region{Rings: [][][2]float64{{{0, 0}, {3, 0}, {3, 3}}}}
	base := define(g, img, 256)[0]
	one, half := 1, 0.5
	for i, change := range []func(*channelValues){
		func(c *channelValues) {
			c.Count = "99"
		}, func(c *channelValues) { c.Sum = "1" }, func(c *channelValues) { c.SumSq = "1" },
		func(c *channelValues) {
			c.Mean = nil
		}, func(c *channelValues) { v := math.Nextafter(*c.Mean, 0); c.Mean = &v },
		func(c *channelValues) { c.Variance = &half }, func(c *channelValues) { c.StdDev = &half },
		func(c *channelValues) { c.Min = &one }, func(c *channelValues) { c.Max = &one },
		func(c *channelValues) { c.MinAt = []int{3, 3} }, func(c *channelValues) { c.MaxAt = nil },
		func(c *channelValues) {
			c.Median = &half
		}, func(c *channelValues) { c.Mode = &one }, func(c *channelValues) { c.Distinct = &one },
		func(c *channelValues) { c.Percentiles = map[string]*int{"1": &one} },
		func(c *channelValues) { c.Histogram = slices.Clone(c.Histogram); c.Histogram[200]++ },
	} {
		changed := base
		change(&changed)
		a, _ := json.Marshal(base)
		b, _ := json.Marshal(changed)
		if bytes.Equal(a, b) {
			t.Errorf("change %d isn't seen", i)
		}
	}
}

// TestOracle runs every case of the shared exact results through the command.
func TestOracle(t *testing.T) {
	shared := os.Getenv("POLYSCAN_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	dir := filepath.Join(shared, "data", "oracle_sample")
	text, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Skipf("no shared data: %v", err)
	}
	var file struct {
		Cases []struct {
			Name, Frame string
			Rings       [][][2]float64
			Expected    struct {
				MaskSHA      string `json:"mask_sha256"`
				CountEvenOdd int    `json:"count_evenodd"`
				Channels     []struct {
					Count       json.Number
					Sum         json.Number
					SumSq       json.Number
					Mean        *float64
					Variance    *float64
					StdDev      *float64
					Min, Max    *int
					Mode        *int
					Unique      *int
					Percentiles map[string]*int     `json:"percentile_nearest_rank"`
					Linear      map[string]*float64 `json:"percentile_linear"`
					MinLoc      []int               `json:"min_loc"`
					MaxLoc      []int               `json:"max_loc"`
					Hist        []uint64
				}
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			rings, err := json.Marshal([]regionfile.Region{{Name: c.Name, Rings: c.Rings}})
			if err != nil {
				t.Fatal(err)
			}
			regions := write(t, "regions.json", string(rings))
			frame := filepath.Join(dir, "frames", c.Frame+".png")
			got := reduceJSON(t, frame, "-r", regions)
			if len(got.Regions) != 1 || len(got.Regions[0].Channels) != len(c.Expected.Channels) {
				t.Fatalf("%+v", got)
			}
			var linear struct {
				Regions []struct {
					Channels []struct{ Percentiles map[string]*float64 }
				}
			}
			out := succeed(t, "reduce", frame, "-r", regions, "--json", "--percentile-method", "linear")
			if err := json.Unmarshal([]byte(out), &linear); err != nil {
				t.Fatal(err)
			}
			for i, e := range c.Expected.Channels {
				g := got.Regions[0].Channels[i]
				want := channelValues{Count: e.Count, Sum: e.Sum, SumSq: e.SumSq, Mean: e.Mean, Variance: e.Variance,
					StdDev: e.StdDev,
					Min:    e.Min, Max: e.Max, MinAt: e.MinLoc, MaxAt: e.MaxLoc, Mode: e.Mode, Distinct: e.Unique,
					Percentiles: e.Percentiles,
					Histogram:   e.Hist, Median: g.Median}
				if e.Count == "0" { // the file has null for all percentiles together
					if g.Median != nil {
						t.Errorf("median %v of no pixels", *g.Median)
					}
					want.Percentiles = map[string]*int{}
					for _, p := range defaultPercentiles {
						want.Percentiles[number(p)] = nil
					}
				} else if dev := deviation(t, e.Count, e.Sum, e.SumSq); math.Abs(dev-*e.StdDev) <= math.Nextafter(dev,
					math.Inf(1))-dev {
					// The file has the root of the rounded variance, which may be one unit off the rounded root.
					want.StdDev = &dev
				}
				if p, ok := e.Linear["50"]; ok && p != nil && *g.Median != *p {
					t.Errorf("median %v, want %v", *g.Median, *p)
				}
				compareChannel(t, "channel "+strconv.Itoa(i), g, want)
				for p, v := range e.Linear {
					if w := linear.Regions[0].Channels[i].Percentiles[p]; v != nil && (w == nil || *w != *v) {
						t.Errorf("linear percentile %s: %v, want %v", p, w, *v)
					}
				}
			}
			evenOdd := reduceJSON(t, frame, "-r", regions, "--fill", "evenodd")
			if n := string(evenOdd.Regions[0].Channels[0].Count); n != strconv.Itoa(c.Expected.CountEvenOdd) {
				t.Errorf("even-odd: %s pixels, want %d", n, c.Expected.CountEvenOdd)
			}
			mask := filepath.Join(t.TempDir(), "mask.png")
			_, stderr, code := polyscan(t, "mask", frame, "-r", regions, "-o", mask)
			if string(got.Regions[0].Channels[0].Count) == "0" {
				if code != exitUsage || !strings.Contains(stderr, "holds no pixel of") {
					t.Errorf("a mask without pixels: exit %d, %q", code, stderr)
				}
				return
			}
			// What lies outside is counted by the server for reduce, and by mask for the warning.
			want := ""
			if in := got.Regions[0].Coverage; in < 1 {
				want = fmt.Sprintf(": %v %% of region", min(99.9, math.Ceil(1000*(1-in))/10))
			}
			if code != exitOK || (stderr != "") != (want != "") || !strings.Contains(stderr, want) {
				t.Fatalf("exit %d, want %q\n%s", code, want, stderr)
			}
			pix := readPNG(t, mask).(*image.Gray)
			bits := make([]byte, 0, len(pix.Pix))
			for y := range pix.Rect.Dy() {
				for x := range pix.Rect.Dx() {
					bits = append(bits, pix.GrayAt(x, y).Y/255)
				}
			}
			if sum := sha256.Sum256(bits); hex.EncodeToString(sum[:]) != c.Expected.MaskSHA {
				t.Error("the mask differs")
			}
		})
	}
}

func TestReduceMethods(t *testing.T) {
	args := []string{frames + "metal.png", "-r", frames + "metal.regions.json"}
	want := reduceJSON(t, args...)
	for name := range methods {
		if got := reduceJSON(t, append(args, "--method", name, "--threads", "1")...); fmt.Sprint(got) == "" ||
			!sameReport(got, want) {
			t.Errorf("--method %s: other numbers", name)
		}
	}
	out := succeed(t, append([]string{"reduce", "--method", "tiled"}, args...)...)
	if !strings.Contains(out, "\ncpu tiled, ") {
		t.Errorf("the summary doesn't name the method:\n%s", out)
	}
}

func sameReport(a, b report) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// TestFlagsOfFormats: a flag that changes nothing of a file of its format is refused.
func TestFlagsOfFormats(t *testing.T) {
	const ring = `[[[1,1],[9,1],[9,9]]]`
	own := write(t, "own.json",
		`{"name":"r","regions":[{"name":"a","fill":"nonzero","rings":`+ring+`},{"name":"b","mask":[[1,1,2]]}]}`)
	geo := write(t, "geo.json", `{"type":"Polygon","coordinates":[[[1,1],[9,1],[9,9],[1,1]]]}`)
	labelMe := write(t, "me.json", `{"shapes":[{"label":"a","shape_type":"circle","points":[[5,5],[9,5]]}]}`)
	svg := write(t, "r.svg", `<svg xmlns="http://www.w3.org/2000/svg"><rect id="a" width="9" height="9"/></svg>`)
	for _, c := range []struct {
		file, flag, value, want string
	}{
		{own, "--tolerance", "0.5", "--tolerance has no effect on " + own + " (polyscan recipe): only SVG and LabelMe"},
		{geo, "--tolerance", "0.5", "--tolerance has no effect on " + geo + " (GeoJSON)"},
		{labelMe, "--tolerance", "0.5", ""},
		{svg, "--tolerance", "0.5", ""},
		{own, "--ignore-viewbox", "", "--ignore-viewbox has no effect on " + own + " (polyscan recipe): only SVG files"},
		{labelMe, "--ignore-viewbox", "", "--ignore-viewbox has no effect on " + labelMe + " (LabelMe)"},
		{svg, "--ignore-viewbox", "", ""},
		{own, "--fill", "evenodd", "--fill has no effect on " + own + " (polyscan recipe): no region with rings"},
		{svg, "--fill", "evenodd", "--fill has no effect on " + svg + " (SVG)"},
		{labelMe, "--fill", "evenodd", ""},
	} {
		flags := []string{c.flag}
		if c.value != "" {
			flags = append(flags, c.value)
		}
		for _, args := range [][]string{{"reduce", frames + "board.png", "-r", c.file}, {"regions", c.file},
			{"recipe", "put", "r", "--recipes", t.TempDir(), "-r", c.file}} {
			if args[0] == "regions" && c.flag == "--fill" || args[0] == "recipe" && c.flag != "--fill" {
				continue // it has no such flag
			}
			_, stderr, code := polyscan(t, append(args, flags...)...)
			if c.want == "" && code != exitOK || c.want != "" && (code != exitUsage || !strings.Contains(stderr, c.want)) {
				t.Errorf("%q %q: exit %d, %s", args, flags, code, stderr)
			}
		}
	}
}

func TestReduceFill(t *testing.T) {
	// Two squares of one direction, one in the other; the second region says its own rule.
	rings := `"rings":[[[0,0],[4,0],[4,4],[0,4]],[[1,1],[3,1],[3,3],[1,3]]]`
	regions := write(t, "r.json", `[{"name":"a",`+rings+`},{"name":"b","fill":"evenodd",`+rings+
		`},{"name":"c","fill":"nonzero",`+rings+`}]`)
	raw := write(t, "f.raw", strings.Repeat("x", 16))
	for fill, want := range map[string]string{"nonzero": "16 12 16", "evenodd": "12 12 16"} {
		r := reduceJSON(t, raw, "--raw", "4x4:gray8", "-r", regions, "--fill", fill)
		var got []string
		for _, g := range r.Regions {
			got = append(got, string(g.Channels[0].Count))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("--fill %s: counts %v, want %s", fill, got, want)
		}
	}
}

func TestReduceStdin(t *testing.T) {
	data, err := os.ReadFile(frames + "metal.png")
	if err != nil {
		t.Fatal(err)
	}
	want := reduceJSON(t, frames+"metal.png", "-r", frames+"metal.regions.json")
	stdout, stderr, code := polyscanIn(t, t.Context(), bytes.NewReader(data), "reduce", "-", "-r",
		frames+"metal.regions.json", "--json")
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || !sameReport(got, want) {
		t.Errorf("frame from standard input: exit %d, %s, %v", code, stderr, err)
	}
	regions, err := os.ReadFile(frames + "metal.regions.json")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code = polyscanIn(t, t.Context(), bytes.NewReader(regions), "reduce", frames+"metal.png", "-r", "-",
		"--json")
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || !sameReport(got, want) {
		t.Errorf("regions from standard input: exit %d, %s, %v", code, stderr, err)
	}
}

func TestFailOnReject(t *testing.T) {
	bad := []string{"reduce", frames + "board.png", "-r", frames + "board.regions.json"}
	good := []string{"reduce", frames + "conveyor/frame_000.png", "-r", frames + "conveyor/regions.json"}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{bad, exitOK}, {append(bad, "--fail-on-reject"), exitReject},
		{append(bad, "--fail-on-reject", "--json"), exitReject},
		{good, exitOK}, {append(good, "--fail-on-reject"), exitOK},
	} {
		stdout, stderr, code := polyscan(t, tt.args...)
		if code != tt.code || stderr != "" || stdout == "" {
			t.Errorf("%v: exit %d, want %d; stderr %q", tt.args, code, tt.code, stderr)
		}
	}
}

// TestWarnings: what a regions file leaves out is said, and doesn't get in the way of the numbers.
func TestWarnings(t *testing.T) {
	regions := write(t, "labelme.json", `{"version":"5","imagePath":"x.png","imageWidth":100,"imageHeight":50,"shapes":[
		{"label":"a","shape_type":"polygon","points":[[10,10],[20,10],[20,20]]},{"label":"b","shape_type":"point","points":[[1,1]]}]}`)
	stdout, stderr, code := polyscan(t, "reduce", frames+"metal.png", "-r", regions, "--json")
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil || len(r.Regions) != 1 {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "polyscan: warning: "+regions+": ") ||
		!strings.Contains(lines[0], "point") ||
		lines[1] != "polyscan: warning: "+regions+": its regions were drawn on 100x50 pixels, but "+frames+
			"metal.png has 1024x512" {
		t.Errorf("stderr %q", stderr)
	}
}

// TestDrawnOnAnotherSize: no verdict passes a frame of another size than the regions were drawn on.
func TestDrawnOnAnotherSize(t *testing.T) {
	regions := write(t, "labelme.json", `{"version":"5","imagePath":"x.png","imageWidth":100,"imageHeight":50,"shapes":[
		{"label":"a","shape_type":"polygon","points":[[10,10],[20,10],[20,20]]}]}`)
	folder := t.TempDir()
	png, err := os.ReadFile(frames + "metal.png")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "metal.png"), png, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	const why = "1024x512: the regions with limits were drawn on 100x50 pixels"
	limit := []string{"-r", regions, "--limit", "a: mean > 0.001"}
	recipes := filepath.Join(t.TempDir(), "recipes")
	own := write(t, "own.json", succeed(t, append([]string{"regions", regions}, limit[2:]...)...))
	succeed(t, append([]string{"recipe", "put", "small", "--recipes", recipes}, limit...)...)
	shown := write(t, "shown.json", succeed(t, "recipe", "get", "small", "--recipes", recipes))
	for _, judge := range [][]string{limit, {"-r", own}, {"-r", shown}, {"--recipe", "small", "--recipes", recipes}} {
		for _, command := range [][]string{{"reduce", frames + "metal.png"}, {"try", folder}, {"teach", folder}} {
			_, stderr, code := polyscan(t, append(command, judge...)...)
			if code != exitUsage || !strings.Contains(stderr, why) || !strings.Contains(stderr, "metal.png") {
				t.Errorf("%q %q: exit %d, %q", command, judge, code, stderr)
			}
		}
		_, stderr, code := polyscan(t, append([]string{"stream", folder}, judge...)...)
		if code != exitUsage || !strings.Contains(stderr, "1 of 1 frame refused") {
			t.Errorf("stream %q: exit %d, %q", judge, code, stderr)
		}
	}
	// What teach writes keeps it.
	size := strings.NewReplacer(`"width":100`, `"width":1024`, `"height":50`, `"height":512`, `"width": 100`,
		`"width": 1024`, `"height": 50`, `"height": 512`)
	drawnOn := write(t, "kept.json", size.Replace(succeed(t, "regions", regions)))
	text, _, code := polyscan(t, "teach", folder, frames+"metal.png", "-r", drawnOn, "-o", "-")
	if code != exitOK || !strings.Contains(text, "drawn_on") {
		t.Errorf("teach writes %s", text)
	}
	// Without limits nothing is judged.
	if _, stderr, code := polyscan(t, "reduce", frames+"metal.png", "-r", regions); code != exitOK ||
		!strings.Contains(stderr, "warning: "+regions+": its regions were drawn on 100x50 pixels") {
		t.Errorf("without limits: exit %d, %q", code, stderr)
	}
	// So is a later frame of a stream.
	drawn := write(t, "labelme.json", `{"version":"5","imagePath":"x.png","imageWidth":1024,"imageHeight":512,"shapes":[
		{"label":"a","shape_type":"polygon","points":[[10,10],[20,10],[20,20]]}]}`)
	args := []string{"stream", folder, "-r", drawn, "--limit", "a: mean > 0.001", "--fail-on-reject"}
	if _, stderr, code := polyscan(t, args...); code != exitOK {
		t.Errorf("exit %d, %q", code, stderr)
	}
	small, err := os.ReadFile(frames + "plank.png")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "plank.png"), small, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := polyscan(t, args...); code != exitReject {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// TestFramesOfOneSize: a later frame of another size or format is not held to the same limits in silence.
func TestFramesOfOneSize(t *testing.T) {
	folder := t.TempDir()
	for name, img := range map[string]image.Image{"a.png": image.NewGray(image.Rect(0, 0, 60, 40)),
		"b.png": image.NewGray(image.Rect(0, 0, 60, 41)), "c.png": image.NewNRGBA(image.Rect(0, 0, 60, 40))} {
		writePNG(t, filepath.Join(folder, name), img)
	}
	regions := write(t, "r.json", `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limits":["max < 200"]}]`)
	recipes := filepath.Join(t.TempDir(), "recipes")
	succeed(t, "recipe", "put", "a", "-r", regions, "--recipes", recipes)
	for _, judge := range [][]string{{"-r", regions}, {"--recipe", "a", "--recipes", recipes}} {
		args := append([]string{"stream", folder}, judge...)
		_, stderr, code := polyscan(t, args...)
		if code != exitOK || !strings.Contains(stderr, "warning: b.png: 60x41 gray8, the first frame is 60x40 gray8: ") ||
			!strings.Contains(stderr, "warning: c.png: 60x40 rgba8, the first") {
			t.Errorf("%q: exit %d, %q", judge, code, stderr)
		}
		if _, stderr, code := polyscan(t, append(args, "--fail-on-reject")...); code != exitUsage ||
			!strings.Contains(stderr, "b.png: 60x41 gray8, the first frame is 60x40 gray8: ") {
			t.Errorf("%q --fail-on-reject: exit %d, %q", judge, code, stderr)
		}
		if _, stderr, code := polyscan(t, append([]string{"try", folder}, judge...)...); code != exitUsage ||
			!strings.Contains(stderr, "/b.png: 60x41 gray8, the first frame has 60x40 gray8") {
			t.Errorf("try %q: exit %d, %q", judge, code, stderr)
		}
	}
	plain := write(t, "plain.json", `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]]}]`)
	if _, stderr, code := polyscan(t, "stream", folder, "-r", plain); code != exitOK ||
		strings.Contains(stderr, "warning") {
		t.Errorf("without limits: exit %d, %q", code, stderr)
	}
}

// TestReductionsOfFile: what a regions file asks for is what flags that say the same ask for, and what a recipe of the
// file asks for; flags take its place.
func TestReductionsOfFile(t *testing.T) {
	metal, recipes := frames+"metal.png", filepath.Join(t.TempDir(), "recipes")
	zones := `{"name":"r","regions":[{"name":"a","rings":[[[1,1],[90,1],[90,90]]],"limits":["max < 200"]}]`
	plain := write(t, "plain.json", zones+`}`)
	asks := write(t, "asks.json", zones+`,"reductions":["max","percentiles(3, 99, linear)","texture(1,0; 8 levels)",`+
		`"blobs(>= 9)","autocorrelation(2,1)"]}`)
	flags := []string{"--stats", "max", "--percentiles", "3,99", "--percentile-method", "linear", "--texture", "1,0",
		"--texture-levels", "8", "--blobs", ">= 9", "--correlate", "autocorrelation(2,1)"}
	succeed(t, "recipe", "put", "-r", asks, "--recipes", recipes)
	report := func(args ...string) (r struct{ Regions []map[string]any }) {
		t.Helper()
		if err := json.Unmarshal([]byte(succeed(t, append([]string{"reduce", metal, "--json"}, args...)...)),
			&r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := report(append(flags, "-r", plain)...)
	if got := report("-r", asks); !reflect.DeepEqual(got.Regions, want.Regions) {
		t.Errorf("the file:\n%+v\nflags:\n%+v", got.Regions, want.Regions)
	}
	if got := report("--recipe", "r", "--recipes", recipes); !reflect.DeepEqual(got.Regions, want.Regions) {
		t.Errorf("the recipe:\n%+v\nflags:\n%+v", got.Regions, want.Regions)
	}
	if got, want := report("-r", asks, "--stats", "sum"), report("-r", plain, "--stats", "sum"); !reflect.DeepEqual(
		got.Regions, want.Regions) {
		t.Errorf("flags beside the file:\n%+v\nalone:\n%+v", got.Regions, want.Regions)
	}
	rows := func(args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "x.csv")
		succeed(t, append([]string{"stream", frames + "conveyor", "-q", "--csv", file}, args...)...)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m),[0-9.]+(,[^,\n]*,[^,\n]*)$`).ReplaceAllString(string(data), "$1") // without latencies
	}
	if got, want := rows("-r", asks), rows(append(flags, "-r", plain)...); got != want {
		t.Errorf("the file:\n%s\nflags:\n%s", got, want)
	}
}
