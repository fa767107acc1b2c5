// board.go makes the populated circuit board: placement, copper, legend, parts, light.
//
// The scale is 16 px per millimetre, so that an LQFP64 of 0.5 mm pitch has a lead every 8 px.

package main

import "fmt"

const boardW, boardH = 960, 640

// Colours of the board.
var (
	maskBare   = hex(0x0b4430)
	maskCopper = hex(0x1a6a44)
	legend     = hex(0xdfe6dc)
	solder     = hex(0xb4b8b8)
	gold       = hex(0xcfa957)
	moulding   = hex(0x262829)
)

// pad is a piece of copper that the mask leaves open.
type pad struct {
	at     pt
	hw, hh fix
	round  fix // corner radius
	net    int32
}

func (p pad) shape() shape { return box(p.at, p.hw, p.hh, p.round) }

// builder collects the board before it is painted.
type builder struct {
	*canvas
	router   *router
	pads     []pad
	pin      map[string]int // "U1.5" to its index in pads
	traces   [][]pt
	vias     []pt
	stitches []pt     // vias inside the ground area
	keep     []shape  // where neither traces nor vias go
	silk     []shape  // legend lines
	paint    []func() // parts, bottom to top
	regions  []region
}

// addPad adds a pad with a net of its own.
func (b *builder) addPad(name string, at pt, hw, hh, round fix) {
	b.pin[name] = len(b.pads)
	b.pads = append(b.pads, pad{at, hw, hh, round, int32(len(b.pads) + 1)})
}

func (b *builder) region(name string, rings [][][2]float64, limits ...string) {
	b.regions = append(b.regions, region{Name: name, Rings: rings, Limits: limits})
}

// label writes a reference designator.
func (b *builder) label(s string, x, y fix) {
	b.paint = append([]func(){func() { b.text(s, pt{x, y}, px(9), q(0.75), true, legend, q(0.92)) }}, b.paint...)
}

// solid casts a shadow and paints a bevelled body.
func (b *builder) solid(s shape, height, slope, strength fix, col rgb) {
	b.shadow(s, height, q(0.42))
	b.fill(s, one, bevel(s, slope, strength, col))
}

// wet paints a solder fillet: bright towards the light, dark away from it, a sheen across its top.
func (b *builder) wet(s shape, seed uint32) {
	b.fill(s, one, func(x, y, d fix) rgb {
		f := mul(facing(s, x, y), smooth(q(-3.5), 0, d))
		sheen := mul(px(26), bump(d+q(2.6), q(1.6)))
		return solder.add(mul(f, px(72)) + sheen + 14*noise(seed, x/3, y/3))
	})
}

// chip adds a two-pad part at (x, y): its pads lie along x, or along y when upright. body paints the part over the
// pads; nil leaves it out.
func (b *builder) chip(name string, x, y int, upright bool, body func(s func(dx, dy, hw, hh, r fix) shape)) {
	c := pt{px(x), px(y)}
	place := func(dx, dy, hw, hh, r fix) shape {
		if upright {
			dx, dy, hw, hh = dy, dx, hh, hw
		}
		return box(pt{c.x + dx, c.y + dy}, hw, hh, r)
	}
	for i, dx := range []fix{px(-12), px(12)} {
		s := place(dx, 0, px(6), px(7), q(1.5))
		b.addPad(fmt.Sprintf("%s.%d", name, i+1), pt{(s.x0 + s.x1) / 2, (s.y0 + s.y1) / 2}, (s.x1-s.x0)/2,
			(s.y1-s.y0)/2, q(1.5))
	}
	// The legend shows the part's courtyard as two lines beside the body.
	for _, side := range []fix{-one, one} {
		s := place(0, 10*side, px(5), q(0.1), 0)
		b.silk = append(b.silk, line(pt{s.x0, s.y0}, pt{s.x1, s.y1}, q(0.7)))
	}
	if body == nil {
		return
	}
	b.paint = append(b.paint, func() { body(place) })
}

// seedOf gives every name its own noise.
func seedOf(name string) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(name) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

func (b *builder) resistor(name, marking string, x, y int, upright, fitted bool) {
	c := pt{px(x), px(y)}
	body := func(s func(dx, dy, hw, hh, r fix) shape) {
		whole := s(0, 0, px(13), px(6), one)
		b.shadow(whole, px(4), q(0.45))
		b.fill(whole, one, bevel(whole, q(2.5), px(40), hex(0xc3c5c4)))
		mid := s(0, 0, q(8.6), px(6), q(0.4))
		b.fill(mid, one, bevel(mid, q(1.6), px(22), hex(0x23242a)))
		b.text(marking, c, q(5.4), q(0.5), !upright, hex(0xe3e4e0), q(0.9))
	}
	if !fitted {
		body = nil
	}
	b.chip(name, x, y, upright, body)
	hw, hh := px(8), px(5)
	if upright {
		hw, hh = hh, hw
	}
	b.region(name, [][][2]float64{around(c, hw, hh)}, "g.mean in [65, 105]", "g.count of pixels below 55 >= 30")
}

func (b *builder) capacitor(name string, x, y int, upright bool) {
	b.chip(name, x, y, upright, func(s func(dx, dy, hw, hh, r fix) shape) {
		whole := s(0, 0, px(13), q(6.5), one)
		b.shadow(whole, px(6), q(0.45))
		b.fill(whole, one, bevel(whole, q(2.5), px(40), hex(0xc9cac7)))
		mid := s(0, 0, q(8.2), q(6.5), q(0.4))
		tone := hex(0xab8a62).mix(hex(0x98764f), uniform(seedOf(name), 1, 2))
		b.fill(mid, one, bevel(mid, q(2.4), px(30), tone))
	})
	hw, hh := px(7), px(5)
	if upright {
		hw, hh = hh, hw
	}
	b.region(name, [][][2]float64{around(pt{px(x), px(y)}, hw, hh)}, "r.mean in [140, 205]", "b.mean < 130")
}

func (b *builder) led(name string, x, y int, lens rgb, limit string) {
	c := pt{px(x), px(y)}
	b.chip(name, x, y, false, func(s func(dx, dy, hw, hh, r fix) shape) {
		whole := s(0, 0, px(15), px(8), one)
		b.shadow(whole, px(5), q(0.45))
		b.fill(whole, one, bevel(whole, px(2), px(30), hex(0xd8d6c8)))
		dome := s(0, 0, px(9), px(7), px(3))
		b.fill(dome, one, bevel(dome, px(5), px(40), lens))
		b.glow(disc(pt{c.x - px(2), c.y - px(2)}, px(2)), px(3), q(0.55), hex(0xffffff))
	})
	b.region(name, [][][2]float64{around(c, px(8), px(6))}, limit)
}

// lead paints one gull-wing lead from the body's edge to its toe, along (ux, uy), and the solder around the toe.
func (b *builder) lead(root pt, ux, uy, length, hw fix, seed uint32) {
	toe := pt{root.x + mul(ux, length), root.y + mul(uy, length)}
	mid := pt{(root.x + toe.x) / 2, (root.y + toe.y) / 2}
	hx, hy := hw, length/2
	if uy == 0 {
		hx, hy = length/2, hw
	}
	s := box(mid, hx, hy, q(0.8))
	b.shadow(s, px(2), q(0.35))
	b.fill(s, one, func(x, y, d fix) rgb {
		along := div(mul(x-root.x, ux)+mul(y-root.y, uy), length)
		// Shoulder bright, bend dark, foot bright.
		v := lerp(px(206), px(118), smooth(q(0.15), q(0.48), along))
		v = lerp(v, px(196), smooth(q(0.5), q(0.72), along))
		v += mul(facing(s, x, y), mul(px(34), smooth(q(-1.4), 0, d)))
		return grey(v).mix(solder, q(0.3)).add(10 * noise(seed, x/4, y/4))
	})
}

// marking etches lines of text into a moulded body, and the dimple at pin 1.
func (b *builder) marking(c pt, h fix, lines ...string) {
	y := c.y - mul(px(len(lines)-1), h*3/4)
	for _, l := range lines {
		b.text(l, pt{c.x, y}, h, h/14, true, hex(0xa9aeae), q(0.85))
		y += h * 3 / 2
	}
}

// mould paints a moulded package with its sloping rim and grain.
func (b *builder) mould(s shape, height fix, seed uint32) {
	b.shadow(s, height, q(0.5))
	rim := bevel(s, px(5), px(26), moulding)
	b.fill(s, one, func(x, y, d fix) rgb {
		return rim(x, y, d).add(mul(px(16), bump(d+px(5), q(1.4)))/3 + 5*noise(seed, x/2, y/2) + mul(s.y1-y, q(0.05)))
	})
}

// qfp adds a quad flat pack of n leads a side at 8 px.
func (b *builder) qfp(name string, x, y, n int, lines ...string) {
	c := pt{px(x), px(y)}
	bodyHalf := px(8*n+32) / 2
	// west, south, east, north: counter-clockwise from pin 1
	side := [4][2]fix{{-one, 0}, {0, one}, {one, 0}, {0, -one}}
	for k := range 4 * n {
		u := side[k/n]
		t := px(8*(k%n)) - px(4*(n-1))
		if k/n >= 2 {
			t = -t
		}
		// The pins of a side run down the west, right along the south, up the east, left along the north.
		at := pt{c.x + mul(u[0], bodyHalf+px(20)) - mul(u[1], -t), c.y + mul(u[1], bodyHalf+px(20)) + mul(abs(u[0]), t)}
		hw, hh := q(2.5), px(11)
		if u[1] == 0 {
			hw, hh = hh, hw
		}
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), at, hw, hh, q(0.8))
		b.paint = append(b.paint, func() {
			root := pt{at.x - mul(u[0], px(21)), at.y - mul(u[1], px(21))}
			b.lead(root, u[0], u[1], px(28), q(1.9), seedOf(name)+uint32(k))
		})
	}
	body := box(c, bodyHalf, bodyHalf, px(3))
	b.keep = append(b.keep, box(c, bodyHalf-px(4), bodyHalf-px(4), 0))
	b.paint = append(b.paint, func() {
		b.mould(body, px(9), seedOf(name))
		dimple := disc(pt{body.x0 + px(16), body.y0 + px(16)}, px(5))
		b.fill(dimple, one, func(x, y, d fix) rgb { return moulding.add(px(7) - mul(facing(dimple, x, y), px(13))) })
		b.marking(c, px(15), lines...)
	})
	tick := bodyHalf + px(36)
	b.silk = append(b.silk,
		path([]pt{{c.x - tick + px(12), c.y - tick}, {c.x - tick, c.y - tick}, {c.x - tick, c.y - tick + px(12)}},
			q(0.9)),
		path([]pt{{c.x + tick - px(12), c.y + tick}, {c.x + tick, c.y + tick}, {c.x + tick, c.y + tick - px(12)}},
			q(0.9)))
	b.silk = append(b.silk, disc(pt{c.x - bodyHalf - px(20), c.y - px(4*n+10)}, px(3)))
	b.region(name, [][][2]float64{around(c, bodyHalf-px(6), bodyHalf-px(6))}, "mean in [35, 75]", "stddev < 45")
	// One region a side: the gaps between the pads, where only mask may be seen.
	for k, dir := range []string{"west", "south", "east", "north"} {
		u := side[k]
		var gaps [][][2]float64
		for i := range n - 1 {
			t := px(8*i) - px(4*(n-2))
			g := pt{c.x + mul(u[0], bodyHalf+px(21)) + mul(abs(u[1]), t), c.y + mul(u[1], bodyHalf+px(21)) +
				mul(abs(u[0]), t)}
			if u[1] == 0 {
				gaps = append(gaps, around(g, px(8), q(0.5)))
			} else {
				gaps = append(gaps, around(g, q(0.5), px(8)))
			}
		}
		b.region(fmt.Sprintf("%s gaps %s", name, dir), gaps, "count of pixels above 150 <= 6")
	}
}

// soic adds a small-outline package with n leads at 20 px on its left and right.
func (b *builder) soic(name string, x, y, n int, lines ...string) {
	c := pt{px(x), px(y)}
	hh := px(20*n)/2 - px(1)
	for k := range 2 * n {
		u, i := -one, k
		if k >= n {
			u, i = one, 2*n-1-k
		}
		at := pt{c.x + 44*u, c.y + px(20*i) - px(10*(n-1))}
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), at, px(12), px(5), one)
		b.paint = append(b.paint, func() {
			b.lead(pt{at.x - 14*u, at.y}, u, 0, px(20), q(3.4), seedOf(name)+uint32(k))
		})
	}
	body := box(c, px(31), hh, px(2))
	b.keep = append(b.keep, box(c, px(26), hh, 0))
	b.paint = append(b.paint, func() {
		b.mould(body, px(9), seedOf(name))
		dimple := disc(pt{body.x0 + px(11), body.y0 + px(11)}, px(4))
		b.fill(dimple, one, func(x, y, d fix) rgb { return moulding.add(px(7) - mul(facing(dimple, x, y), px(13))) })
		y := c.y - mul(px(len(lines)-1), px(9))
		for _, l := range lines {
			// Narrow bodies are marked along their length.
			if n > 4 {
				b.text(l, pt{c.x + (y - c.y), c.y}, px(12), q(0.85), false, hex(0xa9aeae), q(0.85))
			} else {
				b.text(l, pt{c.x + px(3), y}, px(9), q(0.7), true, hex(0xa9aeae), q(0.85))
			}
			y += px(18)
		}
	})
	for _, s := range []fix{-one, one} {
		b.silk = append(b.silk, line(pt{c.x - px(31), c.y + mul(s, hh+px(5))}, pt{c.x + px(31), c.y + mul(s, hh+px(5))},
			q(0.9)))
	}
	b.silk = append(b.silk, disc(pt{c.x - px(44), c.y - hh - px(3)}, px(3)))
	b.region(name, [][][2]float64{around(c, px(26), hh-px(6))}, "mean in [35, 80]", "stddev < 45")
}

// can adds an aluminium electrolytic capacitor.
func (b *builder) can(name, marking string, x, y int) {
	c := pt{px(x), px(y)}
	b.addPad(name+".1", pt{c.x - px(44), c.y}, px(14), px(7), one)
	b.addPad(name+".2", pt{c.x + px(44), c.y}, px(14), px(7), one)
	base := cut(box(c, px(44), px(44), px(3)), turned(box(pt{c.x + px(60), c.y}, px(12), px(90), 0), c, -one/8))
	base = cut(base, turned(box(pt{c.x + px(60), c.y}, px(12), px(90), 0), c, one/8))
	top := disc(c, px(40))
	b.keep = append(b.keep, box(c, px(40), px(40), 0))
	b.paint = append(b.paint, func() {
		b.solid(base, px(5), px(3), px(20), hex(0x2b2b2d))
		b.shadow(top, px(20), q(0.34))
		b.fill(top, one, func(x, y, d fix) rgb {
			dx, dy := x-c.x, y-c.y
			r := hypot(dx, dy)
			// Brushed metal: the turning marks give two bright fans along the light.
			fan := half
			if r > 0 {
				fan += mul(div(dx, r), div(dy, r))
			}
			v := lerp(px(148), px(206), fan) + 16*noise(seedOf(name), r*2, 0)
			if d > px(-5) {
				v += mul(facing(top, x, y), mul(px(62), smooth(px(-5), px(-1), d))) - mul(px(30), bump(d+px(5), q(1.5)))
			}
			col := grey(v).mix(hex(0xbfc4cc), q(0.25))
			if dx < px(-20) { // the negative side is printed black
				col = col.mix(hex(0x1d1f22), mul(smooth(px(-20), px(-21), dx), q(0.9)))
			}
			return col
		})
		b.text(marking, pt{c.x + px(8), c.y - px(8)}, px(12), px(1), true, hex(0x22252a), q(0.9))
		b.text("16V", pt{c.x + px(8), c.y + px(10)}, px(12), px(1), true, hex(0x22252a), q(0.9))
	})
	b.silk = append(b.silk, outline(box(c, px(49), px(49), px(3)), q(0.8)))
	b.region(name, [][][2]float64{ngon(c, px(36), 24, 0)}, "mean in [110, 190]", "count of pixels below 60 >= 400")
}

// inductor adds a shielded power inductor.
func (b *builder) inductor(name, marking string, x, y int) {
	c := pt{px(x), px(y)}
	b.addPad(name+".1", pt{c.x - px(40), c.y}, px(12), px(26), one)
	b.addPad(name+".2", pt{c.x + px(40), c.y}, px(12), px(26), one)
	body := box(c, px(46), px(44), px(12))
	b.keep = append(b.keep, box(c, px(40), px(44), 0))
	b.paint = append(b.paint, func() {
		b.shadow(body, px(13), q(0.45))
		slope := bevel(body, px(7), px(30), hex(0x4b4c50))
		b.fill(body, one, func(x, y, d fix) rgb {
			return slope(x, y, d).add(9*noise(7, x/3, y/3) + 6*noise(8, x, y))
		})
		well := disc(c, px(34))
		b.fill(well, one, func(x, y, d fix) rgb {
			return hex(0x3d3e42).add(-mul(facing(well, x, y), mul(px(26), smooth(px(-5), 0, d))) + 8*noise(9, x/3, y/3))
		})
		b.text(marking, c, px(18), q(1.4), true, hex(0xd5d8d6), q(0.85))
	})
	b.silk = append(b.silk, outline(box(c, px(52), px(50), px(4)), q(0.8)))
	b.region(name, [][][2]float64{around(c, px(38), px(36))}, "mean in [50, 105]")
}

// diode adds a moulded diode with its cathode band.
func (b *builder) diode(name string, x, y int) {
	c := pt{px(x), px(y)}
	b.addPad(name+".1", pt{c.x - px(36), c.y}, px(10), px(12), one)
	b.addPad(name+".2", pt{c.x + px(36), c.y}, px(10), px(12), one)
	b.keep = append(b.keep, box(c, px(26), px(20), 0))
	b.paint = append(b.paint, func() {
		for _, u := range []fix{-one, one} {
			foot := box(pt{c.x + 36*u, c.y}, px(7), px(9), one)
			b.solid(foot, px(2), px(2), px(40), hex(0xb9bcba))
		}
		body := box(c, px(32), px(20), px(2))
		b.mould(body, px(9), seedOf(name))
		b.fill(box(pt{c.x - px(23), c.y}, px(4), q(19.5), 0), q(0.85), flat(hex(0xc9ccca)))
		b.text("SS34", pt{c.x + px(6), c.y}, px(10), q(0.8), true, hex(0xa9aeae), q(0.85))
	})
	b.silk = append(b.silk, line(pt{c.x - px(32), c.y - px(25)}, pt{c.x + px(32), c.y - px(25)}, q(0.8)),
		line(pt{c.x - px(32), c.y + px(25)}, pt{c.x + px(32), c.y + px(25)}, q(0.8)))
	b.region(name, [][][2]float64{around(c, px(29), px(17))}, "mean in [40, 95]")
	// The band must be on the left: a diode the wrong way round has none here.
	b.region(name+" band", [][][2]float64{around(pt{c.x - px(23), c.y}, px(3), px(16))}, "mean > 120")
}

// crystal adds a quartz in a metal can.
func (b *builder) crystal(name string, x, y int) {
	c := pt{px(x), px(y)}
	for k, d := range [4][2]int{{-20, 16}, {20, 16}, {20, -16}, {-20, -16}} {
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), pt{c.x + px(d[0]), c.y + px(d[1])}, px(10), px(8), one)
	}
	b.keep = append(b.keep, box(c, px(24), px(18), 0))
	b.paint = append(b.paint, func() {
		base := box(c, px(28), px(22), px(3))
		b.solid(base, px(6), px(2), px(24), hex(0x8d7c58))
		lid := box(c, px(24), px(18), px(4))
		b.fill(lid, one, func(x, y, d fix) rgb {
			v := px(176) + mul(px(46), noise(21, (x+y)/40, (x-y)/90)) +
				mul(facing(lid, x, y), mul(px(48), smooth(px(-4), 0, d)))
			return grey(v).mix(hex(0xcfc9b6), q(0.3))
		})
		b.text("25.0", c, px(9), q(0.7), true, hex(0x4c4a44), q(0.8))
	})
	b.silk = append(b.silk, outline(box(c, px(34), px(28), px(3)), q(0.8)), disc(pt{c.x - px(40), c.y + px(24)}, px(2)))
	b.region(name, [][][2]float64{around(c, px(20), px(14))}, "mean in [130, 215]")
}

// button adds a tactile switch.
func (b *builder) button(name string, x, y int) {
	c := pt{px(x), px(y)}
	for k, d := range [4][2]int{{-56, -32}, {56, -32}, {-56, 32}, {56, 32}} {
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), pt{c.x + px(d[0]), c.y + px(d[1])}, px(12), px(9), one)
	}
	body := box(c, px(48), px(48), px(5))
	b.keep = append(b.keep, box(c, px(46), px(46), 0))
	b.paint = append(b.paint, func() {
		for k, d := range [4][2]int{{-46, -32}, {46, -32}, {-46, 32}, {46, 32}} {
			u := one
			if d[0] < 0 {
				u = -one
			}
			b.lead(pt{c.x + px(d[0]), c.y + px(d[1])}, u, 0, px(18), px(6), uint32(k))
		}
		b.solid(body, px(8), px(3), px(30), hex(0x2a2a2c))
		lid := box(c, px(42), px(46), px(5))
		b.fill(lid, one, func(x, y, d fix) rgb {
			v := px(168) + mul(px(30), noise(31, x/60, y/14)) + 6*noise(33, x/2, y*2) +
				mul(facing(lid, x, y), mul(px(40), smooth(px(-4), 0, d)))
			return grey(v).mix(hex(0xb9b4a6), q(0.3))
		})
		for _, d := range [4][2]int{{-30, -34}, {30, -34}, {-30, 34}, {30, 34}} {
			rivet := disc(pt{c.x + px(d[0]), c.y + px(d[1])}, px(6))
			b.fill(rivet, one, bevel(rivet, px(4), px(50), hex(0x333335)))
		}
		ring := disc(c, px(27))
		b.fill(ring, one, func(x, y, _ fix) rgb { return hex(0x55534e).add(-mul(facing(ring, x, y), px(30))) })
		plunger := disc(c, px(24))
		b.shadow(plunger, px(7), q(0.4))
		b.fill(plunger, one, func(x, y, d fix) rgb {
			v := mul(facing(plunger, x, y), mul(px(46), smooth(px(-8), 0, d)))
			return hex(0x2e2d30).add(v + mul(px(20), bump(hypot(x-c.x+px(7), y-c.y+px(8)), px(15))))
		})
	})
	b.region(name+" plunger", [][][2]float64{ngon(c, px(21), 20, 0)}, "mean in [30, 80]")
	b.region(name+" lid", [][][2]float64{around(c, px(38), px(42)), reversed(ngon(c, px(30), 24, 0))},
		"mean in [110, 190]")
}

// header adds a pin header: n pins at 40 px, downwards.
func (b *builder) header(name string, x, y, n int) {
	b.keep = append(b.keep, box(pt{px(x), px(y + 20*(n-1))}, px(16), px(20*n-4), 0))
	for k := range n {
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), pt{px(x), px(y + 40*k)}, px(14), px(14), px(14))
	}
	b.paint = append(b.paint, func() {
		strip := shape{}
		for k := range n {
			c := pt{px(x), px(y + 40*k)}
			s := poly([]pt{{c.x - px(13), c.y - px(20)}, {c.x + px(13), c.y - px(20)}, {c.x + px(19), c.y - px(13)},
				{c.x + px(19), c.y + px(13)},
				{c.x + px(13), c.y + px(20)}, {c.x - px(13), c.y + px(20)}, {c.x - px(19), c.y + px(13)},
				{c.x - px(19), c.y - px(13)}})
			if k == 0 {
				strip = s
			} else {
				strip = union(strip, s)
			}
		}
		b.shadow(strip, px(12), q(0.5))
		b.fill(strip, one, bevel(strip, px(5), px(30), hex(0x242527)))
		for k := range n {
			c := pt{px(x), px(y + 40*k)}
			b.fill(box(c, px(7), px(7), one), one, flat(hex(0x151617)))
			b.shadow(box(c, px(5), px(5), one), px(9), q(0.6))
			s := box(c, px(5), px(5), one)
			b.fill(s, one, bevel(s, px(3), px(64), gold))
		}
	})
	b.silk = append(b.silk, outline(box(pt{px(x), px(y + 20*(n-1))}, px(24), px(20*n+5), px(2)), q(0.8)))
	for k := range n {
		b.region(fmt.Sprintf("%s pin %d", name, k+1), [][][2]float64{around(pt{px(x), px(y + 40*k)}, px(4), px(4))},
			"r.mean in [150, 240]", "b.mean < 150")
	}
}

// socket adds a white wire-to-board connector: n pins at 40 px, to the right.
func (b *builder) socket(name string, x, y, n int) {
	c := pt{px(x + 20*(n-1)), px(y)}
	hw := px(20*n + 8)
	for k := range n {
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), pt{px(x + 40*k), px(y)}, px(13), px(13), px(13))
	}
	b.keep = append(b.keep, box(c, hw, px(30), 0))
	b.paint = append(b.paint, func() {
		wall := box(c, hw, px(34), px(3))
		b.shadow(wall, px(18), q(0.42))
		b.fill(wall, one, bevel(wall, px(3), px(22), hex(0xd9d6c8)))
		well := box(c, hw-px(8), px(26), px(2))
		b.fill(well, one, func(x, y, d fix) rgb {
			// The wall at the top and left throws its shadow into the well.
			deep := smooth(px(26), px(2), y-well.y0)/2 + smooth(px(22), px(2), x-well.x0)/3
			return hex(0xa5a294).add(-mul(px(84), min(deep, one)) - mul(px(14), smooth(px(-3), 0, d)))
		})
		for _, u := range []fix{-one, one} {
			slot := box(pt{c.x + mul(u, hw-px(40)), c.y + px(31)}, px(14), px(4), one)
			b.fill(slot, one, flat(hex(0x77756a)))
		}
		for k := range n {
			s := box(pt{px(x + 40*k), px(y)}, px(5), px(5), one)
			b.shadow(s, px(10), q(0.5))
			b.fill(s, one, bevel(s, px(3), px(60), hex(0xc2c4c0)))
		}
	})
	b.region(name, [][][2]float64{around(c, hw-px(2), px(32)), reversed(around(c, hw-px(9), px(25)))},
		"mean in [150, 235]")
	for k := range n {
		b.region(fmt.Sprintf("%s pin %d", name, k+1), [][][2]float64{around(pt{px(x + 40*k), px(y)}, px(3), px(3))},
			"mean > 140")
	}
}

// usb adds a USB receptacle whose mouth hangs over the left edge of the board.
func (b *builder) usb(name string, x, y int) {
	c := pt{px(x), px(y)}
	for k := range 5 {
		b.addPad(fmt.Sprintf("%s.%d", name, k+1), pt{c.x + px(58), c.y + px(16*(k-2))}, px(12), px(4), one)
	}
	shell := box(c, px(54), px(70), px(7))
	b.keep = append(b.keep, box(c, px(54), px(74), 0))
	b.paint = append(b.paint, func() {
		for k := range 5 {
			b.lead(pt{c.x + px(50), c.y + px(16*(k-2))}, one, 0, px(16), q(2.6), uint32(k))
		}
		for _, d := range [4][2]int{{-14, -72}, {34, -72}, {-14, 72}, {34, 72}} {
			tab := box(pt{c.x + px(d[0]), c.y + px(d[1])}, px(11), px(9), px(4))
			b.wet(tab, 5)
		}
		b.shadow(shell, px(14), q(0.5))
		b.fill(shell, one, func(x, y, d fix) rgb {
			// A rolled shell: a broad highlight near the upper edge, dark towards the lower one.
			t := div(y-shell.y0, shell.y1-shell.y0)
			v := lerp(px(186), px(128), t) + mul(px(54), bump(t-q(0.2), q(0.22))) - mul(px(40), bump(t-one, q(0.16)))
			v += 9*noise(41, x/40, y*2) + mul(facing(shell, x, y), mul(px(36), smooth(px(-4), 0, d)))
			return grey(v).mix(hex(0xb4bac4), q(0.25))
		})
		// Lugs, seam and lip.
		for _, dy := range []fix{px(-34), px(34)} {
			lug := box(pt{c.x + px(10), c.y + dy}, px(17), px(7), px(2))
			b.fill(lug, one, func(x, y, d fix) rgb { return hex(0x4d5055).add(-mul(facing(lug, x, y), px(26))) })
			tongue := box(pt{c.x + px(14), c.y + dy}, px(12), px(4), px(1))
			b.fill(tongue, one, bevel(tongue, px(2), px(40), hex(0xaab0b8)))
		}
		b.fill(line(pt{c.x - px(30), c.y}, pt{c.x + px(53), c.y}, q(0.6)), q(0.5), flat(hex(0x2c2e31)))
		b.fill(box(pt{c.x - px(50), c.y}, px(3), px(68), px(2)), q(0.55), flat(hex(0xe8ecef)))
	})
	b.region(name, [][][2]float64{around(pt{c.x + px(4), c.y}, px(44), px(62))}, "mean in [110, 200]")
}

// hole adds a plated mounting hole.
func (b *builder) hole(name string, x, y int) {
	c := pt{px(x), px(y)}
	b.keep = append(b.keep, disc(c, px(32)))
	b.paint = append(b.paint, func() {
		land := disc(c, px(28))
		b.fill(land, one, func(x, y, d fix) rgb {
			return gold.add(mul(facing(land, x, y), mul(px(26), smooth(px(-3), 0, d))) +
				12*noise(51, x/5, y/5) - px(14))
		})
		bore := disc(c, px(17))
		b.fill(bore, one, func(x, y, d fix) rgb {
			// Through the hole one sees the plated wall on the far side and the table below.
			return hex(0x1c1d20).mix(hex(0xb08c45), mul(smooth(px(-5), 0, d), clamp(half-facing(bore, x, y), 0, one)))
		})
	})
	b.region(name, [][][2]float64{ngon(c, px(26), 32, 0), reversed(ngon(c, px(19), 32, 0))}, "r.mean in [150, 230]")
}

// fiducial adds an alignment mark.
func (b *builder) fiducial(x, y int) {
	c := pt{px(x), px(y)}
	b.keep = append(b.keep, disc(c, px(18)))
	b.paint = append(b.paint, func() {
		b.fill(disc(c, px(16)), one, flat(hex(0x3b4a2c)))
		dot := disc(c, px(8))
		b.fill(dot, one, bevel(dot, px(2), px(24), gold.add(px(16))))
	})
}

// sticker adds a white label with a data matrix and a serial number.
func (b *builder) sticker(name string, x, y int) {
	c := pt{px(x), px(y)}
	b.paint = append(b.paint, func() {
		s := box(c, px(80), px(36), px(4))
		b.shadow(s, px(2), q(0.4))
		b.fill(s, one, func(x, y, d fix) rgb {
			return hex(0xe9eae4).add(mul(px(10), noise(61, x/50, y/50)) - mul(px(12), smooth(px(-3), 0, d)))
		})
		const n, m = 14, 4 // modules a side, px a module
		x0, y0 := c.x-px(70), c.y-px(n*m/2)
		for j := range n {
			for i := range n {
				// Solid left and bottom, alternating top and right, data inside.
				dark := i == 0 || j == n-1
				switch {
				case dark:
				case j == 0:
					dark = i%2 == 0
				case i == n-1:
					dark = j%2 == 1
				default:
					dark = hash(62, i, j)&1 == 1
				}
				if dark {
					b.fill(box(pt{x0 + px(i*m+2), y0 + px(j*m+2)}, px(2), px(2), 0), one, flat(hex(0x1b1c1e)))
				}
			}
		}
		for k, l := range []string{"PS-16 A3", "SN 004217", "2 LAYER"} {
			w := textWidth(l, px(9))
			b.text(l, pt{c.x - px(4) + w/2, c.y - px(18) + px(18*k)}, px(9), q(0.75), true, hex(0x1b1c1e), one)
		}
	})
	b.keep = append(b.keep, box(c, px(60), px(24), 0))
	b.region(name, [][][2]float64{around(c, px(76), px(32))}, "median > 200",
		"count of pixels below 60 in [1200, 3200]")
}
