//go:build cuda

// Cycles that a solver repeats: kept as graphs, so that each costs one launch.

package cuda

import (
	"bytes"
	"errors"
	"slices"
	"unsafe"

	"github.com/polyscan/polyscan/kernels/driver"
)

const (
	// cycleGraphAfter is how often a cycle is enqueued kernel by kernel before it is made a graph, which is done behind
	// the last of these, while the GPU is at work on them. One that is not repeated, or only within a short solve, is
	// not worth it.
	cycleGraphAfter = 3
	// cycleGraphsKept is how many cycles a stream knows. A canvas that is solved again and again has one.
	cycleGraphsKept = 16
)

// cycleGraph is a cycle that was enqueued lately.
type cycleGraph struct {
	key  []byte // its launches, as recorded: all that the nodes of its graph hold
	uses int
	made bool // graph is there
	graph
}

// cycleGraphs are those of a stream. They are known by the launches themselves, so that nothing has to be told of
// memory that was freed: what lies elsewhere is another cycle, and what lies at the same place with the same sizes is
// the same one, whatever it was before.
type cycleGraphs struct {
	record    []byte // what was launched while recording
	recording bool
	known     []*cycleGraph // that which was used last is first
	retired   []graph       // may be running
}

// recordedLaunch begins a launch of a record. Parameters follow, filled up to 8 bytes. It has no padding: that might
// hold anything, and no cycle would be known again.
type recordedLaunch struct {
	kernel                               uint64
	gx, gy, threads, shared, bytes, room uint32
}

// recordAll records what enqueue launches.
func (c *cycleGraphs) recordAll(enqueue func() error) error {
	c.record, c.recording = c.record[:0], true
	defer func() { c.recording = false }() // a panic must not leave it so
	return enqueue()
}

// add records a launch.
func (c *cycleGraphs) add(k kernel, gx, gy, threads, shared int, params unsafe.Pointer, n uintptr) {
	l := recordedLaunch{uint64(k), uint32(gx), uint32(gy), uint32(threads), uint32(shared), uint32(n), uint32(n+7) &^ 7}
	c.record = append(c.record, unsafe.Slice((*byte)(unsafe.Pointer(&l)), unsafe.Sizeof(l))...)
	c.record = append(c.record, unsafe.Slice((*byte)(params), n)...)
	c.record = append(c.record, make([]byte, uintptr(l.room)-n)...)
}

// find returns the cycle that was recorded.
func (c *cycleGraphs) find() *cycleGraph {
	i := slices.IndexFunc(c.known, func(g *cycleGraph) bool { return bytes.Equal(g.key, c.record) })
	if i < 0 {
		i = len(c.known)
		c.known = append(c.known, &cycleGraph{key: bytes.Clone(c.record)})
	}
	g := c.known[i]
	copy(c.known[1:], c.known[:i])
	c.known[0] = g
	if len(c.known) > cycleGraphsKept {
		if last := c.known[cycleGraphsKept]; last.made {
			c.retired = append(c.retired, last.graph)
		}
		c.known[cycleGraphsKept] = nil
		c.known = c.known[:cycleGraphsKept]
	}
	return g
}

// drained destroys what was retired, as nothing runs any more.
func (c *cycleGraphs) drained() {
	for _, g := range c.retired {
		g.destroy()
	}
	c.retired = c.retired[:0]
}

// close destroys all graphs of a stream that has drained.
func (c *cycleGraphs) close() {
	c.drained()
	for _, g := range c.known {
		if g.made {
			g.destroy()
		}
	}
	c.known = nil
}

// cycle enqueues what enqueue does, which is launches of kernels and nothing else. From some time on the same launches
// are one of a graph.
func (s *stream) cycle(enqueue func() error) error {
	if s.capturing || s.dev.graphless.Load() {
		return enqueue()
	}
	if err := s.cycles.recordAll(enqueue); err != nil {
		return err
	}
	g := s.cycles.find()
	if g.made {
		s.dirty, s.kernelLast = true, false
		return s.dev.checkCode("cuGraphLaunch", g.launch(s.cu))
	}
	if err := s.launchRecord(); err != nil {
		return err
	}
	if g.uses++; g.uses < cycleGraphAfter {
		return nil
	}
	return s.makeGraph(g)
}

// launchRecord launches what was recorded.
func (s *stream) launchRecord() error {
	for b := s.cycles.record; len(b) > 0; {
		l := *(*recordedLaunch)(unsafe.Pointer(&b[0]))
		b = b[unsafe.Sizeof(l):]
		if err := s.launch(kernel(l.kernel), int(l.gx), int(l.gy), int(l.threads), int(l.shared), unsafe.Pointer(&b[0]),
			uintptr(l.bytes)); err != nil {
			return err
		}
		b = b[l.room:]
	}
	return nil
}

// makeGraph makes a graph of what was recorded, of kernels that begin early where they do so in the stream. Where the
// driver can't, the device does without from then on: the launches themselves have worked before.
func (s *stream) makeGraph(g *cycleGraph) error {
	code := beginCapture(s.cu)
	err := s.dev.checkCode("cuStreamBeginCapture", code)
	if err == nil {
		last := s.kernelLast
		s.kernelLast = false
		err = s.launchRecord()
		s.kernelLast = last
		made, code := endCapture(s.cu) // the stream is of no use before it has ended
		if e := s.dev.checkCode("cuStreamEndCapture", code); err == nil && e == nil {
			g.graph, g.made = made, true
			return nil
		} else if e == nil {
			made.destroy()
		} else if err == nil {
			err = e
		}
	}
	switch {
	case errors.Is(err, driver.ErrDeviceLost):
		return err
	case errors.Is(err, driver.ErrOutOfMemory):
		g.uses = 0 // there may be some again
	default:
		s.dev.graphless.Store(true)
	}
	return nil
}
