package regionfile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// recorder writes down the segments of a path.
type recorder struct{ out []string }

func (r *recorder) note(cmd string, v ...any) *Error {
	r.out = append(r.out, strings.TrimSpace(cmd+" "+strings.Trim(fmt.Sprint(v...), "[]")))
	return nil
}
func (r *recorder) moveTo(x, y float64) *Error             { return r.note("M", x, y) }
func (r *recorder) lineTo(x, y float64) *Error             { return r.note("L", x, y) }
func (r *recorder) quadTo(a, b, x, y float64) *Error       { return r.note("Q", a, b, x, y) }
func (r *recorder) cubeTo(a, b, c, d, x, y float64) *Error { return r.note("C", a, b, c, d, x, y) }
func (r *recorder) arcTo(rx, ry, phi float64, large, sweep bool, x, y float64) *Error {
	return r.note("A", rx, ry, phi, large, sweep, x, y)
}
func (r *recorder) close() *Error { return r.note("Z") }

func TestPathGrammar(t *testing.T) {
	for _, c := range []struct{ d, want string }{
		{"", ""},
		{"  \n ", ""},
		{"none", ""},
		{"M1 2", "M 1 2"},
		{"M1.5.5-3.25-.5", "M 1.5 0.5|L -3.25 -0.5"},
		{"m1,2,3,4 5-6", "M 1 2|L 4 6|L 9 0"},
		{"M 1 , 2\tL\n3\r4Z", "M 1 2|L 3 4|Z"},
		{"M1 2 3 4 5 6", "M 1 2|L 3 4|L 5 6"},
		{"M1e2 1E-1L+1.e+1.5e1", "M 100 0.1|L 10 5"},
		{"M0 0H5h-2V3v1", "M 0 0|L 5 0|L 3 0|L 3 3|L 3 4"},
		{"M0 0h1 2 3", "M 0 0|L 1 0|L 3 0|L 6 0"},
		{"m1 1zl1 1zm1 0", "M 1 1|Z|L 2 2|Z|M 2 1"},
		{"M1 1l1 0 0 1z m5 5l1 0", "M 1 1|L 2 1|L 2 2|Z|M 6 6|L 7 6"},
		{"M0 0C1 2 3 4 5 6s1 1 2 2", "M 0 0|C 1 2 3 4 5 6|C 7 8 6 7 7 8"},
		{"M1 1S1 1 2 2", "M 1 1|C 1 1 1 1 2 2"},
		{"M0 0c0 1 1 1 1 0 0-1 1-1 1 0", "M 0 0|C 0 1 1 1 1 0|C 1 -1 2 -1 2 0"},
		{"M0 0Q1 2 3 4T5 5t1 1", "M 0 0|Q 1 2 3 4|Q 5 6 5 5|Q 5 4 6 6"},
		{"M1 1T3 3", "M 1 1|Q 1 1 3 3"},
		{"M0 0Q1 1 2 0L4 0T6 0", "M 0 0|Q 1 1 2 0|L 4 0|Q 4 0 6 0"},
		{"M0 0C1 1 1 1 2 0T6 0", "M 0 0|C 1 1 1 1 2 0|Q 2 0 6 0"},
		{"M0 0Q1 1 2 0S5 5 6 0", "M 0 0|Q 1 1 2 0|C 2 0 5 5 6 0"},
		{"M0 0A1 2 30 0 1 5 6", "M 0 0|A 1 2 30 false true 5 6"},
		{"M0 0a1 2 30 015 6", "M 0 0|A 1 2 30 false true 5 6"},
		{"M1 1a1 2 30 01.5.6", "M 1 1|A 1 2 30 false true 1.5 1.6"},
		{"M0 0A1-2-30,1,0,5,6 1 1 0 0 0-1-1", "M 0 0|A 1 -2 -30 true false 5 6|A 1 1 0 false false -1 -1"},
		{"M0 0a1 1 0 1110-20 1 1 0 00 5 5", "M 0 0|A 1 1 0 true true 10 -20|A 1 1 0 false false 15 -15"},
		{"M-.0 0 1 1", "M 0 0|L 1 1"},
	} {
		r := &recorder{}
		if e := parsePath(c.d, r); e != nil {
			t.Errorf("%q: %v", c.d, e)
			continue
		}
		if got := strings.ReplaceAll(strings.Join(r.out, "|"), "-0 ", "0 "); got != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.d, got, c.want)
		}
	}
}

func TestPathErrors(t *testing.T) {
	for _, c := range []struct{ d, want string }{
		{"L0 0", `offset 0: expected a move (M or m) at the start, found "L"`},
		{"5 5", `offset 0: expected a move (M or m) at the start, found "5"`},
		{"M", `offset 1: expected number, found the end`},
		{"M1", `offset 2: expected number, found the end`},
		{"M1 2 3", `offset 6: expected number, found the end`},
		{"M1.5.5-3", `offset 8: expected number, found the end`},
		{"M0 0 L 10 10 20 q", `offset 16: expected number, found "q"`},
		{"M0 0 L 10,,10", `offset 10: expected number, found ","`},
		{"M,0 0", `offset 1: expected number, found ","`},
		{"M0 0,", `offset 5: expected number, found the end`},
		{"M0 0,L1 1", `offset 5: expected number, found "L"`},
		{"M0 0L1 1,Z", `offset 9: expected number, found "Z"`},
		{"M0 0Z1 1", `offset 5: expected number or path command, found "1"`},
		{"M0 0X1 1", `offset 4: expected number or path command, found "X"`},
		{"M0 0é", `offset 4: expected number or path command, found "é"`},
		{"M0 0\x01", `offset 4: expected number or path command, found "\x01"`},
		{"M0 0L-", `offset 5: expected number, found "-"`},
		{"M0 0L.", `offset 5: expected number, found "."`},
		{"M0 0L1e 5", `offset 6: expected number, found "e"`},
		{"M0 0L1px 5", `offset 6: expected number, found "p"`},
		{"M0 0L1e999 5", `offset 5: the number 1e999 is out of range`},
		{"M0 0A1 1 0 2 0 5 5", `offset 11: expected a flag, 0 or 1, found "2"`},
		{"M0 0A1 1 0 0", `offset 12: expected a flag, 0 or 1, found the end`},
		{"M0 0A1 1 0 0 0.5 5", ``}, // a flag, then the number .5: legal
		{"M0 0A1 1 0 0 0 5", `offset 16: expected number, found the end`},
		{"M0 0NaN", `offset 4: expected number or path command, found "N"`},
		{"M0 Infinity", `offset 3: expected number, found "I"`},
		{"nonesuch", `offset 0: expected a move (M or m) at the start, found "n"`},
	} {
		e := parsePath(c.d, &recorder{})
		switch {
		case e == nil && c.want != "":
			t.Errorf("%q: accepted, want %s", c.d, c.want)
		case e != nil && e.Error() != c.want:
			t.Errorf("%q\n got %s\nwant %s", c.d, e, c.want)
		}
	}
	// An outline's own error gets the place, too.
	o, _ := Options{}.withDefaults()
	e := parsePath("M0 0 L1 1 5e6 5", newFlattener(&builder{opts: o, file: &File{}}, identity))
	if want := "offset 10: the point (5e+06, 5) in pixels is out of range, magnitudes must be below 4194304"; e == nil ||
		e.Error() != want {
		t.Errorf("got %v, want %s", e, want)
	}
}

// A number is read as strconv reads it, wherever it ends.
func TestScannerNumbers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.Float64().Draw(rt, "v")
		text := strconv.FormatFloat(v, rapid.SampledFrom([]byte{'g', 'e', 'f'}).Draw(rt, "format"), -1, 64)
		behind := rapid.SampledFrom([]string{"", " 5", ",5", "-5", "px", "%", "Z", "e", "em"}).Draw(rt, "behind")
		s := &scanner{s: text + behind}
		got, e := s.number()
		if e != nil || math.Float64bits(got) != math.Float64bits(v) || s.pos != len(text) {
			rt.Fatalf("%q gives %v up to %d, %v; want %v up to %d", s.s, got, s.pos, e, v, len(text))
		}
	})
}

// A polygon written as a path, in any of the spellings, reads back equal.
func TestPolylineRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(ringGen(), 1, 3).Draw(rt, "rings")
		var d strings.Builder
		num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
		for _, r := range want {
			for i := range r { // equal neighbours are one vertex in SVG: pull them apart
				if next := (i + 1) % len(r); r[i] == r[next] {
					rt.Skip("equal neighbours")
				}
			}
			for i, p := range r {
				x, y := p[0], p[1]
				switch {
				case i == 0:
					d.WriteString("M")
				case x == r[i-1][0] && rapid.Bool().Draw(rt, "V"):
					d.WriteString("V" + num(y))
					continue
				case y == r[i-1][1] && rapid.Bool().Draw(rt, "H"):
					d.WriteString("H" + num(x))
					continue
				default:
					d.WriteString(rapid.SampledFrom([]string{"L", " L "}).Draw(rt, "L"))
				}
				d.WriteString(num(x))
				if y >= 0 && !math.Signbit(y) || rapid.Bool().Draw(rt, "comma") {
					d.WriteString(rapid.SampledFrom([]string{" ", ",", " , ", "\n"}).Draw(rt, "separator"))
				}
				d.WriteString(num(y))
			}
			d.WriteString(rapid.SampledFrom([]string{"Z", "z", " "}).Draw(rt, "end")) // open or closed is all the same
		}
		f, err := Parse("", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><path id="p" d="`+d.String()+`"/></svg>`),
			Options{})
		if err != nil {
			rt.Fatalf("%v\n%s", err, d.String())
		}
		if diff := cmp.Diff([]Region{{Name: "p", Rings: want, Fill: FillNonZero}}, f.Regions); diff != "" {
			rt.Fatalf("%s\n%s", diff, d.String())
		}
	})
}

func TestTransforms(t *testing.T) {
	near := func(a, b matrix) bool {
		for i, x := range []float64{a.a, a.b, a.c, a.d, a.e, a.f} {
			if y := []float64{b.a, b.b, b.c, b.d, b.e, b.f}[i]; math.Abs(x-y) > 1e-12*(1+math.Abs(y)) {
				return false
			}
		}
		return true
	}
	half := math.Sqrt(0.5)
	for _, c := range []struct {
		text string
		want matrix
	}{
		{"", identity},
		{" none ", identity},
		{"translate(5)", matrix{1, 0, 0, 1, 5, 0}},
		{" translate ( 5 , -6 ) ", matrix{1, 0, 0, 1, 5, -6}},
		{"translate(5-6)", matrix{1, 0, 0, 1, 5, -6}},
		{"scale(2)", matrix{2, 0, 0, 2, 0, 0}},
		{"scale(2 -3)", matrix{2, 0, 0, -3, 0, 0}},
		{"rotate(90)", matrix{0, 1, -1, 0, 0, 0}},
		{"rotate(-270)", matrix{0, 1, -1, 0, 0, 0}},
		{"rotate(540)", matrix{-1, 0, 0, -1, 0, 0}},
		{"rotate(45)", matrix{half, half, -half, half, 0, 0}},
		{"rotate(90 10 20)", matrix{0, 1, -1, 0, 30, 10}},
		{"skewX(45)", matrix{1, 0, 1, 1, 0, 0}},
		{"skewY(45)", matrix{1, 1, 0, 1, 0, 0}},
		{"matrix(1 2 3 4 5 6)", matrix{1, 2, 3, 4, 5, 6}},
		{"matrix(1,2,3,4,5,6)", matrix{1, 2, 3, 4, 5, 6}},
		// The last applies first: scaled, then moved.
		{"translate(10,0) scale(2)", matrix{2, 0, 0, 2, 10, 0}},
		{"translate(10,0),scale(2)", matrix{2, 0, 0, 2, 10, 0}},
		{"translate(10,0)scale(2)", matrix{2, 0, 0, 2, 10, 0}},
		{"scale(2) translate(10,0)", matrix{2, 0, 0, 2, 20, 0}},
	} {
		got, e := parseTransform(c.text)
		if e != nil || !near(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.text, got, e, c.want)
		}
	}
	if near(identity, matrix{1, 0, 0, 1, 1e-9, 0}) {
		t.Error("the comparison of matrices can't fail")
	}
	for _, c := range []struct{ text, want string }{
		{"spin(5)", `offset 0: "spin" with 1 number is not a transform`},
		{"scale(1 2 3)", `offset 0: "scale" with 3 numbers is not a transform`},
		{"rotate(1 2)", `offset 0: "rotate" with 2 numbers is not a transform`},
		{"translate(1) matrix(1 2 3 4 5)", `offset 13: "matrix" with 5 numbers is not a transform`},
		{"matrix(1 2 3 4 5 6 7)", `offset 19: expected ), found "7"`},
		{"scale()", `offset 6: expected number, found ")"`},
		{"scale(1", `offset 7: expected ), found the end`},
		{"scale 1", `offset 6: expected (, found "1"`},
		{"scale", `offset 5: expected (, found the end`},
		{"(1)", `offset 0: expected the name of a transform, found "("`},
		{"scale(1),", `offset 9: expected the name of a transform, found the end`},
		{"rotate(45deg)", `offset 9: expected number, found "d"`},
		{"translate(5px)", `offset 11: expected number, found "p"`},
		{"scale(1e200)scale(1e200)", `its numbers are out of range`},
	} {
		_, e := parseTransform(c.text)
		if e == nil || e.Error() != c.want {
			t.Errorf("%q\n got %v\nwant %s", c.text, e, c.want)
		}
	}
}

func TestPoints(t *testing.T) {
	for _, c := range []struct {
		text string
		want [][2]float64
		err  string
	}{
		{"", nil, ""},
		{"1,2 3,4 , 5-6", ring(1, 2, 3, 4, 5, -6), ""},
		{" 1 2\n3 4 ", ring(1, 2, 3, 4), ""},
		{"1,2 3", nil, `offset 5: expected number, found the end`},
		{"1,2,", nil, `offset 4: expected number, found the end`},
		{",1,2", nil, `offset 0: expected number, found ","`},
		{"1,2 a", nil, `offset 4: expected number, found "a"`},
	} {
		got, e := parsePoints(c.text)
		if e != nil || c.err != "" {
			if e == nil || e.Error() != c.err {
				t.Errorf("%q: %v, want %s", c.text, e, c.err)
			}
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.text, d)
		}
	}
}
