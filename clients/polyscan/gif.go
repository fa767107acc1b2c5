package main

// Animated GIFs, in and out.

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"io"
	"math"
	"slices"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// maxGIFPixels bounds the canvas of a GIF before anything is allocated for it.
const maxGIFPixels = 1 << 26

// gifClip decodes an animated GIF. Frames are whole pictures, as a viewer shows them.
func gifClip(name string, data []byte) (*clip, error) {
	cfg, err := gif.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, bad(name, "is no GIF that can be read: %v", err)
	}
	if n := int64(cfg.Width) * int64(cfg.Height); n == 0 || n > maxGIFPixels {
		return nil, bad(name, "%dx%d pixels: must be 1 to %d", cfg.Width, cfg.Height, maxGIFPixels)
	}
	g, err := gif.DecodeAll(bytes.NewReader(data))
	if err != nil {
		return nil, bad(name, "is no GIF that can be read: %v", err)
	}
	raw := &clients.Raw{Width: cfg.Width, Height: cfg.Height, Format: clients.RGBA8}
	return &clip{count: len(g.Image), delays: g.Delay, loops: g.LoopCount,
		frames: func(yield func(*frame, error) bool) {
			canvas := image.NewNRGBA(image.Rect(0, 0, cfg.Width, cfg.Height))
			for i, im := range g.Image {
				before := canvas.Pix
				if g.Disposal[i] == gif.DisposalPrevious {
					before = bytes.Clone(canvas.Pix)
				}
				draw.Draw(canvas, im.Bounds(), im, im.Bounds().Min, draw.Over)
				if !yield(&frame{name: fmt.Sprintf("%s, frame %d", name, i), data: bytes.Clone(canvas.Pix), raw: raw},
					nil) {
					return
				}
				switch g.Disposal[i] {
				case gif.DisposalPrevious:
					canvas.Pix = before
				case gif.DisposalBackground:
					draw.Draw(canvas, im.Bounds(), image.Transparent, image.Point{}, draw.Src)
				}
			}
		}}, nil
}

// gifSink makes an animated GIF, with a palette for each frame. A frame is the part of the picture that has changed, or
// all of it, where something is transparent: then the one before is cleared.
type gifSink struct {
	name   string
	delays []int // where there are any
	rate   fraction
	loops  int

	out  gif.GIF
	last *image.NRGBA
}

func (*gifSink) encoding() polyscanv1.Encoding { return polyscanv1.Encoding_ENCODING_RAW }

func (s *gifSink) add(f *polyscanv1.Frame) error {
	im, err := picture(f)
	if err != nil {
		return err
	}
	size := im.Bounds().Size()
	if size.X > math.MaxUint16 || size.Y > math.MaxUint16 {
		return bad(s.name, "%dx%d pixels are too many for a GIF, whose sides are up to %d", size.X, size.Y,
			math.MaxUint16)
	}
	for i := 3; i < len(im.Pix); i += 4 { // a GIF has nothing in between
		if im.Pix[i] < 128 {
			clear(im.Pix[i-3 : i+1])
		} else {
			im.Pix[i] = 255
		}
	}
	part := im.Bounds()
	if s.last != nil {
		if before := s.last.Bounds().Size(); before != size {
			return errSize(s.name, before, size)
		}
		if im.Opaque() && s.last.Opaque() {
			part = changed(s.last, im)
		} else {
			// The next picture is drawn on nothing, so the frame before has to be whole, too.
			k := len(s.out.Image) - 1
			s.out.Disposal[k] = gif.DisposalBackground
			if s.out.Image[k].Bounds() != im.Bounds() {
				s.out.Image[k] = reduceColors(s.last, s.last.Bounds())
			}
		}
	}
	n := len(s.out.Image)
	delay := s.rate.delay(n)
	if n < len(s.delays) {
		delay = s.delays[n]
	}
	s.out.Image = append(s.out.Image, reduceColors(im, part))
	s.out.Delay = append(s.out.Delay, delay)
	s.out.Disposal = append(s.out.Disposal, gif.DisposalNone)
	s.last = im
	return nil
}

func (s *gifSink) close(well bool) error {
	if !well || s.last == nil {
		return nil
	}
	size := s.last.Bounds().Size()
	s.out.Config, s.out.LoopCount = image.Config{Width: size.X, Height: size.Y}, s.loops
	return writeFile(s.name, func(w io.Writer) error { return gif.EncodeAll(w, &s.out) })
}

// changed is the smallest rectangle with all pixels that differ; one pixel, where none do.
func changed(a, b *image.NRGBA) image.Rectangle {
	var r image.Rectangle
	size, row := b.Bounds().Size(), b.Stride
	for y := range size.Y {
		p, q := a.Pix[y*row:][:row], b.Pix[y*row:][:row]
		if bytes.Equal(p, q) {
			continue
		}
		lo, hi := 0, row
		for p[lo] == q[lo] {
			lo++
		}
		for p[hi-1] == q[hi-1] {
			hi--
		}
		r = r.Union(image.Rect(lo/4, y, (hi+3)/4, y+1))
	}
	if r.Empty() {
		return image.Rect(0, 0, 1, 1)
	}
	return r
}

// tone is a colour of a picture, and how many pixels have it.
type tone struct {
	c [3]uint8
	n int
}

// reduceColors is a part of a picture in up to 256 colours: its own where these are no more; else the means of boxes,
// by median cut (Heckbert, 1982), where the box whose colours lie farthest from their mean is cut next, where that is
// largest.
func reduceColors(im *image.NRGBA, part image.Rectangle) *image.Paletted {
	counts := map[[3]uint8]int{}
	clearPixels := false
	for y := part.Min.Y; y < part.Max.Y; y++ {
		row := im.Pix[im.PixOffset(part.Min.X, y):im.PixOffset(part.Max.X, y)]
		for i := 0; i < len(row); i += 4 {
			if row[i+3] == 0 {
				clearPixels = true
			} else {
				counts[[3]uint8(row[i:])]++
			}
		}
	}
	tones := make([]tone, 0, len(counts))
	for c, n := range counts {
		tones = append(tones, tone{c, n})
	}
	slices.SortFunc(tones, func(a, b tone) int { return slices.Compare(a.c[:], b.c[:]) })
	var palette color.Palette
	if clearPixels {
		palette = append(palette, color.NRGBA{})
	}
	index := make(map[[3]uint8]uint8, len(tones))
	for _, b := range boxesOf(tones, 256-len(palette)) {
		for _, t := range b.tones {
			index[t.c] = uint8(len(palette))
		}
		palette = append(palette, b.mean())
	}
	out := image.NewPaletted(part, palette)
	for y := part.Min.Y; y < part.Max.Y; y++ {
		row, to := im.Pix[im.PixOffset(part.Min.X, y):im.PixOffset(part.Max.X, y)],
			out.Pix[out.PixOffset(part.Min.X, y):]
		for i := 0; i < len(row); i += 4 {
			if row[i+3] != 0 {
				to[i/4] = index[[3]uint8(row[i:])]
			}
		}
	}
	return out
}

// box is colours that become one.
type box struct {
	tones []tone
	error float64 // sum of squared distances to the mean
	axis  int     // the channel that has most of it
}

func newBox(tones []tone) *box {
	b := &box{tones: tones}
	most := 0.0
	for c := range 3 {
		n, sum, squares := 0.0, 0.0, 0.0
		for _, t := range tones {
			k, v := float64(t.n), float64(t.c[c])
			n, sum, squares = n+k, sum+k*v, squares+k*v*v
		}
		e := squares - sum*sum/n
		if b.error += e; e > most {
			most, b.axis = e, c
		}
	}
	return b
}

// mean is the colour that is nearest to all pixels.
func (b *box) mean() color.NRGBA {
	var sums [3]int
	n := 0
	for _, t := range b.tones {
		for c, v := range t.c {
			sums[c] += t.n * int(v)
		}
		n += t.n
	}
	for c := range sums {
		sums[c] = (2*sums[c] + n) / (2 * n)
	}
	return color.NRGBA{uint8(sums[0]), uint8(sums[1]), uint8(sums[2]), 255}
}

// split cuts a box of several colours in two where their pixels' mean is.
func (b *box) split() (lo, hi *box) {
	slices.SortFunc(b.tones, func(x, y tone) int {
		return cmp.Or(cmp.Compare(x.c[b.axis], y.c[b.axis]), slices.Compare(x.c[:], y.c[:]))
	})
	mean := b.mean()
	at := [3]uint8{mean.R, mean.G, mean.B}[b.axis]
	k, _ := slices.BinarySearchFunc(b.tones, at, func(t tone, at uint8) int {
		if t.c[b.axis] <= at {
			return -1
		}
		return 1
	})
	k = min(max(k, 1), len(b.tones)-1)
	return newBox(b.tones[:k]), newBox(b.tones[k:])
}

// boxesOf sorts colours into up to n boxes.
func boxesOf(tones []tone, n int) []*box {
	if len(tones) == 0 {
		return nil
	}
	boxes := []*box{newBox(tones)}
	for len(boxes) < n {
		worst := -1
		for i, b := range boxes {
			if len(b.tones) > 1 && (worst < 0 || b.error > boxes[worst].error) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		lo, hi := boxes[worst].split()
		boxes[worst] = lo
		boxes = append(boxes, hi)
	}
	return boxes
}
