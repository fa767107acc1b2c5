// Scanner: strips of lines in, the numbers of parts out.

package polygon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// ScanConfig says what a [Scanner] does with the lines of a camera.
type ScanConfig struct {
	// Width of a line, in pixels, their format, and how they are sent. Bayer is of frames, whose first line a part
	// begins with: a strip's lines are all of one part, which has to be whole, and no other strip has lines beside
	// them, on which their colours would depend.
	Width  int
	Format kernels.PixelFormat
	Coding kernels.Coding
	// PartLines is how many lines a part has.
	PartLines int
	// WholeParts makes a part need all of its lines, whichever of them its regions need: it is done with the last of
	// them, and one that lacks a line doesn't pass.
	WholeParts bool
	// Reductions of each part.
	Reductions Reductions
	Method     Method
	// Parts is how many parts have device memory from the start, and MaxParts how many may be open at the same time;
	// memory for those beyond Parts is taken when they start, and kept. MaxParts of 0 means Parts, and both 0 mean 1.
	Parts, MaxParts int
	// StripBytes is how large the memory is that is kept for the rows of a strip. Strips that fit in it wait for
	// nobody's memory; others bring their own, and wait for it. 0 keeps none.
	StripBytes int
	// Flat, where it isn't nil, has one row, by which all lines are corrected.
	Flat *kernels.FlatField
}

// ErrTooManyParts is matched by the error of [Scanner.Start] where [ScanConfig.MaxParts] are open.
var ErrTooManyParts = errors.New("polygon: too many parts are open")

// Scanner reduces the parts that pass under a line-scan camera. A part is a window of lines, to which the regions of a
// set are relative; parts may overlap. [Scanner.Start] opens a part, [Scanner.Strip] takes lines, and a part comes back
// as soon as the last line that any of its regions needs has been taken, or is known to be lost. Its numbers are those
// of [Reduce] over the frame of its lines, bit for bit.
//
// Sums accumulate on the device. A strip is one job, which uploads the lines that open parts need, reduces them for
// each part and the regions that have pixels in them, and downloads the regions that are complete. The regions and the
// sums of open parts are memory that is kept until [Scanner.Close], as is that of ScanConfig.StripBytes; they are
// accounted for as "line-scan regions", "line-scan sums" and "line-scan strips".
//
// Strips may come in any order, since sums don't depend on it, as long as the parts that need them are open. Close a
// Scanner after use. Its methods must not be called at the same time.
type Scanner struct {
	*plan
	dev    *kernels.Device
	method Method
	width  int
	height int // of a part

	// Regions by their first line; the set's index, and the lines that hold pixels.
	order []scanRegion
	ends  []int32 // places in order, by the last line
	need  lineSet // lines that any region needs, or all where parts have to be whole
	whole bool
	known known
	// What ops take: the set's regions in that order.
	regions  driver.MaskRegions
	prepared *kernels.Persistent[byte] // nil after a failed Reset
	cover    coverage                  // of the regions in that order; nothing where none is wanted
	boundary *kernels.Persistent[byte] // it on the device, or nil
	strip    *kernels.Persistent[byte] // nil where stripBytes is 0, and after a failed Reset
	made     *kernels.Persistent[byte] // likewise, for what ops don't take as it is
	flat     *kernels.Persistent[byte] // likewise, for lines that are corrected
	field    *kernels.Persistent[byte] // the flat field
	align    int                       // ops begin at a multiple of so many regions

	parts      []*scanPart // open, as they were started
	free       []*sums
	max        int
	stripBytes int
	settled    uint64 // no line below comes any more
	past       *Parts // nil where no limit looks at parts
	closed     bool

	// For the strip that is being taken.
	steps  []scanStep
	ready  []scanReady
	host   hostMemory
	timing kernels.Timing
	empty  []driver.MaskStats
	// Of the rows that are uploaded.
	stripPieces [][]byte
}

type scanRegion struct {
	index  int
	y0, y1 int // lines with pixels; none where equal
}

// sums is the device memory of a part.
type sums struct {
	stats *kernels.Persistent[driver.MaskStats]
	hist  *kernels.Persistent[uint32] // nil without histograms
	// Of weighted pixels; nil without them, and without their histograms.
	weights    *kernels.Persistent[driver.WeightSums]
	weightHist *kernels.Persistent[int64]
}

func (s *sums) release() {
	s.stats.Free()
	if s.hist != nil {
		s.hist.Free()
	}
	if s.weights != nil {
		s.weights.Free()
	}
	if s.weightHist != nil {
		s.weightHist.Free()
	}
}

// scanPart is an open part.
type scanPart struct {
	number, first uint64
	sums          *sums
	have          lineSet // lines in the sums of the regions that need them
	begun         int     // regions whose sums are in use: a prefix of the order
	done          []bool  // by place in the order
	left          int     // regions that are not done
	live, ended   int     // so many at the start of the order, and of ends, are done
	d             *deriver

	mu    sync.Mutex
	err   error // of the region with the lowest index
	errAt int

	// For the strip that is being taken.
	begin   int // begun afterwards
	touched bool
}

// ScannedPart is a part that is done.
type ScannedPart struct {
	// Number as it was given to Start, and first line.
	Number, FirstLine uint64
	// Result as that of [Reduce] over the part's lines. Bounds and coverage are those of the regions in the window,
	// whichever lines came. Limits of regions that lack lines fail, and say how many; a part that lacks lines does not
	// pass, whichever of its regions need them. Nil with Err.
	Result *Result
	// Err is what [Reduce] returns for the part's pixels: an [*kernels.InvalidError] for a 16-bit sample beyond the
	// format's bits, or [ErrInconsistent].
	Err error
	// MissingLines is how many lines the regions need, or the part where it has to be whole, that did not come; the
	// result is of the others.
	MissingLines int
}

// ScanStrip is lines on their way to a [Scanner].
type ScanStrip struct {
	// FirstLine is the number of the frame's first row.
	FirstLine uint64
	// Frame has the scanner's width and format, and any number of rows and stride.
	Frame kernels.Picture
	// Settled says that no line below it comes after this strip. It can't go back; 0 says nothing new.
	Settled uint64
}

// NewScanner prepares the regions for parts on dev, and takes device memory for ScanConfig.Parts parts. Errors are
// those of [Set.Prepare] and [Reduce].
func (s *Set) NewScanner(ctx context.Context, dev *kernels.Device, cfg ScanConfig) (*Scanner, error) {
	cfg.Parts = max(cfg.Parts, 0)
	cfg.MaxParts = max(cfg.MaxParts, cfg.Parts, 1)
	bad := newInvalid()
	f := kernels.Picture{Width: cfg.Width, Height: cfg.PartLines, Format: cfg.Format, Coding: cfg.Coding, Flat: cfg.Flat}
	_, _, err := f.Sizes("frame")
	bad.Include(err)
	if cfg.Flat != nil && cfg.Flat.Height != 1 {
		bad.Add(path{"flat_field"}, fmt.Sprintf("%d rows", cfg.Flat.Height), "must have 1 row, which all lines have")
	}
	if cfg.Coding.Margin() > 0 && !cfg.WholeParts {
		bad.Add(path{"frame", "format"}, cfg.Coding, "is of frames: parts have to be whole")
	}
	if err := s.refuseBlobs(cfg.Reductions.Blobs); err != nil {
		return nil, err // first: else limits on blobs would be told to say what blobs are
	}
	p, err := makePlan(bad, s, f, cfg.Reductions)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkMethod(cfg.Method), p.refusePairs(), p.refuseDerivatives()); err != nil {
		return nil, err
	}
	c := &Scanner{plan: p, method: cfg.Method, width: cfg.Width, height: cfg.PartLines, whole: cfg.WholeParts,
		max:        cfg.MaxParts,
		stripBytes: max(cfg.StripBytes, 0), past: s.NewParts()}
	p.output.Later = c.past != nil
	if err := c.measure(ctx, dev); err != nil {
		return nil, err
	}
	c.align = max(driver.Align/gcd(driver.Align, len(p.channels)*int(statsSize)),
		driver.Align/gcd(driver.Align, p.own*weightsSize))
	if err := c.Reset(ctx, dev); err != nil {
		return nil, err
	}
	for range max(cfg.Parts, 1) {
		a, err := c.newSums()
		if err != nil {
			c.Close()
			return nil, err
		}
		c.free = append(c.free, a)
	}
	return c, nil
}

// statsSize is what a channel's sums take on the device, and weightsSize those of weighted pixels.
const (
	statsSize   = 80
	weightsSize = 32
)

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// measure finds what depends on the regions alone: their order, the lines they need, their geometry.
func (c *Scanner) measure(ctx context.Context, dev *kernels.Device) error {
	d := newDeriver(c.plan, known{})
	// It is no work of a line: nobody has sent a strip yet.
	calm := kernels.WithClass(ctx, kernels.Interactive)
	onHost := func(f func(pause func() error) error) error { return dev.OnHost(calm, f) }
	if err := d.measure(ctx, onHost); err != nil {
		return err
	}
	if c.covered {
		var err error
		if c.cover, err = c.set.cover(ctx, onHost, allOf(c.set), c.width, c.height); err != nil {
			return err
		}
	}
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	c.order = make([]scanRegion, c.set.Len())
	for i := range c.order {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d.geo[i] = d.locate(s, i, c.pixelsInside(s, i))
		b := d.geo[i].bounds
		c.order[i] = scanRegion{i, b.Y0, b.Y1}
		if c.covered { // lines in which no pixel's centre is inside may have a share of it
			c.order[i].widen(c.cover.of(i))
		}
	}
	c.known = d.known
	slices.SortStableFunc(c.order, func(a, b scanRegion) int {
		return cmp.Or(cmp.Compare(a.y0, b.y0), cmp.Compare(a.y1, b.y1))
	})
	c.regions = driver.MaskRegions{Edges: c.set.edges, Runs: c.set.runs, Regions: make([]driver.Region, len(c.order))}
	c.ends = make([]int32, len(c.order))
	for k, r := range c.order {
		c.regions.Regions[k] = c.set.regions[r.index]
		c.ends[k] = int32(k)
		c.need.add(r.y0, r.y1)
	}
	if c.whole {
		c.need = lineSet{{0, c.height}}
	}
	if c.covered {
		c.cover = c.cover.inOrder(c.order)
	}
	slices.SortStableFunc(c.ends, func(a, b int32) int { return cmp.Compare(c.order[a].y1, c.order[b].y1) })
	return nil
}

// pixelsInside counts the pixels of region i in a part; where none of them is outside, only whether there are any.
func (c *Scanner) pixelsInside(s *scratch, i int) (n uint64) {
	edges, fill := c.set.edgesOf(i), c.set.regions[i].Fill
	if fill == driver.ByRuns {
		_, n = runsInside(c.set.runsOf(i), c.width, c.height)
		return n
	}
	if len(edges) == 0 {
		return 0
	}
	var b Rect
	if b, s.turns = boundsOf(edges, fill, c.set.boxes[i], c.width, c.height, s.turns); b.Empty() {
		return 0
	}
	if !c.sticksOut(i) {
		return 1
	}
	sweep(edges, b.Y0, b.Y1, func(_ int, turns []turn) bool {
		spans(turns, fill, func(x0, x1 int) {
			if x0, x1 = max(x0, 0), min(x1, c.width); x0 < x1 {
				n += uint64(x1 - x0)
			}
		})
		return true
	})
	return n
}

// Detach gives all device memory back, for a device that was lost. Open parts lose the lines that they had, which count
// as missing. Until [Scanner.Reset], other methods fail with [ErrClosed].
func (c *Scanner) Detach() {
	c.releaseMemory()
	for _, p := range c.parts {
		c.spoil(p)
	}
}

// Reset goes on with dev, which may be another device than before, after Detach. Where it fails, the scanner stays
// detached.
func (c *Scanner) Reset(ctx context.Context, dev *kernels.Device) error {
	c.Detach()
	c.dev = dev
	op := &driver.MaskPrepare{Regions: c.regions, Width: c.width, Height: c.height, Method: c.method}
	size, err := dev.Scratch(op)
	if err != nil {
		return err
	}
	memory, err := kernels.AllocPersistent[byte](dev, int(size), "line-scan regions")
	if err != nil {
		return err
	}
	op.Dst = memory.Slice()
	err = dev.Do(ctx, kernels.Job{Label: "prepare"}, func(q *kernels.Queue) error { return q.Run(op) })
	if err != nil {
		memory.Free()
		return err
	}
	c.prepared = memory
	if c.covered {
		if c.boundary, err = kernels.AllocPersistent[byte](dev, int(c.cover.bytes()), "line-scan regions"); err != nil {
			c.releaseMemory()
			return err
		}
		err = dev.Do(ctx, kernels.Job{Label: "prepare coverage"}, func(q *kernels.Queue) error {
			_, err := c.cover.upload(q, c.boundary.Range(0, c.boundary.Len()))
			return err
		})
		if err != nil {
			c.releaseMemory()
			return err
		}
	}
	if c.stripBytes > 0 {
		if c.strip, err = kernels.AllocPersistent[byte](dev, c.stripBytes, "line-scan strips"); err != nil {
			c.releaseMemory()
			return err
		}
		if n := c.developed(c.stripBytes / c.frame.RowSize()); n > 0 {
			if c.made, err = kernels.AllocPersistent[byte](dev, n, "line-scan strips"); err != nil {
				c.releaseMemory()
				return err
			}
		}
		if n := c.corrected(c.stripBytes / c.frame.RowSize()); n > 0 {
			if c.flat, err = kernels.AllocPersistent[byte](dev, n, "line-scan strips"); err != nil {
				c.releaseMemory()
				return err
			}
		}
	}
	if flat := c.frame.Flat; flat != nil {
		if c.field, err = kernels.AllocPersistent[byte](dev, int(flat.Bytes()), "line-scan flat field"); err != nil {
			c.releaseMemory()
			return err
		}
		err = dev.Do(ctx, kernels.Job{Label: "prepare flat field"}, func(q *kernels.Queue) error {
			return flat.Upload(q, c.field.Range(0, c.field.Len()))
		})
		if err != nil {
			c.releaseMemory()
			return err
		}
	}
	for _, p := range c.parts {
		if p.sums, err = c.newSums(); err != nil {
			c.releaseMemory()
			return err
		}
	}
	return nil
}

func (c *Scanner) newSums() (*sums, error) {
	n := len(c.order) * len(c.channels)
	stats, err := kernels.AllocPersistent[driver.MaskStats](c.dev, n, "line-scan sums")
	if err != nil {
		return nil, err
	}
	a := &sums{stats: stats}
	if c.what&driver.MaskHistogram != 0 {
		if a.hist, err = kernels.AllocPersistent[uint32](c.dev, n*c.frame.Format.Levels(),
			"line-scan sums"); err != nil {
			stats.Free()
			return nil, err
		}
	}
	if n := len(c.order) * c.own; c.covered {
		a.weights, err = kernels.AllocPersistent[driver.WeightSums](c.dev, n, "line-scan sums")
		if err == nil && c.coveredHistogram {
			a.weightHist, err = kernels.AllocPersistent[int64](c.dev, n*c.frame.Format.Levels(), "line-scan sums")
		}
		if err != nil {
			a.release()
			return nil, err
		}
	}
	return a, nil
}

// Open is how many parts are open.
func (c *Scanner) Open() int { return len(c.parts) }

// Close ends open parts without a result and gives all device memory back. Later calls fail with [ErrClosed]; later
// calls of Close do nothing.
func (c *Scanner) Close() {
	c.closed = true
	c.releaseMemory()
	c.parts = nil
}

func (c *Scanner) releaseMemory() {
	for _, a := range c.free {
		a.release()
	}
	c.free = nil
	for _, p := range c.parts {
		if p.sums != nil {
			p.sums.release()
			p.sums = nil
		}
	}
	for _, kept := range []**kernels.Persistent[byte]{&c.prepared, &c.boundary, &c.strip, &c.made, &c.flat,
		&c.field} {
		if *kept != nil {
			(*kept).Free()
			*kept = nil
		}
	}
}

// Start opens the part whose first line is line, before any of its lines are taken. number comes back with it. Where
// ScanConfig.MaxParts are open the error matches [ErrTooManyParts], and where the device has no room for its sums it is
// a [*kernels.CapacityError]; nothing has happened then.
func (c *Scanner) Start(number, line uint64) error {
	switch {
	case c.closed || c.prepared == nil:
		return ErrClosed
	case line < c.settled:
		return invalid(path{"start"}, line, "must not be below %d, where lines are settled", c.settled)
	case line > math.MaxUint64-uint64(c.height):
		return invalid(path{"start"}, line, "must be at most %d", uint64(math.MaxUint64)-uint64(c.height))
	case len(c.parts) >= c.max:
		return fmt.Errorf("%w: the limit is %d", ErrTooManyParts, c.max)
	}
	var a *sums
	if n := len(c.free); n > 0 {
		a, c.free = c.free[n-1], c.free[:n-1]
	} else {
		var err error
		if a, err = c.newSums(); err != nil {
			return err
		}
	}
	d := newDeriver(c.plan, c.known)
	if to := d.res.Columns; to != nil {
		to.makeCounts(c.plan)
	}
	c.parts = append(c.parts, &scanPart{
		number: number, first: line, sums: a, done: make([]bool, len(c.order)), left: len(c.order), d: d,
	})
	return nil
}

// Strip takes lines and returns the parts that are done with them, those that were started first in front. A strip that
// can't be used is an [*kernels.InvalidError] with paths such as "frame.data" or "first_line", as is one with lines
// that an open part has already; nothing has happened then. After any other error its lines are missing, and where the
// job had begun, so are the lines before it of the regions that are not complete in the parts that it touches: their
// sums may hold some of it.
func (c *Scanner) Strip(ctx context.Context, s ScanStrip) ([]*ScannedPart, error) {
	if c.closed || c.prepared == nil {
		return nil, ErrClosed
	}
	if err := c.checkStrip(&s); err != nil {
		return nil, err
	}
	c.settled = max(c.settled, s.Settled)
	return c.advance(ctx, &s)
}

// Settle says that no line below line comes any more, and returns the parts that are done then.
func (c *Scanner) Settle(ctx context.Context, line uint64) ([]*ScannedPart, error) {
	if c.closed || c.prepared == nil {
		return nil, ErrClosed
	}
	c.settled = max(c.settled, line)
	return c.advance(ctx, nil)
}

func (c *Scanner) checkStrip(s *ScanStrip) error {
	bad := newInvalid()
	f := &s.Frame
	bad.Include(f.Check("frame"))
	if err := bad.Err(); err != nil {
		return err
	}
	lines := uint64(f.Height)
	switch {
	case f.Width != c.width:
		return invalid(path{"frame", "width"}, f.Width, "must be %d, that of the scan", c.width)
	case f.Format != c.frame.Format || f.Coding != c.frame.Coding:
		return invalid(path{"frame", "format"}, f.Sent(), "must be %s, that of the scan", c.frame.Sent())
	case s.FirstLine > math.MaxUint64-lines:
		return invalid(path{"first_line"}, s.FirstLine, "must be at most %d", math.MaxUint64-lines)
	case s.FirstLine < c.settled:
		return invalid(path{"first_line"}, s.FirstLine, "must not be below %d, where lines are settled",
			c.settled)
	}
	margin, of := min(f.Coding.Margin(), 1), 0
	for _, p := range c.parts {
		from, to := c.rows(p, s)
		if p.have.overlaps(from, to) {
			return invalid(path{"first_line"}, s.FirstLine, "and the lines after it have come before")
		}
		if margin == 0 || from == to {
			continue
		}
		if of++; of > 1 || to-from != f.Height {
			return invalid(path{"first_line"}, s.FirstLine,
				"and the lines after it must be of one part: %v is of frames", f.Coding)
		}
		if p.have.overlaps(from-margin, to+margin) {
			return invalid(path{"first_line"}, s.FirstLine,
				"and the lines after it are beside those of another strip, on which colours of %v depend", f.Coding)
		}
	}
	return nil
}

// rows is the range of lines of a part that are in the strip.
func (c *Scanner) rows(p *scanPart, s *ScanStrip) (from, to int) {
	if s == nil {
		return 0, 0
	}
	end := s.FirstLine + uint64(s.Frame.Height)
	if end <= p.first || s.FirstLine >= p.first+uint64(c.height) {
		return 0, 0
	}
	if s.FirstLine > p.first {
		from = int(s.FirstLine - p.first)
	}
	return from, int(min(end-p.first, uint64(c.height)))
}

// settledIn is how many of a part's lines are settled.
func (c *Scanner) settledIn(p *scanPart) int {
	if c.settled <= p.first {
		return 0
	}
	return int(min(c.settled-p.first, uint64(c.height)))
}

// advance takes a strip, or none, and finishes what is complete.
func (c *Scanner) advance(ctx context.Context, s *ScanStrip) ([]*ScannedPart, error) {
	c.steps, c.ready = c.steps[:0], c.ready[:0]
	for _, p := range c.parts {
		from, to := c.rows(p, s)
		p.have.add(from, to)
		c.plot(p, from, to)
	}
	sums := false // have been written to
	err := c.run(ctx, s, &sums)
	if err != nil {
		for _, p := range c.parts {
			if from, to := c.rows(p, s); sums && p.touched {
				c.spoil(p)
			} else {
				c.lose(p, from, to)
			}
			if from, to := c.rows(p, s); c.whole {
				p.have.subtract(from, to)
			}
		}
	}
	clear(c.steps)
	clear(c.ready)
	if err != nil {
		return nil, err
	}
	return c.collect(), nil
}

// scanStep is a part, and regions [first, end) of the order that are to be reduced over its lines [from, to).
type scanStep struct {
	part       *scanPart
	from, to   int
	first, end int
}

// scanReady is a region that will be complete, or settled.
type scanReady struct {
	part  *scanPart
	place int32 // in the order
}

// idleRegions is how many regions without pixels in the strip an op may go through before another op is worth it.
const idleRegions = 64

// plot finds what lines [from, to) of a part, which it has just got, are for.
func (c *Scanner) plot(p *scanPart, from, to int) {
	for p.live < len(p.done) && p.done[p.live] {
		p.live++
	}
	settled := c.settledIn(p)
	steps, ready := len(c.steps), len(c.ready)
	// The regions that begin above to.
	begin, _ := slices.BinarySearchFunc(c.order, to, func(r scanRegion, y int) int { return cmp.Compare(r.y0, y) })
	for k := p.live; k < begin && from < to; k++ {
		r := &c.order[k]
		if p.done[k] || r.y1 <= from {
			continue
		}
		if r.y1 > settled && p.have.contains(r.y0, r.y1) {
			c.ready = append(c.ready, scanReady{p, int32(k)})
		}
		lo, hi := max(r.y0, from), min(r.y1, to)
		if n := len(c.steps); n > steps && k-c.steps[n-1].end <= idleRegions {
			st := &c.steps[n-1]
			st.end, st.from, st.to = k+1, min(st.from, lo), max(st.to, hi)
		} else {
			c.steps = append(c.steps, scanStep{p, lo, hi, k - k%c.align, k + 1})
		}
	}
	if len(c.steps) > steps {
		p.begin = max(p.begun, begin)
	}
	for _, k := range c.ends[p.ended:] {
		if c.order[k].y1 > settled {
			break
		}
		if p.done[k] {
			p.ended++
		} else {
			c.ready = append(c.ready, scanReady{p, k})
		}
	}
	p.touched = len(c.steps) > steps || len(c.ready) > ready
}

// run is the job of a strip: it uploads, reduces, downloads and derives. sums is set when memory that outlives the job
// may have been written to.
func (c *Scanner) run(ctx context.Context, s *ScanStrip, sums *bool) error {
	wanted := len(c.steps) > 0
	for _, r := range c.ready {
		wanted = wanted || int(r.place) < r.part.begun
	}
	if !wanted { // regions without pixels, or of which nothing came
		return c.finish(nil)
	}
	pieces, size, y0, rows, src := c.pieces(s)
	defer clear(c.stripPieces[:cap(c.stripPieces)])
	made, corrected := c.developed(rows), c.corrected(rows)
	job := kernels.Job{Label: "scan strip", Units: int64(size + made + corrected)}
	own, ownMade := c.strip == nil || size > c.strip.Len(), c.made == nil || made > c.made.Len()
	if made > 0 && ownMade {
		job.Footprint = kernels.Bytes[byte](made)
	}
	ownFlat := c.flat == nil || corrected > c.flat.Len()
	if corrected > 0 && ownFlat {
		job.Footprint += kernels.Bytes[byte](corrected)
	}
	if pieces != nil && own {
		job.Footprint += kernels.Bytes[byte](size)
	}
	if src.Coding.Checked() {
		job.Footprint += kernels.Bytes[uint32](1)
	}
	var beyond [1]uint32 // samples
	job.Timing = &c.timing
	err := c.dev.Do(ctx, job, func(q *kernels.Queue) error {
		if size > 0 {
			pixels := s.Frame.Resident
			if pieces != nil {
				if own {
					var err error
					if pixels, err = kernels.Alloc[byte](q, size, "strip"); err != nil {
						return err
					}
				} else {
					pixels = c.strip.Range(0, size)
				}
				if err := kernels.UploadGather(q, pixels, pieces); err != nil {
					return err
				}
			}
			stride := s.Frame.RowBytes()
			if made > 0 {
				to := kernels.Buffer[byte]{}
				if ownMade {
					var err error
					if to, err = kernels.Alloc[byte](q, made, "developed strip"); err != nil {
						return err
					}
				} else {
					to = c.made.Range(0, made)
				}
				src.Data, src.Stride = pixels.Slice(), stride
				op := &driver.Develop{
					Src: src, Row0: y0,
					Dst: driver.Image{Data: to.Slice(), Width: c.width, Height: rows, Stride: made / rows,
						Format: c.frame.Format},
				}
				var count kernels.Buffer[uint32]
				if src.Coding.Checked() {
					var err error
					if count, err = kernels.Alloc[uint32](q, 1, "samples beyond their bits"); err != nil {
						return err
					}
					op.Beyond = count.Slice()
				}
				if err := q.Run(op); err != nil {
					return err
				}
				if count.Len() > 0 {
					if err := kernels.Download(q, beyond[:], count); err != nil {
						return err
					}
				}
				pixels, stride = to, made/rows
			}
			if corrected > 0 {
				to := kernels.Buffer[byte]{}
				if ownFlat {
					var err error
					if to, err = kernels.Alloc[byte](q, corrected, "corrected strip"); err != nil {
						return err
					}
				} else {
					to = c.flat.Range(0, corrected)
				}
				im := driver.Image{Data: pixels.Slice(), Width: c.width, Height: rows, Stride: stride,
					Format: c.frame.Format}
				dst := im
				dst.Data, dst.Stride = to.Slice(), corrected/rows
				if err := c.frame.Flat.Correct(q, c.field.Range(0, c.field.Len()), im, dst, 0); err != nil {
					return err
				}
				pixels, stride = to, corrected/rows
			}
			*sums = true
			if err := c.reduce(q, pixels, s.FirstLine+uint64(y0), stride); err != nil {
				return err
			}
		}
		return c.finish(q)
	})
	for _, r := range c.ready {
		r.part.d.res.Timing = c.timing
	}
	if beyond[0] > 0 {
		c.steps[0].part.fail(-1, s.Frame.Beyond(beyond[0], y0, y0+rows, path{"frame"}))
	}
	return err
}

// developed is how many bytes of the device so many lines take that ops don't take as they are sent.
func (c *Scanner) developed(lines int) int {
	if c.frame.Coding == (kernels.Coding{}) {
		return 0
	}
	return c.rowBytes() * lines
}

// corrected is how many bytes of the device so many lines take that are corrected.
func (c *Scanner) corrected(lines int) int {
	if c.frame.Flat == nil {
		return 0
	}
	return c.rowBytes() * lines
}

// rowBytes is what a row of pixels that the device makes takes.
func (c *Scanner) rowBytes() int {
	return (c.width*c.frame.Format.PixelBytes() + driver.Align - 1) / driver.Align * driver.Align
}

// pieces are the rows of the strip that are needed, from y0 on, with those that these depend on, and their bytes. src
// is what they are uploaded as.
func (c *Scanner) pieces(s *ScanStrip) (pieces [][]byte, size, y0, rows int, src driver.RawImage) {
	if len(c.steps) == 0 {
		return nil, 0, 0, 0, src
	}
	height := s.Frame.Height
	src = driver.RawImage{Width: c.width, Height: height, Rows: height, Coding: c.frame.Coding}
	if src.Coding.Kind == driver.Bayer { // the strip may begin with the second row of its pattern
		src.Coding.Phase ^= uint8(s.FirstLine-c.steps[0].part.first) & 1 << 1
	}
	if n := s.Frame.Resident.Len(); n > 0 {
		return nil, n, 0, height, src
	}
	lo, hi := s.Frame.Height, 0
	for _, st := range c.steps {
		// Lines of the part to rows of the strip.
		shift := int(int64(st.part.first - s.FirstLine))
		lo, hi = min(lo, st.from+shift), max(hi, st.to+shift)
	}
	first, end := src.Coding.Rows(lo, hi, height)
	src.First, src.Rows = first, end-first
	c.stripPieces, size = s.Frame.RowPieces(c.stripPieces[:0], first, end)
	return c.stripPieces, size, lo, hi - lo, src
}

// reduce enqueues the steps; pixels are the lines from one on.
func (c *Scanner) reduce(q *kernels.Queue, pixels kernels.Buffer[byte], line uint64, stride int) error {
	nc, levels := len(c.channels), c.frame.Format.Levels()
	row := c.width * c.frame.Format.PixelBytes()
	for _, st := range c.steps {
		p := st.part
		if p.begun < p.begin {
			if err := c.begin(q, p); err != nil {
				return err
			}
		}
		top := st.from + int(int64(p.first-line))
		op := driver.MaskReduce{
			Prepared: c.prepared.Slice(),
			Frame: driver.Image{
				Data:  pixels.Range(top*stride, top*stride+(st.to-st.from-1)*stride+row).Slice(),
				Width: c.width, Height: st.to - st.from, Stride: stride, Format: c.frame.Format,
			},
			Row0:       st.from,
			What:       c.what,
			Colors:     c.colors,
			Accumulate: true,
			First:      st.first,
			Count:      st.end - st.first,
			Stats:      p.sums.stats.Range(st.first*nc, st.end*nc).Slice(),
		}
		if p.sums.hist != nil {
			op.Hist = p.sums.hist.Range(st.first*nc*levels, st.end*nc*levels).Slice()
		}
		if err := q.Run(&op); err != nil {
			return err
		}
		if c.covered {
			there := coverMemory{c.boundary.Range(0, c.boundary.Len()), len(c.cover.pixels), len(c.order)}
			w := there.op(op.Frame, op.Row0, op.First, op.Count)
			w.Accumulate = true
			w.Sums = p.sums.weights.Range(st.first*c.own, st.end*c.own).Slice()
			if p.sums.weightHist != nil {
				w.Hist = p.sums.weightHist.Range(st.first*c.own*levels, st.end*c.own*levels).Slice()
			}
			if err := q.Run(&w); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin enqueues the sums over nothing for the regions up to p.begin.
func (c *Scanner) begin(q *kernels.Queue, p *scanPart) error {
	nc, levels := len(c.channels), c.frame.Format.Levels()
	from, to := p.begun*nc, p.begin*nc
	for len(c.empty) < to-from {
		c.empty = append(c.empty, driver.EmptyMaskStats)
	}
	first, end := p.begun*c.own, p.begin*c.own
	p.begun = p.begin
	if c.covered {
		if err := kernels.Fill(q, p.sums.weights.Range(first, end), 0); err != nil {
			return err
		}
		if p.sums.weightHist != nil {
			if err := kernels.Fill(q, p.sums.weightHist.Range(first*levels, end*levels), 0); err != nil {
				return err
			}
		}
	}
	if err := kernels.Upload(q, p.sums.stats.Range(from, to), c.empty[:to-from]); err != nil || p.sums.hist == nil {
		return err
	}
	return kernels.Fill(q, p.sums.hist.Range(from*levels, to*levels), 0)
}

// finish downloads and derives the regions that are ready, in batches that bound the memory for histograms. q is nil
// where nothing has to be downloaded.
func (c *Scanner) finish(q *kernels.Queue) error {
	batch := len(c.ready)
	n := c.histogramBytes()
	if c.coveredHistogram {
		n += 8 * int64(c.own*c.frame.Format.Levels())
	}
	if n > 0 {
		batch = int(max(1, min(int64(batch), histogramArena/n)))
	}
	for from := 0; from < len(c.ready); from += batch {
		ready := c.ready[from:min(from+batch, len(c.ready))]
		hist, err := c.download(q, ready)
		if err != nil {
			return err
		}
		c.derive(ready, hist)
	}
	return nil
}

// download gets the sums of regions into host.stats and the histograms, and waits for them.
func (c *Scanner) download(q *kernels.Queue, ready []scanReady) (histogramSource, error) {
	nc, levels := len(c.channels), c.frame.Format.Levels()
	c.host.stats = grow(c.host.stats, len(ready)*nc)
	src := histogramSource{levels: levels, ranged: levels > 256, own: c.own, channels: nc}
	if c.covered {
		c.host.weights = grow(c.host.weights, len(ready)*c.own)
		src.weights = c.host.weights
	}
	if c.coveredHistogram {
		c.host.weightHist = grow(c.host.weightHist, len(ready)*c.own*levels)
		src.weightHist = c.host.weightHist
	}
	if c.what&driver.MaskHistogram != 0 {
		c.host.hist = grow(c.host.hist, len(ready)*nc*levels)
		src.counts = c.host.hist
	}
	late := src.counts != nil && levels >= rangedLevels // after the sums
	for i := 0; i < len(ready); {
		p, k := ready[i].part, int(ready[i].place)
		if k >= p.begun {
			for n := range nc {
				c.host.stats[i*nc+n] = driver.EmptyMaskStats
			}
			if c.covered {
				clear(src.weights[i*c.own : (i+1)*c.own])
			}
			if src.weightHist != nil {
				clear(src.weightHist[i*c.own*levels : (i+1)*c.own*levels])
			}
			i++
			continue
		}
		n := 1 // neighbours
		for i+n < len(ready) && ready[i+n].part == p && int(ready[i+n].place) == k+n && k+n < p.begun {
			n++
		}
		if err := kernels.Download(q, c.host.stats[i*nc:(i+n)*nc], p.sums.stats.Range(k*nc, (k+n)*nc)); err != nil {
			return src, err
		}
		if src.counts != nil && !late {
			at, m := i*nc*levels, n*nc*levels
			if err := kernels.Download(q, src.counts[at:at+m],
				p.sums.hist.Range(k*nc*levels, k*nc*levels+m)); err != nil {
				return src, err
			}
		}
		if c.covered {
			if err := c.downloadWeights(q, src, p, i, k, n); err != nil {
				return src, err
			}
		}
		i += n
	}
	if q == nil {
		return src, nil
	}
	if err := q.Wait(); err != nil || !late {
		return src, err
	}
	for i := range c.host.stats {
		st := &c.host.stats[i]
		if st.Count == 0 {
			continue
		}
		lo, _ := st.Min()
		hi, _ := st.Max()
		if int(hi) >= levels {
			continue // refused when it is derived
		}
		r := ready[i/nc]
		from := (int(r.place)*nc + i%nc) * levels
		if err := kernels.Download(q, src.counts[i*levels+int(lo):i*levels+int(hi)+1],
			r.part.sums.hist.Range(from+int(lo), from+int(hi)+1)); err != nil {
			return src, err
		}
	}
	return src, q.Wait()
}

// derive makes the results of downloaded regions, with several threads where they have enough to do.
func (c *Scanner) derive(ready []scanReady, hist histogramSource) {
	work := len(ready)
	if c.want&needHistogram != 0 {
		work += work * len(c.channels) * (c.frame.Format.Levels() / 256)
	}
	workers := min(runtime.GOMAXPROCS(0), len(ready), work/parallelWork)
	if workers <= 1 {
		c.deriveRun(ready, 0, len(ready), hist)
	} else {
		inParallel(workers, func(w int) error {
			c.deriveRun(ready, len(ready)*w/workers, len(ready)*(w+1)/workers, hist)
			return nil
		})
	}
	for _, r := range ready {
		r.part.done[r.place] = true
		r.part.left--
	}
}

func (c *Scanner) deriveRun(ready []scanReady, from, to int, hist histogramSource) {
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	nc := len(c.channels)
	for i := from; i < to; i++ {
		p, r := ready[i].part, &c.order[ready[i].place]
		if err := p.d.region(s, r.index, c.host.stats[i*nc:(i+1)*nc], hist.from(i*nc), p.lost(r)); err != nil {
			p.fail(r.index, err)
		}
	}
}

// lost says how many of the region's lines did not come, if any.
func (p *scanPart) lost(r *scanRegion) string {
	all := r.y1 - r.y0
	came := p.have.common(lineSet{{r.y0, r.y1}})
	if came == all {
		return ""
	}
	return fmt.Sprintf("%d of the region's %d lines did not come", all-came, all)
}

// fail keeps the error of the region with the lowest index, as Reduce does.
func (p *scanPart) fail(index int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil || index < p.errAt {
		p.err, p.errAt = err, index
	}
}

// spoil empties the sums of a part: what they hold isn't known.
func (c *Scanner) spoil(p *scanPart) {
	p.begun = 0
	c.lose(p, 0, c.height)
}

// lose says that of lines [from, to) of a part, those that regions need which are not done are not in its sums.
func (c *Scanner) lose(p *scanPart, from, to int) {
	var lost lineSet
	for k, r := range c.order {
		if r.y0 >= to {
			break
		}
		if !p.done[k] {
			lost.add(max(r.y0, from), min(r.y1, to))
		}
	}
	for _, l := range lost {
		p.have.subtract(l.from, l.to)
	}
}

// collect takes the parts out that are done.
func (c *Scanner) collect() (out []*ScannedPart) {
	c.parts = slices.DeleteFunc(c.parts, func(p *scanPart) bool {
		if p.left > 0 || c.whole && c.settledIn(p) < c.height && !p.have.contains(0, c.height) {
			return false
		}
		c.free = append(c.free, p.sums)
		s := &ScannedPart{Number: p.number, FirstLine: p.first, Err: p.err,
			MissingLines: c.need.size() - c.need.common(p.have)}
		if p.err == nil {
			_ = p.d.settle(nil)
			p.d.finish()
			c.past.judge(p.number, p.d.res, s.MissingLines > 0)
			if s.MissingLines > 0 && p.d.res.Verdict == Pass {
				p.d.res.Verdict = Fail
			}
			p.d.res.Backend, p.d.res.Method = c.dev.Info().Backend, methodUsed(c.dev, c.method)
			s.Result = p.d.res
		} else {
			c.past.judge(p.number, nil, true)
		}
		out = append(out, s)
		return true
	})
	return out
}

// lineSet is a set of lines of a part: ranges in order, apart from each other.
type lineSet []lineRange

type lineRange struct{ from, to int }

// at is the first range that ends at line or behind it.
func (s lineSet) at(line int) int {
	if n := len(s); n > 0 && s[n-1].from <= line { // as a rule
		if s[n-1].to < line {
			return n
		}
		return n - 1
	}
	i, _ := slices.BinarySearchFunc(s, line, func(r lineRange, line int) int { return cmp.Compare(r.to, line) })
	return i
}

// add adds lines [from, to).
func (s *lineSet) add(from, to int) {
	if from >= to {
		return
	}
	i := s.at(from)
	k := i
	for k < len(*s) && (*s)[k].from <= to {
		from, to = min(from, (*s)[k].from), max(to, (*s)[k].to)
		k++
	}
	*s = slices.Replace(*s, i, k, lineRange{from, to})
}

// subtract takes lines [from, to) out.
func (s *lineSet) subtract(from, to int) {
	if from >= to {
		return
	}
	i := s.at(from)
	k := i
	var keep [2]lineRange
	n := 0
	for k < len(*s) && (*s)[k].from < to {
		if r := (*s)[k]; r.from < from {
			keep[n] = lineRange{r.from, min(r.to, from)}
			n++
		}
		if r := (*s)[k]; r.to > to {
			keep[n] = lineRange{to, r.to}
			n++
		}
		k++
	}
	*s = slices.Replace(*s, i, k, keep[:n]...)
}

// overlaps reports whether any of the lines [from, to) is in s.
func (s lineSet) overlaps(from, to int) bool {
	if from >= to {
		return false
	}
	i := s.at(from + 1)
	return i < len(s) && s[i].from < to
}

// contains reports whether all of the lines [from, to) are in s.
func (s lineSet) contains(from, to int) bool {
	if from >= to {
		return true
	}
	i := s.at(to)
	return i < len(s) && s[i].from <= from && s[i].to >= to
}

// size is the number of lines.
func (s lineSet) size() (n int) {
	for _, r := range s {
		n += r.to - r.from
	}
	return n
}

// common is the number of lines in both sets.
func (s lineSet) common(o lineSet) (n int) {
	for i, k := 0, 0; i < len(s) && k < len(o); {
		n += max(0, min(s[i].to, o[k].to)-max(s[i].from, o[k].from))
		if s[i].to < o[k].to {
			i++
		} else {
			k++
		}
	}
	return n
}

// downloadWeights gets what weighed pixels of n regions of a part from place k on came to, as those of i in the batch.
func (c *Scanner) downloadWeights(q *kernels.Queue, to histogramSource, p *scanPart, i, k, n int) error {
	at, from, many := i*c.own, k*c.own, n*c.own
	err := kernels.Download(q, to.weights[at:at+many], p.sums.weights.Range(from, from+many))
	if err != nil || to.weightHist == nil {
		return err
	}
	return kernels.Download(q, to.weightHist[at*to.levels:(at+many)*to.levels],
		p.sums.weightHist.Range(from*to.levels, (from+many)*to.levels))
}

// widen makes the region need the lines of its boundary's pixels, too.
func (r *scanRegion) widen(pixels []driver.WeightedPixel) {
	if len(pixels) == 0 {
		return
	}
	y0, y1 := pixels[0].Y(), pixels[len(pixels)-1].Y()+1
	if r.y0 < r.y1 {
		y0, y1 = min(y0, r.y0), max(y1, r.y1)
	}
	r.y0, r.y1 = y0, y1
}
