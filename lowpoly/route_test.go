package lowpoly_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/devicetest"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/lowpoly"
)

// Both routes lead to the same triangles, wherever the points lie.
func TestRoutesAgree(t *testing.T) {
	d := openCPU(t, 16<<20)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int32Range(0, 300).Draw(t, "size")
		dx := rapid.Int32Range(-driver.MaxPoint, driver.MaxPoint-size).Draw(t, "dx")
		dy := rapid.Int32Range(-driver.MaxPoint, driver.MaxPoint-size).Draw(t, "dy")
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) driver.Point {
			return driver.Point{X: dx + rapid.Int32Range(0, size).Draw(t, "x"),
				Y: dy + rapid.Int32Range(0, size).Draw(t, "y")}
		}), 0, 300).Draw(t, "points")
		before := slices.Clone(points)
		direct, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteDirect)
		if err != nil {
			t.Fatal(err)
		}
		other, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteVoronoi)
		if err != nil {
			t.Fatal(err)
		}
		if diff := devicetest.CompareTriangles(other.Triangles, direct.Triangles); diff != nil {
			t.Fatal(diff)
		}
		if direct.Steps != nil || other.Steps == nil || other.Steps.Direct {
			t.Fatalf("steps %+v, %+v", direct.Steps, other.Steps)
		}
		if !slices.Equal(points, before) {
			t.Fatal("the points were changed")
		}
	})
}

func TestRouteRefuses(t *testing.T) {
	d := openCPU(t, 8<<20)
	for name, points := range map[string][]driver.Point{
		"too wide":        {{X: -driver.MaxSide / 2}, {X: driver.MaxSide / 2}, {Y: 1}},
		"too high":        {{Y: -5}, {Y: driver.MaxSide}, {X: 1}},
		"too many pixels": {{}, {X: 1 << 15, Y: 1 << 15}},
	} {
		_, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteVoronoi)
		var invalid *kernels.InvalidError
		if !errors.As(err, &invalid) || invalid.Violations[0].Path.String() != "route" {
			t.Errorf("%s: %v, want an error about the route", name, err)
		}
		if _, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteDirect); err != nil {
			t.Errorf("%s, direct: %v", name, err)
		}
	}
	var invalid *kernels.InvalidError
	if _, err := lowpoly.Triangulate(context.Background(), d, nil, 2); !errors.As(err, &invalid) ||
		invalid.Violations[0].Path.String() != "route" {
		t.Errorf("route 2: %v", err)
	}
	var capacity *kernels.CapacityError
	if _, err := lowpoly.Triangulate(context.Background(), d, []driver.Point{{}, {X: 2000, Y: 2000}},
		lowpoly.RouteVoronoi); !errors.As(err, &capacity) {
		t.Errorf("2001x2001 pixels in a device of 8 MiB: %v", err)
	}
	if m := d.Memory(); m.Used != 0 {
		t.Errorf("%d bytes are in use after it", m.Used)
	}
}

// Pictures are the same by both routes.
func TestConvertByRoutes(t *testing.T) {
	d := openCPU(t, 16<<20)
	for i, p := range devicetest.Pictures(11, 12) {
		opt := lowpoly.Options{Vertices: 4 + 20*i, Border: 1000, Cell: lowpoly.Off, Spacing: lowpoly.Off}
		direct, err := lowpoly.Convert(context.Background(), d, imageOf(&p), opt)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		opt.Route = lowpoly.RouteVoronoi
		other, err := lowpoly.Convert(context.Background(), d, imageOf(&p), opt)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if !bytes.Equal(other.Data[0], direct.Data[0]) {
			t.Errorf("%s: the pixels differ", p.Name)
		}
		if diff := devicetest.CompareTriangles(other.Mesh.Triangles, direct.Mesh.Triangles); diff != nil {
			t.Errorf("%s: %v", p.Name, diff)
		}
	}
}

// A mesh that Flips doesn't find sound leads to the direct triangulation, which is said.
func TestRouteFallsBack(t *testing.T) {
	points := []driver.Point{{X: 0, Y: 0}, {X: 9, Y: 0}, {X: 4, Y: 7}, {X: 4, Y: 3}, {X: 8, Y: 8}}
	d, err := kernels.Open(holed{cpu.New(cpu.Options{})}, kernels.Config{MemoryBytes: 1 << 20, Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := lowpoly.Triangulate(context.Background(), d, points, lowpoly.RouteVoronoi)
	if err != nil {
		t.Fatal(err)
	}
	if err := devicetest.CheckTriangles(points, got.Triangles); err != nil || !got.Steps.Direct {
		t.Errorf("with a hull that is left open: %v, %+v", err, got.Steps)
	}
}

// holed leaves HullCompletion out.
type holed struct{ driver.Driver }

func (h holed) Open(ordinal int) (driver.Device, error) {
	d, err := h.Driver.Open(ordinal)
	return holedDevice{d}, err
}

type holedDevice struct{ driver.Device }

func (h holedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := h.Device.NewStream(priority)
	return holedStream{s}, err
}

type holedStream struct{ driver.Stream }

func (s holedStream) Run(op driver.Op) error {
	if _, ok := op.(*driver.HullCompletion); ok {
		return nil
	}
	return s.Stream.Run(op)
}
