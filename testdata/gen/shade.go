// shade.go is what a camera with an uneven light sees of a picture.
package main

import "image"

// whiteLevel is what a white sheet comes to where the light is whole.
const whiteLevel = 200

// shade is a picture of gray under a light that falls off to three fifths in the corners, by a camera each of whose
// columns shows something of its own in the dark; and a white sheet there, and the dark.
func shade(im *image.Gray) (seen, white, dark *image.Gray) {
	b := im.Bounds()
	seen, white, dark = image.NewGray(b), image.NewGray(b), image.NewGray(b)
	cx, cy := b.Dx()/2, b.Dy()/2
	for y := range b.Dy() {
		for x := range b.Dx() {
			light := 256 - 102*((x-cx)*(x-cx)+(y-cy)*(y-cy))/(cx*cx+cy*cy)
			own := 3 + x*7%5
			i := y*b.Dx() + x
			seen.Pix[i] = uint8(min(own+(int(im.Pix[i])*light+128)/256, 255))
			white.Pix[i] = uint8(own + (whiteLevel*light+128)/256)
			dark.Pix[i] = uint8(own)
		}
	}
	return seen, white, dark
}
