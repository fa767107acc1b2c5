//go:build cuda

// MaskPrepare: the host makes the tables and uploads them with the edges, and the items of regions that have runs;
// kernels find the items of the others. And the way back: the set that is at a place in device memory.

package cuda

import (
	"fmt"
	"slices"

	"github.com/polyscan/polyscan/kernels/driver"
)

func (s *stream) maskPrepare(op *driver.MaskPrepare) error {
	p, err := newSet(op.Regions, op.Width, op.Height, op.Method)
	if err != nil {
		return err
	}
	if op.Dst.Len < p.lay.bytes {
		return fmt.Errorf("Dst: %d bytes, %d are needed", op.Dst.Len, p.lay.bytes)
	}
	base := at(op.Dst)
	edges := bytesOf(op.Regions.Edges)
	if len(edges) > slotBytes || p.runs > slotBytes/uint64(itemBytes) {
		// The upload may be stopped half way, and what was there before must not be taken for what was to come.
		if err := s.fill(base, 0, headerBytes); err != nil {
			return err
		}
	}
	// Edges and items first, because they are the part that may be stopped; from the header on nothing is, so that a
	// set with a header is whole.
	if err := s.send(base+uint64(p.lay.edges), &gather{pieces: [][]byte{edges}}, int64(len(edges)),
		s.stop.Load); err != nil {
		return err
	}
	if p.runs > 0 {
		items := make([]item, min(p.runs, slotBytes/uint64(itemBytes)))
		if err := p.runItems(&op.Regions, items, func(slot uint64, items []item) error {
			b := bytesOf(items)
			return s.send(base+uint64(p.lay.items)+slot*uint64(itemBytes), &gather{pieces: [][]byte{b}}, int64(len(b)),
				s.stop.Load)
		}); err != nil {
			return err
		}
	}
	s.head = slices.Grow(s.head[:0], int(p.lay.edges))[:p.lay.edges]
	p.writeHead(s.head)
	if err := s.send(base, &gather{pieces: [][]byte{s.head}}, p.lay.edges, nil); err != nil {
		return err
	}
	k, _, _ := methodKernels(driver.Method(p.head.Method))
	args := p.view(base)
	if err := k.launch(s, int(p.head.Bands), 1, maskThreads, 0, &args); err != nil {
		return err
	}
	if err := preparePrefix.launch(s, 1, 1, prefixThreads, 0, &args); err != nil {
		return err
	}
	op.Dst.Mem.(*mem).remember(op.Dst.Off, p)
	return nil
}

// preparedSet is a set and where it is.
type preparedSet struct {
	*set
	span // of the set's own size
}

func (p *preparedSet) view() view { return p.set.view(p.at()) }

// apart checks that what an op writes is not the set that it reads: kernels would follow what they wrote.
func (p *preparedSet) apart(to driver.Slice, field string) error {
	if to.Len > 0 && to.Mem == p.mem && to.Off < p.off+p.n && p.off < to.Off+to.Len {
		return fmt.Errorf("%s overlaps Prepared", field)
	}
	return nil
}

// preparedFor is [stream.prepared] of a set that has regions [first, first+count) and was prepared for an image of
// which a frame holds the rows from row0.
func (s *stream) preparedFor(slice driver.Slice, im *driver.Image, row0, first, count int) (*preparedSet, error) {
	p, err := s.prepared(slice)
	if err != nil {
		return nil, err
	}
	if err := p.rangeOf(first, count); err != nil {
		return nil, err
	}
	if im.Width != int(p.head.Width) || row0 > int(p.head.Height)-im.Height {
		return nil, fmt.Errorf("Frame: rows [%d, %d+%d) of width %d: the regions were prepared for %dx%d",
			row0, row0, im.Height, im.Width, p.head.Width, p.head.Height)
	}
	return p, nil
}

// prepared finds the set at a place. One that the host does not know, because it was moved as bytes, is read back and
// checked in full once: the time that takes is that of downloading it.
func (s *stream) prepared(slice driver.Slice) (*preparedSet, error) {
	if slice.Len == 0 {
		return nil, errNotPrepared
	}
	from := spanOf(slice)
	p := from.mem.find(from.off)
	if p == nil {
		var err error
		if p, err = s.readSet(from); err != nil {
			return nil, err
		}
		from.mem.remember(from.off, p)
	}
	if p.lay.bytes > from.n {
		return nil, errNotPrepared
	}
	from.n = p.lay.bytes
	return &preparedSet{p, from}, nil
}

func (s *stream) readSet(from span) (*set, error) {
	var p *set
	err := s.fetch(from.at(), min(from.n, headerBytes), func(b []byte) (err error) {
		p, err = openHeader(b, from.n)
		return err
	})
	if err != nil {
		return nil, err
	}
	if p == nil { // a slice of no bytes
		return nil, errNotPrepared
	}
	read := func(off, n int64) ([]byte, error) {
		all := make([]byte, 0, n)
		err := s.fetch(from.at()+uint64(off), n, func(b []byte) error {
			all = append(all, b...)
			return nil
		})
		return all, err
	}
	n := int64(p.head.Regions)
	regions, err := read(p.lay.regions, n*regionBytes)
	if err != nil {
		return nil, err
	}
	if err := p.setRegions(regions); err != nil {
		return nil, err
	}
	counts, err := read(p.lay.counts, n*4)
	if err != nil {
		return nil, err
	}
	prefix, err := read(p.lay.prefix, (n+1)*8)
	if err != nil {
		return nil, err
	}
	if err := p.checkCounts(valuesOf[uint32](counts), valuesOf[uint64](prefix)); err != nil {
		return nil, err
	}
	check := itemCheck{set: p, counts: valuesOf[uint32](counts)}
	err = s.fetch(from.at()+uint64(p.lay.items), int64(p.head.Items)*itemBytes, func(b []byte) error {
		return check.next(valuesOf[item](b))
	})
	return p, err
}
