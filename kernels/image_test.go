package kernels

import (
	"testing"

	"github.com/polyscan/polyscan/kernels/driver"
)

func TestImageCheck(t *testing.T) {
	pieces := func(n ...int) (out [][]byte) {
		for _, k := range n {
			out = append(out, make([]byte, k))
		}
		return out
	}
	for _, x := range []struct {
		field string // "": none
		image Image
	}{
		{"", Image{Width: 4, Height: 3, Format: driver.RGB8, Data: pieces(10, 0, 26)}},
		{"", Image{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(52)}}, // without the last gap
		{"", Image{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(60)}},
		{"format", Image{Width: 4, Height: 3}},
		{"width", Image{Height: 3, Format: driver.Gray8}},
		{"width", Image{Width: driver.MaxSide + 1, Height: 3, Format: driver.Gray8}},
		{"height", Image{Width: 4, Height: -1, Format: driver.Gray8}},
		{"height", Image{Width: 1 << 20, Height: 1 << 10, Format: driver.Gray8}},
		{"stride", Image{Width: 4, Height: 3, Stride: 11, Format: driver.RGB8, Data: pieces(36)}},
		{"stride", Image{Width: 4, Height: 3, Stride: 9, Format: driver.Gray16(12), Data: pieces(27)}},
		{"stride", Image{Width: 4, Height: 3, Stride: 1 << 40, Format: driver.Gray8}},
		{"data", Image{Width: 4, Height: 3, Format: driver.RGB8, Data: pieces(35)}},
		{"data", Image{Width: 4, Height: 3, Stride: 20, Format: driver.RGB8, Data: pieces(53)}},
		{"data", Image{Width: 4, Height: 3, Format: driver.Gray8}},
	} {
		err := x.image.Check()
		if x.field == "" && err != nil || x.field != "" && (err == nil || err.Field != x.field || err.Reason == "") {
			t.Errorf("%+v: %v, want an error about %q", x.image, err, x.field)
		}
	}
}
