// metal.go makes the two frames of rolled strip: an 8-bit one of its surface, and a 12-bit one of a weld seam across
// it.

package main

import "image"

const (
	metalW, metalH         = 1024, 512
	stripTop, stripBottom  = 26, 488
	metal16W, metal16H     = 512, 256
	metal16Max             = 4095 // 12 significant bits
	pilotX, pilotY, pilotR = 806, 150, 38
)

// rolled is the texture that rolls leave: streaks along x of many lengths, in shares of about +-0.5.
func rolled(seed uint32, x, y fix) fix {
	return noise(seed, x/420, y/2)/2 + noise(seed+1, x/150, y)/2 + noise(seed+2, x/40, mul(y, q(1.4)))/3 +
		noise(seed+3, x/700, y/14)
}

// scratch is a tool mark from a to b that swings a little; depth is its contrast in levels and half its width in pixels
// is w.
type scratch struct {
	a, b  pt
	w     fix
	depth fix
	seed  uint32
}

// draw cuts the groove: one flank turned to the light, one away from it, and burr along its sides.
func (s scratch) draw(c *canvas) {
	dx, dy := s.b.x-s.a.x, s.b.y-s.a.y
	n := hypot(dx, dy)
	ux, uy := div(dx, n), div(dy, n)
	c.within(line(s.a, s.b, px(8)), 0, func(k int, x, y fix) {
		t := mul(x-s.a.x, ux) + mul(y-s.a.y, uy)
		if t < 0 || t > n {
			return
		}
		across := mul(y-s.a.y, ux) - mul(x-s.a.x, uy) - mul(q(1.6), noise(s.seed, t/60, 0))
		// It starts sharply, fades out, and skips where the tool jumped.
		fade := mul(smooth(0, px(10), t), smooth(n, mul(n, q(0.55)), t))
		fade = mul(fade, clamp(q(0.85)+noise(s.seed+1, t/16, 0), q(0.25), one))
		v := mul(s.depth, bump(across+s.w/2, s.w+half)) - mul(s.depth*3/4, bump(across-s.w, s.w+half))
		c.pix[k] = c.pix[k].add(mul(v, fade))
	})
}

// pit is a corroded hollow: dark floor, lit rim on the side away from the light.
func pit(c *canvas, at pt, r fix, seed uint32) {
	s := shape{func(x, y fix) fix {
		return hypot(x-at.x, y-at.y) - r + mul(r, noise(seed, (x-at.x)/3, (y-at.y)/3))/2
	}, at.x - 2*r, at.y - 2*r, at.x + 2*r, at.y + 2*r}
	c.glow(s, r+one, q(0.3), grey(px(60)))
	c.fill(s, q(0.95), func(x, y, d fix) rgb {
		return grey(px(38) - mul(facing(s, x, y), mul(px(34), smooth(-r, 0, d))) + 8*noise(seed+1, x, y))
	})
	c.within(s, px(2), func(k int, x, y fix) {
		v := -mul(px(46), mul(facing(s, x, y), bump(s.d(x, y)-q(1.1), q(1.3))))
		c.pix[k] = c.pix[k].add(v)
	})
}

// pits of the corroded patch: deterministic, denser in its middle.
func patchPits() (out []struct {
	at pt
	r  fix
}) {
	for i := range 26 {
		a, t := uniform(411, i, 0), uniform(411, i, 1)
		rad := mul(t, px(52))
		out = append(out, struct {
			at pt
			r  fix
		}{pt{px(248) + mul(rad, cos(a))*3/2, px(366) + mul(rad, sin(a))}, between(411, i, 2, q(1.3), q(4.6)) - t})
	}
	return out
}

var scratches = []scratch{
	{p(428, 96), p(690, 214), q(1.3), px(66), 421},
	{p(452, 92), p(664, 186), q(0.8), px(40), 422},
	{p(880, 330), p(760, 450), q(1.0), px(46), 423},
	{p(96, 118), p(330, 132), q(0.8), px(30), 424},
}

func metal() set {
	c := newCanvas(metalW, metalH)
	strip := shape{func(x, y fix) fix {
		top := px(stripTop) + mul(q(1.4), noise(431, x/90, 0))
		bottom := px(stripBottom) + mul(q(1.4), noise(432, x/90, 0))
		return max(top-y, y-bottom)
	}, 0, px(stripTop - 2), px(metalW), px(stripBottom + 2)}
	pilot := disc(pt{px(pilotX), px(pilotY)}, px(pilotR))

	c.each(func(x, y fix, _ rgb) rgb { return grey(px(24) + mul(px(5), noise(433, x/60, y/60))) })
	c.shadow(strip, px(8), q(0.6))
	c.fill(strip, one, func(x, y, d fix) rgb {
		// The roll is slightly crowned and the lamp is a tube along the strip: a broad bright band.
		across := div(y-px(236), px(230))
		v := px(152) + mul(px(34), bump(across-q(0.06), q(0.9))) - mul(px(22), mul(across, across))
		v += mul(px(15), rolled(434, x, y)) + mul(px(7), fbm(436, x/260, y/90, 3))
		// Slit edges: rolled over on top, torn below.
		v += mul(px(46), bump(d+q(1.6), q(1.5)))
		v -= mul(px(30), bump(d+q(5.5), q(4)))
		return grey(v)
	})
	for _, s := range scratches {
		s.draw(c)
	}
	// A short mark that a chip on the work roll prints at every turn.
	for i := range 3 {
		m := line(pt{px(150 + 330*i), px(262)}, pt{px(163 + 330*i), px(266)}, q(2.2))
		c.fill(m, q(0.7), func(x, y, d fix) rgb { return grey(px(142) - mul(facing(m, x, y), px(52))) })
	}
	for i, v := range patchPits() {
		pit(c, v.at, v.r, 440+uint32(i))
	}
	pit(c, p(604, 404), q(3.2), 480)

	// The pilot hole: table seen through it, punched edge with roll-over and a bright burnished wall.
	c.glow(outline(pilot, px(3)), px(5), q(0.35), grey(px(70)))
	c.fill(pilot, one, func(x, y, d fix) rgb {
		deep := smooth(px(-16), px(-2), d+mul(facing(pilot, x, y), px(8)))
		return grey(px(26)-mul(px(12), deep)).mix(grey(px(206)),
			mul(smooth(q(-3.4), q(-1), d), clamp(q(0.35)-facing(pilot, x, y), 0, one)))
	})
	c.within(pilot, px(5), func(k int, x, y fix) {
		c.pix[k] = c.pix[k].add(mul(mul(px(52), facing(pilot, x, y)), bump(pilot.d(x, y)-q(1.8), q(2))))
	})

	c.each(func(x, y fix, old rgb) rgb {
		dx, dy := div(x-px(metalW)/2, px(metalW)), div(y-px(metalH)/2, px(metalW))
		r2 := mul(dx, dx) + mul(dy, dy)
		return old.times(one - mul(q(0.95), r2) - mul(q(0.5), mul(r2, r2))).add(speckle(437, int(x>>16), int(y>>16),
			q(1.3)))
	})
	im := c.grayImage()
	seen, white, dark := shade(im.(*image.Gray))
	return set{[]picture{{"metal.png", im}, {"flat/metal.png", seen}, {"flat/white.png", white}, {"flat/dark.png", dark}},
		"metal.regions.json", metalRegions(), nil}
}

// star is a pentagram: one ring that crosses itself, wound twice around its middle.
func star(c pt, r fix) [][2]float64 {
	var v []pt
	for i := range 5 {
		a := px(2*i)/5 - one/4
		v = append(v, pt{c.x + mul(r, cos(a)), c.y + mul(r, sin(a))})
	}
	return ring(v...)
}

// along is the ring of a rectangle laid along a scratch, hw to either side and hw beyond its ends.
func along(s scratch, hw fix) [][2]float64 {
	n := hypot(s.b.x-s.a.x, s.b.y-s.a.y)
	ux, uy := mul(div(s.b.x-s.a.x, n), hw), mul(div(s.b.y-s.a.y, n), hw)
	return ring(pt{s.a.x - ux + uy, s.a.y - uy - ux}, pt{s.b.x + ux + uy, s.b.y + uy - ux},
		pt{s.b.x + ux - uy, s.b.y + uy + ux}, pt{s.a.x - ux - uy, s.a.y - uy + ux})
}

func metalRegions() []region {
	pilot := pt{px(pilotX), px(pilotY)}
	patch := oval(p(248, 366), px(88), px(62), 28, 0)
	sound := []string{"mean in [120, 200]", "p99 < 200", "count of pixels below 90 <= 25"}
	return []region{
		{"strip", [][][2]float64{rect(px(8), px(40), px(1016), px(474)), reversed(ngon(pilot, px(pilotR+8), 40, 0)),
			reversed(patch)}, "",
			[]string{"mean in [130, 185]"}},
		{"pilot hole", [][][2]float64{ngon(pilot, px(pilotR-6), 32, 0)}, "", []string{"mean < 45"}},
		// Two rings under the non-zero rule: the inner one runs the other way and is a hole.
		{"pilot rim", [][][2]float64{ngon(pilot, px(pilotR+22), 40, 0), reversed(ngon(pilot, px(pilotR+7), 40, 0))}, "",
			[]string{"mean in [110, 190]", "count of pixels below 90 <= 25"}},
		// Three nested rings under even-odd, whatever their directions: a frame, a gap, a core.
		{"reference field (even-odd)",
			[][][2]float64{rect(px(380), px(300), px(560), px(450)), rect(px(405), px(320), px(535), px(430)),
				rect(px(440), px(345), px(500), px(405))}, "evenodd", sound},
		// Non-zero winding fills the pentagram's middle, which winds twice; even-odd would leave it out.
		{"star (non-zero)", [][][2]float64{star(p(690, 330), px(72))}, "nonzero", sound},
		{"star (even-odd)", [][][2]float64{star(p(690, 330), px(72))}, "evenodd", sound},
		{"scratch 1", [][][2]float64{along(scratches[0], px(9))}, "",
			[]string{"p99 < 200", "count of pixels below 120 <= 40"}},
		{"scratch 2", [][][2]float64{along(scratches[2], px(7))}, "", []string{"stddev < 9"}},
		{"pitted patch", [][][2]float64{patch}, "", []string{"count of pixels below 90 <= 25"}},
		{"clear zone left", [][][2]float64{rect(px(40), px(160), px(130), px(250))}, "", sound},
		{"clear zone right", [][][2]float64{rect(px(900), px(60), px(1000), px(300))}, "", sound},
	}
}

func metal16() set {
	c := newCanvas(metal16W, metal16H)
	const scale = 16 // levels of 12 bits per level of 8
	seam := func(y fix) fix { return px(248) + mul(px(4), noise(451, y/60, 0)) }
	c.each(func(x, y fix, _ rgb) rgb {
		d := x - seam(y)
		// Parent metal, rolled along x, with the tint that heat leaves on both sides of the seam.
		v := px(124) + mul(px(20), rolled(452, x, y)) + mul(px(7), fbm(453, x/120, y/60, 2))
		heat := abs(d) - mul(px(6), noise(454, y/40, 0))
		v -= mul(px(34), bump(heat-px(52), px(20))) - mul(px(16), bump(heat-px(72), px(14)))
		v -= mul(px(22), bump(d, px(60)))
		// The bead: a crown with scales, each a crescent left by one pulse of the laser.
		w := px(27) + mul(px(3), noise(455, y/12, 0))
		if abs(d) < w+px(3) {
			t := div(d, w)
			phase := y/10 - mul(mul(t, t), q(1.05)) + mul(q(0.25), noise(456, x/20, y/20))
			f := phase & (one - 1)
			scales := mul(px(62), smooth(q(0.1), q(0.85), f)) - mul(px(74), smooth(q(0.85), one, f))
			crown := px(128) - mul(px(46), t) - mul(px(40), mul(t, mul(t, mul(t, t)))) +
				mul(px(54), bump(t+q(0.38), q(0.3)))
			bead := crown + mul(scales, one-mul(mul(t, t), q(0.6))) - px(18) + mul(px(12), noise(457, x/3, y/3))
			v = lerp(v, bead, smooth(w+px(1), w-px(2), abs(d)))
			v -= mul(px(58), bump(abs(d)-w, px(4))) // undercut
		}
		return grey(v)
	})
	// Spatter on the sheet, two pores in the bead.
	for i := range 14 {
		at := pt{px(248) + mul(between(461, i, 0, px(46), px(190)), fix(1-2*(i%2))*one),
			between(461, i, 1, px(12), px(244))}
		drop := disc(at, between(461, i, 2, q(1.2), q(3.2)))
		c.shadow(drop, px(2), q(0.4))
		c.fill(drop, one, func(x, y, d fix) rgb { return grey(px(150) + mul(facing(drop, x, y), px(70))) })
	}
	pit(c, p(244, 158), q(5.2), 471)
	pit(c, p(256, 176), q(3), 472)

	c.each(func(x, y fix, old rgb) rgb {
		dx, dy := div(x-px(metal16W)/2, px(metal16W)), div(y-px(metal16H)/2, px(metal16W))
		f := one - mul(q(0.8), mul(dx, dx)+mul(dy, dy))
		// Shot noise of a 12-bit sensor: a few of its levels.
		v := mul(old[0], f)*scale + speckle(458, int(x>>16), int(y>>16), px(9))
		return grey(v)
	})
	return set{[]picture{{"metal16.png", c.gray16Image(metal16Max)}}, "metal16.regions.json", metal16Regions(), nil}
}

func metal16Regions() []region {
	bead := func(name string, y0, y1 int) region {
		return region{name, [][][2]float64{rect(px(228), px(y0), px(268), px(y1))}, "",
			[]string{"mean in [1500, 2700]", "count of pixels below 900 <= 12"}}
	}
	sheet := func(name string, x0, x1 int) region {
		return region{name, [][][2]float64{rect(px(x0), px(20), px(x1), px(236))}, "",
			[]string{"mean in [1300, 2300]", "max < 4095"}}
	}
	return []region{
		sheet("sheet left", 16, 140), sheet("sheet right", 356, 496),
		bead("seam 1", 4, 66), bead("seam 2", 66, 128), bead("seam 3", 128, 190), bead("seam 4", 190, 252),
	}
}
