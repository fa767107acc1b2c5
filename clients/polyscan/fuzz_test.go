package main

import (
	"cmp"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/polyscan/polyscan/clients/internal/cli"
	"github.com/polyscan/polyscan/clients/internal/reductions"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func FuzzRaw(f *testing.F) {
	for _, s := range []string{"640x480:gray8", "1x1:RGB8:3", "1048576x1048576:rgba8:4194304", "0x0:gray8", "x:", "::",
		"1x1:gray8:", "+1x1:gray8", "1x1:gray16:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRaw(s)
		if err != nil {
			return
		}
		n, err := r.Bytes()
		if err != nil || n < 1 || r.Width < 1 || r.Height < 1 {
			t.Fatalf("%q is accepted as %+v, %d bytes, %v", s, r, n, err)
		}
		back, err := parseRaw(r.String())
		if err != nil || back != r {
			t.Errorf("%q reads as %+v, written as %q reads as %+v, %v", s, r, r.String(), back, err)
		}
	})
}

func FuzzReductions(f *testing.F) {
	for _, s := range []string{"mean", "all", "basic|median", "percentiles(1, 99.5, linear)", "histogram(16, -8, 248)",
		"histogram(8)", "percentiles()", "mean(1)", "histogram(1,2)", "percentiles(linear)",
		"texture|mean", "texture(1,0; -2,3; 32 levels; counts)",
		`radial(3)|channels|ncc of "golden" at (1,-2)`, "correlation(g)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list := strings.Split(s, "|")
		r, err := reductions.Parse(list)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error of several lines: %v", s, err)
			}
			return
		}
		for _, p := range r.GetPercentiles() {
			if !(p >= 0 && p <= 100) {
				t.Errorf("%q: percentile %v", s, p)
			}
		}
		text := reductions.Format(r)
		back, err := reductions.Parse(text)
		if err != nil || !reflect.DeepEqual(reductions.Format(back), text) {
			t.Errorf("%q is written as %q, which reads as %v, %v", s, text, back, err)
		}
	})
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"0,256", "-1e3, 5", ",", "NaN,1", "1,Inf", "0x1p-2,1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lo, hi, err := parseRange(s)
		if err == nil && !(lo < hi && !math.IsInf(lo, 0) && !math.IsInf(hi, 0)) {
			t.Errorf("%q is accepted as %v to %v", s, lo, hi)
		}
	})
}

func FuzzSpan(f *testing.F) {
	for _, s := range []string{"mean in [90, 140]", "r.max <= 250", "p99.5<2e2", "mean in [1", "p... < 1", "mean < -+1",
		"mean in [NaN, 1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, ok := spanOf(&polyscanv1.LimitResult{Expression: s}); ok &&
			(math.IsNaN(m.lo) || math.IsNaN(m.hi) || m.label == "") {
			t.Errorf("%q is marked as %+v", s, m)
		}
	})
}

func FuzzNatural(f *testing.F) {
	f.Add("a2", "a10", "a1")
	f.Add("", "0", "00")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if natural(a, b) != -natural(b, a) {
			t.Errorf("%q and %q: %d one way, %d the other", a, b, natural(a, b), natural(b, a))
		}
		if (natural(a, b) == 0) != (a == b) {
			t.Errorf("%q and %q compare as %d", a, b, natural(a, b))
		}
		if natural(a, b) < 0 && natural(b, c) < 0 && cmp.Compare(natural(a, c), 0) >= 0 {
			t.Errorf("%q < %q < %q, but the first isn't before the last", a, b, c)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("U7", 5)
	f.Add("\x1b[2J\xff\u202e板", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		p := cli.Printable(s)
		if !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("cli.Printable(%q) = %q", s, p)
		}
		if n > 0 && n < 1000 {
			if c := shorten(p, n); !strings.HasPrefix(p, strings.TrimSuffix(c, "…")) {
				t.Errorf("shorten(%q, %d) = %q", p, n, c)
			}
		}
	})
}
