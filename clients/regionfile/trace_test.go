package regionfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// outlineOf traces a bitmap, giving each column's runs one by one.
func outlineOf(t testing.TB, mask bitmap) [][][2]float64 {
	t.Helper()
	o, _ := Options{}.withDefaults()
	tr := newTracer(&builder{opts: o, file: &File{}}, mask.h, 0, 0)
	for x := range mask.w {
		for y := range mask.h {
			if mask.at(x, y) {
				if e := tr.run(int64(x*mask.h+y), int64(x*mask.h+y+1)); e != nil {
					t.Fatal(e)
				}
			}
		}
	}
	out, e := tr.rings()
	if e != nil {
		t.Fatal(e)
	}
	return out
}

// drawing makes a bitmap of rows, '#' for set.
func drawing(rows ...string) bitmap {
	b := newBitmap(len(rows[0]), len(rows))
	for y, r := range rows {
		for x, c := range r {
			b.set[y*b.w+x] = c == '#'
		}
	}
	return b
}

func TestOutline(t *testing.T) {
	for _, c := range []struct {
		name string
		mask bitmap
		want [][][2]float64
	}{
		{"nothing", drawing("...", "..."), nil},
		{"pixel", drawing("...", ".#.", "..."), rings(ring(1, 1, 2, 1, 2, 2, 1, 2))},
		{"all", drawing("###", "###"), rings(ring(0, 0, 3, 0, 3, 2, 0, 2))},
		{"step", drawing("#.", "##"), rings(ring(0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 0, 2))},
		{"apart", drawing("#.#"), rings(ring(0, 0, 1, 0, 1, 1, 0, 1), ring(2, 0, 3, 0, 3, 1, 2, 1))},
		{"hole", drawing("###", "#.#", "###"), rings(ring(0, 0, 3, 0, 3, 3, 0, 3), ring(1, 1, 1, 2, 2, 2, 2, 1))},
		{"corner, falling", drawing("#.", ".#"), rings(ring(0, 0, 1, 0, 1, 1, 0, 1), ring(1, 1, 2, 1, 2, 2, 1, 2))},
		{"corner, rising", drawing(".#", "#."), rings(ring(0, 1, 1, 1, 1, 2, 0, 2), ring(1, 0, 2, 0, 2, 1, 1, 1))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, outlineOf(t, c.mask)); d != "" {
				t.Error(d)
			}
		})
	}
}

// The outline contains the set pixels and no others, under both fill rules, and is as short as it can be: only corners,
// only along borders between set and clear.
func TestOutlineIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mask := bitmapGen().Draw(rt, "mask")
		rs := outlineOf(t, mask)
		for _, fill := range []string{FillNonZero, FillEvenOdd} {
			if d := pixelsDiffer(rs, fill, mask, 0, 0); d != "" {
				rt.Fatalf("%s: %s", fill, d)
			}
		}
		border := 0
		for y := -1; y <= mask.h; y++ {
			for x := -1; x <= mask.w; x++ {
				if mask.at(x, y) != mask.at(x+1, y) {
					border++
				}
				if mask.at(x, y) != mask.at(x, y+1) {
					border++
				}
			}
		}
		length := 0
		for _, r := range rs {
			for i, p := range r {
				q, s := r[(i+1)%len(r)], r[(i+2)%len(r)]
				dx, dy := q[0]-p[0], q[1]-p[1]
				if (dx == 0) == (dy == 0) {
					rt.Fatalf("the edge from %v to %v isn't along pixel borders", p, q)
				}
				if (dx == 0) == (s[0] == q[0]) {
					rt.Fatalf("the vertex %v isn't a corner", q)
				}
				length += int(max(dx, -dx) + max(dy, -dy))
			}
			if signedArea2(r) == 0 {
				rt.Fatalf("the ring %v has no area", r)
			}
		}
		if length != border {
			rt.Fatalf("the outline is %d long, the border is %d", length, border)
		}
	})
}

// However a mask is cut into runs, the outline is the same.
func TestOutlineOfJoinedRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mask := bitmapGen().Draw(rt, "mask")
		o, _ := Options{}.withDefaults()
		tr := newTracer(&builder{opts: o, file: &File{}}, mask.h, 0, 0)
		n := int64(mask.w * mask.h)
		set := func(i int64) bool { return mask.at(int(i)/mask.h, int(i)%mask.h) }
		for i := int64(0); i < n; {
			j := i
			for j < n && set(j) {
				j++
			}
			if e := tr.run(i, j); e != nil { // may be empty
				rt.Fatal(e)
			}
			i = max(j, i+1)
		}
		got, e := tr.rings()
		if e != nil {
			rt.Fatal(e)
		}
		if d := cmp.Diff(outlineOf(t, mask), got); d != "" {
			rt.Fatal(d)
		}
	})
}

// A tracer costs what its runs cost, not what they cover.
func TestOutlineOfHugeMasks(t *testing.T) {
	o, _ := Options{}.withDefaults()
	const side = coordinateLimit - 1
	tr := newTracer(&builder{opts: o, file: &File{}}, side, 0, 0)
	if e := tr.run(5, side*side-7); e != nil {
		t.Fatal(e)
	}
	got, e := tr.rings()
	if e != nil {
		t.Fatal(e)
	}
	want := rings(ring(0, 5, 1, 5, 1, 0, side, 0, side, side-7, side-1, side-7, side-1, side, 0, side))
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestOutlineLimit(t *testing.T) {
	tr := newTracer(&builder{opts: Options{MaxVertices: 7}, file: &File{}}, 10, 0, 0)
	if e := tr.run(3, 5); e != nil {
		t.Fatal(e)
	}
	if got, e := tr.rings(); e != nil || len(got) != 1 {
		t.Fatalf("one pixel column: %v, %v", got, e)
	}
	tr = newTracer(&builder{opts: Options{MaxVertices: 7}, file: &File{}}, 10, 0, 0)
	_ = tr.run(3, 5)
	_ = tr.run(7, 8)
	if _, e := tr.rings(); e == nil || e.Kind != ErrLimit {
		t.Errorf("two pieces within 7 edges: %v", e)
	}
}
