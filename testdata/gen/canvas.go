// canvas.go is the picture under construction: planes of fixed-point levels, painted by shapes, quantised once at the
// end.

package main

import (
	"image"
	"image/color"
)

// rgb is a colour in levels; grey pictures use the first component only.
type rgb [3]fix

// hex makes a colour of 0xRRGGBB.
func hex(v uint32) rgb {
	return rgb{px(int(v >> 16 & 255)), px(int(v >> 8 & 255)), px(int(v & 255))}
}

// grey is the same level in each component.
func grey(v fix) rgb { return rgb{v, v, v} }

// mix goes from c to o by share t.
func (c rgb) mix(o rgb, t fix) rgb {
	return rgb{lerp(c[0], o[0], t), lerp(c[1], o[1], t), lerp(c[2], o[2], t)}
}

// add raises every component by v levels.
func (c rgb) add(v fix) rgb { return rgb{c[0] + v, c[1] + v, c[2] + v} }

// times scales every component.
func (c rgb) times(f fix) rgb { return rgb{mul(c[0], f), mul(c[1], f), mul(c[2], f)} }

// canvas holds w*h pixels in row-major order.
type canvas struct {
	w, h int
	pix  []rgb
}

func newCanvas(w, h int) *canvas { return &canvas{w, h, make([]rgb, w*h)} }

// each replaces every pixel by f of its centre and its old colour.
func (c *canvas) each(f func(x, y fix, old rgb) rgb) {
	for j := range c.h {
		for i := range c.w {
			k := j*c.w + i
			c.pix[k] = f(px(i)+half, px(j)+half, c.pix[k])
		}
	}
}

// ink gives a pixel's colour from its centre and the signed distance of the shape that is being painted.
type ink func(x, y, d fix) rgb

// flat is an ink of one colour.
func flat(c rgb) ink { return func(_, _, _ fix) rgb { return c } }

// within visits the pixels of the box of s, grown by margin.
func (c *canvas) within(s shape, margin fix, f func(k int, x, y fix)) {
	i0, i1 := max(int((s.x0-margin)>>16), 0), min(int((s.x1+margin)>>16)+1, c.w)
	j0, j1 := max(int((s.y0-margin)>>16), 0), min(int((s.y1+margin)>>16)+1, c.h)
	for j := j0; j < j1; j++ {
		for i := i0; i < i1; i++ {
			f(j*c.w+i, px(i)+half, px(j)+half)
		}
	}
}

// fill paints s with the given opacity.
func (c *canvas) fill(s shape, opacity fix, in ink) {
	c.within(s, one, func(k int, x, y fix) {
		d := s.d(x, y)
		if a := mul(clamp(half-d, 0, one), opacity); a > 0 {
			c.pix[k] = c.pix[k].mix(in(x, y, d), a)
		}
	})
}

// glow mixes a colour in with an opacity that falls smoothly from its full value blur inside the border of s to nothing
// blur outside it.
func (c *canvas) glow(s shape, blur, opacity fix, col rgb) {
	c.within(s, blur, func(k int, x, y fix) {
		if a := mul(smooth(blur, -blur, s.d(x, y)), opacity); a > 0 {
			c.pix[k] = c.pix[k].mix(col, a)
		}
	})
}

// shadow darkens what lies under s when it stands height pixels above the ground and light falls from the top left.
func (c *canvas) shadow(s shape, height, strength fix) {
	dx, dy := mul(height, q(0.6)), mul(height, q(0.8))
	moved := shape{func(x, y fix) fix { return s.d(x-dx, y-dy) }, s.x0 + dx, s.y0 + dy, s.x1 + dx, s.y1 + dy}
	c.glow(moved, mul(height, q(0.8))+one, strength, rgb{})
	// The contact shadow all around keeps parts from floating.
	c.glow(s, q(2.5), strength/2, rgb{})
}

// facing is how much the border of s nearest to (x, y) faces the light at the top left: 1 towards it, -1 away from it.
func facing(s shape, x, y fix) fix {
	gx, gy := s.d(x+half, y)-s.d(x-half, y), s.d(x, y+half)-s.d(x, y-half)
	n := hypot(gx, gy)
	if n == 0 {
		return 0
	}
	return -mul(div(gx, n), q(0.6)) - mul(div(gy, n), q(0.8))
}

// bevel is an ink for a solid of one base colour whose border slopes over width w; strength is in levels.
func bevel(s shape, w, strength fix, base rgb) ink {
	return func(x, y, d fix) rgb {
		if d < -w {
			return base
		}
		return base.add(mul(mul(facing(s, x, y), smooth(-w, 0, d)), strength))
	}
}

// rgbImage quantises to 8 bits a channel.
func (c *canvas) rgbImage() image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, c.w, c.h))
	for k, v := range c.pix {
		for ch := range 3 {
			m.Pix[4*k+ch] = uint8(level(v[ch], 255))
		}
		m.Pix[4*k+3] = 255
	}
	return m
}

// grayImage quantises the first component to 8 bits.
func (c *canvas) grayImage() image.Image {
	m := image.NewGray(image.Rect(0, 0, c.w, c.h))
	for k, v := range c.pix {
		m.Pix[k] = uint8(level(v[0], 255))
	}
	return m
}

// gray16Image quantises the first component to whole levels of 0 to limit, stored in 16 bits without scaling.
func (c *canvas) gray16Image(limit int) image.Image {
	m := image.NewGray16(image.Rect(0, 0, c.w, c.h))
	for k, v := range c.pix {
		m.SetGray16(k%c.w, k/c.w, color.Gray16{Y: uint16(level(v[0], limit))})
	}
	return m
}

func level(v fix, limit int) fix { return clamp((v+half)>>16, 0, fix(limit)) }
