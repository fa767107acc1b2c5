package server

import (
	"reflect"
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
)

// standard is a Config with nothing but defaults.
var standard = func() Config {
	c, err := Config{}.withDefaults()
	if err != nil {
		panic(err)
	}
	return c
}()

// Tags hold numbers, and these are those of other packages.
func TestSettingsAgreeWithPackages(t *testing.T) {
	if want := (polygon.Bounds{MaxRegions: polygon.DefaultMaxRegions, MaxVertices: polygon.DefaultMaxVertices,
		MaxRegionVertices: polygon.DefaultMaxRegionVertices}); !reflect.DeepEqual(standard.bounds(), want) {
		t.Errorf("%+v, want %+v", standard.bounds(), want)
	}
	for _, x := range []struct {
		most Config
		ok   bool
	}{
		{Config{MaxFramePixels: driver.MaxPixels, MaxPoints: driver.MaxPoints}, true},
		{Config{MaxFramePixels: driver.MaxPixels + 1}, false},
		{Config{MaxPoints: driver.MaxPoints + 1}, false},
	} {
		if _, err := x.most.withDefaults(); (err == nil) != x.ok {
			t.Errorf("MaxFramePixels %d, MaxPoints %d: %v", x.most.MaxFramePixels, x.most.MaxPoints, err)
		}
	}
}
