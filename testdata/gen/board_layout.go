// board_layout.go places and wires the board, then paints it from the bottom to the top.

package main

import (
	"cmp"
	"fmt"
	"slices"
)

func board() set {
	b := &builder{canvas: newCanvas(boardW, boardH), router: newRouter(boardW, boardH), pin: map[string]int{}}
	b.place()
	b.wire()
	b.paintBare()
	b.paintParts()
	b.light()
	im := b.rgbImage()
	seen, white := unevenly(moved(im))
	return set{[]picture{{"board.png", im}, {"board.bayer.png", mosaic(im)}, {"moved/board.png", seen},
		{"moved/white.png", white}}, "board.regions.json", b.regions, located(b.regions)}
}

var outlineOfBoard = box(pt{px(boardW) / 2, px(boardH) / 2}, px(boardW/2-12), px(boardH/2-12), px(16))

func (b *builder) place() {
	for i, h := range [4][2]int{{52, 52}, {908, 52}, {52, 588}, {908, 588}} {
		b.hole(fmt.Sprintf("H%d", i+1), h[0], h[1])
	}
	for _, f := range boardFiducials {
		b.fiducial(f[0], f[1])
	}

	// Power: socket, diode, converter, inductor, capacitors.
	b.usb("J2", 66, 264)
	b.can("C1", "220", 176, 104)
	b.label("C1", px(176), px(164))
	b.inductor("L1", "4R7", 300, 104)
	b.label("L1", px(300), px(164))
	b.soic("U3", 424, 106, 4, "PX", "5430")
	b.label("U3", px(424), px(162))
	b.can("C2", "100", 548, 104)
	b.label("C2", px(548), px(164))
	b.diode("D3", 196, 208)
	b.label("D3", px(196), px(242))

	b.qfp("U1", 472, 344, 16, "POLYSCAN", "PS32F4", "2531 K7")
	b.label("U1", px(366), px(446))
	b.crystal("Y1", 268, 336)
	b.label("Y1", px(268), px(296))
	b.soic("U2", 756, 302, 8, "PF128-16M", "2540 CN")
	b.label("U2", px(756), px(207))
	b.soic("U4", 728, 106, 4, "PT75A", "2529")
	b.label("U4", px(728), px(162))
	b.header("J1", 900, 172, 8)
	b.label("J1", px(900), px(140))
	b.button("SW1", 164, 500)
	b.label("SW1", px(164), px(438))
	b.socket("J3", 288, 568, 5)
	b.label("J3", px(244), px(544))
	b.sticker("LABEL", 700, 574)

	// Series resistors between the controller and the flash; R7 was never placed.
	for i := range 8 {
		b.resistor(fmt.Sprintf("R%d", i+1), "330", 644, 232+24*i, false, i != 6)
		b.label(fmt.Sprintf("R%d", i+1), px(672), px(232+24*i))
	}
	for i := range 4 {
		b.resistor(fmt.Sprintf("R%d", i+9), "472", 836, 232+40*i, false, true)
		b.label(fmt.Sprintf("R%d", i+9), px(836), px(249+40*i))
	}
	for i, d := range []struct {
		name  string
		lens  rgb
		limit string
	}{{"D1", hex(0x4fae4c), "g.mean > 130"}, {"D2", hex(0xd9b13a), "r.mean > 150"},
		{"D4", hex(0xb8402f), "r.mean > 130"}} {
		y := 444 + 34*i
		b.led(d.name, 828, y, d.lens, d.limit)
		b.label(d.name, px(858), px(y))
		b.resistor(fmt.Sprintf("R%d", i+13), "102", 772, y, false, true)
		b.label(fmt.Sprintf("R%d", i+13), px(740), px(y))
	}
	// Decoupling around the controller, load capacitors of the quartz, output capacitors of the converter.
	for i, c := range [...]struct {
		x, y    int
		upright bool
	}{{416, 212, false}, {472, 212, false}, {528, 212, false}, {416, 488, false}, {472, 488, false}, {528, 488, false},
		{268, 388, false}, {212, 336, true}, {616, 64, true}, {616, 112, true}, {336, 300, true}, {336, 388, true}} {
		name := fmt.Sprintf("C%d", i+3)
		b.capacitor(name, c.x, c.y, c.upright)
		switch {
		case c.x == 616: // a column: the label goes beside the part
			b.label(name, px(c.x+24), px(c.y))
		case c.upright:
			b.label(name, px(c.x), px(c.y+25))
		case c.y < 300:
			b.label(name, px(c.x), px(c.y-18))
		default:
			b.label(name, px(c.x), px(c.y+18))
		}
	}
	for i := range 5 {
		name := fmt.Sprintf("R%d", i+16)
		b.resistor(name, []string{"103", "103", "000", "222", "471"}[i], 284+52*(i%2), 432+36*(i/2), false, true)
		b.label(name, px(284+52*(i%2)), px(449+36*(i/2)))
	}
	b.resistor("R21", "154", 616, 160, true, true)
	b.label("R21", px(640), px(160))

	title := pt{px(540), px(568)}
	b.keep = append(b.keep, box(title, px(58), px(20), 0))
	b.paint = append([]func(){func() {
		b.text("POLYSCAN", pt{title.x, title.y - px(9)}, px(14), q(1.1), true, legend, q(0.92))
		b.text("PS-16 REV A3", pt{title.x, title.y + px(10)}, px(9), q(0.75), true, legend, q(0.92))
	}}, b.paint...)
}

// nets are pairs of pins to connect. What the router cannot reach gets a via on both ends, as on a board with two
// layers.
func (b *builder) nets() [][2]string {
	var n [][2]string
	for i := range 8 {
		n = append(n, [2]string{fmt.Sprintf("U1.%d", 44-i), fmt.Sprintf("R%d.1", i+1)})
		n = append(n, [2]string{fmt.Sprintf("R%d.2", i+1), fmt.Sprintf("U2.%d", i+1)})
	}
	for i := range 4 {
		n = append(n, [2]string{fmt.Sprintf("U2.%d", 16-i), fmt.Sprintf("R%d.1", i+9)})
		n = append(n, [2]string{fmt.Sprintf("R%d.2", i+9), fmt.Sprintf("J1.%d", i+1)})
		n = append(n, [2]string{fmt.Sprintf("U2.%d", 12-i), fmt.Sprintf("J1.%d", i+5)})
	}
	for i, d := range []int{1, 2, 4} {
		n = append(n, [2]string{fmt.Sprintf("R%d.2", i+13), fmt.Sprintf("D%d.1", d)})
		n = append(n, [2]string{fmt.Sprintf("U1.%d", 34-i), fmt.Sprintf("R%d.1", i+13)})
	}
	for i := range 5 {
		n = append(n, [2]string{fmt.Sprintf("J2.%d", i+1), fmt.Sprintf("U1.%d", i+2)})
		n = append(n, [2]string{fmt.Sprintf("J3.%d", i+1), fmt.Sprintf("U1.%d", 22+i)})
		n = append(n, [2]string{fmt.Sprintf("R%d.2", i+16), fmt.Sprintf("U1.%d", 12+i)})
	}
	n = append(n, [][2]string{
		{"Y1.2", "U1.8"}, {"Y1.3", "U1.7"}, {"Y1.1", "C9.1"}, {"C10.2", "Y1.4"}, {"C13.2", "U1.6"}, {"C14.1", "U1.11"},
		{"U1.62", "C3.1"}, {"U1.59", "C3.2"}, {"U1.57", "C4.1"}, {"U1.55", "C4.2"}, {"U1.52", "C5.1"},
		{"U1.50", "C5.2"},
		{"U1.18", "C6.1"}, {"U1.20", "C6.2"}, {"U1.27", "C7.1"}, {"U1.29", "C8.1"}, {"U1.31", "C8.2"},
		{"C1.2", "L1.1"}, {"L1.2", "U3.2"}, {"U3.7", "C2.1"}, {"C2.2", "C11.1"}, {"C11.2", "C12.1"}, {"C12.2", "R21.1"},
		{"D3.1", "C1.1"}, {"D3.2", "L1.1"}, {"U4.1", "R21.2"}, {"U4.2", "U1.49"}, {"U4.3", "U1.48"}, {"U4.5", "J1.1"},
		{"SW1.1", "R16.1"}, {"SW1.3", "R18.1"}, {"SW1.2", "R20.1"}, {"U3.4", "U1.60"}, {"U3.5", "U1.53"},
	}...)
	return n
}

func (b *builder) wire() {
	r := b.router
	edge := outlineOfBoard
	r.claim(shape{func(x, y fix) fix { return -edge.d(x, y) }, 0, 0, px(boardW), px(boardH)}, px(12), taken)
	// Join the two ends of each net before the pads claim their cells.
	nets := b.nets()
	for _, n := range nets {
		i, ok := b.pin[n[0]]
		j, ok2 := b.pin[n[1]]
		if !ok || !ok2 {
			panic(fmt.Sprintf("board: net %v names a pin that no part has", n))
		}
		from, to := b.pads[i].net, b.pads[j].net
		for k := range b.pads {
			if b.pads[k].net == from {
				b.pads[k].net = to
			}
		}
	}
	for _, p := range b.pads {
		r.claim(p.shape(), px(traceHalf+clearance), p.net)
	}
	for _, k := range b.keep {
		r.claim(k, px(2), taken)
	}
	ends := func(n [2]string) (pad, pad) { return b.pads[b.pin[n[0]]], b.pads[b.pin[n[1]]] }
	length := func(n [2]string) fix {
		f, t := ends(n)
		return hypot(f.at.x-t.at.x, f.at.y-t.at.y)
	}
	slices.SortStableFunc(nets, func(a, c [2]string) int { return cmp.Compare(length(a), length(c)) })
	used := map[int]bool{}
	for _, n := range nets {
		f, t := ends(n)
		used[b.pin[n[0]]], used[b.pin[n[1]]] = true, true
		if way := r.route(f.at, &t.at, f.net); way != nil {
			b.traces = append(b.traces, way)
			continue
		}
		b.stub(f)
		b.stub(t)
	}
	// Most of the remaining pins go down to the other layer at once.
	for k, p := range b.pads {
		if !used[k] && hash(71, k, 0)%4 != 0 {
			b.stub(p)
		}
	}
	// Stitching vias join the ground areas of both layers; they need no gap around them.
	for j := 30; j < boardH-20; j += 52 {
		for i := 30; i < boardW-20; i += 52 {
			at := pt{px(i + int(hash(72, i, j)%6)*4), px(j + int(hash(73, i, j)%6)*4)}
			if c := r.cell(at); r.owner[c] == free && r.room(c, taken) {
				b.stitches = append(b.stitches, r.point(c))
			}
		}
	}
}

// stub runs a short trace from a pad to a via.
func (b *builder) stub(p pad) {
	way := b.router.route(p.at, nil, p.net)
	if way == nil {
		return
	}
	end := way[len(way)-1]
	b.router.claim(disc(end, 0), px(viaRadius+traceHalf+clearance), p.net)
	b.traces = append(b.traces, way)
	b.vias = append(b.vias, end)
}

// paintBare paints the table, the laminate, the copper under the mask, vias and legend.
func (b *builder) paintBare() {
	b.each(func(x, y fix, _ rgb) rgb { return hex(0x2a2c30).add(10 * fbm(81, x/90, y/90, 3)) })
	b.shadow(outlineOfBoard, px(9), q(0.7))

	// Distance to the nearest copper that is not the ground area.
	dist := make([]fix, b.w*b.h)
	for k := range dist {
		dist[k] = px(64)
	}
	near := func(s shape) {
		b.within(s, px(8), func(k int, x, y fix) { dist[k] = min(dist[k], s.d(x, y)) })
	}
	for _, t := range b.traces {
		for i := range len(t) - 1 {
			near(line(t[i], t[i+1], px(traceHalf)))
		}
	}
	for _, v := range b.vias {
		near(disc(v, px(viaRadius)))
	}
	for _, p := range b.pads {
		near(p.shape())
	}
	copper := make([]fix, b.w*b.h)
	for k, d := range dist {
		i, j := k%b.w, k/b.w
		pour := min(d-px(4), -outlineOfBoard.d(px(i)+half, px(j)+half)-px(7))
		copper[k] = max(clamp(half-d, 0, one), clamp(half+pour, 0, one))
	}
	at := func(i, j int) fix {
		return copper[clampInt(j, b.h)*b.w+clampInt(i, b.w)]
	}
	rim := outlineOfBoard
	b.fill(rim, one, func(x, y, d fix) rgb {
		i, j := int(x>>16), int(y>>16)
		// The mask bulges over copper: its slopes catch the light like the copper's edges would.
		slope := at(i+1, j+1) - at(i-1, j-1) + (at(i+1, j)-at(i-1, j)+at(i, j+1)-at(i, j-1))/2
		weave := sin(x/6+noise(82, x/30, y/200)/3) + sin(y/6+noise(83, x/200, y/30)/3)
		c := maskBare.mix(maskCopper, copper[j*b.w+i])
		c = c.add(mul(px(9), slope) + mul(q(1.6), weave) + mul(px(7), fbm(84, x/160, y/160, 3)))
		// The routed edge shows the laminate.
		return c.mix(hex(0x9a9562), mul(smooth(q(-3.2), q(-1.8), d), q(0.75)))
	})
	for _, v := range append(b.stitches, b.vias...) {
		ring := disc(v, px(viaRadius))
		b.fill(ring, one, func(x, y, d fix) rgb {
			return hex(0x2f8257).add(mul(facing(ring, x, y), mul(px(26), smooth(px(-2), 0, d))))
		})
		b.fill(disc(v, q(2.2)), one, flat(hex(0x0a2018)))
	}
	for _, s := range b.silk {
		b.fill(s, q(0.92), flat(legend))
	}
}

func clampInt(v, n int) int { return min(max(v, 0), n-1) }

func (b *builder) paintParts() {
	for i, p := range b.pads {
		b.fill(box(p.at, p.hw+q(1.4), p.hh+q(1.4), p.round+q(1.4)), q(0.8), flat(hex(0x3c4a2e)))
		b.wet(p.shape(), 1000+uint32(i))
	}
	for _, paint := range b.paint {
		paint()
	}
	b.bridge("U1.21", "U1.22")
}

// bridge shorts two neighbouring leads with a blob of solder.
func (b *builder) bridge(from, to string) {
	f, t := b.pads[b.pin[from]].at, b.pads[b.pin[to]].at
	blob := union(line(pt{f.x, f.y + px(3)}, pt{t.x, t.y + px(3)}, q(4.6)),
		line(pt{f.x, f.y + px(7)}, pt{t.x, t.y + px(6)}, q(4)))
	b.shadow(blob, px(3), q(0.4))
	b.fill(blob, one, func(x, y, d fix) rgb {
		glint := bump(hypot(x-f.x-px(2), y-f.y-px(3)), px(3))
		return solder.add(mul(facing(blob, x, y), mul(px(64), smooth(px(-4), 0, d))) + mul(px(50), glint) - px(12))
	})
}

// light adds the lamp's falloff and the camera's noise.
func (b *builder) light() {
	b.each(func(x, y fix, old rgb) rgb {
		dx, dy := div(x-px(400), px(boardW)), div(y-px(240), px(boardH))
		f := q(1.10) - mul(q(0.42), mul(dx, dx)+mul(dy, dy))
		c := old.times(f)
		i, j := int(x>>16), int(y>>16)
		n := speckle(91, i, j, q(1.1))
		return c.add(n)
	})
}
