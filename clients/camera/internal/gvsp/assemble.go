package gvsp

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Geometry is what each block of a stream has to hold.
type Geometry struct {
	Format        PixelFormat
	Width, Height int // Height is the most lines of a block
	// Unit is how many bytes of payload a packet has, but the last one of a block. Those of a camera with extended ids
	// have 12 less.
	Unit int
	// Pad is how many bytes lie behind each line on the wire, as far as is known before a leader says so. They are left
	// out.
	Pad int
	// Extra is the most bytes behind the lines: those of chunks.
	Extra int
}

// Bounds of what a stream may be: what a camera says of itself is held to them before memory is taken.
const (
	largestSide   = 1 << 16
	MaxBlockBytes = 1 << 30
	maxExtra      = 1 << 20
)

// RowBytes is the length of a line.
func (g Geometry) RowBytes() int {
	l, _ := g.Format.Layout()
	return g.Width * l.PixelBits / 8
}

// Bytes is the length of a block's pixels.
func (g Geometry) Bytes() int { return g.RowBytes() * g.Height }

// payload is the most bytes of a block on the wire.
func (g Geometry) payload() int { return (g.RowBytes()+g.Pad)*g.Height + g.Extra }

// packets is how many of payload a block has at most.
func (g Geometry) packets() int { return (g.payload() + g.Unit - 1) / g.Unit }

// Check says what is wrong.
func (g Geometry) Check() error {
	l, err := g.Format.Layout()
	if err != nil {
		return err
	}
	switch {
	case g.Width < 1 || g.Width > largestSide:
		return fmt.Errorf("width %d: must be 1 to %d", g.Width, largestSide)
	case l.Bayer > 0 && min(g.Width, g.Height) < 2:
		return fmt.Errorf("%d x %d pixels: must be 2 x 2 or more in %v", g.Width, g.Height, g.Format)
	case g.Width%l.Group != 0:
		return fmt.Errorf("width %d: must be a multiple of %d in %v", g.Width, l.Group, g.Format)
	case g.Height < 1 || g.Height > largestSide:
		return fmt.Errorf("height %d: must be 1 to %d", g.Height, largestSide)
	case g.Pad < 0 || g.Pad > largestSide:
		return fmt.Errorf("lines are padded by %d bytes: must be 0 to %d", g.Pad, largestSide)
	case g.Extra < 0 || g.Extra > maxExtra:
		return fmt.Errorf("chunks of %d bytes: must be 0 to %d", g.Extra, maxExtra)
	case g.payload() > MaxBlockBytes:
		return fmt.Errorf("%d x %d pixels are %d bytes: at most %d are taken", g.Width, g.Height, g.payload(),
			MaxBlockBytes)
	case g.Unit < 1 || g.Unit > MaxPacket:
		return fmt.Errorf("packets of %d bytes: must be 1 to %d", g.Unit, MaxPacket)
	case g.packets() > packetMask-2:
		return fmt.Errorf("%d packets in a block: more than there are numbers", g.packets())
	}
	return nil
}

// Timing is how long an [Assembler] waits for what.
type Timing struct {
	// Resend: packets may be asked for again.
	Resend bool
	// Reorder is how long a packet may come behind a later one before it is asked for, or counts as lost.
	Reorder time.Duration
	// Again is how long after a request the next one goes out.
	Again time.Duration
	// Retain is how long a block whose end is known waits for packets that were asked for.
	Retain time.Duration
	// Silence is after how long without a packet a block counts as ended.
	Silence time.Duration
	// Open is the most blocks that are assembled at a time. The oldest one is given up for another.
	Open int
}

// DefaultTiming is what suits a local network.
func DefaultTiming(resend bool) Timing {
	return Timing{Resend: resend, Reorder: 2 * time.Millisecond, Again: 10 * time.Millisecond,
		Retain: 100 * time.Millisecond, Silence: 200 * time.Millisecond, Open: 8}
}

// Span is a run of lines of a block, or of packets: from First, and without End.
type Span struct{ First, End int }

// Block is one that is finished: whole, or given up.
type Block struct {
	// Number counts the camera's blocks from 0, the first one that was seen; it goes on where ids start anew.
	Number uint64
	ID     uint64
	// Pixels are the memory that Sink.Place returned; nil where there was none. Lines that are Missing hold anything.
	Pixels []byte
	// Missing are the lines that did not come whole, in order. A block of fewer lines than the geometry's lacks the
	// others.
	Missing []Span
	// Lines is how many there should be: the geometry's, or fewer where the trailer said so and Short is set.
	Lines int
	Short bool
	// Reason says why a block isn't whole; empty where it is.
	Reason string
	// Resent is how many of its packets came after they were asked for.
	Resent int
	// First and Last are when its first and its last packet came.
	First, Last time.Time
	Timestamp   uint64 // of the camera's clock, in its ticks; 0: unknown
	// Chunks are the bytes behind the lines, for [ParseChunks]; nil where there are none, or not all of them came.
	Chunks []byte
	// Data is what else is known of it.
	Data []Datum
}

// Datum is something that is known of a block, such as a counter of the camera.
type Datum struct{ Name, Value string }

// Whole reports whether all lines of the geometry came.
func (b *Block) Whole() bool { return len(b.Missing) == 0 && b.Pixels != nil }

// MissingLines is how many did not come.
func (b *Block) MissingLines() (n int) {
	for _, s := range b.Missing {
		n += s.End - s.First
	}
	return n
}

// Sink takes what is assembled. Its methods are called from within those of the Assembler and must not wait.
type Sink interface {
	// Place returns memory for a block's pixels, or nil where there is none. It gets back with Block.
	Place() []byte
	// Block takes a block. They come in the camera's order, none left out.
	Block(*Block)
	// Jump says that the camera's ids went somewhere else: an unknown number of blocks lies between.
	Jump(why string)
	// Ask requests packets of a block again.
	Ask(block uint64, extended bool, first, last uint32)
}

// Stats count what happened to packets and blocks.
type Stats struct {
	Packets, Bytes uint64 // that were taken in
	Whole          uint64 // blocks
	Incomplete     uint64 // blocks of which something came
	Lost           uint64 // blocks of which nothing could be kept
	LostLines      uint64
	LostPackets    uint64 // of blocks that were given up
	Requests       uint64 // of packets to be sent again
	Asked          uint64 // packets that were asked for
	Resent         uint64 // packets that came after they had been asked for
	Refused        uint64 // packets of which the camera said that it doesn't have them
	Reordered      uint64 // packets that came behind a later one, unasked
	Duplicate      uint64 // packets that were there
	Late           uint64 // packets of blocks that were finished without them
	Malformed      uint64 // packets that could not be read, or that contradict the geometry
	Foreign        uint64 // packets from somewhere else than the camera
	Jumps          uint64 // of block ids
	NoRoom         uint64 // blocks for which there was no memory
	KernelDropped  uint64 // packets for which the socket had no room
}

// doing is a block that is being assembled.
type doing struct {
	Block
	extended bool
	got      []uint64 // a bit for each packet: leader, payload, trailer
	have     int
	top      int // highest packet that came unasked, -1: none
	lines    int // that the trailer or the geometry says
	packets  int // payload of so many lines
	failed   string
	cut      int // the packet that was shorter than it should be, 0: none
	cutEnd   int // the byte of the block behind it
	stride   int // bytes from line to line, on the wire
	total    int // packets of payload of a block of all lines, at most
	end      int // the byte behind the last one that came
	extra    []byte

	asked   []uint64 // packets that were asked for
	gap     time.Time
	request time.Time // of the last one
	refused bool      // the camera has no more to send
	due     time.Time // since when it should be complete; zero: it may still be on its way
}

func bit(set []uint64, i int) bool { return set[i/64]>>(i%64)&1 != 0 }
func setBit(set []uint64, i int)   { set[i/64] |= 1 << (i % 64) }

// trailer is the number of the packet behind the payload that the geometry has, whichever number it came with.
func (d *doing) trailer() int { return d.total + 1 }

// reserve makes room for the bits of all packets.
func (d *doing) reserve() {
	for words := (d.total + 2 + 63) / 64; len(d.got) < words; {
		d.got, d.asked = append(d.got, 0), append(d.asked, 0)
	}
}

// complete reports whether nothing more is needed: the leader and all payload. The trailer of a whole block says
// nothing, but how many packets there are where chunks may be fewer than the most.
func (a *Assembler) complete(d *doing) bool {
	return d.failed == "" && d.have == d.packets+1 && (d.cut == 0 || d.cutEnd >= d.lines*d.stride-(d.stride-a.row)) &&
		a.certain(d) >= d.lines
}

// certain is how many lines of a block are lines for sure. Where chunks follow, what came last may be chunks behind
// fewer lines, until the trailer says how many there are.
func (a *Assembler) certain(d *doing) int {
	if a.geo.Extra == 0 || bit(d.got, d.trailer()) {
		return d.lines
	}
	return min(max(0, d.end-a.geo.Extra)/d.stride, d.lines)
}

// Assembler makes blocks of packets.
type Assembler struct {
	geo    Geometry
	unit   int // payload of a packet with a short header
	timing Timing
	sink   Sink
	row    int

	started bool
	next    uint64 // number of the oldest block that isn't finished
	lastID  uint64 // id of the block before next
	wide    bool   // ids are extended
	open    []*doing
	free    []*doing                          // to be used again
	recent  [32]struct{ whole, trailer bool } // what block n, modulo their number, was
	far     struct {                          // a block whose leader came where none is expected
		id   uint64
		seen bool
	}
	stats Stats
}

// NewAssembler makes one for a stream.
func NewAssembler(g Geometry, t Timing, sink Sink) (*Assembler, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if t.Open < 1 || t.Open > 64 {
		return nil, fmt.Errorf("%d open blocks: must be 1 to 64", t.Open)
	}
	return &Assembler{geo: g, unit: g.Unit, timing: t, sink: sink, row: g.RowBytes()}, nil
}

// Stats returns what was counted.
func (a *Assembler) Stats() Stats { return a.stats }

// Restart says that the camera starts its ids anew, as after a reconnection: what is open is given up.
func (a *Assembler) Restart(why string) {
	for len(a.open) > 0 {
		a.finish(why)
	}
	if a.started {
		a.started = false
		a.stats.Jumps++
		a.sink.Jump(why)
	}
	a.far.seen = false
}

// Flush gives up what is open, at the end of a stream.
func (a *Assembler) Flush(why string) {
	for len(a.open) > 0 {
		a.finish(why)
	}
}

// widen says whether ids are extended, which the first packet of a camera tells: headers are longer then, and packets
// of the same size hold less.
func (a *Assembler) widen(extended bool) {
	if extended == a.wide {
		return
	}
	a.wide = extended
	if extended {
		a.geo.Unit = max(a.geo.Unit-(ExtendedOverhead-Overhead), 1)
	} else {
		a.geo.Unit = a.unit
	}
}

// distance is how far id lies ahead of the block before next, by the wrapping of ids: 16-bit ones leave out 0.
func (a *Assembler) distance(id uint64) int64 {
	if a.wide {
		return int64(id - a.lastID)
	}
	const ring = 1<<16 - 1
	d := (int64(id) - int64(a.lastID)) % ring
	switch {
	case d > ring/2:
		d -= ring
	case d < -ring/2:
		d += ring
	}
	return d
}

// following is the id that comes n blocks after another.
func (a *Assembler) following(id uint64, n int) uint64 {
	if a.wide {
		return id + uint64(n)
	}
	const ring = 1<<16 - 1
	return (id-1+uint64(n))%ring + 1
}

// maxGap is how many blocks may be missing in one place before their number isn't believed.
const maxGap = 256

// Packet takes one in. The bytes aren't kept.
func (a *Assembler) Packet(now time.Time, b []byte) {
	p, err := Parse(b)
	known := p.Kind == KindLeader || p.Kind == KindPayload || p.Kind == KindTrailer
	if err != nil || !known || !p.Extended && p.Block == 0 {
		a.stats.Malformed++
		return
	}
	a.stats.Packets++
	a.stats.Bytes += uint64(len(b))
	if !a.started {
		if p.Status&errorBit != 0 {
			return
		}
		a.started = true
		a.widen(p.Extended)
		a.lastID = p.Block - 1
		if !p.Extended && p.Block == 1 {
			a.lastID = 1<<16 - 1
		}
	}
	if p.Extended != a.wide {
		a.stats.Malformed++
		return
	}
	ahead := a.distance(p.Block)
	d := a.find(p.Block)
	switch {
	case d != nil:
	case ahead <= 0 && ahead > -int64(len(a.recent)):
		before := &a.recent[(a.next+uint64(ahead)-1)%uint64(len(a.recent))]
		switch {
		case p.Status&errorBit != 0:
		case before.whole && p.Kind == KindTrailer && !before.trailer:
			before.trailer = true // which the block didn't wait for
		case before.whole:
			a.stats.Duplicate++
		default:
			a.stats.Late++
		}
		return
	case p.Status&errorBit != 0:
		return
	case ahead <= 0 || ahead > maxGap:
		if !a.elsewhere(p) {
			return
		}
		a.Restart(fmt.Sprintf("block ids jumped from %d to %d", a.lastID, p.Block))
		a.Packet(now, b)
		return
	default:
		d = a.reach(now, p.Block)
	}
	a.take(now, d, p)
	a.settle(now)
}

// elsewhere reports whether a block that isn't expected is believed all the same: its leader came, and then the packet
// behind it. One alone may be a stray.
func (a *Assembler) elsewhere(p Packet) bool {
	if p.Kind == KindLeader {
		a.far.id, a.far.seen = p.Block, true
		return false
	}
	return a.far.seen && a.far.id == p.Block && p.ID == 1
}

func (a *Assembler) find(id uint64) *doing {
	for _, d := range a.open {
		if d.ID == id {
			return d
		}
	}
	return nil
}

// reach opens all blocks up to an id.
func (a *Assembler) reach(now time.Time, id uint64) *doing {
	for {
		n := len(a.open)
		if n == a.timing.Open {
			a.finish("a later block needed its place")
			n--
		}
		d := a.start(now, a.following(a.lastID, n+1), a.next+uint64(n))
		a.open = append(a.open, d)
		if n > 0 && a.open[n-1].due.IsZero() {
			a.open[n-1].due = now // a later block has begun
		}
		if d.ID == id {
			return d
		}
	}
}

func (a *Assembler) start(now time.Time, id, number uint64) *doing {
	var d *doing
	if n := len(a.free); n > 0 {
		d, a.free = a.free[n-1], a.free[:n-1]
		clear(d.got)
		clear(d.asked)
		*d = doing{got: d.got, asked: d.asked, extra: d.extra}
	} else {
		d = &doing{extra: make([]byte, a.geo.Extra)}
	}
	d.ID, d.Number, d.extended = id, number, a.wide
	d.top, d.lines = -1, a.geo.Height
	d.total, d.stride = a.geo.packets(), a.row+a.geo.Pad
	d.packets = d.total
	d.reserve()
	d.First, d.Last = now, now
	d.Pixels = a.sink.Place()
	if d.Pixels == nil {
		a.stats.NoRoom++
		d.failed = "no room: the server, or the way to it, is slower than the camera"
	}
	return d
}

// take puts a packet where it belongs.
func (a *Assembler) take(now time.Time, d *doing, p Packet) {
	if p.Status&errorBit != 0 {
		a.stats.Refused++
		if p.Status != StatusNotYet {
			d.refused = true
		}
		return
	}
	at := int(p.ID)
	switch p.Kind {
	case KindLeader:
		at = 0
	case KindTrailer:
		at = d.trailer()
	}
	if p.Kind == KindPayload && (p.ID < 1 || p.ID > uint32(d.total)) || p.Kind == KindLeader && p.ID != 0 {
		a.stats.Malformed++
		return
	}
	if bit(d.got, at) {
		a.stats.Duplicate++
		return
	}
	var leader Leader
	var trailer Trailer
	var err error
	switch p.Kind {
	case KindLeader:
		leader, err = ParseLeader(p.Data)
	case KindTrailer:
		trailer, err = ParseTrailer(p.Data)
	default:
		from := (at - 1) * a.geo.Unit
		all := d.stride*a.geo.Height + a.geo.Extra
		want := min(a.geo.Unit, all-from)
		switch n := len(p.Data); {
		case n == want:
		case n > want && at == d.total: // cameras may fill the last packet up
		case n > 0 && n < want && d.cut == 0: // or end a block early: its trailer has to say so
			d.cut, d.cutEnd = at, from+n
		default:
			err = errors.New("gvsp: payload of another size")
		}
		if err == nil {
			a.copy(d, from, p.Data[:min(len(p.Data), want)])
		}
	}
	if err != nil {
		a.stats.Malformed++
		return
	}
	setBit(d.got, at)
	d.Last = now
	if bit(d.asked, at) {
		d.Resent++
		a.stats.Resent++
	} else if at < d.top {
		a.stats.Reordered++
	} else {
		if at > d.top+1 && d.gap.IsZero() {
			d.gap = now
		}
		d.top = at
	}
	switch p.Kind {
	case KindLeader:
		d.have++
		a.lead(d, leader)
	case KindTrailer:
		if d.due.IsZero() {
			d.due = now
		}
		// Some cameras say 0, whatever they send.
		if trailer.Height > 0 && trailer.Height < uint32(a.geo.Height) {
			d.lines, d.Short = int(trailer.Height), true
		}
		a.count(d, p.ID)
	default:
		if at <= d.packets {
			d.have++
		}
	}
}

// copy puts payload from a byte of the block on where it belongs: lines without their padding, and what is behind them.
func (a *Assembler) copy(d *doing, from int, data []byte) {
	lines := d.stride * a.geo.Height
	d.end = max(d.end, from+len(data))
	if from >= lines {
		copy(d.extra[from-lines:], data)
		return
	}
	if from+len(data) > lines {
		behind := data[lines-from:]
		copy(d.extra, behind)
		data = data[:len(data)-len(behind)]
	}
	switch {
	case d.Pixels == nil:
	case d.stride == a.row:
		copy(d.Pixels[from:lines], data)
	default:
		for len(data) > 0 {
			y, x := from/d.stride, from%d.stride
			n := min(len(data), d.stride-x)
			if x < a.row {
				copy(d.Pixels[y*a.row+x:(y+1)*a.row], data[:n])
			}
			data, from = data[n:], from+n
		}
	}
}

// count finds how many packets of payload a block has, once its trailer is there, which has the number behind them.
func (a *Assembler) count(d *doing, trailer uint32) {
	least := (d.lines*d.stride + a.geo.Unit - 1) / a.geo.Unit
	d.packets = least
	if a.geo.Extra > 0 {
		d.packets = min(max(least, int(min(trailer, 1<<30))-1), d.total)
	}
	d.have = 0
	for i := range d.packets + 1 {
		if bit(d.got, i) {
			d.have++
		}
	}
}

// pad takes the padding of lines that a leader tells. Blocks that follow have it, too.
func (a *Assembler) pad(d *doing, pad int) {
	if a.row+pad == d.stride {
		return
	}
	g := a.geo
	g.Pad = pad
	if err := g.Check(); err != nil {
		d.failed = err.Error()
		return
	}
	a.geo = g
	if d.end > 0 || bit(d.got, d.trailer()) {
		d.failed = fmt.Sprintf("lines are padded by %d bytes, which came to be known behind some of them", pad)
		return
	}
	d.total, d.stride = g.packets(), a.row+pad
	d.packets = d.total
	d.reserve()
}

// lead holds a leader to the geometry.
func (a *Assembler) lead(d *doing, l Leader) {
	d.Timestamp = l.Timestamp
	g := a.geo
	switch {
	case l.PayloadType == PayloadChunks && g.Extra > 0: // it says nothing else
	case l.PayloadType != PayloadImage && (l.PayloadType != PayloadImage|PayloadExtended || g.Extra == 0):
		d.failed = fmt.Sprintf("payload type %#04x: only images are taken, and chunks where PayloadSize counts them",
			l.PayloadType)
	case l.Format != g.Format:
		d.failed = fmt.Sprintf("the pixel format is %v: it was %v", l.Format, g.Format)
	case l.Width != uint32(g.Width) || l.Height > uint32(g.Height):
		d.failed = fmt.Sprintf("%d x %d pixels: it was %d x %d", l.Width, l.Height, g.Width, g.Height)
	case l.PadY != 0:
		d.failed = fmt.Sprintf("%d bytes of padding are behind the lines: set the camera to a height without", l.PadY)
	default:
		a.pad(d, int(l.PadX))
	}
}

// settle finishes blocks that are complete, or that waited long enough.
func (a *Assembler) settle(now time.Time) {
	for len(a.open) > 0 {
		d := a.open[0]
		switch {
		case a.complete(d):
			a.finish("")
		case d.due.IsZero():
			return
		case d.failed != "":
			a.finish(d.failed)
		case !a.timing.Resend || d.refused:
			if now.Sub(later(d.due, d.Last)) < a.timing.Reorder {
				return
			}
			a.finish("packets were lost")
		case now.Sub(later(d.due, d.Last)) >= a.timing.Retain || now.Sub(d.due) >= maxRetain*a.timing.Retain:
			a.finish("packets were lost, and did not come again")
		default:
			return
		}
	}
}

// maxRetain is how many times Retain a block may wait whose packets trickle in.
const maxRetain = 5

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// maxRuns is how many runs of packets one round of requests asks for.
const maxRuns = 32

// Tick does what the time demands, and returns when it wants to be called again; zero means with the next packet.
func (a *Assembler) Tick(now time.Time) (again time.Time) {
	for _, d := range a.open {
		if d.due.IsZero() && now.Sub(d.Last) >= a.timing.Silence {
			d.due = now
		}
	}
	a.settle(now)
	if len(a.open) == 0 {
		return time.Time{}
	}
	for _, d := range a.open {
		a.ask(now, d)
	}
	wait := a.timing.Reorder
	if d := a.open[0]; d.due.IsZero() && d.gap.IsZero() {
		wait = max(wait, min(a.timing.Silence/4, a.timing.Again))
	}
	return now.Add(wait)
}

// ask requests what is missing of a block.
func (a *Assembler) ask(now time.Time, d *doing) {
	if !a.timing.Resend || d.refused || d.failed != "" || a.complete(d) {
		return
	}
	end := d.top // what lies behind it may be on its way
	if !d.due.IsZero() || now.Sub(d.Last) >= a.timing.Silence/4 {
		end = d.packets + 1
	} else if d.gap.IsZero() || now.Sub(d.gap) < a.timing.Reorder {
		return
	}
	if !d.request.IsZero() && now.Sub(d.request) < a.timing.Again {
		return
	}
	runs := 0
	for i := 0; i < end && runs < maxRuns; i++ {
		if bit(d.got, i) {
			continue
		}
		first := i
		for ; i < end && !bit(d.got, i); i++ {
			setBit(d.asked, i)
		}
		runs++
		a.stats.Requests++
		a.stats.Asked += uint64(i - first)
		a.sink.Ask(d.ID, d.extended, uint32(first), uint32(i-1))
	}
	if runs > 0 {
		d.request = now
	}
}

// finish hands the oldest open block over. The reason is for one that isn't complete.
func (a *Assembler) finish(reason string) {
	d := a.open[0]
	a.open = slices.Delete(a.open, 0, 1)
	a.lastID = d.ID
	a.next++
	whole := a.complete(d)
	before := &a.recent[d.Number%uint64(len(a.recent))]
	before.whole, before.trailer = whole, bit(d.got, d.trailer())
	d.Lines = d.lines
	if !whole {
		d.Reason = reason
		if d.failed != "" {
			d.Reason = d.failed
			d.Missing = []Span{{0, d.lines}}
		} else {
			d.Missing = a.missing(d)
		}
		if d.failed == "" && d.have == d.packets+1 {
			d.Reason = "a packet was too short"
		}
		for i := range d.packets + 1 {
			if !bit(d.got, i) {
				a.stats.LostPackets++
			}
		}
	}
	if !whole && d.failed == "" && len(d.Missing) == 0 { // chunks are lost, and no line
		whole, d.Reason = true, ""
	}
	if d.lines < a.geo.Height {
		d.Missing = append(d.Missing, Span{d.lines, a.geo.Height})
		if whole {
			d.Reason = fmt.Sprintf("the camera ended it after %d of %d lines", d.lines, a.geo.Height)
		}
	}
	d.Chunks = a.chunks(d)
	lost := d.MissingLines()
	a.stats.LostLines += uint64(lost)
	switch {
	case lost == 0:
		a.stats.Whole++
	case lost == a.geo.Height:
		a.stats.Lost++
	default:
		a.stats.Incomplete++
	}
	b := d.Block
	a.sink.Block(&b)
	d.Pixels = nil
	a.free = append(a.free, d)
}

// chunks are the bytes behind the lines, where all of them came.
func (a *Assembler) chunks(d *doing) []byte {
	lines := d.lines * d.stride
	if a.geo.Extra == 0 || d.failed != "" || d.end <= lines {
		return nil
	}
	for i := lines/a.geo.Unit + 1; i <= d.packets; i++ {
		if !bit(d.got, i) {
			return nil
		}
	}
	out := make([]byte, 0, d.end-lines)
	if all := a.geo.Height * d.stride; lines < all { // they begin where lines would be
		if d.stride != a.row {
			return nil
		}
		out = append(out, d.Pixels[lines:min(d.end, all)]...)
		lines = all
	}
	return append(out, d.extra[:max(0, d.end-lines)]...)
}

// missing are the lines that packets which did not come have a part of. A lost leader takes no line with it, but what
// it would have said isn't known: such a block has none that count.
func (a *Assembler) missing(d *doing) (spans []Span) {
	if !bit(d.got, 0) {
		return []Span{{0, d.lines}}
	}
	if d.cut > 0 && d.cutEnd < d.lines*d.stride-(d.stride-a.row) {
		d.got[d.cut/64] &^= 1 << (d.cut % 64)
	}
	for i := 1; i <= d.packets; i++ {
		if bit(d.got, i) {
			// Whole words at a time where nothing is missing.
			if rest := ^d.got[i/64] >> (i % 64); rest == 0 {
				i += 63 - i%64
			} else {
				i += bits.TrailingZeros64(rest) - 1
			}
			continue
		}
		from := (i - 1) * a.geo.Unit
		first := from / d.stride
		if i == d.cut {
			first = d.cutEnd / d.stride
		}
		end := min((from+a.geo.Unit+d.stride-1)/d.stride, d.lines)
		if first >= end {
			continue
		}
		spans = join(spans, Span{first, end})
	}
	if n := a.certain(d); n < d.lines {
		for len(spans) > 0 && spans[len(spans)-1].First >= n {
			spans = spans[:len(spans)-1]
		}
		spans = join(spans, Span{n, d.lines})
	}
	return spans
}

// join adds a span that doesn't begin before the others.
func join(spans []Span, s Span) []Span {
	if n := len(spans); n > 0 && s.First <= spans[n-1].End {
		spans[n-1].End = max(spans[n-1].End, s.End)
		return spans
	}
	return append(spans, s)
}

// Plus are the counts of two streams together.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		Packets: s.Packets + o.Packets, Bytes: s.Bytes + o.Bytes, Whole: s.Whole + o.Whole,
		Incomplete: s.Incomplete + o.Incomplete, Lost: s.Lost + o.Lost, LostLines: s.LostLines + o.LostLines,
		LostPackets: s.LostPackets + o.LostPackets, Requests: s.Requests + o.Requests, Asked: s.Asked + o.Asked,
		Resent: s.Resent + o.Resent, Refused: s.Refused + o.Refused, Reordered: s.Reordered + o.Reordered,
		Duplicate: s.Duplicate + o.Duplicate, Late: s.Late + o.Late, Malformed: s.Malformed + o.Malformed,
		Foreign: s.Foreign + o.Foreign, Jumps: s.Jumps + o.Jumps, NoRoom: s.NoRoom + o.NoRoom,
		KernelDropped: s.KernelDropped + o.KernelDropped,
	}
}
