package main

// The fonts of pictures.

import (
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

var parsedFonts = sync.OnceValues(func() ([2]*opentype.Font, error) {
	regular, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return [2]*opentype.Font{}, err
	}
	heavy, err := opentype.Parse(gobold.TTF)
	return [2]*opentype.Font{regular, heavy}, err
})

// face is a font whose em is a number of pixels.
func face(px float64, heavy bool) (font.Face, error) {
	fonts, err := parsedFonts()
	if err != nil {
		return nil, err
	}
	f := fonts[0]
	if heavy {
		f = fonts[1]
	}
	return opentype.NewFace(f, &opentype.FaceOptions{Size: px, DPI: 72, Hinting: font.HintingNone})
}
