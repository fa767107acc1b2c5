// Real polygons and exact results from the data that lies beside the repository, where it is present.

package devicetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	_ "image/png" // the frames of the samples
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/polyscan/polyscan/kernels/driver"
)

// SharedDir is the folder of the shared data: "data" in $POLYSCAN_SHARED, or in ../shared from the root of the
// repository, which is looked for from the working directory upwards. ok is false where it is absent.
func SharedDir() (dir string, ok bool) {
	dir = os.Getenv("POLYSCAN_SHARED")
	if dir == "" {
		root, err := repository()
		if err != nil {
			return "", false
		}
		dir = filepath.Join(root, "..", "shared")
	}
	dir = filepath.Join(dir, "data")
	_, err := os.Stat(filepath.Join(dir, "polygons"))
	return dir, err == nil
}

// SharedCase is a case of the shared data.
type SharedCase struct {
	Case
	// Verify compares what the oracle expects with the result that comes with the data; nil where none does.
	Verify func(*Problem, *Expected) error
}

// SharedCases reads the cases of the data in dir: the polygons over noise, all of a file at once, and the samples with
// exact results.
func SharedCases(dir string) ([]SharedCase, error) {
	sets, err := sharedPolygons(dir)
	if err != nil {
		return nil, err
	}
	samples, err := sharedSamples(dir)
	return append(sets, samples...), err
}

type jsonRing [][2]float64

// ring turns pixels, which are multiples of 1/256, into units of 1/256.
func (r jsonRing) ring() (ring, error) {
	out := make(ring, 0, len(r))
	for _, v := range r {
		x, y := v[0]*driver.Subpixel, v[1]*driver.Subpixel
		if x != math.Trunc(x) || y != math.Trunc(y) {
			return nil, fmt.Errorf("vertex (%v, %v) is not on the grid of 1/%d px", v[0], v[1], driver.Subpixel)
		}
		out = append(out, point{int32(x), int32(y)})
	}
	return out, nil
}

func rings(from []jsonRing) ([]ring, error) {
	var out []ring
	for _, j := range from {
		r, err := j.ring()
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func readJSON(path string, to any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func sharedPolygons(dir string) ([]SharedCase, error) {
	files, err := filepath.Glob(filepath.Join(dir, "polygons", "*.json"))
	if err != nil {
		return nil, err
	}
	var out []SharedCase
	for i, file := range files {
		var polygons []struct {
			Width, Height int
			Rings         []jsonRing
		}
		if err := readJSON(file, &polygons); err != nil {
			return nil, err
		}
		// Polygons of one size make one problem.
		bySize := map[[2]int]*driver.MaskRegions{}
		var sizes [][2]int
		for _, p := range polygons {
			size := [2]int{p.Width, p.Height}
			m := bySize[size]
			if m == nil {
				m = &driver.MaskRegions{}
				bySize[size] = m
				sizes = append(sizes, size)
			}
			rs, err := rings(p.Rings)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			add(m, driver.NonZero, rs...)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		for _, size := range sizes {
			regions := bySize[size]
			format := Formats[(i+len(out))%4]
			if format.Channels == 4 || size[0]*size[1] > 4<<20 {
				format = driver.Gray8
			}
			out = append(out, SharedCase{Case: Case{
				Name:  fmt.Sprintf("%s %dx%d", name, size[0], size[1]),
				Heavy: size[0]*size[1] > 1<<18,
				build: func(g *rand.Rand) *Problem {
					p := frameOf(g, size[0], size[1], format, 0, noise)
					p.Regions = *regions
					return p.all()
				},
			}})
		}
	}
	return out, nil
}

// sharedExpected is a result that comes with the data.
type sharedExpected struct {
	MaskSHA256 string `json:"mask_sha256"`
	Channels   []struct {
		Count, Sum, SumSq uint64
		Min, Max          *uint32
		MinLoc            *[2]uint32 `json:"min_loc"`
		MaxLoc            *[2]uint32 `json:"max_loc"`
		Hist              []uint32
	}
}

func sharedSamples(dir string) ([]SharedCase, error) {
	dir = filepath.Join(dir, "oracle_sample")
	var frames []struct {
		Name, File              string
		Width, Height, Channels int
	}
	if err := readJSON(filepath.Join(dir, "frames.json"), &frames); err != nil {
		return nil, err
	}
	problems := map[string]Problem{}
	for _, f := range frames {
		p, err := readFrame(filepath.Join(dir, f.File))
		if err != nil {
			return nil, err
		}
		if p.Width != f.Width || p.Height != f.Height || int(p.Format.Channels) != f.Channels {
			return nil, fmt.Errorf("%s is not what frames.json says", f.File)
		}
		problems[f.Name] = p
	}
	var doc struct {
		Cases []struct {
			Name, Frame string
			Rings       []jsonRing
			Expected    sharedExpected
		}
	}
	if err := readJSON(filepath.Join(dir, "cases.json"), &doc); err != nil {
		return nil, err
	}
	var out []SharedCase
	for _, c := range doc.Cases {
		p, ok := problems[c.Frame]
		if !ok {
			return nil, fmt.Errorf("case %q: no frame %q", c.Name, c.Frame)
		}
		rs, err := rings(c.Rings)
		if err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		add(&p.Regions, driver.NonZero, rs...)
		out = append(out, SharedCase{
			Case: Case{
				Name:  "sample " + c.Name,
				Heavy: p.Width*p.Height > 1<<18,
				build: func(*rand.Rand) *Problem { q := p; return q.all() },
			},
			Verify: c.Expected.verify,
		})
	}
	return out, nil
}

// readFrame decodes a frame without a margin, in gray or RGB.
func readFrame(path string) (Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return Problem{}, err
	}
	defer f.Close()
	im, _, err := image.Decode(f)
	if err != nil {
		return Problem{}, fmt.Errorf("%s: %w", path, err)
	}
	b := im.Bounds()
	p := Problem{Width: b.Dx(), Height: b.Dy(), Format: driver.RGB8}
	_, gray := im.(*image.Gray)
	if gray {
		p.Format = driver.Gray8
	}
	p.Stride = p.rowBytes()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.NRGBAModel.Convert(im.At(x, y)).(color.NRGBA)
			p.Pixels = append(p.Pixels, []byte{c.R, c.G, c.B}[:p.Format.Channels]...)
		}
	}
	return p, nil
}

func (w *sharedExpected) verify(p *Problem, got *Expected) error {
	mask := make([]byte, len(got.Mask))
	for i, v := range got.Mask {
		mask[i] = v & 1
	}
	if sum := sha256.Sum256(mask); hex.EncodeToString(sum[:]) != w.MaskSHA256 {
		return fmt.Errorf("the mask's hash is %x, not %s", sum, w.MaskSHA256)
	}
	if len(w.Channels) != len(got.Stats) {
		return fmt.Errorf("%d channels, not %d", len(got.Stats), len(w.Channels))
	}
	levels := p.Format.Levels()
	for c, e := range w.Channels {
		s := got.Stats[c]
		if s.Count != e.Count || s.Sum != e.Sum || s.SumSq != e.SumSq {
			return fmt.Errorf("channel %d: %+v, not %+v", c, s, e)
		}
		if (e.Min == nil) != (s.Count == 0) {
			return fmt.Errorf("channel %d: a least value of %d pixels", c, s.Count)
		}
		if s.Count > 0 {
			least, at := s.Min()
			greatest, at2 := s.Max()
			where := func(l *[2]uint32) uint32 { return l[1]*uint32(p.Width) + l[0] }
			if least != *e.Min || at != where(e.MinLoc) || greatest != *e.Max || at2 != where(e.MaxLoc) {
				return fmt.Errorf("channel %d: least %d at %d, greatest %d at %d", c, least, at, greatest, at2)
			}
		}
		hist := got.Hist[c*levels : (c+1)*levels]
		for v, n := range hist {
			if v < len(e.Hist) && n != e.Hist[v] || v >= len(e.Hist) && n != 0 {
				return fmt.Errorf("channel %d: %d pixels of value %d", c, n, v)
			}
		}
	}
	return nil
}

// shared runs the cases of the shared data.
func (s Suite) shared(t T, dev driver.Device) {
	dir, ok := SharedDir()
	if !ok {
		t.Logf("ABSENT: the shared data (POLYSCAN_SHARED, or ../shared beside the repository) is not there: no real polygons were tried")
		return
	}
	cs, err := SharedCases(dir)
	if err != nil {
		t.Fatalf("shared data: %v", err)
	}
	if len(cs) == 0 {
		t.Fatalf("shared data: no cases in %s", dir)
	}
	methods := s.supported(t, dev)
	r := newRig(t, dev)
	defer r.close(t)
	for _, c := range cs {
		if c.Heavy && s.Short || s.only != nil && !s.only(c.Case) {
			continue
		}
		t.Run(c.Name, func(t T) {
			p := c.Problem()
			if err := p.check(); err != nil {
				t.Fatalf("shared data: %v", err)
			}
			want := p.Expect()
			if c.Verify != nil {
				if err := c.Verify(p, want); err != nil {
					t.Errorf("the oracle disagrees with the data: %v", err)
				}
			}
			for _, m := range methods {
				s.solve(t, r, p, m, want)
			}
		})
	}
}
