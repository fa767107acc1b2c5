// measure_test.go measures regions and judges limits the slow way: every pixel centre against every edge, in floating
// point, from the decoded picture and the parsed JSON. It shares nothing with the generator, nor with the rest of the
// module.

package main

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// frame is a decoded picture: channels, then rows, of raw levels.
type frame struct {
	w, h int
	ch   [][]int
}

func unpack(img image.Image) (frame, error) {
	b := img.Bounds()
	f := frame{w: b.Dx(), h: b.Dy()}
	switch m := img.(type) {
	case *image.Gray:
		f.ch = make([][]int, 1)
		for j := range f.h {
			for i := range f.w {
				f.ch[0] = append(f.ch[0], int(m.GrayAt(i, j).Y))
			}
		}
	case *image.Gray16:
		f.ch = make([][]int, 1)
		for j := range f.h {
			for i := range f.w {
				f.ch[0] = append(f.ch[0], int(m.Gray16At(i, j).Y))
			}
		}
	case *image.RGBA, *image.NRGBA:
		f.ch = make([][]int, 3)
		for j := range f.h {
			for i := range f.w {
				r, g, bl, _ := m.At(i, j).RGBA()
				for k, v := range []uint32{r, g, bl} {
					f.ch[k] = append(f.ch[k], int(v>>8))
				}
			}
		}
	default:
		return f, fmt.Errorf("pixels are %T, want gray, 16-bit gray or RGB", img)
	}
	return f, nil
}

// winding counts the turns of the region's rings around (x, y).
func winding(rings [][][2]float64, x, y float64) int {
	n := 0
	for _, r := range rings {
		for i, a := range r {
			b := r[(i+1)%len(r)]
			if (a[1] <= y) == (b[1] <= y) {
				continue
			}
			if a[0]+(y-a[1])/(b[1]-a[1])*(b[0]-a[0]) <= x {
				continue
			}
			if a[1] < b[1] {
				n++
			} else {
				n--
			}
		}
	}
	return n
}

// levels returns the region's pixels per channel, sorted.
func (f frame) levels(r region) [][]int {
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, ring := range r.Rings {
		for _, v := range ring {
			x0, y0, x1, y1 = min(x0, v[0]), min(y0, v[1]), max(x1, v[0]), max(y1, v[1])
		}
	}
	out := make([][]int, len(f.ch))
	for j := max(0, int(y0)-1); j < min(f.h, int(y1)+2); j++ {
		for i := max(0, int(x0)-1); i < min(f.w, int(x1)+2); i++ {
			n := winding(r.Rings, float64(i)+0.5, float64(j)+0.5)
			if r.Fill == "evenodd" && n%2 == 0 || n == 0 {
				continue
			}
			for k := range f.ch {
				out[k] = append(out[k], f.ch[k][j*f.w+i])
			}
		}
	}
	for k := range out {
		slices.Sort(out[k])
	}
	return out
}

var (
	limitForm    = regexp.MustCompile(`^(?:(r|g|b|gray)\.)?(.+?) (?:(<|<=|>|>=|==|!=) (\S+)|in \[(\S+), (\S+)\])$`)
	countForm    = regexp.MustCompile(`^count of pixels (below|above) (\S+)$`)
	channelIndex = map[string]int{"r": 0, "g": 1, "b": 2, "gray": 0}
)

// quantity computes one number of sorted levels.
func quantity(name string, v []int) (float64, error) {
	if len(v) == 0 {
		return 0, fmt.Errorf("%s of no pixels", name)
	}
	var sum, sq float64
	for _, l := range v {
		sum += float64(l)
		sq += float64(l) * float64(l)
	}
	n := float64(len(v))
	rank := func(p float64) float64 { return float64(v[max(1, int(math.Ceil(p/100*n)))-1]) }
	switch name {
	case "count":
		return n, nil
	case "mean":
		return sum / n, nil
	case "stddev":
		return math.Sqrt(max(0, sq/n-sum/n*sum/n)), nil
	case "min":
		return float64(v[0]), nil
	case "max":
		return float64(v[len(v)-1]), nil
	case "median":
		return rank(50), nil
	}
	if m := countForm.FindStringSubmatch(name); m != nil {
		at, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, err
		}
		c := 0.0
		for _, l := range v {
			if m[1] == "below" && float64(l) < at || m[1] == "above" && float64(l) > at {
				c++
			}
		}
		return c, nil
	}
	if p, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64); err == nil && strings.HasPrefix(name, "p") &&
		p >= 0 && p <= 100 {
		return rank(p), nil
	}
	return 0, fmt.Errorf("unknown quantity %q", name)
}

// judge tells whether the levels keep a limit, on each channel that it names, and says what it saw. margin is how far
// the nearest channel is from changing the verdict, relative to the limit's value.
func judge(limit string, ch [][]int) (ok bool, saw string, margin float64, err error) {
	m := limitForm.FindStringSubmatch(limit)
	if m == nil {
		return false, "", 0, fmt.Errorf("limit %q has none of the known forms", limit)
	}
	if m[1] != "" {
		k := channelIndex[m[1]]
		if k >= len(ch) || (m[1] == "gray") != (len(ch) == 1) {
			return false, "", 0, fmt.Errorf("limit %q names a channel that the frame lacks", limit)
		}
		ch = ch[k : k+1]
	}
	num := func(s string) float64 {
		v, e := strconv.ParseFloat(s, 64)
		err = cmp.Or(err, e)
		return v
	}
	lo := num(cmp.Or(m[4], m[5]))
	hi := num(cmp.Or(m[4], m[6]))
	ok, margin = true, math.Inf(1)
	bad := math.Inf(-1)
	for _, levels := range ch {
		v, e := quantity(m[2], levels)
		if e != nil {
			return false, "", 0, e
		}
		saw += fmt.Sprintf(" %.4g", v)
		var pass bool
		switch m[3] {
		case "":
			pass = lo <= v && v <= hi
		case "<":
			pass = v < hi
		case "<=":
			pass = v <= hi
		case ">":
			pass = v > lo
		case ">=":
			pass = v >= lo
		case "==":
			pass = v == lo
		case "!=":
			pass = v != lo
		}
		slack := min(math.Abs(v-lo)/max(1, math.Abs(lo)), math.Abs(v-hi)/max(1, math.Abs(hi)))
		if pass {
			margin = min(margin, slack)
		} else {
			bad = max(bad, slack)
		}
		ok = ok && pass
	}
	if !ok {
		margin = bad // the verdict stands as long as the worst channel fails
	}
	return ok, saw, margin, err
}

func TestJudge(t *testing.T) {
	grey := [][]int{{1, 2, 3, 4, 10}}
	colour := [][]int{{10, 20}, {30, 40}, {50, 60}}
	for _, c := range []struct {
		limit string
		ch    [][]int
		want  bool
	}{
		{"mean in [4, 5]", grey, true}, {"mean in [4.1, 5]", grey, false}, {"mean < 4", grey, false},
		{"mean <= 4", grey, true},
		{"p80 == 4", grey, true}, {"p80.1 == 10", grey, true}, {"median == 3", grey, true},
		{"median != 3", grey, false},
		{"count of pixels below 3 <= 2", grey, true}, {"count of pixels below 3 <= 1", grey, false},
		{"count of pixels above 3 >= 3", grey, false}, {"max >= 10", grey, true}, {"min > 1", grey, false},
		{"stddev in [3.16, 3.17]", grey, true}, {"gray.count == 5", grey, true},
		{"mean > 20", colour, false}, {"mean > 14", colour, true}, {"g.mean == 35", colour, true},
		{"b.mean < 55", colour, false},
	} {
		if got, saw, _, err := judge(c.limit, c.ch); err != nil || got != c.want {
			t.Errorf("%s: %v (saw%s), %v; want %v", c.limit, got, saw, err, c.want)
		}
	}
	for _, limit := range []string{"mean", "mean ~ 3", "meen < 3", "p101 < 3", "x.mean < 3", "b.mean < 3", "mean < x",
		"mean in 3, 4"} {
		if _, _, _, err := judge(limit, grey); err == nil {
			t.Errorf("%s: judged without an error", limit)
		}
	}
}

func TestWinding(t *testing.T) {
	square := [][2]float64{{0, 0}, {4, 0}, {4, 4}, {0, 4}}
	core := [][2]float64{{1, 1}, {3, 1}, {3, 3}, {1, 3}}
	f := frame{w: 4, h: 4, ch: [][]int{make([]int, 16)}}
	for i := range f.ch[0] {
		f.ch[0][i] = i
	}
	for _, c := range []struct {
		name string
		r    region
		want []int
	}{
		{"square", region{Rings: [][][2]float64{square}}, f.ch[0]},
		{"same direction fills", region{Rings: [][][2]float64{square, core}}, f.ch[0]},
		{"opposite direction is a hole", region{Rings: [][][2]float64{square, reversed(core)}},
			[]int{0, 1, 2, 3, 4, 7, 8, 11, 12, 13, 14, 15}},
		{"even-odd is a hole", region{Rings: [][][2]float64{square, core}, Fill: "evenodd"},
			[]int{0, 1, 2, 3, 4, 7, 8, 11, 12, 13, 14, 15}},
		{"outside", region{Rings: [][][2]float64{{{5, 0}, {9, 0}, {9, 4}}}}, nil},
	} {
		if got := f.levels(c.r)[0]; !slices.Equal(got, c.want) {
			t.Errorf("%s: pixels %v, want %v", c.name, got, c.want)
		}
	}
}
