// What is kept beyond the process: verdicts with all their numbers, and pictures of some parts.

package events

import (
	"slices"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Keeper keeps what happens. Its methods are called from the goroutines that inspect: they never wait, and drop what
// they have no room for.
type Keeper interface {
	// Verdict keeps a verdict with its numbers, nil where there are none. Neither changes any more, but for v's Failed,
	// which is for those who look on. p, where it isn't nil, is for the keeper to release.
	Verdict(s *Stream, v *Verdict, at time.Time, r *polygon.Result, p *Picture)
	// Late marks the verdict of that number of a stream: it became late on its way to the client.
	Late(s *Stream, number uint64)
	// Picture keeps the picture of a verdict that was told of before, and releases it.
	Picture(s *Stream, number uint64, partID string, r *polygon.Result, p *Picture)
	// Wants says that a picture of a part with this verdict is wanted. Each call counts as a part.
	Wants(v pb.Verdict) bool
	// Pictures says that Wants can say so at all.
	Pictures() bool
	// Room takes memory for pixels, until release is called; ok is false where there is none. What is missing then is to
	// be told by Missed.
	Room(bytes int64) (release func(), ok bool)
	// Missed counts a picture that was wanted and could not be taken.
	Missed()
}

// Picture is the whole picture of a part or frame, in memory that was taken with [Keeper.Room].
type Picture struct {
	kernels.Picture
	MissingLines int // which are 0
	Free         func()
}

// Release gives the picture's memory back. A nil Picture has none.
func (p *Picture) Release() {
	if p != nil {
		p.Free()
	}
}

// Copy is a copy of a frame with that verdict where the keeper wants one and has room; nil where not. A resident frame
// has no Data, for the device alone has its pixels: it has no picture that could be lost, and takes no other's turn.
func (s *Stream) Copy(f kernels.Picture, v pb.Verdict) *Picture {
	if s == nil || s.bus.keeper == nil || len(f.Data) == 0 || !s.bus.keeper.Wants(v) {
		return nil
	}
	n := 0
	for _, d := range f.Data {
		n += len(d)
	}
	free, ok := s.bus.keeper.Room(int64(n))
	if !ok {
		s.bus.keeper.Missed()
		return nil
	}
	all := make([]byte, 0, n)
	for _, d := range f.Data {
		all = append(all, d...)
	}
	f.Data = [][]byte{all}
	return &Picture{Picture: f, Free: free}
}

// Strips keep the last lines of a line-scan session until it is known which of its parts are wanted as pictures. Most
// lines stay in the buffers that they came in: a copy costs little time itself, but drives what the next strip needs
// out of the processor's caches, which made results of 512 KiB strips 9 % slower. Other lines are copied once, whatever
// parts they belong to. A nil *Strips keeps nothing. Its methods are for one goroutine.
type Strips struct {
	stream *Stream
	lines  uint64 // of a part
	kept   []keptStrip
	wanted []wantedPart
	spare  [][]byte // of strips that were let go: new memory for each would be cleared, and collected
}

// mostSpare is how many buffers wait to be used again: as many as a strip lets go, mostly.
const mostSpare = 2

// What all sessions may keep in buffers that strips came in. Messages that are under way need that memory too, and
// parts of many lines could take all of it: so the rest is copied, and counts for the history alone. A buffer may be
// far larger than its piece: pieces are of so many bytes on average, but for a few, or the strip is copied.
const (
	mostBorrowed    = 32 << 20
	leastPieceBytes = 4 << 10
	anyPieces       = 4
)

type keptStrip struct {
	first    uint64
	p        kernels.Picture
	borrowed int64  // bytes in the buffers that they came in; 0 for a copy, which is in one piece
	free     func() // gives back the history's room, and what was borrowed
}

type wantedPart struct {
	number, line uint64 // of the result, and where the part begins
	partID       string
	result       *polygon.Result
}

// Strips are those of a line-scan session whose parts have so many lines; nil where nobody wants pictures.
func (s *Stream) Strips(lines uint64) *Strips {
	if s == nil || s.bus.keeper == nil || !s.bus.keeper.Pictures() {
		return nil
	}
	return &Strips{stream: s, lines: lines}
}

// Part notes a part that begins at a line, with its result, if a picture of it is wanted.
func (t *Strips) Part(m *pb.PartResult, r *polygon.Result) {
	if t == nil || m.GetError() != nil || !t.stream.bus.keeper.Wants(m.GetVerdict()) {
		return
	}
	t.wanted = append(t.wanted, wantedPart{m.GetResultNumber(), m.GetFirstLine(), m.GetPartId(), r})
}

// Strip keeps the lines of a strip, hands on the pictures of parts that end in it or before it, and lets go of lines
// that no part needs any more. p has Data; it is empty for a strip that can't be used. Where hold isn't nil it may be
// called, once: p's memory stays as it is then until the function that it returned is called. Without it nothing of p
// is used after Strip has returned.
func (t *Strips) Strip(first uint64, p kernels.Picture, hold func() (release func())) {
	if t == nil {
		return
	}
	end := first + uint64(p.Height)
	if n := p.Height * p.RowBytes(); n > 0 && len(p.Data) > 0 {
		// One whose room is refused is missing from pictures, which say so.
		if free, ok := t.stream.bus.keeper.Room(int64(n)); ok {
			t.kept = append(t.kept, t.keep(keptStrip{first: first, p: p, free: free}, n, hold))
		}
	}
	rest := t.wanted[:0]
	for _, w := range t.wanted {
		if w.line+t.lines <= end {
			t.hand(w)
		} else {
			rest = append(rest, w)
		}
	}
	clear(t.wanted[len(rest):])
	t.wanted = rest
	from := uint64(0) // lines before it are not needed: a part that ends later begins later
	if end > t.lines {
		from = end - t.lines
	}
	for _, w := range t.wanted {
		from = min(from, w.line)
	}
	keep := t.kept[:0]
	for _, k := range t.kept {
		if k.first+uint64(k.p.Height) > from {
			keep = append(keep, k)
		} else {
			k.free()
			if k.borrowed == 0 && len(t.spare) < mostSpare {
				t.spare = append(t.spare, k.p.Data[0])
			}
		}
	}
	clear(t.kept[len(keep):])
	t.kept = keep
}

// keep makes the n bytes of k's lines last until k is freed.
func (t *Strips) keep(k keptStrip, n int, hold func() (release func())) keptStrip {
	if borrowed := &t.stream.bus.borrowed; hold != nil && len(k.p.Data) <= anyPieces+n/leastPieceBytes {
		if borrowed.Add(int64(n)) <= mostBorrowed {
			room, release := k.free, hold()
			k.borrowed = int64(n)
			k.free = func() {
				release()
				borrowed.Add(-int64(n))
				room()
			}
			return k
		}
		borrowed.Add(-int64(n))
	}
	var all []byte
	if spare := len(t.spare); spare > 0 {
		all, t.spare = t.spare[spare-1][:0], t.spare[:spare-1]
	}
	all = slices.Grow(all, n)
	for _, d := range k.p.Data {
		all = append(all, d...)
	}
	k.p.Data = [][]byte{all}
	return k
}

// Close hands on the pictures that are still wanted, as far as their lines came, and lets go of the rest.
func (t *Strips) Close() {
	if t == nil {
		return
	}
	for _, w := range t.wanted {
		t.hand(w)
	}
	for _, k := range t.kept {
		k.free()
	}
	t.kept, t.wanted, t.spare = nil, nil, nil
}

// hand makes the picture of a part of the strips that are there, and hands it to the keeper.
func (t *Strips) hand(w wantedPart) {
	keeper := t.stream.bus.keeper
	var like *kernels.Picture
	for i := range t.kept {
		if k := &t.kept[i]; k.first < w.line+t.lines && k.first+uint64(k.p.Height) > w.line {
			like = &k.p
			break
		}
	}
	if like == nil {
		keeper.Missed()
		return
	}
	row := like.RowSize()
	free, ok := keeper.Room(int64(row) * int64(t.lines))
	if !ok {
		keeper.Missed()
		return
	}
	all := make([]byte, row*int(t.lines))
	if c := like.Coding.Kind; c == kernels.UYVY || c == kernels.YUYV { // black, where lines are missing
		for i := map[bool]int{true: 0, false: 1}[c == kernels.UYVY]; i < len(all); i += 2 {
			all[i] = 128
		}
	}
	missing := int(t.lines)
	for _, k := range t.kept {
		for y := range k.p.Height {
			if line := k.first + uint64(y); line >= w.line && line < w.line+t.lines {
				copyFrom(all[int(line-w.line)*row:][:row], k.p.Data, y*k.p.RowBytes())
				missing--
			}
		}
	}
	keeper.Picture(t.stream, w.number, w.partID, w.result, &Picture{
		Picture: kernels.Picture{Width: like.Width, Height: int(t.lines), Stride: row, Format: like.Format,
			Coding: like.Coding, Data: [][]byte{all}},
		MissingLines: max(missing, 0), Free: free,
	})
}

// copyFrom fills dst with the bytes from an offset on of what pieces are together, as far as there are any.
func copyFrom(dst []byte, pieces [][]byte, offset int) {
	for _, d := range pieces {
		if offset >= len(d) {
			offset -= len(d)
			continue
		}
		n := copy(dst, d[offset:])
		if dst, offset = dst[n:], 0; len(dst) == 0 {
			return
		}
	}
}
