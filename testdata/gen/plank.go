// plank.go makes a flat-sawn spruce plank: rings that a plane cuts out of a tapering, wandering stem, knots that the
// grain flows around, an end check and a resin pocket.

package main

const plankW, plankH = 1200, 360

// knot is the section of a branch: an ellipse about c.
type knot struct {
	name   string
	c      pt
	rx, ry fix
	dead   bool
	seed   uint32
}

var knots = []knot{
	{"knot 1 live", p(318, 226), q(34), q(25), false, 301},
	{"knot 2 dead", p(676, 128), q(30), q(24), true, 302},
	{"knot 3 live", p(962, 236), q(22), q(17), false, 303},
}

// reach is how far (x, y) is from the knot's centre: 1 on its outline, which is a wobbly ellipse.
func (k knot) reach(x, y fix) fix {
	dx, dy := div(x-k.c.x, k.rx), div(y-k.c.y, k.ry)
	return hypot(dx, dy) + noise(k.seed, x/24, y/24)/7
}

const (
	plankTop, plankBottom = 30, 330
	plankLeft, plankRight = 26, 1174
)

// upperEdge and lowerEdge are the sawn edges, straight but for the saw's play.
func upperEdge(x fix) fix { return px(plankTop) + mul(q(2.2), noise(311, x/170, 0)) }
func lowerEdge(x fix) fix { return px(plankBottom) + mul(q(2.2), noise(312, x/170, 0)) }

// plankBody is the plank's face.
var plankBody = shape{func(x, y fix) fix {
	return max(upperEdge(x)-y, y-lowerEdge(x), px(plankLeft)-x+noise(313, y/20, 0),
		x-px(plankRight)+noise(314, y/20, 0))
}, px(plankLeft - 2), px(plankTop - 3), px(plankRight + 2), px(plankBottom + 3)}

// grainOf bends a point's height back to what it would be without knots: lines of equal result flow around each knot as
// a current flows around a cylinder (height times 1 - 1/r^2 outside of it).
func grainOf(x, y fix) fix {
	v := y
	for _, k := range knots {
		// The disturbance reaches along the grain further than across it.
		dx, dy := div(x-k.c.x, mul(q(1.6), k.rx)), div(y-k.c.y, mul(q(1.12), k.ry))
		r2 := mul(dx, dx) + mul(dy, dy)
		if r2 > px(60) {
			continue
		}
		v -= div(mul(y-k.c.y, smooth(px(60), px(20), r2)), max(r2, one))
	}
	return v
}

// ringsAt is the distance from the pith in rings.
func ringsAt(x, y fix) fix {
	v := grainOf(x, y)
	// The pith lies under the plank and drifts sideways; the stem tapers, so the plane leaves ring after ring:
	// cathedrals.
	pith := px(172) + mul(px(46), noise(321, x/900, q(0.3))) + mul(px(6), noise(322, x/240, 0))
	depth := px(58) - mul(x, q(0.045))
	r := hypot(v-pith, depth)
	r += mul(px(7), fbm(323, x/260, v/60, 3)) + mul(q(1.6), noise(324, x/70, v/9))
	return r/11 + mul(q(0.5), noise(325, r/40, 0))
}

// clearWood is the colour of sound wood at (x, y).
func clearWood(x, y fix) rgb {
	v := grainOf(x, y)
	rings := ringsAt(x, y)
	year, t := int(rings>>16), rings&(one-1)
	// Early wood darkens slowly, late wood is a narrow band, and it ends at once with the winter.
	late := mul(smooth(q(0.30), q(0.93), t), smooth(one, q(0.95), t))
	late = mul(late, between(331, year, 0, q(0.45), one))
	c := hex(0xe3c28f).mix(hex(0xb07a41), mul(late, q(0.82)))
	// The heart is a little redder than the sapwood.
	c = c.mix(hex(0xd29a62), mul(smooth(px(15), px(4), rings), q(0.32)))
	// Fibres: long streaks, and short dark pores along them.
	fibre := noise(332, x/46, v) + noise(333, x/110, v/3)
	c = c.add(mul(px(7), fibre) + mul(px(6), noise(336, x/9, mul(v, q(0.7)))) + mul(px(9), fbm(334, x/300, v/26, 2)))
	pore := smooth(q(0.36), q(0.55), noise(335, x/16, mul(v, q(1.3))))
	return c.mix(hex(0x9a6a38), mul(pore, q(0.22)))
}

// paintKnot lays a knot over the wood.
func paintKnot(x, y fix, wood rgb, k knot) rgb {
	r := k.reach(x, y)
	if r > q(2.6) {
		return wood
	}
	dx, dy := x-k.c.x, y-k.c.y
	// Around it the wood is dense and resinous.
	halo := smooth(q(2.4), q(0.9), r)
	wood = wood.mix(hex(0xa9662f), mul(halo, q(0.42)))
	// Its own rings, tight and slightly off centre, and checks that run out from its heart.
	rings := mul(r, mul(k.ry, q(0.27))) + mul(q(0.9), noise(k.seed+1, dx/14, dy/14))
	t := rings & (one - 1)
	late := mul(smooth(q(0.25), q(0.9), t), smooth(one, q(0.9), t))
	core, band := hex(0xb0713a), hex(0x7c4620)
	if k.dead {
		core, band = hex(0x74431f), hex(0x45260f)
	}
	c := core.mix(band, mul(late, q(0.6)))
	c = c.mix(hex(0x5a2d12), mul(smooth(q(0.5), 0, r), q(0.6)))
	c = c.add(mul(px(12), fbm(k.seed+2, dx/7, dy/7, 2)))
	for i := range 5 {
		a := between(k.seed, i, 5, 0, one)
		along := mul(dx, cos(a)) + mul(dy, sin(a))
		across := mul(dy, cos(a)) - mul(dx, sin(a)) + mul(q(1.5), noise(k.seed+3, along/6, px(i)))
		length := mul(k.ry, between(k.seed, i, 6, q(0.45), q(0.85)))
		width := mul(q(1.5), clamp(one-div(along, length), 0, one))
		if along > 0 && width > 0 {
			c = c.mix(hex(0x22130a), mul(clamp(width+half-abs(across), 0, one), q(0.85)))
		}
	}
	edge := smooth(q(1.08), q(0.92), r)
	out := wood.mix(c, edge)
	if k.dead {
		// A dead knot keeps its bark: a black, broken ring between it and the wood.
		n := noise(k.seed+4, x/9, y/9)
		bark := mul(bump(r-q(1.0)+n/14, q(0.15)+n/10), clamp(q(0.95)+n, 0, one))
		out = out.mix(hex(0x1d120b), min(bark*5/4, one))
	} else {
		out = out.mix(hex(0x5f3314), mul(bump(r-one, q(0.16)), q(0.4)))
	}
	return out
}

// The end check opens from the left end along the grain.
const checkEnd = 226

func checkLine(x fix) fix {
	return px(118) + mul(q(0.05), x) + mul(px(7), noise(341, x/60, 0)) + mul(q(2.2), noise(342, x/11, 0))
}

// checkWidth is half the opening.
func checkWidth(x fix) fix {
	t := clamp(div(px(checkEnd)-x, px(checkEnd-plankLeft)), 0, one)
	return mul(q(3.4), t) - mul(q(0.5), one-t) + mul(mul(px(2), t), noise(343, x/13, 0))
}

// pocketAt is the signed distance to the resin pocket, a lens along the grain.
func pocketAt(x, y fix) fix {
	dx := div(x-px(842), px(58))
	if abs(dx) > one {
		return px(99)
	}
	middle := px(112) - mul(px(5), mul(dx, dx)) + mul(q(1.5), noise(351, x/14, 0))
	width := mul(q(8.5), mul(one-mul(dx, dx), q(1.0))) + mul(q(1.2), noise(352, x/9, 0)) - q(0.8)
	return abs(y-middle) - width
}

// pocket is the resin pocket.
var pocket = shape{pocketAt, px(780), px(96), px(904), px(126)}

func plank() set {
	c := newCanvas(plankW, plankH)
	// The table: dark, slightly uneven rubber.
	c.each(func(x, y fix, _ rgb) rgb { return hex(0x2b2d2f).add(mul(px(7), fbm(361, x/120, y/120, 2))) })
	c.shadow(plankBody, px(14), q(0.75))
	c.fill(plankBody, one, func(x, y, d fix) rgb {
		w := clearWood(x, y)
		for _, k := range knots {
			w = paintKnot(x, y, w, k)
		}
		// The band saw leaves fine washboard across the plank.
		w = w.add(mul(q(1.8), sin(x/15+mul(q(0.2), noise(362, x/90, y/120)))))
		// Fibres break out along the arrises.
		w = w.times(one - mul(smooth(q(-4), 0, d), q(0.30)))
		return w.mix(hex(0xf4dcb0), mul(bump(y-upperEdge(x)-q(1.8), q(1.6)), q(0.35)))
	})

	// Resin has bled into the wood around the pocket; the pocket itself is glassy amber, deep at its upper rim.
	c.glow(box(p(842, 110), px(46), px(6), px(6)), px(14), q(0.5), hex(0xb8741f))
	c.fill(pocket, one, func(x, y, d fix) rgb {
		v := hex(0x7c4312).mix(hex(0x33180a), smooth(px(3), px(-4), y-px(110)))
		v = v.add(mul(px(18), fbm(363, x/12, y/6, 2)))
		glint := smooth(q(0.16), q(0.42), noise(364, x/16, y/4))
		return v.mix(hex(0xffdf9a), mul(mul(glint, smooth(q(-1.2), q(-3), d)), q(0.8)))
	})

	// The check: black where it gapes, with one lit lip.
	c.within(shape{x0: px(plankLeft), y0: px(90), x1: px(checkEnd), y1: px(160)}, 0, func(k int, x, y fix) {
		if plankBody.d(x, y) > 0 {
			return
		}
		d, w := y-checkLine(x), checkWidth(x)
		c.pix[k] = c.pix[k].mix(hex(0x6b4624), mul(smooth(w+px(4), w, abs(d)), q(0.5)))
		c.pix[k] = c.pix[k].mix(hex(0x140c07), mul(clamp(w+half-abs(d), 0, one), q(0.96)))
		c.pix[k] = c.pix[k].mix(hex(0xf6dfb6), mul(bump(d-w-q(1.4), q(1.3)), q(0.45)))
	})

	c.each(func(x, y fix, old rgb) rgb {
		// Two tubes light the plank: brighter along the middle, a little darker towards the ends.
		dx, dy := div(x-px(560), px(plankW)), div(y-px(150), px(plankH))
		f := q(1.04) - mul(q(0.22), mul(dx, dx)) - mul(q(0.16), mul(dy, dy))
		return old.times(f).add(speckle(365, int(x>>16), int(y>>16), q(1.2)))
	})
	return set{[]picture{{"plank.png", c.rgbImage()}}, "plank.regions.json", plankRegions(), nil}
}

func plankRegions() []region {
	// The outline follows the sawn edges, 3 px inside of them.
	var outline []pt
	for i := 0; i <= 16; i++ {
		x := px(plankLeft+4) + px((plankRight-plankLeft-8)*i)/16
		outline = append(outline, pt{x, upperEdge(x) + px(4)})
	}
	for i := 16; i >= 0; i-- {
		x := px(plankLeft+4) + px((plankRight-plankLeft-8)*i)/16
		outline = append(outline, pt{x, lowerEdge(x) - px(4)})
	}
	var check []pt
	for i := 0; i <= 10; i++ {
		x := px(plankLeft+8) + px((checkEnd-plankLeft-8)*i)/10
		check = append(check, pt{x, checkLine(x) - checkWidth(x) - px(4)})
	}
	for i := 10; i >= 0; i-- {
		x := px(plankLeft+8) + px((checkEnd-plankLeft-8)*i)/10
		check = append(check, pt{x, checkLine(x) + checkWidth(x) + px(4)})
	}
	resin := oval(p(842, 109), px(64), px(17), 20, 0)

	clear := region{Name: "clear wood", Rings: [][][2]float64{ring(outline...)},
		Limits: []string{"r.mean in [190, 230]"}}
	for _, k := range knots {
		clear.Rings = append(clear.Rings, reversed(oval(k.c, 2*k.rx, 2*k.ry, 24, 0)))
	}
	clear.Rings = append(clear.Rings, reversed(ring(check...)), reversed(resin))
	rs := []region{clear}
	for _, k := range knots {
		// A sound knot is brown throughout; a dead one has black bark.
		rs = append(rs, region{k.name, [][][2]float64{oval(k.c, mul(k.rx, q(1.2)), mul(k.ry, q(1.2)), 24, 0)}, "",
			[]string{"r.count of pixels below 60 <= 120"}})
	}
	return append(rs,
		region{"end check", [][][2]float64{ring(check...)}, "", []string{"r.count of pixels below 60 <= 40"}},
		region{"resin pocket", [][][2]float64{resin}, "", []string{"b.mean > 90", "r.count of pixels below 90 <= 60"}},
		region{"clear zone A", [][][2]float64{rect(px(60), px(190), px(220), px(310))}, "",
			[]string{"r.mean in [190, 235]", "r.stddev < 25"}},
		region{"clear zone B", [][][2]float64{rect(px(420), px(190), px(820), px(310))}, "",
			[]string{"r.mean in [190, 235]", "r.stddev < 25"}},
		region{"clear zone C", [][][2]float64{rect(px(1020), px(50), px(1150), px(160))}, "",
			[]string{"r.mean in [190, 235]", "r.stddev < 25"}},
	)
}
