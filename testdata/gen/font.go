// font.go is a stroke font of capitals, digits and a few signs, drawn the way board legends and lasers draw them.

package main

import "strings"

// glyphs lists pen strokes on a grid 4 wide and 6 high, y down: digits are x then y, blanks separate points, bars
// strokes.
var glyphs = map[rune]string{
	'A': "06 02 20 42 46|04 44",
	'B': "00 30 41 42 33 03|33 44 45 36 06 00",
	'C': "41 30 10 01 05 16 36 45",
	'D': "00 30 42 44 36 06 00",
	'E': "40 00 06 46|03 33",
	'F': "40 00 06|03 33",
	'G': "41 30 10 01 05 16 36 45 43 23",
	'H': "00 06|40 46|03 43",
	'I': "10 30|20 26|16 36",
	'J': "40 45 36 16 05",
	'K': "00 06|40 03 46",
	'L': "00 06 46",
	'M': "06 00 23 40 46",
	'N': "06 00 46 40",
	'O': "10 30 41 45 36 16 05 01 10",
	'P': "06 00 30 41 42 33 03",
	'Q': "10 30 41 45 36 16 05 01 10|24 46",
	'R': "06 00 30 41 42 33 03|23 46",
	'S': "41 30 10 01 02 13 33 44 45 36 16 05",
	'T': "00 40|20 26",
	'U': "00 05 16 36 45 40",
	'V': "00 26 40",
	'W': "00 16 23 36 40",
	'X': "00 46|40 06",
	'Y': "00 23 40|23 26",
	'Z': "00 40 06 46",
	'0': "10 30 41 45 36 16 05 01 10",
	'1': "02 20 26|06 46",
	'2': "01 10 30 41 42 06 46",
	'3': "01 10 30 41 42 33 44 45 36 16 05|13 33",
	'4': "36 30 04 44",
	'5': "40 00 03 32 43 45 36 06",
	'6': "30 10 01 05 16 36 45 44 33 03",
	'7': "00 40 16",
	'8': "10 30 41 42 33 13 02 01 10|13 04 05 16 36 45 44 33",
	'9': "16 36 45 41 30 10 01 02 13 43",
	'-': "13 33",
	'+': "03 43|21 25",
	'.': "26 26",
	'/': "06 40",
	':': "22 22|25 25",
}

// textWidth is the width of s at cap height h, without the last letter's gap.
func textWidth(s string, h fix) fix { return mul(h/6, px(6*len(s)-2)) }

// text writes s with its middle at the given point, cap height h and pen half width r. A quarter turn makes it read
// upwards.
func (c *canvas) text(s string, at pt, h, r fix, upright bool, col rgb, opacity fix) {
	x0, y0 := -textWidth(s, h)/2, -h/2
	for n, letter := range s {
		var glyph shape
		for i, stroke := range strings.Split(glyphs[letter], "|") {
			var pts []pt
			for _, v := range strings.Fields(stroke) {
				a := pt{x0 + mul(h/6, px(6*n+int(v[0]-'0'))), y0 + mul(h/6, px(int(v[1]-'0')))}
				if !upright {
					a = pt{a.y, -a.x}
				}
				pts = append(pts, pt{a.x + at.x, a.y + at.y})
			}
			if len(pts) == 0 {
				continue
			}
			if s := path(pts, r); i == 0 {
				glyph = s
			} else {
				glyph = union(glyph, s)
			}
		}
		if glyph.d != nil {
			c.fill(glyph, opacity, flat(col))
		}
	}
}
