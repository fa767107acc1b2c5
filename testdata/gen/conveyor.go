// conveyor.go makes twelve frames of three lanes of parts on a belt. The encoder triggers the camera once a pitch, so
// in every frame each lane has one part under the gate in the middle, and the next frame shows it one pitch further
// right.

package main

import "fmt"

const (
	conveyorW, conveyorH = 640, 400
	conveyorFrames       = 12
	pitch                = 160 // px between parts, and between frames
	gateX                = 320
	washerY              = 84
	nutY                 = 200
	bracketY             = 316
	badBracket           = 7    // the part whose far hole was never punched
	seamAt               = -400 // where the belt is laced, in frame 0: a gap between parts, seen in frames 3 to 6
)

// item is part n of a lane: it lies under the gate in frame n, a little off centre and turned.
type item struct {
	at    pt
	turns fix
	seed  uint32
}

func itemAt(lane uint32, n, frame, y int, play, turn fix) item {
	return item{
		pt{px(gateX+pitch*(frame-n)) + between(lane, n, 0, -play, play), px(y) + between(lane, n, 1, -play, play)},
		between(lane, n, 2, -turn, turn), lane*100 + uint32(n+8),
	}
}

// steel is an ink for a flat part of bright steel with a bevelled edge.
func steel(s shape, base, slope fix, texture func(x, y fix) fix) ink {
	return func(x, y, d fix) rgb {
		v := base + texture(x, y)
		v += mul(facing(s, x, y), mul(px(58), smooth(-slope, 0, d))) - mul(px(16), bump(d+slope, q(1.2)))
		return grey(v)
	}
}

// washer is a turned ring: concentric marks that give it two bright fans.
func (c *canvas) washer(p item) {
	ring := cut(disc(p.at, px(44)), disc(p.at, px(21)))
	c.shadow(ring, px(6), q(0.55))
	sn, cs := sin(p.turns/4), cos(p.turns/4)
	c.fill(ring, one, steel(ring, px(166), px(3), func(x, y fix) fix {
		dx, dy := x-p.at.x, y-p.at.y
		r := hypot(dx, dy)
		u := div(mul(dx, cs)+mul(dy, sn), r)
		fan := 2*mul(u, u) - one // the cosine of twice the angle
		return mul(px(24), mul(fan, abs(fan))) + mul(px(8), noise(p.seed, r*3/4, 0)) +
			mul(px(3), noise(p.seed+1, x/3, y/3))
	}))
}

// nut is a hexagon whose corners are chamfered by a cone, with a threaded bore.
func (c *canvas) nut(p item) {
	var v []pt
	for i := range 6 {
		a := p.turns + px(i)/6
		v = append(v, pt{p.at.x + mul(px(48), cos(a)), p.at.y + mul(px(48), sin(a))})
	}
	hex := cut(poly(v), disc(p.at, px(20)))
	c.shadow(hex, px(11), q(0.55))
	face, bore := disc(p.at, px(40)), disc(p.at, px(24))
	c.fill(hex, one, func(x, y, d fix) rgb {
		r := hypot(x-p.at.x, y-p.at.y)
		v := px(150) + mul(px(7), noise(p.seed, r, 0)) + mul(px(4), noise(p.seed+1, x/4, y/4))
		v += mul(px(12), mul(div(x-p.at.x, px(48)), q(-0.6))+mul(div(y-p.at.y, px(48)), q(-0.8)))
		// The cone cuts the corners: they slope away from the middle.
		v += mul(facing(face, x, y), mul(px(36), smooth(-one, px(1), face.d(x, y)))) - mul(px(20),
			bump(face.d(x, y), q(1.4)))
		v += mul(facing(hex, x, y), mul(px(34), smooth(px(-2), 0, d)))
		// Countersink and thread: the wall away from the light is lit.
		wall := px(104) - mul(facing(bore, x, y), px(44)) + mul(px(26), sin(r/3))
		v = lerp(v, wall, clamp(half-bore.d(x, y), 0, one))
		return grey(v)
	})
	// More turns of thread, down into the dark.
	c.fill(disc(p.at, px(20)), q(0.8), func(x, y, d fix) rgb {
		return grey(mul(smooth(px(-9), 0, d), px(58)-mul(facing(bore, x, y), px(40))+mul(px(16), sin(d/3))) + px(18))
	})
}

// bracketHoles are the holes of a bracket that is not turned, relative to its middle.
var bracketHoles = [3]pt{p(-44, -26), p(-44, 26), p(44, -26)}

// bracketShape is a punched angle.
func bracketShape(at pt, holes int) shape {
	s := union(box(pt{at.x, at.y - px(26)}, px(60), px(16), px(9)), box(pt{at.x - px(44), at.y}, px(16), px(42), px(9)))
	// A fillet in the inner corner.
	in := pt{at.x - px(28), at.y - px(10)}
	s = union(s, cut(box(pt{in.x + px(2), in.y + px(2)}, px(12), px(12), 0),
		disc(pt{in.x + px(14), in.y + px(14)}, px(14))))
	for _, h := range bracketHoles[:holes] {
		s = cut(s, disc(pt{at.x + h.x, at.y + h.y}, px(8)))
	}
	return s
}

func (c *canvas) bracket(p item, holes int) {
	s := turned(bracketShape(p.at, holes), p.at, p.turns)
	c.shadow(s, px(5), q(0.55))
	sn, cs := sin(p.turns), cos(p.turns)
	c.fill(s, one, steel(s, px(176), q(2.5), func(x, y fix) fix {
		dx, dy := x-p.at.x, y-p.at.y
		u, v := mul(dx, cs)+mul(dy, sn), mul(dy, cs)-mul(dx, sn)
		return mul(px(16), noise(p.seed, u/60, v*2/3)) +
			mul(px(12), noise(p.seed+1, u/30, v/30)) - mul(px(14), div(dx+dy, px(100)))
	}))
}

func conveyor() set {
	s := set{path: "conveyor/regions.json", regions: conveyorRegions()}
	for f := range conveyorFrames {
		s.pictures = append(s.pictures,
			picture{fmt.Sprintf("conveyor/frame_%03d.png", f), conveyorFrame(f).grayImage()})
	}
	return s
}

const beltTop, beltBottom = 22, 378

func conveyorFrame(f int) *canvas {
	c := newCanvas(conveyorW, conveyorH)
	travel := px(pitch * f)
	c.each(func(x, y fix, _ rgb) rgb {
		// The belt's fabric moves with the parts.
		bx := x - travel
		v := px(54) + mul(px(7), fbm(501, bx/110, y/70, 3)) + mul(q(2.4), sin(bx/8+y/16)+sin(bx/8-y/16))
		// Scuffs that earlier parts have left along the lanes.
		v += mul(px(5), max(0, noise(502, bx/90, y/3)-q(0.12)))
		// The lacing where the belt's ends meet: a groove bridged by wire hooks.
		d := bx - px(seamAt) - mul(y-px(conveyorH/2), q(0.12))
		v -= mul(px(34), bump(d, px(3)))
		hook := (y/9)&(one-1) - half
		v += mul(px(64), mul(bump(hook, q(0.3)), smooth(px(8), px(7), abs(d))))
		return grey(v)
	})
	for n := f - 3; n <= f+3; n++ {
		c.washer(itemAt(511, n, f, washerY, q(1.4), half))
		c.nut(itemAt(512, n, f, nutY, q(1.4), half))
		holes := 3
		if n == badBracket {
			holes = 2
		}
		c.bracket(itemAt(513, n, f, bracketY, q(1.4), q(0.007)), holes)
	}
	// Side rails, which stand still.
	for _, r := range []struct{ y0, y1 int }{{-12, beltTop}, {beltBottom, conveyorH + 12}} {
		rail := box(pt{px(conveyorW) / 2, px(r.y0+r.y1) / 2}, px(conveyorW), px(r.y1-r.y0)/2, px(4))
		c.shadow(rail, px(9), q(0.6))
		c.fill(rail, one, func(x, y, d fix) rgb {
			v := px(118) + mul(px(8), rolled(521, x, y)) + mul(facing(rail, x, y), mul(px(50), smooth(px(-5), 0, d))) +
				mul(px(30), bump(d+px(8), px(3)))
			return grey(v)
		})
	}
	c.each(func(x, y fix, old rgb) rgb {
		dx, dy := div(x-px(conveyorW)/2, px(conveyorW)), div(y-px(conveyorH)/2, px(conveyorW))
		g := q(1.08) - mul(q(0.85), mul(dx, dx)+mul(dy, dy))
		return old.times(g).add(speckle(530+uint32(f), int(x>>16), int(y>>16), q(1.1)))
	})
	return c
}

// conveyorRegions lie under the gate and hold for every frame.
func conveyorRegions() []region {
	at := func(y int) pt { return pt{px(gateX), px(y)} }
	rs := []region{
		{"washer ring", [][][2]float64{ngon(at(washerY), px(40), 40, 0), reversed(ngon(at(washerY), px(25), 32, 0))},
			"",
			[]string{"mean in [140, 210]", "count of pixels below 100 <= 30"}},
		{"washer bore", [][][2]float64{ngon(at(washerY), px(17), 24, 0)}, "", []string{"mean < 70"}},
		{"nut face", [][][2]float64{ngon(at(nutY), px(38), 36, 0), reversed(ngon(at(nutY), px(27), 32, 0))}, "",
			[]string{"mean in [125, 195]", "count of pixels below 90 <= 30"}},
		{"nut bore", [][][2]float64{ngon(at(nutY), px(13), 20, 0)}, "", []string{"mean < 75"}},
	}
	// The bracket's outline, 5 px inside of its edges, without its holes.
	c := at(bracketY)
	body := region{"bracket body",
		[][][2]float64{ring(pt{c.x - px(54), c.y - px(37)}, pt{c.x + px(54), c.y - px(37)},
			pt{c.x + px(54), c.y - px(15)},
			pt{c.x - px(33), c.y - px(15)}, pt{c.x - px(33), c.y + px(37)}, pt{c.x - px(54), c.y + px(37)})}, "",
		[]string{"mean in [145, 215]", "count of pixels below 100 <= 30"}}
	for i, h := range bracketHoles {
		v := pt{c.x + h.x, c.y + h.y}
		body.Rings = append(body.Rings, reversed(ngon(v, px(12), 20, 0)))
		rs = append(rs, region{fmt.Sprintf("bracket hole %d", i+1), [][][2]float64{ngon(v, px(5), 16, 0)}, "",
			[]string{"mean < 80"}})
	}
	rs = append(rs, body)
	return append(rs,
		region{"belt above", [][][2]float64{rect(px(264), px(138), px(376), px(146))}, "", []string{"max < 110"}},
		region{"belt below", [][][2]float64{rect(px(264), px(254), px(376), px(262))}, "", []string{"max < 110"}},
	)
}
