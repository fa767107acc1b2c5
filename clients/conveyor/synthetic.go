package main

// Synthetic parts: plates whose grey is known within bounds, and defects of which each fails a limit.

import (
	"fmt"
	"math"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Levels of synthetic pixels. The limits of the regions lie between those of a plate and those of defects.
const (
	beltLevel  = 30 // to beltLevel + beltNoise
	beltNoise  = 10
	plateLow   = 96
	plateHigh  = 176
	darkDefect = 8
	litDefect  = 250

	darkLimit = 60
	litLimit  = 220
)

// synthetic describes a belt of plates.
type synthetic struct {
	width     int
	partLines int
	// gap is how many lines of belt follow a plate; jitter is how many more lie before it, at most.
	gap, jitter int
	regions     int
	defects     float64 // share of plates with a defect
	seed        uint64
	// repeat is how many plates pass; 0: no end.
	repeat int
}

const (
	// goodPlates and badPlates is how many pictures there are of each, unless they would take more than pictureBytes.
	goodPlates   = 4
	badPlates    = 4
	pictureBytes = 256 << 20
	// minCell is the smallest cell of the grid of regions, in pixels.
	minCell = 12
)

// pitch is the number of lines from plate to plate; where jitter is on, from the earliest place of one to that of the
// next.
func (s synthetic) pitch() uint64 { return uint64(s.partLines + s.gap + s.jitter) }

// belt makes the pictures. Pictures 0 to bad-1 are plates with a defect, the last one is the belt itself.
func (s synthetic) belt() (*belt, error) {
	_, _, cw, ch := s.grid()
	if cw < minCell || ch < minCell {
		return nil, usage("--region-count %d: cells of %.0fx%.0f pixels of a part of %dx%d: must be %d at least",
			s.regions, cw, ch, s.width, s.partLines, minCell)
	}
	n := max(2, min(goodPlates+badPlates, pictureBytes/(s.width*s.partLines)))
	bad := n / 2
	b := &belt{width: s.width, format: clients.Gray8}
	for i := range n {
		b.pictures = append(b.pictures, s.plate(uint64(i), i < bad))
	}
	ground := picture{rows: s.partLines, pix: make([]byte, s.width*s.partLines)}
	s.noise(ground.pix, uint64(n), beltLevel, beltNoise)
	b.pictures = append(b.pictures, ground)

	choose := func(p uint64) int {
		r := random(s.seed, domainPart, p)
		if share(s.seed, domainDefect, p) < s.defects {
			return int(r % uint64(bad))
		}
		return bad + int(r%uint64(n-bad))
	}
	shift := func(p uint64) uint64 {
		if s.jitter == 0 {
			return 0
		}
		return random(s.seed, domainGap, p) % uint64(s.jitter+1)
	}
	pitch, lines := s.pitch(), uint64(s.partLines)
	b.part = func(p uint64) (uint64, int) { return p*pitch + shift(p), choose(p) }
	b.at = func(line uint64) stretch {
		p, o := line/pitch, line%pitch
		from := shift(p)
		if o >= from && o < from+lines {
			return stretch{choose(p), int(o - from), int(from + lines - o)}
		}
		left := pitch - o
		if o < from {
			left = from - o
		}
		row := line % lines
		return stretch{n, int(row), int(min(left, lines-row))}
	}
	b.end = uint64(s.repeat) * pitch
	return b, nil
}

// noise fills pixels with levels from low to low+spread-1: eight of them from each random number.
func (s synthetic) noise(pix []byte, key uint64, low, spread int) {
	for i := 0; i < len(pix); i += 8 {
		r := random(s.seed, domainPixel, key, uint64(i))
		for j := i; j < min(i+8, len(pix)); j++ {
			pix[j] = byte(low + int(r&0xff)*spread>>8)
			r >>= 8
		}
	}
}

// plate is a picture of a plate that covers all of its lines.
func (s synthetic) plate(key uint64, wrong bool) picture {
	p := picture{rows: s.partLines, pix: make([]byte, s.width*s.partLines), wrong: wrong}
	s.noise(p.pix, key, plateLow, plateHigh-plateLow)
	if !wrong {
		return p
	}
	// A spot in the middle of one cell, where its region is for certain.
	columns, _, cw, ch := s.grid()
	r := random(s.seed, domainDefect, key, 1)
	cell := int(r % uint64(s.regions))
	cx, cy := (float64(cell%columns)+0.5)*cw, (float64(cell/columns)+0.5)*ch
	level := byte(litDefect)
	if r>>40&1 != 0 {
		level = darkDefect
	}
	for y := int(cy) - 1; y <= int(cy)+1; y++ {
		for x := int(cx) - 1; x <= int(cx)+1; x++ {
			p.pix[y*s.width+x] = level
		}
	}
	return p
}

// grid arranges the regions in cells of about the same width and height.
func (s synthetic) grid() (columns, rows int, cw, ch float64) {
	n := max(s.regions, 1)
	columns = int(math.Ceil(math.Sqrt(float64(n) * float64(s.width) / float64(s.partLines))))
	columns = max(1, min(columns, n))
	rows = (n + columns - 1) / columns
	return columns, rows, float64(s.width) / float64(columns), float64(s.partLines) / float64(rows)
}

// inspection is the regions: an octagon in each cell, in every other one with a hole away from the middle.
func (s synthetic) inspection() []*polyscanv1.Region {
	columns, _, cw, ch := s.grid()
	out := make([]*polyscanv1.Region, s.regions)
	for i := range out {
		cx, cy := (float64(i%columns)+0.5)*cw, (float64(i/columns)+0.5)*ch
		g := &polyscanv1.Region{
			Name:  fmt.Sprintf("cell %d", i),
			Rings: []*polyscanv1.Ring{{Xy: octagon(cx, cy, 0.45*cw, 0.45*ch, false)}},
			Limits: []string{
				fmt.Sprintf("mean in [%d, %d]", plateLow, plateHigh),
				fmt.Sprintf("count of pixels below %d == 0", darkLimit),
				fmt.Sprintf("max < %d", litLimit),
			},
		}
		if i%2 == 1 {
			g.Rings = append(g.Rings, &polyscanv1.Ring{Xy: octagon(cx+0.25*cw, cy, 0.1*cw, 0.2*ch, true)})
		}
		out[i] = g
	}
	return out
}

// octagon is a ring; reversed is the other direction, of a hole.
func octagon(cx, cy, rx, ry float64, reversed bool) []float64 {
	xy := make([]float64, 0, 16)
	for k := range 8 {
		a := (float64(k) + 0.5) * math.Pi / 4
		if reversed {
			a = -a
		}
		xy = append(xy, cx+rx*math.Cos(a), cy+ry*math.Sin(a))
	}
	return xy
}
