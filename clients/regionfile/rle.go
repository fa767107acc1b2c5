package regionfile

// COCO's run-length masks: runs of clear and set pixels in turn, clear first, down each column and columns from left to
// right.
//
// Two spellings: an array of run lengths, and a string with 6 bits per character (the value plus 48): 5 bits of a
// signed number, lowest first, and a bit that says that more follow. From the fourth run on, the number is the
// difference to the run two before.

// runLengths reads the mask of an annotation's segmentation object.
func (b *builder) runLengths(c *cursor) ([]Run, *Error) {
	m, e := b.members(c, &cocoRuns, func() string { return "segmentation" })
	if e != nil {
		return nil, e
	}
	w, h, e := maskSize(m)
	if e != nil {
		return nil, e.within("size")
	}
	// One that is larger holds a region that reaches beyond its image.
	if iw, ih := b.file.ImageWidth, b.file.ImageHeight; iw > 0 && ih > 0 && (w < iw || h < ih) {
		return nil, fail(ErrInvalid, "the mask has %d×%d pixels, its image %d×%d", w, h, iw, ih).within("size")
	}
	counts := m.cursor("counts")
	if counts == nil {
		return nil, fail(ErrInvalid, `the key "counts" is missing`)
	}
	t := newTurner(b, h)
	r := runs{t: t, area: int64(w) * int64(h)}
	switch k := counts.kind(); k {
	case kindArray:
		e = r.array(counts)
	case kindString:
		e = r.compressed(counts.text())
	default:
		e = fail(ErrInvalid, "expected an array or a string, found %s", k)
	}
	if e == nil && r.at != r.area {
		e = fail(ErrInvalid, "the runs cover %d pixels, the mask of %d×%d has %d", r.at, w, h, r.area)
	}
	if e != nil {
		return nil, e.within("counts")
	}
	return t.rows()
}

// maskSize reads the member "size": [height, width].
func maskSize(m *members) (w, h int, e *Error) {
	c := m.cursor("size")
	if c == nil {
		return 0, 0, fail(ErrInvalid, "missing, expected [height, width]")
	}
	if e := c.expect(kindArray); e != nil {
		return 0, 0, e
	}
	var hw [2]int
	n := 0
	for more := c.enter(); more; more = c.next() {
		v, e := c.extent()
		if e != nil {
			return 0, 0, e
		}
		if v == 0 || n == 2 {
			return 0, 0, fail(ErrInvalid, "expected two positive numbers, [height, width]")
		}
		hw[n] = v
		n++
	}
	if n != 2 {
		return 0, 0, fail(ErrInvalid, "expected two positive numbers, [height, width]")
	}
	return hw[1], hw[0], nil
}

// runs takes run after run and hands the set ones to the turner.
type runs struct {
	t        *turner
	area, at int64 // pixels of the mask, pixels covered so far; both below 2^44
	n        int   // runs so far
	last     [2]int64
}

func (r *runs) add(length int64) *Error {
	if length < 0 || length > r.area-r.at {
		return fail(ErrInvalid, "run %d has length %d, and %d pixels of the mask are left", r.n, length, r.area-r.at)
	}
	if r.n%2 == 1 {
		if e := r.t.run(r.at, r.at+length); e != nil {
			return e
		}
	}
	r.at += length
	r.last[r.n%2] = length
	r.n++
	return nil
}

func (r *runs) array(c *cursor) *Error {
	for more := c.enter(); more; more = c.next() {
		v, e := c.number()
		if e == nil && (v != float64(int64(v)) || v < 0 || v > float64(r.area)) {
			e = fail(ErrInvalid, "%v is not the length of a run in a mask of %d pixels", v, r.area)
		}
		if e == nil {
			e = r.add(int64(v))
		}
		if e != nil {
			return e.within("[%d]", r.n)
		}
	}
	return nil
}

func (r *runs) compressed(s string) *Error {
	for i := 0; i < len(s); {
		start := i
		length, shift := int64(0), 0
		for {
			if i == len(s) {
				return fail(ErrSyntax, "the string ends in the middle of run %d, it may be truncated", r.n)
			}
			c := int64(s[i]) - 48
			if c < 0 || c > 63 {
				return fail(ErrSyntax, "run %d: the byte 0x%02x at offset %d isn't one of run-length data", r.n, s[i],
					i)
			}
			// Lengths and their differences stay below 2^45: ten groups would do, eleven are certainly wrong.
			if i-start == 10 {
				return fail(ErrSyntax, "run %d: the number at offset %d is too long", r.n, start)
			}
			i++
			length |= c & 0x1f << shift
			shift += 5
			if c&0x20 == 0 {
				if c&0x10 != 0 {
					length |= -1 << shift
				}
				break
			}
		}
		if r.n > 2 {
			length += r.last[r.n%2]
		}
		if e := r.add(length); e != nil {
			return e
		}
	}
	return nil
}
