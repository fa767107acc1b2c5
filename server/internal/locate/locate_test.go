package locate

import (
	"fmt"
	"image"
	_ "image/jpeg"
	"image/png"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/polygon"
)

func openCPU(t testing.TB) *kernels.Device {
	t.Helper()
	dev, err := kernels.Open(cpu.New(cpu.Options{Threads: 2}), kernels.Config{MemoryBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

func window(name string, x, y, half float64) polygon.Region {
	return polygon.Region{Name: name, Rings: []polygon.Ring{{{X: x - half, Y: y - half}, {X: x + half, Y: y - half},
		{X: x + half, Y: y + half}, {X: x - half, Y: y + half}}}}
}

func TestOtsu(t *testing.T) {
	rng := testseed.New(t, 19, 2)
	for range 2000 {
		counts := make([]uint64, 1+rng.IntN(40))
		for i := range counts {
			if rng.IntN(3) == 0 {
				counts[i] = uint64(rng.IntN(1000))
			}
		}
		got, low, high := otsu(counts)
		// By the definition, in fractions: all pixels below v and from v on.
		best, first, last := new(big.Rat), 0, 0
		for v := 1; v < len(counts); v++ {
			var n, sum [2]int64
			for k, c := range counts {
				side := 0
				if k >= v {
					side = 1
				}
				n[side], sum[side] = n[side]+int64(c), sum[side]+int64(c)*int64(k)
			}
			if n[0] == 0 || n[1] == 0 {
				continue
			}
			d := new(big.Rat).Sub(big.NewRat(sum[1], n[1]), big.NewRat(sum[0], n[0]))
			d.Mul(d, d).Mul(d, big.NewRat(n[0]*n[1], 1))
			if c := d.Cmp(best); c > 0 {
				best, first, last = d, v, v
			} else if c == 0 {
				last = v
			}
		}
		// Two splits with the same variance, but other pixels, may be told apart by rounding.
		if want := (first + last + 1) / 2; got != want && best.Sign() > 0 {
			t.Fatalf("%v: %d, want %d", counts, got, want)
		}
		if best.Sign() > 0 && !(low < float64(got) && high >= float64(got)-1 && low < high) {
			t.Fatalf("%v: %d between %v and %v", counts, got, low, high)
		}
	}
}

// TestFit: exact places give the pose back, and with noise no pose near it has a smaller sum of squares.
func TestFit(t *testing.T) {
	rng := testseed.New(t, 19, 3)
	sum := func(p polygon.Pose, pairs []pair) (s float64) {
		for _, q := range pairs {
			d := distance(p.To(q.from), q.to)
			s += d * d
		}
		return s
	}
	for range 500 {
		for _, model := range []Model{Translation, Similarity, Affine} {
			p := polygon.Pose{A: 1, C: rng.Float64()*50 - 25, E: 1, F: rng.Float64()*50 - 25}
			if model > Translation {
				p = polygon.NewPose(polygon.Point{X: p.C, Y: p.F}, rng.Float64()*20-10, 0.9+rng.Float64()/5, polygon.Point{X: 300, Y: 200})
			}
			if model == Affine {
				p.B += rng.Float64() / 10
				p.E -= rng.Float64() / 10
			}
			pairs := make([]pair, least[model]+rng.IntN(4))
			for i := range pairs {
				pairs[i].from = polygon.Point{X: float64(i%2)*700 + 20*rng.Float64(), Y: float64(i/2)*300 + 20*rng.Float64()}
				pairs[i].to = p.To(pairs[i].from)
			}
			got := fit(model, pairs)
			for _, at := range []polygon.Point{{}, {X: 1000}, {Y: 1000}} {
				if d := distance(got.To(at), p.To(at)); d > 1e-8 {
					t.Fatalf("model %d: %v, want %v: %v px off", model, got, p, d)
				}
			}
			for i := range pairs {
				pairs[i].to.X += rng.NormFloat64()
				pairs[i].to.Y += rng.NormFloat64()
			}
			got = fit(model, pairs)
			of := sum(got, pairs)
			for range 20 {
				near := got
				near.C, near.F = near.C+1e-3*rng.NormFloat64(), near.F+1e-3*rng.NormFloat64()
				if model > Translation {
					da, dd := 1e-5*rng.NormFloat64(), 1e-5*rng.NormFloat64()
					near.A, near.E, near.D, near.B = near.A+da, near.E+da, near.D+dd, near.B-dd
				}
				if model == Affine {
					near.B, near.E = near.B+1e-5*rng.NormFloat64(), near.E+1e-5*rng.NormFloat64()
				}
				if s := sum(near, pairs); s < of*(1-1e-12) {
					t.Fatalf("model %d: %v has %v, %v %v", model, got, of, near, s)
				}
			}
		}
	}
}

// mark is how much of a pixel's place lies on a mark about (0, 0), which a pose turns.
type mark func(x, y float64) bool

func disc(r float64) mark { return func(x, y float64) bool { return x*x+y*y < r*r } }
func square(half float64) mark {
	return func(x, y float64) bool { return max(math.Abs(x), math.Abs(y)) < half }
}
func cross(half, arm float64) mark {
	return func(x, y float64) bool {
		x, y = math.Abs(x), math.Abs(y)
		return max(x, y) < half && min(x, y) < arm
	}
}

// scene is a real frame as a camera sees it on a part with a pose, with marks painted on the part.
type scene struct {
	back  *image.Gray
	w, h  int
	marks map[polygon.Point]mark
	paint float64
}

func inverse(p polygon.Pose) polygon.Pose {
	det := p.A*p.E - p.B*p.D
	q := polygon.Pose{A: p.E / det, B: -p.B / det, D: -p.D / det, E: p.A / det}
	at := q.To(polygon.Point{X: p.C, Y: p.F})
	q.C, q.F = -at.X, -at.Y
	return q
}

// seen is the frame about places: elsewhere it is 0.
func (s *scene) seen(p polygon.Pose, half int, gain, sigma float64, rng *rand.Rand) kernels.Picture {
	data := make([]byte, s.w*s.h)
	back := inverse(p)
	sample := func(x, y float64) float64 { // bilinear, of centres
		x, y = x-0.5, y-0.5
		x0, y0 := math.Floor(x), math.Floor(y)
		at := func(x, y float64) float64 {
			return float64(s.back.GrayAt(min(max(int(x), 0), s.w-1), min(max(int(y), 0), s.h-1)).Y)
		}
		fx, fy := x-x0, y-y0
		return (1-fy)*((1-fx)*at(x0, y0)+fx*at(x0+1, y0)) + fy*((1-fx)*at(x0, y0+1)+fx*at(x0+1, y0+1))
	}
	const samples, large, clear = 64, 17, 24 // Hammersley's, so that edges along rows and columns meet all of them
	for place, m := range s.marks {
		for y := max(int(place.Y)-half, 0); y < min(int(place.Y)+half, s.h); y++ {
			for x := max(int(place.X)-half, 0); x < min(int(place.X)+half, s.w); x++ {
				to := back.To(polygon.Point{X: float64(x) + 0.5, Y: float64(y) + 0.5})
				behind, from := sample(to.X, to.Y), distance(to, place)
				if from < clear { // no copper lies around marks (IPC-7351), but what does lie there isn't even
					behind = 0.05*behind + 210 - s.paint
				}
				sum := behind * samples
				for i := uint8(0); i < samples && from < large; i++ {
					to := back.To(polygon.Point{X: float64(x) + (float64(i)+0.5)/samples,
						Y: float64(y) + (float64(bits.Reverse8(i)>>2)+0.5)/samples})
					if m(to.X-place.X, to.Y-place.Y) {
						sum += s.paint - behind
					}
				}
				v := gain*sum/samples + sigma*rng.NormFloat64()
				data[y*s.w+x] = byte(min(max(math.Round(v), 0), 255))
			}
		}
	}
	return kernels.Picture{Width: s.w, Height: s.h, Format: kernels.Gray8, Data: [][]byte{data}}
}

// sharedFrames are real frames, which are not part of the repository.
func sharedFrames(t *testing.T) (frames []*image.Gray) {
	root := os.Getenv("POLYSCAN_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared")
	}
	names, _ := filepath.Glob(filepath.Join(root, "data", "images", "pcb", "*.jpg"))
	wood, _ := filepath.Glob(filepath.Join(root, "data", "images", "surface", "*exp1*.jpg"))
	for _, name := range append(names, wood...) {
		if f := decode(t, name); f.Bounds().Dx() >= 300 && f.Bounds().Dy() >= 200 {
			frames = append(frames, f)
		}
	}
	if len(frames) == 0 {
		t.Skip("no shared data (set POLYSCAN_SHARED)")
	}
	return frames
}

func decode(t *testing.T, name string) *image.Gray {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	b := img.Bounds()
	out := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
	for y := range b.Dy() {
		for x := range b.Dx() {
			out.Set(x, y, img.At(b.Min.X+x, b.Min.Y+y))
		}
	}
	return out
}

var _ = png.Decode // the format

// TestAccuracy: on real frames with marks, warped by known poses, with noise of sigma 5 and a gain of 0.8 to 1.2, each
// part is found, at most 0.05 px and 0.02 degrees off in 95 % of the cases, and never more than 0.15 px.
func TestAccuracy(t *testing.T) {
	rng := testseed.New(t, 19, 4)
	dev := openCPU(t)
	frames := sharedFrames(t)
	forms := []struct {
		kind Kind
		of   func() mark
	}{
		{Circle, func() mark { return disc(6 + 6*rng.Float64()) }},
		{Square, func() mark { return square(5 + 5*rng.Float64()) }},
		{Cross, func() mark { return cross(9+5*rng.Float64(), 2.5+rng.Float64()) }},
	}
	const cases = 1000
	var off, posed, turned []float64
	for n := range cases {
		back := frames[n%len(frames)]
		w, h := back.Bounds().Dx(), back.Bounds().Dy()
		form := forms[n%len(forms)]
		s := scene{back: back, w: w, h: h, marks: map[polygon.Point]mark{}, paint: []float64{190, 30}[n/len(forms)%2]}
		const half = 32
		var cfg Config
		for k, at := range []polygon.Point{{X: 50, Y: 45}, {X: float64(w) - 52, Y: 47}, {X: 48, Y: float64(h) - 50},
			{X: float64(w) - 45, Y: float64(h) - 44}}[:2+n%3] {
			at.X, at.Y = at.X+rng.Float64(), at.Y+rng.Float64()
			s.marks[at] = form.of()
			cfg.Fiducials = append(cfg.Fiducials, Fiducial{Window: window(fmt.Sprint("F", k), math.Floor(at.X), math.Floor(at.Y),
				half-2), At: at, Kind: form.kind, Dark: s.paint < 128})
		}
		size := math.Hypot(float64(w), float64(h))
		pose := polygon.NewPose(polygon.Point{X: 12*rng.Float64() - 6, Y: 12*rng.Float64() - 6}, (rng.Float64()-0.5)*700/size,
			1+0.004*(rng.Float64()-0.5), polygon.Point{X: float64(w) / 2, Y: float64(h) / 2})
		l, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		loc, err := l.Locate(t.Context(), dev, s.seen(pose, half, 0.8+0.4*rng.Float64(), 5, rng))
		if err != nil {
			t.Fatal(err)
		}
		if !loc.Found {
			t.Errorf("case %d: %s", n, loc.Reason)
			continue
		}
		for i := range loc.Marks {
			off = append(off, distance(loc.Marks[i].At, pose.To(cfg.Fiducials[i].At)))
		}
		middle := mean(cfg.Fiducials, func(f *Fiducial) polygon.Point { return f.At })
		posed = append(posed, distance(loc.Pose.To(middle), pose.To(middle)))
		turned = append(turned, math.Abs(loc.Pose.Parameters().Rotation-pose.Parameters().Rotation))
	}
	of := func(what string, v []float64, most95, most float64) {
		slices.Sort(v)
		v95, all := v[len(v)*95/100], v[len(v)-1]
		t.Logf("%s: median %.4f, 95 %% %.4f, most %.4f", what, v[len(v)/2], v95, all)
		if v95 > most95 || all > most {
			t.Errorf("%s: want %v for 95 %%, and %v for all", what, most95, most)
		}
	}
	of("middle of the part in px", posed, 0.05, 0.15)
	of("rotation in degrees", turned, 0.02, 0.04)
	of("centres of single marks in px", off, 0.06, 0.15)
}

// TestNotFound: what isn't there, or isn't alone, or isn't where the others say, is no part, with the reason.
func TestNotFound(t *testing.T) {
	dev := openCPU(t)
	rng := testseed.New(t, 19, 5)
	flat := image.NewGray(image.Rect(0, 0, 400, 300))
	for i := range flat.Pix {
		flat.Pix[i] = 60
	}
	places := []polygon.Point{{X: 50, Y: 50}, {X: 350, Y: 50}, {X: 50, Y: 250}}
	base := func() (Config, *scene) {
		cfg, s := Config{}, &scene{back: flat, w: 400, h: 300, marks: map[polygon.Point]mark{}, paint: 200}
		for k, at := range places {
			cfg.Fiducials = append(cfg.Fiducials, Fiducial{Window: window(fmt.Sprint("F", k), at.X, at.Y, 25), At: at, Kind: Circle})
			s.marks[at] = disc(7)
		}
		return cfg, s
	}
	none := func(x, y float64) bool { return false }
	at := func(dx, dy, r float64) mark { return func(x, y float64) bool { return disc(r)(x-dx, y-dy) } }
	shift := polygon.NewPose(polygon.Point{X: 2.25, Y: -1.5}, 0.5, 1, polygon.Point{X: 200, Y: 150})
	for _, c := range []struct {
		name string
		is   func(*Config, *scene)
		pose polygon.Pose
		want []string
	}{
		{"there", func(*Config, *scene) {}, shift, nil},
		{"missing", func(_ *Config, s *scene) { s.marks[places[1]] = none }, shift,
			[]string{`fiducial "F1"`, "no bright circle", "is in its window"}},
		{"two", func(_ *Config, s *scene) {
			s.marks[places[2]] = func(x, y float64) bool { return disc(5)(x-9, y) || disc(5)(x+9, y) }
		}, shift, []string{`fiducial "F2"`, "2 bright blobs", "are alike, the first two at ("}},
		{"another form", func(_ *Config, s *scene) { s.marks[places[0]] = cross(12, 2.5) }, shift,
			[]string{`fiducial "F0"`, "no bright circle of 16 px or more", "1 have another form"}},
		{"at the border", func(_ *Config, s *scene) { s.marks[places[0]] = at(22, 0, 7) }, shift,
			[]string{`fiducial "F0"`, "no bright circle"}},
		{"too small", func(c *Config, s *scene) { c.Fiducials[0].MinArea, c.Fiducials[0].MaxArea = 200, 300 }, shift,
			[]string{`fiducial "F0"`, "of 200 to 300 px"}},
		{"too large", func(c *Config, s *scene) { c.Fiducials[0].MaxArea = 100 }, shift, []string{"of 16 to 100 px"}},
		{"dark", func(c *Config, s *scene) { c.Fiducials[0].Dark = true }, shift, []string{`no dark circle`}},
		{"threshold", func(c *Config, s *scene) { c.Fiducials[0].Threshold = 230 }, shift, []string{"no bright circle", "of 0 blobs",
			"229.5"}},
		{"threshold of more bits", func(c *Config, s *scene) { c.Fiducials[0].Threshold = 256 }, shift,
			[]string{"its threshold is 256", "0 to 255"}},
		{"channel", func(c *Config, s *scene) { c.Fiducials[0].Channel = polygon.Red }, shift, []string{"no channel r"}},
		{"outside", func(c *Config, s *scene) { c.Fiducials[1].Window = window("F1", 390, 50, 25) }, shift,
			[]string{`"F1": its window reaches outside the frame`}},
		{"too far apart", func(c *Config, s *scene) {}, polygon.NewPose(polygon.Point{}, 0, 1.02, polygon.Point{X: 200, Y: 150}),
			[]string{`fiducials "F0" and "F1" lie 30`, "300.00 on the part: +", "the limit is 0.75 %"}},
		{"allowed", func(c *Config, s *scene) { c.MaxDistortion = 2.5 },
			polygon.NewPose(polygon.Point{}, 0, 1.02, polygon.Point{X: 200, Y: 150}), nil},
		{"slanted", func(c *Config, s *scene) { c.MaxDistortion = 1.5 }, polygon.Pose{A: 1, B: 0.02, C: -3, E: 1},
			[]string{"the axes are", "%, the limit is 1.5 %"}},
		{"residual", func(c *Config, s *scene) {
			c.Model, c.MaxResidual, s.marks[places[1]] = Similarity, 0.2, at(1, 1, 7)
		}, shift, []string{"from where the pose has it: the limit is 0.2 px"}},
	} {
		cfg, s := base()
		c.is(&cfg, s)
		l, err := New(cfg)
		if err != nil {
			t.Fatal(c.name, err)
		}
		loc, err := l.Locate(t.Context(), dev, s.seen(c.pose, 25, 1, 3, rng))
		if err != nil {
			t.Fatal(c.name, err)
		}
		if loc.Found != (c.want == nil) || loc.Found != (loc.Reason == "") {
			t.Errorf("%s: found: %v: %s", c.name, loc.Found, loc.Reason)
		}
		for _, w := range c.want {
			if !strings.Contains(loc.Reason, w) {
				t.Errorf("%s: %q lacks %q", c.name, loc.Reason, w)
			}
		}
	}
}

// TestNothingFalse: in real frames without marks, none is found.
func TestNothingFalse(t *testing.T) {
	dev := openCPU(t)
	rng := testseed.New(t, 19, 6)
	found := 0
	for n, f := range sharedFrames(t) {
		w, h := f.Bounds().Dx(), f.Bounds().Dy()
		for range 20 {
			var cfg Config
			for k := range 3 {
				at := polygon.Point{X: 40 + rng.Float64()*float64(w-80), Y: 40 + rng.Float64()*float64(h-80)}
				cfg.Fiducials = append(cfg.Fiducials, Fiducial{Window: window(fmt.Sprint("F", k), math.Floor(at.X), math.Floor(at.Y), 30),
					At: at, Kind: Circle, MinArea: 80, MaxArea: 600})
			}
			l, err := New(cfg)
			if err != nil {
				continue // on a line, or too near
			}
			loc, err := l.Locate(t.Context(), dev, kernels.Picture{Width: w, Height: h, Format: kernels.Gray8, Data: [][]byte{f.Pix}})
			if err != nil {
				t.Fatal(n, err)
			}
			if loc.Found {
				found++
				t.Errorf("frame %d: a part at %+v", n, loc)
			}
		}
	}
}

func TestConfigErrors(t *testing.T) {
	place := func(x, y float64) Fiducial {
		return Fiducial{Window: window("", x, y, 20), At: polygon.Point{X: x, Y: y}}
	}
	with := func(f Fiducial, change func(*Fiducial)) Fiducial { change(&f); return f }
	a, b, c := place(50, 50), place(300, 50), place(50, 200)
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "locate.fiducials = []: must hold at least 1 fiducial"},
		{Config{Fiducials: slices.Repeat([]Fiducial{a}, 17)}, "locate.fiducials = 17: are too many: the limit is 16"},
		{Config{Fiducials: []Fiducial{a}, Model: 9}, "locate.model = 9: is no model"},
		{Config{Fiducials: []Fiducial{a, b}, Model: Affine}, "locate.fiducials = 2: are too few: the model needs 3"},
		{Config{Fiducials: []Fiducial{a}, MaxResidual: -1}, "locate.max_residual = -1: must be 0 to 1000, where 0 means 1"},
		{Config{Fiducials: []Fiducial{a}, MaxDistortion: math.NaN()}, "locate.max_distortion_percent = NaN: must be 0 to 25"},
		{Config{Fiducials: []Fiducial{a, place(53, 54)}}, "locate.fiducials[1].at = 5 px from that of fiducial \"1\": must be 8 px"},
		{Config{Fiducials: []Fiducial{a, b, place(175, 51)}}, "locate.fiducials = on a line, but for"},
		{Config{Fiducials: []Fiducial{a, with(b, func(f *Fiducial) { f.Window.Name = "1" })}}, "is the name of two fiducials"},
		{Config{Fiducials: []Fiducial{with(place(50, 50), func(f *Fiducial) { f.Window.Limits = []string{"mean > 3"} })}},
			"locate.fiducials[0].window.limits = 1: must not be given"},
		{Config{Fiducials: []Fiducial{with(place(50, 50), func(f *Fiducial) { f.Window.Rings[0] = f.Window.Rings[0][:2] })}},
			"locate.fiducials[0].window.rings[0] = 2 vertices: must hold at least 3"},
		{Config{Fiducials: []Fiducial{with(place(1, 1), func(f *Fiducial) { f.Window.Shape, f.Window.Rings = "circle(9", nil })}},
			"locate.fiducials[0].window.shape"},
		{Config{Fiducials: []Fiducial{with(place(50, 50), func(f *Fiducial) { f.At.Y = math.Inf(1) })}}, "locate.fiducials[0].at.y = +Inf"},
		{Config{Fiducials: []Fiducial{with(b, func(f *Fiducial) { f.MinArea, f.MaxArea = 9, 8 })}},
			"locate.fiducials[0].max_area = 8: must not be below min_area, which is 9"},
		{Config{Fiducials: []Fiducial{with(b, func(f *Fiducial) { f.Threshold = 1 << 16 })}}, "locate.fiducials[0].threshold = 65536"},
		{Config{Fiducials: []Fiducial{with(b, func(f *Fiducial) { f.Kind = 9 })}}, "locate.fiducials[0].kind = 9"},
		{Config{Fiducials: []Fiducial{place(50, 50), b, c}}, ""},
	} {
		_, err := New(test.cfg)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// FuzzLocate: whatever the pixels are, a fiducial is found within its window, or not with a reason.
func FuzzLocate(f *testing.F) {
	f.Add([]byte("a few pixels that come again and again"), uint8(1), uint8(0), uint16(0))
	f.Add([]byte{0, 0, 0, 255, 255, 0, 0, 0, 9}, uint8(0), uint8(1), uint16(100))
	f.Add([]byte{1}, uint8(2), uint8(3), uint16(65535))
	dev := openCPU(f)
	f.Fuzz(func(t *testing.T, data []byte, format, kind uint8, threshold uint16) {
		if len(data) == 0 {
			return
		}
		formats := []kernels.PixelFormat{kernels.Gray8, kernels.RGB8, kernels.Gray16(10)}
		p := kernels.Picture{Width: 40, Height: 30, Format: formats[int(format)%len(formats)]}
		pix := make([]byte, p.Width*p.Height*p.Format.PixelBytes())
		for i := range pix {
			pix[i] = data[(i+i/97)%len(data)]
			if p.Format.SampleBytes == 2 && i%2 == 1 {
				pix[i] &= 3
			}
		}
		p.Data = [][]byte{pix}
		l, err := New(Config{Fiducials: []Fiducial{{Window: window("w", 20, 15, 12), At: polygon.Point{X: 20, Y: 15},
			Kind: Kind(kind % 4), Dark: kind%8 > 3, Threshold: int(threshold), MinArea: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		loc, err := l.Locate(t.Context(), dev, p)
		if err != nil {
			t.Fatal(err)
		}
		if loc.Found != (loc.Reason == "") {
			t.Fatalf("%+v", loc)
		}
		if at := loc.Marks[0].At; loc.Found && !(math.Abs(at.X-20) < 12 && math.Abs(at.Y-15) < 12) {
			t.Fatalf("found outside of its window: %+v", loc)
		}
	})
}

func BenchmarkLocate(b *testing.B) {
	dev := openCPU(b)
	flat := image.NewGray(image.Rect(0, 0, 2880, 1440))
	s := &scene{back: flat, w: 2880, h: 1440, marks: map[polygon.Point]mark{}, paint: 200}
	var cfg Config
	for k, at := range []polygon.Point{{X: 60, Y: 60}, {X: 2800, Y: 60}, {X: 60, Y: 1380}} {
		s.marks[at] = disc(9)
		cfg.Fiducials = append(cfg.Fiducials, Fiducial{Window: window(fmt.Sprint("F", k), at.X, at.Y, 40), At: at, Kind: Circle})
	}
	l, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	f := s.seen(polygon.Pose{A: 1, C: 2.3, E: 1, F: -1.2}, 40, 1, 5, rand.New(rand.NewPCG(1, 1)))
	for b.Loop() {
		if loc, err := l.Locate(b.Context(), dev, f); err != nil || !loc.Found {
			b.Fatal(loc, err)
		}
	}
}
