// An image file in pieces, as decoders read it.

package frames

import (
	"context"
	"errors"
	"io"
	"sort"

	"github.com/polyscan/polyscan/server/internal/hostwork"
)

// pieceReader reads a file that lies in pieces. It stops when ctx ends, because decoders don't look at contexts, and
// when more was read than any honest file has decoders read: offsets in a TIFF file may point to the same bytes a
// million times.
type pieceReader struct {
	ctx    context.Context
	pieces [][]byte
	starts []int64 // of each piece; and the length of all
	pos    int64   // of Read
	last   int     // piece that was looked at
	// atOnce is how much a decoder gets at a time. A byte can stand for a thousand pixels of a PNG, and a few of them for
	// a scan over a whole progressive JPEG, so less is right where ctx must end that soon.
	atOnce int
	turn   *hostwork.Turn // of the work that reads
	budget int64
}

var errReadTooOften = errors.New("the file's offsets lead to the same bytes again and again")

func newPieceReader(ctx context.Context, turn *hostwork.Turn, pieces [][]byte) *pieceReader {
	s := &pieceReader{ctx: ctx, turn: turn, pieces: pieces, starts: make([]int64, len(pieces)+1), atOnce: 64 << 10}
	for i, p := range pieces {
		s.starts[i+1] = s.starts[i] + int64(len(p))
	}
	s.rewind()
	return s
}

func (s *pieceReader) size() int64 { return s.starts[len(s.pieces)] }

// rewind makes Read start over, with a new budget: four times the file, and 1 MiB for headers.
func (s *pieceReader) rewind() {
	s.pos = 0
	s.budget = 4*s.size() + 1<<20
}

func (s *pieceReader) spend(n int) error {
	if err := s.turn.Yield(); err != nil {
		return err
	}
	if s.budget -= int64(n); s.budget < 0 {
		return errReadTooOften
	}
	return nil
}

// Read implements io.Reader.
func (s *pieceReader) Read(b []byte) (int, error) {
	b = b[:min(len(b), s.atOnce)]
	n, err := s.ReadAt(b, s.pos)
	s.pos += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (s *pieceReader) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if err := s.spend(len(b)); err != nil {
		return 0, err
	}
	if off >= s.size() {
		return 0, io.EOF
	}
	i := s.piece(off)
	n := 0
	for ; i < len(s.pieces) && n < len(b); i++ {
		n += copy(b[n:], s.pieces[i][off+int64(n)-s.starts[i]:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// piece is the index of the piece that holds byte off, which is often the one of the last call or the next.
func (s *pieceReader) piece(off int64) int {
	i := s.last
	if off >= s.starts[i+1] && i+1 < len(s.pieces) {
		i++
	}
	if off < s.starts[i] || off >= s.starts[i+1] {
		i = sort.Search(len(s.pieces), func(i int) bool { return s.starts[i+1] > off })
	}
	s.last = min(i, len(s.pieces)-1)
	return i
}

// at returns the bytes [off, off+n), fewer at the end of the file.
func (s *pieceReader) at(off int64, n int) []byte {
	b := make([]byte, n)
	m, _ := s.ReadAt(b, off)
	return b[:m]
}
