package cpu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/kernels/driver"
)

// sharedData is where real frames and regions are, with exact results that another program computed. They are not
// part of the repository.
func sharedData(t *testing.T, elem ...string) string {
	root := os.Getenv("POLYSCAN_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{root, "data"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared data: %v (set POLYSCAN_SHARED)", err)
	}
	return path
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rings makes edges of rings whose vertices are in pixels, multiples of 1/256.
func rings(rs [][][2]float64) []driver.Edge {
	var edges []driver.Edge
	for _, r := range rs {
		pts := make([]point, len(r))
		for i, v := range r {
			pts[i] = point{int32(v[0] * 256), int32(v[1] * 256)}
		}
		edges = ring(edges, pts...)
	}
	return edges
}

func TestSharedOracle(t *testing.T) {
	var file struct {
		Cases []struct {
			Name, Frame string
			Rings       [][][2]float64
			Expected    struct {
				MaskSHA256   string `json:"mask_sha256"`
				CountEvenOdd uint64 `json:"count_evenodd"`
				Channels     []struct {
					Count, Sum, SumSq uint64
					Min, Max          *uint32
					MinLoc            []uint32 `json:"min_loc"`
					MaxLoc            []uint32 `json:"max_loc"`
					Hist              []uint32
				}
			}
		}
	}
	dir := sharedData(t, "oracle_sample")
	readJSON(t, filepath.Join(dir, "cases.json"), &file)
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	f := newFixture(t, 2, 64<<20)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			p := readGray(t, filepath.Join(dir, "frames", c.Frame+".png"))
			for _, m := range allMethods {
				if work := p.width * p.height * len(rings(c.Rings)); (m == driver.Naive || m == driver.Tiled) &&
					work > 1e7 && (testing.Short() || race.Enabled) {
					continue
				}
				j := job{regions: one(driver.NonZero, rings(c.Rings)), image: p, what: 15, count: 1, level: bestLevel,
					method: m}
				mask, _ := rasterOf(f, j, m)
				for i := range mask {
					mask[i] &= 1
				}
				if sum := sha256.Sum256(mask); hex.EncodeToString(sum[:]) != c.Expected.MaskSHA256 {
					t.Errorf("%v: other pixels", m)
				}
				got, want := j.run(f)[0], c.Expected.Channels[0]
				s := got.stats[0]
				if s.Count != want.Count || s.Sum != want.Sum || s.SumSq != want.SumSq {
					t.Errorf("%v: count, sum, squares %d %d %d, want %d %d %d", m, s.Count, s.Sum, s.SumSq, want.Count,
						want.Sum, want.SumSq)
				}
				if want.Min != nil {
					v, at := s.Min()
					if x, y := at%uint32(p.width), at/uint32(p.width); v != *want.Min || x != want.MinLoc[0] ||
						y != want.MinLoc[1] {
						t.Errorf("%v: min %d at (%d, %d), want %d at %v", m, v, x, y, *want.Min, want.MinLoc)
					}
					v, at = s.Max()
					if x, y := at%uint32(p.width), at/uint32(p.width); v != *want.Max || x != want.MaxLoc[0] ||
						y != want.MaxLoc[1] {
						t.Errorf("%v: max %d at (%d, %d), want %d at %v", m, v, x, y, *want.Max, want.MaxLoc)
					}
				}
				for v, n := range want.Hist {
					if got.hist[0][v] != n {
						t.Errorf("%v: %d pixels of %d, want %d", m, got.hist[0][v], v, n)
					}
				}
				j.regions.Regions[0].Fill = driver.EvenOdd
				if n := j.run(f)[0].stats[0].Count; n != c.Expected.CountEvenOdd {
					t.Errorf("%v: %d pixels by the even-odd rule, want %d", m, n, c.Expected.CountEvenOdd)
				}
			}
		})
	}
}

func readGray(t *testing.T, path string) picture {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	g, ok := img.(*image.Gray)
	if !ok {
		t.Fatalf("%s is a %T", path, img)
	}
	return picture{width: g.Rect.Dx(), height: g.Rect.Dy(), stride: g.Stride, format: driver.Gray8, data: g.Pix}
}

// TestSharedPolygons: all methods have the same pixels on real outlines.
func TestSharedPolygons(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(sharedData(t, "polygons"), "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no polygons: %v", err)
	}
	f := newFixture(t, 2, 256<<20)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var file []struct {
				Width, Height int
				Rings         [][][2]float64
			}
			readJSON(t, path, &file)
			var r driver.MaskRegions
			for _, p := range file {
				add(&r, driver.NonZero, rings(p.Rings))
			}
			j := job{regions: r, image: picture{width: file[0].Width, height: file[0].Height}, count: len(file)}
			if j.image.width == 0 {
				t.Skip("regions without a frame")
			}
			want, wantLabels := rasterOf(f, j, driver.RowSpans)
			methods := []driver.Method{driver.TiledEdgeFiltered}
			if !testing.Short() && !race.Enabled {
				methods = append(methods, driver.EdgeFiltered)
			}
			for _, m := range methods {
				mask, labels := rasterOf(f, j, m)
				if a, b := fmt.Sprintf("%x", sha256.Sum256(mask)), fmt.Sprintf("%x", sha256.Sum256(want)); a != b {
					t.Errorf("%v: other pixels than %v", m, driver.RowSpans)
				}
				if sha256.Sum256(bytesOf(labels)) != sha256.Sum256(bytesOf(wantLabels)) {
					t.Errorf("%v: other labels than %v", m, driver.RowSpans)
				}
			}
		})
	}
}
