package polygon

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	testseed "github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// oracleMoved is a region with its vertices where a pose takes them: each product and each sum is the exact one,
// rounded once to float64.
func oracleMoved(r Region, p Pose) Region {
	sum := func(a, b float64) float64 { return nearest(rat(a).Add(rat(a), rat(b))) }
	product := func(a, b float64) float64 { return nearest(rat(a).Mul(rat(a), rat(b))) }
	along := func(a, b, c float64, at Point) float64 { return sum(sum(product(a, at.X), product(b, at.Y)), c) }
	to := r
	to.Rings = nil
	for _, ring := range r.Rings {
		moved := make(Ring, len(ring))
		for i, v := range ring {
			moved[i] = Point{along(p.A, p.B, p.C, v), along(p.D, p.E, p.F, v)}
		}
		to.Rings = append(to.Rings, moved)
	}
	return to
}

func randomPose(c choices) Pose {
	pick := func(from ...float64) float64 { return from[c.IntN(len(from))] }
	p := NewPose(Point{pick(0, 1, -7.3, 0.001, 12), pick(0, -2, 5.5, 3.25)}, pick(0, 90, 180, -90, 1.2, -33, 0.01),
		pick(1, 0.9925, 1.5, 0.25, 4), Point{pick(0, 6, 7.5), pick(0, 6, 3.1)})
	if c.IntN(3) == 0 {
		p.B += pick(0.01, -0.1, 0.003)
	}
	return p
}

// TestMoved: a moved set is the set of the regions whose vertices were moved, and gives its numbers.
func TestMoved(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	rapid.Check(t, func(t *rapid.T) {
		c := drawn{t}
		var regions, want []Region
		pose := randomPose(c)
		if pose.Check() != nil {
			t.Skip("out of bounds")
		}
		for range 1 + c.IntN(4) {
			r := randomRegion(c, 14, 14)
			regions = append(regions, r)
			want = append(want, oracleMoved(r, pose))
		}
		s, err := NewSet(regions, Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		moved, err := s.Moved(regions, pose, false, Bounds{}, nil)
		other, wrong := NewSet(want, Bounds{})
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%v, and of what comes of its regions: %v", err, wrong)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(moved.maskRegions(), other.maskRegions()) || !slices.Equal(moved.areas, other.areas) ||
			moved.rows != other.rows || !slices.Equal(moved.boxes, other.boxes) || moved.vertices != other.vertices {
			t.Fatalf("%v\nwant %v", moved, other)
		}
		f := randomFrame(c)
		got, err := Reduce(context.Background(), dev, moved, f, Reductions{}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		direct, err := Reduce(context.Background(), dev, other, f, Reductions{}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		if got.Pose == nil || *got.Pose != pose || direct.Pose != nil {
			t.Fatalf("poses %v and %v, want %v and none", got.Pose, direct.Pose, pose)
		}
		if !reflect.DeepEqual(got.Regions, direct.Regions) {
			t.Fatalf("%+v\nwant %+v", got.Regions, direct.Regions)
		}
		again, err := moved.Moved(regions, Pose{A: 1, E: 1}, false, Bounds{}, nil)
		if err != nil || !reflect.DeepEqual(again.maskRegions(), s.maskRegions()) {
			t.Fatalf("moved back: %v, %v", again, err)
		}
	})
}

// TestMovedShapes: a shape on a moved part has the pixels of the shape that is mapped, and a mask those that it is
// moved to.
func TestMovedShapes(t *testing.T) {
	rng := testseed.New(t, 19, 1)
	for range 60 {
		mask := randomMask(rng)
		regions := []Region{
			{Name: "ring", Rings: []Ring{randomRing(rng, 12, 12)}},
			{Name: "disc", Shape: "circle(7.5, 6.25, 4)"},
			{Name: "two", Shape: `"disc" - inset of "disc" by 1.5`},
			{Name: "rest", Shape: `move of "ring" by (3, 1) and "two" + rect(1, 2, 4, 9)`},
		}
		pose := NewPose(Point{pick(rng, 0, 3.25, -1), pick(rng, 0, 2, 1.7)}, pick(rng, 0., 1.2, 90, 45), pick(rng, 1, 1.01),
			Point{6, 6})
		if !(math.Abs(regions[0].Rings[0][0].X) < 1<<20) { // mapped vertices are rounded otherwise far away
			continue
		}
		if pick(rng, true, false) {
			pose = NewPose(Point{float64(rng.IntN(9)), float64(rng.IntN(9))}, pick(rng, 0., 90, 180, -90), 1, Point{})
			regions = append(regions, Region{Name: "mask", Mask: mask}, Region{Name: "of", Shape: `"mask" xor "disc"`})
		}
		s, err := NewSet(regions, Bounds{})
		if err != nil {
			continue // a ring out of range
		}
		moved, err := s.Moved(regions, pose, false, Bounds{}, nil)
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		for i := 1; i < len(regions); i++ {
			shape := fmt.Sprintf(`map of "%s" by (%v, %v, %v, %v, %v, %v)`, regions[i].Name, pose.A, pose.B, pose.C, pose.D, pose.E,
				pose.F)
			want := mustSet(t, append(slices.Clone(regions), Region{Name: "mapped", Shape: shape})...)
			if !slices.Equal(moved.Pixels(i), want.Pixels(len(regions))) {
				t.Fatalf("%s with %v:\n%v, want\n%v", regions[i].Name, pose, moved.Pixels(i), want.Pixels(len(regions)))
			}
		}
		if moved.vertices != s.vertices && !slices.ContainsFunc(regions, func(r Region) bool { return r.Shape != "" }) {
			t.Errorf("%d vertices, had %d", moved.vertices, s.vertices)
		}
	}
}

// TestMovedScale: mm are from the origin on the part, which moves with it, and pixels of the frame.
func TestMovedScale(t *testing.T) {
	dev := openCPU(t, kernels.Config{})
	regions := []Region{{Name: "a", Rings: []Ring{{{2, 2}, {6, 2}, {6, 6}, {2, 6}}},
		Limits: []string{"centroid.x in [0.19, 0.21] mm", "min.x < 5", "area < 0.17 mm2"}}}
	scale := &Scale{X: 0.1, Y: 0.1, Origin: Point{2, 2}}
	s, err := NewSetInPieces(regions, scale, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := s.Moved(regions, NewPose(Point{10, 3}, 0, 1, Point{}), false, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := noise(32, 32, driver.Gray8)
	at := func(s *Set) *Result {
		t.Helper()
		res, err := Reduce(t.Context(), dev, s, f, Reductions{Statistics: Basic | Centroid}, driver.MethodDefault)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	before, after := at(s), at(moved)
	if after.Scale.Origin != (Point{12, 5}) || *before.Scale == *after.Scale {
		t.Errorf("the origin is at %v", after.Scale.Origin)
	}
	for k, want := range []Verdict{Pass, Fail, Pass} { // places in pixels are of the frame
		if l := after.Regions[0].Limits[k]; l.Verdict != want {
			t.Errorf("%s: %v: %s", l.Expression, l.Verdict, l.Reason)
		}
	}
	if before.Verdict != Pass {
		t.Errorf("not moved: %+v", before.Regions[0].Limits)
	}
	// What can't fail where a part happens to lie is a limit all the same.
	for _, dx := range []float64{-2, -100, 20} {
		moved, err := s.Moved(regions, NewPose(Point{dx, 0}, 0, 1, Point{}), false, Bounds{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		res := at(moved)
		if inside := dx != -100; (res.Regions[0].Limits[0].Verdict == Pass) != inside {
			t.Errorf("moved by %v: %+v", dx, res.Regions[0].Limits[0])
		} else if !inside && !strings.Contains(res.Regions[0].Limits[0].Reason, "outside the frame") {
			t.Errorf("moved by %v: %s", dx, res.Regions[0].Limits[0].Reason)
		}
	}
}

func TestPoseParameters(t *testing.T) {
	for _, c := range []struct {
		p    Pose
		want PoseParameters
	}{
		{Pose{A: 1, E: 1}, PoseParameters{1, 1, 0, 0}},
		{NewPose(Point{3, 4}, 90, 2, Point{5, 6}), PoseParameters{2, 2, 90, 0}},
		{NewPose(Point{}, 180, 1, Point{}), PoseParameters{1, 1, 180, 0}},
		{NewPose(Point{}, -30, 0.5, Point{9, 9}), PoseParameters{0.5, 0.5, -30, 0}},
		{Pose{A: 1, B: -1, E: 1}, PoseParameters{1, math.Sqrt2, 0, 45}},
		{Pose{A: 1, E: -1}, PoseParameters{1, 1, 0, 180}},
	} {
		got := c.p.Parameters()
		for i, pair := range [][2]float64{{got.ScaleX, c.want.ScaleX}, {got.ScaleY, c.want.ScaleY},
			{got.Rotation, c.want.Rotation}, {math.Abs(got.Slant), c.want.Slant}} {
			if math.Abs(pair[0]-pair[1]) > 1e-12 {
				t.Errorf("%v: %+v, want %+v (%d)", c.p, got, c.want, i)
			}
		}
	}
	about := Point{5, 6}
	if at := NewPose(Point{}, 33, 1.5, about).To(about); math.Hypot(at.X-5, at.Y-6) > 1e-12 {
		t.Errorf("what it is turned about comes to %v", at)
	}
}

// TestPoseErrors: each error says the field, the value and the limit.
func TestPoseErrors(t *testing.T) {
	regions := []Region{{Name: "a", Rings: []Ring{{{2, 2}, {6, 2}, {6, 6}}}}, {Name: "m", Mask: []Run{{Y: 1, X0: 2, X1: 3}}},
		{Name: "s", Shape: "inset of \"a\" by 1"}}
	scale := &Scale{X: 0.1, Y: 0.1, Origin: Point{1 << 21, 0}}
	s, err := NewSetInPieces(regions, scale, Bounds{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shift := func(dx, dy float64) Pose { return Pose{1, 0, dx, 0, 1, dy} }
	for _, c := range []struct {
		p    Pose
		want []string
	}{
		{shift(math.NaN(), math.Inf(1)), []string{"pose.affine[2] = NaN", "finite", "1 more"}},
		{NewPose(Point{}, 3, 4.5, Point{}), []string{"pose", "4.5 times along x", "0.25 to 4"}},
		{Pose{A: 1, E: 0.2}, []string{"0.2 times along y", "0.25 to 4"}},
		{Pose{}, []string{"0 times along x"}},
		{Pose{A: 1, B: 1.1, E: 1}, []string{"a slant of -47.7263 degrees", "within 45 degrees"}},
		{Pose{A: -1, E: 1}, []string{"a slant of", "180 degrees"}},
		{shift(0, 1<<22), []string{"pose", "is where", "4194304 px from 0"}},
		{shift(1<<21, 0), []string{"pose", "origin of the scale", "4194304 px from 0"}},
		{shift(0.5, 0), []string{"regions[1].mask", "1 runs", "whole pixels"}},
		{Pose{A: 1, E: 2}, []string{"whole pixels"}},
	} {
		_, err := s.Moved(regions, c.p, false, Bounds{}, nil)
		if err == nil {
			t.Errorf("%v: no error", c.p)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %q lacks %q", c.p, err, w)
			}
		}
	}
	noMask := []Region{regions[0], {Name: "m", Shape: "circle(3, 3, 1)"}, regions[2]}
	if s, err = NewSet(noMask, Bounds{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Moved(noMask, Pose{A: 1, E: 1.5}, false, Bounds{}, nil); err == nil ||
		!strings.Contains(err.Error(), `regions[1].shape`) {
		t.Errorf("a circle that becomes an ellipse: %v", err)
	}
	if _, err := s.Moved(noMask[:1], Pose{A: 1, E: 1}, false, Bounds{}, nil); err == nil {
		t.Error("other regions are taken")
	}
	stop := fmt.Errorf("stop")
	if _, err := s.Moved(slices.Repeat(noMask[:1], 3), shift(1, 1), false, Bounds{}, func() error { return stop }); err != nil {
		t.Errorf("little work calls pause: %v", err)
	}
	many := slices.Repeat(noMask[:1], 2000)
	if s, err = NewSet(many, Bounds{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Moved(many, shift(1, 1), false, Bounds{}, func() error { return stop }); err != stop {
		t.Errorf("the error of pause: %v", err)
	}
}

// FuzzPose: a pose of any numbers moves regions, or says what is wrong with it.
func FuzzPose(f *testing.F) {
	f.Add([]byte("seed"), 1., 0., 7.3, 0., 1., -4.)
	f.Add([]byte{1, 2, 3}, 0.9998, -0.0209, 2.5, 0.0209, 0.9998, 1e9)
	f.Add([]byte{9, 8, 7, 6}, math.Inf(1), 0., 0., 0., math.NaN(), 0.)
	f.Add([]byte{4, 4, 4}, 1e-300, 1e300, 0., 1., 1., 0.)
	f.Fuzz(func(t *testing.T, data []byte, a, b, c, d, e, g float64) {
		choices := byteChoices{data}
		regions := []Region{randomRegion(&choices, 9, 9), {Name: "disc", Shape: "circle(4, 5, 3)"}}
		s, err := NewSet(regions, Bounds{})
		if err != nil {
			return
		}
		pose := Pose{a, b, c, d, e, g}
		moved, err := s.Moved(regions, pose, false, Bounds{}, nil)
		if err != nil {
			if !strings.Contains(err.Error(), "pose") && !strings.Contains(err.Error(), "regions[1].shape") {
				t.Fatal(err)
			}
			return
		}
		want, err := NewSet([]Region{oracleMoved(regions[0], pose)}, Bounds{})
		if err != nil {
			t.Fatalf("%v moved a region that can't be: %v", pose, err)
		}
		if !slices.Equal(moved.edgesOf(0), want.edgesOf(0)) || moved.areas[0] != want.areas[0] {
			t.Fatalf("%v: %v, want %v", pose, moved.edgesOf(0), want.edgesOf(0))
		}
	})
}

// BenchmarkMoved moves regions with a new pose for each frame: alone, prepared, and with a small frame reduced.
func BenchmarkMoved(b *testing.B) {
	for _, n := range []int{50, 1000} {
		regions := manyRegions(n, 12, 2880, 1440)
		for i := range regions {
			regions[i].Limits = []string{"mean in [10, 200]", "p99 < 250"}
		}
		set := mustSet(b, regions...)
		dev := openCPU(b, kernels.Config{MemoryBytes: 1 << 30})
		k := 0
		move := func() *Set {
			k++
			s, err := set.Moved(regions, NewPose(Point{float64(k%100) / 7, 4}, float64(k%13)/10, 1, Point{1440, 720}), false, Bounds{},
				nil)
			if err != nil {
				b.Fatal(err)
			}
			return s
		}
		b.Run(fmt.Sprintf("%d/moved", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				move()
			}
		})
		b.Run(fmt.Sprintf("%d/prepared", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := move().Prepare(b.Context(), dev, 2880, 1440, driver.MethodDefault)
				if err != nil {
					b.Fatal(err)
				}
				_ = p.Close()
			}
		})
	}
}
