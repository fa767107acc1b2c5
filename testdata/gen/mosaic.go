// mosaic.go is what a colour camera sends of a picture.
package main

import "image"

// mosaic is a picture as a camera with a Bayer filter sees it: of each pixel one colour, red and green in even rows and
// green and blue in odd ones (BayerRG8).
func mosaic(im image.Image) *image.Gray {
	b := im.Bounds()
	out := image.NewGray(b)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			red, green, blue, _ := im.At(x, y).RGBA()
			v := green
			switch {
			case x%2 == 0 && y%2 == 0:
				v = red
			case x%2 == 1 && y%2 == 1:
				v = blue
			}
			out.Pix[out.PixOffset(x, y)] = uint8(v >> 8)
		}
	}
	return out
}
