package regionfile

// Masks: runs of pixels, row by row, out of files that have them down columns, and out of images.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"slices"

	"github.com/polyscan/polyscan/internal/pictures"
	"github.com/polyscan/polyscan/polygon"
)

// Run is the pixels [x0, x1) of row y, as {y, x0, x1}.
type Run [3]int32

// turner takes the pixels of a mask in column-major order (down each column, columns from left to right) and gives them
// row by row.
//
// Time is O(n log n) and memory O(n) in the number n of column pieces that the runs consist of, however many pixels
// they cover, and linear in the rows' runs that come out: equal neighbouring columns, and the full columns inside a
// long run, count once. The pieces of one mask are limited to Options.MaxVertices, and so are the runs of a file.
//
// The method: cut the plane into slabs of equal columns. Where two slabs meet, what one has and the other hasn't gives
// vertical edges. The edges that a row crosses are the ends of its runs.
type turner struct {
	b          *builder
	h          int64 // height of the mask
	from, to   int64 // the last run, which the next may extend
	left, slab slab  // the last finished slab, and the one being built
	column     slab  // the column being built
	pieces     int
	edges      []edge
}

// slab is a set of neighbouring columns [x0, x1) with the same set pixels: pieces [from, to) of y, in order, not
// touching.
type slab struct {
	x0, x1 int32
	pieces [][2]int32
}

// edge is at the left or the right side of pixels in rows [y0, y1).
type edge struct{ x, y0, y1 int32 }

func newTurner(b *builder, height int) *turner { return &turner{b: b, h: int64(height)} }

// run adds the pixels [from, to) in column-major order; runs come in order and don't overlap, and may be empty.
func (t *turner) run(from, to int64) *Error {
	switch {
	case from >= to:
		return nil
	case t.to > t.from && from == t.to: // goes on where the last one stopped
		t.to = to
		return nil
	}
	t.flush()
	t.from, t.to = from, to
	return t.room()
}

func (t *turner) room() *Error {
	if t.pieces > t.b.opts.MaxVertices {
		return fail(ErrLimit, "the mask consists of more than %d pieces of columns, the limit", t.b.opts.MaxVertices)
	}
	return nil
}

// flush cuts the last run into pieces of columns.
func (t *turner) flush() {
	if t.from >= t.to {
		return
	}
	x, y := t.from/t.h, t.from%t.h
	last, rest := t.to/t.h, t.to%t.h
	if x == last {
		t.piece(x, x+1, y, rest)
		return
	}
	if y > 0 {
		t.piece(x, x+1, y, t.h)
		x++
	}
	if x < last {
		t.piece(x, last, 0, t.h)
	}
	if rest > 0 {
		t.piece(last, last+1, 0, rest)
	}
}

// piece adds the pixels [y0, y1) of the columns [x0, x1).
func (t *turner) piece(x0, x1, y0, y1 int64) {
	if len(t.column.pieces) > 0 && int64(t.column.x0) != x0 {
		t.columnDone()
	}
	t.column.x0, t.column.x1 = int32(x0), int32(x1)
	t.column.pieces = append(t.column.pieces, [2]int32{int32(y0), int32(y1)})
	t.pieces++
}

// columnDone joins the column to the slab before it if they are alike, and makes it the new slab otherwise.
func (t *turner) columnDone() {
	if len(t.slab.pieces) > 0 && t.slab.x1 == t.column.x0 && slices.Equal(t.slab.pieces, t.column.pieces) {
		t.slab.x1 = t.column.x1
		t.column.pieces = t.column.pieces[:0]
		return
	}
	t.slabDone()
	t.slab, t.column = t.column, slab{pieces: t.slab.pieces[:0]}
}

// slabDone adds the edges of the slab's left border.
func (t *turner) slabDone() {
	if len(t.slab.pieces) == 0 {
		return
	}
	if t.left.x1 == t.slab.x0 {
		t.border(t.slab.x0, t.left.pieces, t.slab.pieces)
	} else {
		t.border(t.left.x1, t.left.pieces, nil)
		t.border(t.slab.x0, nil, t.slab.pieces)
	}
	t.left, t.slab = t.slab, slab{pieces: t.left.pieces[:0]}
}

// border adds the edges at x, where only one of the pieces left and right of it has pixels.
func (t *turner) border(x int32, left, right [][2]int32) {
	// Sweep over the ends of both lists: even positions of i and j are starts of pieces, odd ones their ends. Between
	// two ends nothing changes.
	i, j := 0, 0
	since := int32(0)
	for i < 2*len(left) || j < 2*len(right) {
		yl, yr := int32(math.MaxInt32), int32(math.MaxInt32)
		if i < 2*len(left) {
			yl = left[i/2][i%2]
		}
		if j < 2*len(right) {
			yr = right[j/2][j%2]
		}
		y := min(yl, yr)
		if y > since && i%2 != j%2 {
			t.edges = append(t.edges, edge{x, since, y})
		}
		if yl == y {
			i++
		}
		if yr == y {
			j++
		}
		since = y
	}
}

// rows returns the runs of all pixels that were added, row by row; none if there were none. The turner is spent.
func (t *turner) rows() ([]Run, *Error) {
	t.flush()
	if len(t.column.pieces) > 0 {
		t.columnDone()
	}
	t.slabDone()
	t.border(t.left.x1, t.left.pieces, nil)
	if e := t.room(); e != nil {
		return nil, e
	}
	slices.SortFunc(t.edges, func(a, b edge) int { return cmp.Compare(a.y0, b.y0) })
	var out []Run
	var at []edge // that the row crosses, from left to right; an even number
	for next, y := 0, int32(0); ; {
		at = slices.DeleteFunc(at, func(e edge) bool { return e.y1 <= y })
		if len(at) == 0 {
			if next == len(t.edges) {
				return out, nil
			}
			y = t.edges[next].y0
		}
		for next < len(t.edges) && t.edges[next].y0 == y {
			at = append(at, t.edges[next])
			next++
		}
		slices.SortFunc(at, func(a, b edge) int { return cmp.Compare(a.x, b.x) })
		end := int32(math.MaxInt32)
		if next < len(t.edges) {
			end = t.edges[next].y0
		}
		for _, e := range at {
			end = min(end, e.y1)
		}
		for ; y < end; y++ {
			if e := t.b.spend(len(at) / 2); e != nil {
				return nil, e
			}
			for i := 0; i+1 < len(at); i += 2 {
				out = append(out, Run{y, at[i].x, at[i+1].x})
			}
		}
	}
}

// badPNG says why a PNG can't be read.
func badPNG(err error) *Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(ErrSyntax, "no whole PNG: it ends early")
	}
	return fail(ErrSyntax, "%v", pictures.Error(err))
}

// maskImage reads a PNG as regions: one for each label, as [polygon.LabelRuns] has them. They are called by it,
// "label-7" or "label-#ff0080", and a single one "mask".
func (b *builder) maskImage(data []byte) *Error {
	cfg, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return badPNG(err)
	}
	if e := b.spendPixels(cfg); e != nil {
		return e
	}
	rest := bytes.NewReader(data)
	img, err := png.Decode(rest)
	switch end := len(data) - rest.Len(); {
	case err != nil:
		return badPNG(err)
	case bytes.HasPrefix(data[end:], []byte(pngSignature)):
		return fail(ErrInvalid, "another PNG picture begins at byte %d, behind the end of the first", end)
	}
	if x, y, found := seenThrough(img); found {
		return fail(ErrInvalid, "pixel (%d, %d) has a label, and is transparent: it would be taken as if it were not; save "+
			"the mask without transparency", x, y)
	}
	b.file.Format = FormatMask
	b.file.ImageWidth, b.file.ImageHeight = cfg.Width, cfg.Height
	index := map[uint32]int{}
	var labels []uint32
	var masks [][]polygon.Run
	for label, u := range polygon.LabelRuns(img, 0, 0) {
		if e := b.spend(1); e != nil {
			return e
		}
		i, ok := index[label]
		if !ok {
			if len(labels) >= b.opts.MaxRegions {
				return fail(ErrLimit, "more than %d labels in the image, the limit of regions", b.opts.MaxRegions)
			}
			i = len(labels)
			index[label], labels, masks = i, append(labels, label), append(masks, nil)
		}
		masks[i] = append(masks[i], u)
	}
	if runs, pixels := b.vertices, cfg.Width*cfg.Height; len(labels) > photographLabels && runs > pixels/photographRuns {
		return fail(ErrUnknownFormat, "%d labels in %d runs of %d pixels: it looks like a photograph, no mask", len(labels),
			runs, pixels)
	}
	slices.Sort(labels)
	for _, label := range labels {
		r := Region{Name: fmt.Sprintf("label-%d", label), Mask: fileRuns(masks[index[label]])}
		switch img.(type) {
		case *image.Gray, *image.Gray16, *image.Paletted:
		default:
			r.Name = fmt.Sprintf("label-#%06x", label)
		}
		if len(labels) == 1 {
			r.Name = "mask"
		}
		if e := b.add(r); e != nil {
			return e
		}
	}
	return nil
}

// seenThrough finds the first pixel that has a label and isn't opaque. Those of palettes may be anything.
func seenThrough(img image.Image) (x, y int, found bool) {
	var pix []byte
	size := 4 // bytes of a pixel
	switch m := img.(type) {
	case *image.NRGBA:
		pix = m.Pix
	case *image.NRGBA64:
		pix, size = m.Pix, 8
	}
	for i := 0; i < len(pix); i += size {
		color, alpha := pix[i:i+size*3/4], pix[i+size*3/4:i+size]
		if alpha[0] != 0xff && slices.ContainsFunc(color, func(v byte) bool { return v != 0 }) {
			w := img.Bounds().Dx()
			return i / size % w, i / size / w, true
		}
	}
	return 0, 0, false
}

// Photographs, which people pass by mistake, are images of more than photographLabels labels that have more than a run
// for photographRuns pixels. Those of testdata have 232 values or more, and a run for 1.05 to 1.8 pixels; labels of
// their regions have one for 105 to 166.
const (
	photographLabels = 32
	photographRuns   = 4
)

// spendPixels accounts for the pixels of an image that is to be decoded.
func (b *builder) spendPixels(cfg image.Config) *Error {
	pixels := int64(cfg.Width) * int64(cfg.Height)
	if pixels > maxMaskPixels-b.maskPixels {
		return fail(ErrLimit, "more than %d pixels in the file's masks, the limit", maxMaskPixels)
	}
	b.maskPixels += pixels
	return nil
}

// fileRuns is a mask as files have it; nil where it holds no pixel.
func fileRuns(mask []polygon.Run) []Run {
	var out []Run
	for _, u := range mask {
		out = append(out, Run{u.Y, u.X0, u.X1})
	}
	return out
}

// pixels are runs as package polygon has them.
func pixels(runs []Run) []polygon.Run {
	out := make([]polygon.Run, len(runs))
	for i, u := range runs {
		out[i] = polygon.Run{Y: u[0], X0: u[1], X1: u[2]}
	}
	return out
}

// Outlines are the rings of a region, or those around the pixels of its mask.
func (r *Region) Outlines() [][][2]float64 {
	if r.Mask == nil {
		return r.Rings
	}
	var out [][][2]float64
	for _, ring := range polygon.Outline(pixels(r.Mask)) {
		xy := make([][2]float64, len(ring))
		for i, p := range ring {
			xy[i] = [2]float64{p.X, p.Y}
		}
		out = append(out, xy)
	}
	return out
}
