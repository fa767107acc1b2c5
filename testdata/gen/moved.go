// moved.go is the board as it comes off a belt: moved, turned, and under an uneven light; with the truth beside it.
package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
)

// How the moved board lies: turned by 1.2 degrees, clockwise on the screen, about the middle of the frame, and shifted
// by 7.3 px to the right: by 73 tenths. Sine and cosine are in units of 2^-24, as their bits must be the same on every
// machine.
const (
	movedCos = 16773536 // 0.99978068
	movedSin = 351354   // 0.02094242
	fraction = 24
)

// movedPose is a, b, c, d, e, f: (x, y) of the straight board comes to (a x + b y + c, d x + e y + f).
const movedPose = "[0.99978065, -0.02094233, 14.10683, 0.02094233, 0.99978065, -9.98213]"

// moved is a picture as a camera sees it of a part that lies elsewhere: between pixels it is interpolated, and outside
// it goes on as at its border.
func moved(from image.Image) *image.NRGBA {
	im := from.(*image.NRGBA)
	b := im.Bounds()
	out := image.NewNRGBA(b)
	at := func(x, y int64, c int) int64 {
		x, y = min(max(x, 0), int64(b.Dx()-1)), min(max(y, 0), int64(b.Dy()-1))
		return int64(im.Pix[im.PixOffset(int(x), int(y))+c])
	}
	const unit = 1 << fraction
	for y := range b.Dy() {
		for x := range b.Dx() {
			// The centre of the pixel about the middle, less the shift, in tenths of a pixel; then the place in the straight
			// picture, in units.
			u, v := int64(2*x+1-b.Dx())*5-73, int64(2*y+1-b.Dy())*5
			sx := (u*movedCos+v*movedSin)/10 + int64(b.Dx())*unit/2 - unit/2
			sy := (v*movedCos-u*movedSin)/10 + int64(b.Dy())*unit/2 - unit/2
			x0, y0 := sx>>fraction, sy>>fraction
			fx, fy := (sx&(unit-1))>>8, (sy&(unit-1))>>8 // of 2^16
			for c := range 3 {
				top := at(x0, y0, c)*(1<<16-fx) + at(x0+1, y0, c)*fx
				bottom := at(x0, y0+1, c)*(1<<16-fx) + at(x0+1, y0+1, c)*fx
				out.Pix[out.PixOffset(x, y)+c] = uint8((top*(1<<16-fy) + bottom*fy + 1<<31) >> 32)
			}
			out.Pix[out.PixOffset(x, y)+3] = 255
		}
	}
	return out
}

// unevenly is a picture under a light that falls off by 30 % to the right edge and the lower one, and a white sheet
// there.
func unevenly(im *image.NRGBA) (seen, white *image.NRGBA) {
	b := im.Bounds()
	seen, white = image.NewNRGBA(b), image.NewNRGBA(b)
	for y := range b.Dy() {
		for x := range b.Dx() {
			light := 65536 - 9830*x/(b.Dx()-1) - 9830*y/(b.Dy()-1)
			i := seen.PixOffset(x, y)
			sheet := uint8((whiteLevel*light + 32768) >> 16)
			white.SetNRGBA(x, y, color.NRGBA{sheet, sheet, sheet, 255})
			for c := range 3 {
				seen.Pix[i+c] = uint8((int(im.Pix[i+c])*light + 32768) >> 16)
			}
			seen.Pix[i+3] = 255
		}
	}
	return seen, white
}

// text is a file that is neither a picture nor regions.
type text struct {
	path string
	data []byte
}

// located are the recipe of the board, which says how it is found, and the truth of the moved one. The places of the
// fiducials are those that the straight board was measured to have: their dots shine on one side.
func located(regions []region) []text {
	list, err := encode(regions)
	if err != nil {
		panic(err) // as encode would again, which says it
	}
	var b bytes.Buffer
	b.WriteString("{\"name\":\"board\",\"drawn_on\":{\"name\":\"board.png\",\"width\":960,\"height\":640},\n" +
		"\"locate\":{\"fiducials\":[\n")
	for i, f := range boardFiducials {
		end := ",\n"
		if i == len(boardFiducials)-1 {
			end = "]},\n"
		}
		fmt.Fprintf(&b, "{\"name\":\"F%d\",\"window\":\"rect(%d, %d, %d, %d)\",\"at\":[%d.93,%d.91],\"kind\":\"circle\","+
			"\"min_area\":100,\"max_area\":400,\"channel\":\"r\"}%s", i+1, f[0]-28, f[1]-28, f[0]+28, f[1]+28,
			f[0]-1, f[1]-1, end)
	}
	b.WriteString("\"regions\":")
	b.Write(bytes.TrimSpace(list))
	b.WriteString("}\n")
	truth := fmt.Sprintf("{\"pose\": %s, \"rotation\": 1.2, \"shade_percent\": 30}\n", movedPose)
	return []text{{"moved/board.recipe.json", b.Bytes()}, {"moved/truth.json", []byte(truth)}}
}

// boardFiducials are where they are drawn.
var boardFiducials = [3][2]int{{116, 40}, {840, 40}, {116, 600}}
