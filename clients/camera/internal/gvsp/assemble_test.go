package gvsp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorder keeps what an assembler hands over.
type recorder struct {
	t      *testing.T
	size   int
	places int // that are left; negative: any number
	blocks []*Block
	jumps  []string
	asks   []ask
}

type ask struct {
	block       uint64
	first, last uint32
}

func (r *recorder) Place() []byte {
	if r.places == 0 {
		return nil
	}
	r.places--
	return bytes.Repeat([]byte{0xa5}, r.size)
}

func (r *recorder) Block(b *Block) {
	if b.Number != uint64(len(r.blocks)) {
		r.t.Fatalf("block %d comes as number %d", b.Number, len(r.blocks))
	}
	r.blocks = append(r.blocks, b)
}

func (r *recorder) Jump(why string) { r.jumps = append(r.jumps, why) }
func (r *recorder) Ask(block uint64, _ bool, first, last uint32) {
	if last < first {
		r.t.Fatalf("packets %d to %d are asked for", first, last)
	}
	r.asks = append(r.asks, ask{block, first, last})
}

// source makes the packets of blocks, slowly and obviously.
type source struct {
	geo      Geometry
	extended bool
	seed     byte
	extra    bool // bytes of chunks, of another number in each block
}

// unit is the payload of a packet.
func (s source) unit() int {
	if s.extended {
		return s.geo.Unit - 12
	}
	return s.geo.Unit
}

func (s source) pixels(id uint64) []byte {
	b := make([]byte, s.geo.Bytes())
	for i := range b {
		b[i] = byte(i*7) ^ byte(id*31) ^ s.seed
	}
	return b
}

// chunks are what is behind the lines.
func (s source) chunks(id uint64) []byte {
	if !s.extra {
		return nil
	}
	b := make([]byte, int(id*7)%(s.geo.Extra+1))
	for i := range b {
		b[i] = byte(i*5) ^ byte(id*17)
	}
	return b
}

func (s source) block(id uint64, lines int) (packets [][]byte) {
	p := Packet{Block: id, Extended: s.extended, Kind: KindLeader}
	l := Leader{PayloadType: PayloadImage, Timestamp: id * 1000, Format: s.geo.Format, Width: uint32(s.geo.Width),
		Height: uint32(s.geo.Height), PadX: uint16(s.geo.Pad)}
	if s.extra {
		l.PayloadType |= PayloadExtended
	}
	p.Data = l.Append(nil)
	packets = append(packets, p.Append(nil))
	row, pixels := s.geo.RowBytes(), s.pixels(id)
	var rest []byte
	for y := range lines {
		rest = append(append(rest, pixels[y*row:(y+1)*row]...), bytes.Repeat([]byte{0x5a}, s.geo.Pad)...)
	}
	rest = append(rest, s.chunks(id)...)
	p.Kind = KindPayload
	for len(rest) > 0 {
		p.ID++
		n := min(len(rest), s.unit())
		p.Data = rest[:n]
		rest = rest[n:]
		packets = append(packets, p.Append(nil))
	}
	p.ID++
	p.Kind = KindTrailer
	p.Data = Trailer{PayloadType: PayloadImage, Height: uint32(lines)}.Append(nil)
	return append(packets, p.Append(nil))
}

func newAssembler(t *testing.T, g Geometry, timing Timing) (*Assembler, *recorder) {
	r := &recorder{t: t, size: g.Bytes(), places: -1}
	a, err := NewAssembler(g, timing, r)
	if err != nil {
		t.Fatal(err)
	}
	return a, r
}

var epoch = time.Unix(1000, 0)

// lostLines says by its definition which lines lack a byte.
func lostLines(g Geometry, unit, lines int, came func(packet int) bool) (spans []Span) {
	for y := range g.Height {
		whole := y < lines && came(0)
		stride := g.RowBytes() + g.Pad
		for x := y * stride; x < y*stride+stride; x++ {
			whole = whole && came(1+x/unit)
		}
		if whole {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].End == y {
			spans[n-1].End++
		} else {
			spans = append(spans, Span{y, y + 1})
		}
	}
	return spans
}

// joined are spans without borders between neighbours.
func joined(spans []Span) (out []Span) {
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].End == s.First {
			out[n-1].End = s.End
		} else {
			out = append(out, s)
		}
	}
	return out
}

func checkBlock(t *testing.T, s source, b *Block, want []Span) {
	t.Helper()
	if !slices.Equal(joined(b.Missing), want) {
		t.Fatalf("block %d: lines %v are missing, want %v", b.ID, b.Missing, want)
	}
	if (b.Reason == "") != (len(want) == 0) || b.Whole() != (len(want) == 0) {
		t.Fatalf("block %d: missing %v, reason %q, whole %v", b.ID, want, b.Reason, b.Whole())
	}
	pixels, row := s.pixels(b.ID), s.geo.RowBytes()
	for y := range s.geo.Height {
		in := func(m Span) bool { return m.First <= y && y < m.End }
		if !slices.ContainsFunc(want, in) && !bytes.Equal(b.Pixels[y*row:(y+1)*row], pixels[y*row:(y+1)*row]) {
			t.Fatalf("block %d: line %d has other pixels", b.ID, y)
		}
	}
}

// A stream that loses, repeats, reorders and delays packets, and sends some of them again, comes out as it was sent, or
// with the lines named that lack a packet.
func TestStream(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 26))
		g := Geometry{Format: Mono8, Width: 1 + r.IntN(70), Height: 1 + r.IntN(33), Unit: 13 + r.IntN(130)}
		if r.IntN(3) == 0 {
			g.Format = RGB8
		}
		if r.IntN(3) == 0 {
			g.Pad = 1 + r.IntN(9)
		}
		if r.IntN(3) == 0 {
			g.Extra = 1 + r.IntN(300)
		}
		s := source{geo: g, extended: r.IntN(2) == 0, seed: byte(seed), extra: g.Extra > 0}
		timing := DefaultTiming(r.IntN(3) > 0)
		loss := []float64{0, 0.01, 0.3}[r.IntN(3)]
		again := []float64{0, 0.5, 1}[r.IntN(3)]
		a, rec := newAssembler(t, g, timing)
		now := epoch
		came := map[uint64][]bool{}
		lines := map[uint64]int{}
		packets := map[uint64][][]byte{}
		id := []uint64{1, 65530, 7}[r.IntN(3)]
		var ids []uint64
		send := func(id uint64, i int) {
			came[id][i] = true
			a.Packet(now, packets[id][i])
		}
		answer := func() {
			now = now.Add(time.Millisecond)
			a.Tick(now)
			asks := rec.asks
			rec.asks = nil
			for _, q := range asks {
				for i := q.first; i <= q.last; i++ {
					if !timing.Resend {
						t.Fatal("packets are asked for that the camera doesn't have")
					}
					if r.Float64() < again && int(i) < len(packets[q.block]) {
						send(q.block, int(i))
					}
				}
			}
		}
		for range 1 + r.IntN(12) {
			ids = append(ids, id)
			lines[id] = g.Height
			if r.IntN(5) == 0 {
				lines[id] = 1 + r.IntN(g.Height)
			}
			packets[id] = s.block(id, lines[id])
			came[id] = make([]bool, (g.payload()+s.unit()-1)/s.unit()+2)
			var order []int
			for i := range packets[id] {
				if r.Float64() >= loss || i == 0 && len(ids) == 1 { // the first one shows the assembler where it starts
					order = append(order, i)
				}
			}
			for i := 2; i < len(order); i++ { // neighbours change places
				if r.IntN(10) == 0 {
					order[i], order[i-1] = order[i-1], order[i]
				}
			}
			for _, i := range order {
				now = now.Add(10 * time.Microsecond)
				send(id, i)
				if r.IntN(20) == 0 {
					send(id, i)
				}
				if r.IntN(20) == 0 {
					answer()
				}
			}
			if id++; id == 1<<16 && !s.extended {
				id = 1
			}
		}
		for range 1200 {
			answer()
		}
		if len(rec.blocks) != len(ids) || len(rec.jumps) > 0 {
			// Blocks at the end of which nothing came are unknown to everybody.
			for _, id := range ids[len(rec.blocks):] {
				if slices.Contains(came[id], true) {
					t.Fatalf("seed %d: %d blocks of %d, jumps %q", seed, len(rec.blocks), len(ids), rec.jumps)
				}
			}
		}
		var whole, incomplete, lost uint64
		for i, b := range rec.blocks {
			if b.ID != ids[i] {
				t.Fatalf("seed %d: block %d where %d was sent", seed, b.ID, ids[i])
			}
			want := lostLines(g, s.unit(), lines[b.ID], func(p int) bool {
				return came[b.ID][p] &&
					p <= len(packets[b.ID])-2
			})
			if b.Pixels == nil {
				t.Fatalf("seed %d: no memory", seed)
			}
			if n := len(packets[b.ID]); s.extra && !came[b.ID][n-1] && came[b.ID][0] { // what came last may be chunks
				end := 0
				for i := 1; i < n-1; i++ {
					if came[b.ID][i] {
						p, _ := Parse(packets[b.ID][i])
						end = (i-1)*s.unit() + len(p.Data)
					}
				}
				sure := max(0, end-g.Extra) / (g.RowBytes() + g.Pad)
				want = slices.DeleteFunc(want, func(m Span) bool { return m.First >= sure })
				if n := len(want); n > 0 && want[n-1].End >= sure {
					want[n-1].End = g.Height
				} else if sure < g.Height {
					want = append(want, Span{sure, g.Height})
				}
			}
			t.Logf("seed %d", seed)
			checkBlock(t, s, b, want)
			all := !slices.Contains(came[b.ID][:len(packets[b.ID])], false)
			if c := s.chunks(b.ID); b.Chunks != nil && !bytes.Equal(b.Chunks, c) ||
				all && loss == 0 && b.Chunks == nil && len(c) > 0 && (g.Pad == 0 || !b.Short) {
				t.Fatalf("block %d: %d bytes of chunks, want %d", b.ID, len(b.Chunks), len(c))
			}
			switch {
			case len(want) == 0:
				whole++
			case len(want) == 1 && want[0] == (Span{0, g.Height}):
				lost++
			default:
				incomplete++
			}
		}
		st := a.Stats()
		if st.Whole != whole || st.Incomplete != incomplete || st.Lost != lost || st.Malformed > 0 {
			t.Fatalf("seed %d: %+v, want %d whole, %d incomplete, %d lost", seed, st, whole, incomplete, lost)
		}
	}
}

// The oracle of the comparison knows lines of which a packet is missing.
func TestLostLines(t *testing.T) {
	g := Geometry{Format: Mono8, Width: 8, Height: 4, Unit: 8}
	for _, x := range []struct {
		lines, lost int
		want        []Span
	}{{4, 2, []Span{{1, 2}}}, {4, 0, []Span{{0, 4}}}, {3, -1, []Span{{3, 4}}}, {4, -1, nil}} {
		got := lostLines(g, g.Unit, x.lines, func(p int) bool { return p != x.lost })
		if !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

func TestAssemble(t *testing.T) {
	g := Geometry{Format: Mono8, Width: 16, Height: 4, Unit: 16}
	s := source{geo: g}
	change := func(p []byte, f func(p *Packet)) []byte {
		q, err := Parse(p)
		if err != nil {
			t.Fatal(err)
		}
		q.Data = bytes.Clone(q.Data)
		f(&q)
		return q.Append(nil)
	}
	leader := func(f func(*Leader)) func([][]byte) [][]byte {
		return func(p [][]byte) [][]byte {
			p[0] = change(p[0], func(q *Packet) {
				l, _ := ParseLeader(q.Data)
				f(&l)
				q.Data = l.Append(nil)
			})
			return p
		}
	}
	for name, x := range map[string]struct {
		change    func([][]byte) [][]byte
		missing   int
		reason    string
		malformed uint64
	}{
		"whole":  {func(p [][]byte) [][]byte { return p }, 0, "", 0},
		"chunks": {leader(func(l *Leader) { l.PayloadType = 0x4001 }), 4, "payload type 0x4001", 0},
		"format": {leader(func(l *Leader) { l.Format = 0x01080009 }), 4, "the pixel format is BayerRG8: it was Mono8",
			0},
		"width":  {leader(func(l *Leader) { l.Width++ }), 4, "17 x 4 pixels: it was 16 x 4", 0},
		"height": {leader(func(l *Leader) { l.Height++ }), 4, "16 x 5 pixels", 0},
		"padding": {func(p [][]byte) [][]byte {
			p = leader(func(l *Leader) { l.PadX = 4 })(p)
			p[0], p[1] = p[1], p[0]
			return p
		}, 4, "padded by 4 bytes, which came to be known", 0},
		"padding below": {leader(func(l *Leader) { l.PadY = 4 }), 4, "4 bytes of padding", 0},
		"leader":        {func(p [][]byte) [][]byte { return p[1:] }, 4, "lost", 0},
		"a packet":      {func(p [][]byte) [][]byte { return slices.Delete(p, 2, 3) }, 1, "lost", 0},
		"trailer":       {func(p [][]byte) [][]byte { return p[:5] }, 0, "", 0},
		"short packet": {func(p [][]byte) [][]byte {
			p[2] = p[2][:len(p[2])-1]
			return p
		}, 1, "too short", 0},
		"two short packets": {func(p [][]byte) [][]byte {
			p[2], p[3] = p[2][:len(p[2])-1], p[3][:len(p[3])-1]
			return p
		}, 2, "lost", 1},
		"long packet": {func(p [][]byte) [][]byte {
			p[2] = append(p[2], 1)
			return p
		}, 1, "lost", 1},
		"filled up": {func(p [][]byte) [][]byte {
			p[4] = append(p[4], 1)
			return p
		}, 0, "", 0},
		"no data": {func(p [][]byte) [][]byte {
			p[2] = p[2][:headerSize]
			return p
		}, 1, "lost", 1},
		"packet id": {func(p [][]byte) [][]byte {
			return append(p[:5], change(p[4], func(q *Packet) { q.ID = 5 }), p[5])
		}, 0, "", 0}, // the block is finished by then
		"early packet id": {func(p [][]byte) [][]byte {
			return slices.Insert(p, 1, change(p[4], func(q *Packet) { q.ID = 77 }))
		}, 0, "", 1},
		"height of 0": {func(p [][]byte) [][]byte {
			p[2], p[5] = change(p[5], func(q *Packet) { q.Data = Trailer{PayloadType: 1, Height: 0}.Append(nil) }), p[2]
			return p
		}, 0, "", 0},
		"ended": {func(p [][]byte) [][]byte {
			p[3] = change(p[5], func(q *Packet) { q.Data = Trailer{PayloadType: 1, Height: 2}.Append(nil) })
			return p[:4]
		}, 2, "ended it after 2 of 4 lines", 0},
		"not known": {func(p [][]byte) [][]byte {
			return append(p, change(p[1], func(q *Packet) { q.Kind = 7 }))
		}, 0, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			a, rec := newAssembler(t, g, DefaultTiming(false))
			for _, p := range x.change(s.block(1, 4)) {
				a.Packet(epoch, p)
			}
			a.Tick(epoch.Add(time.Second))
			a.Tick(epoch.Add(2 * time.Second))
			if len(rec.blocks) != 1 {
				t.Fatalf("%d blocks", len(rec.blocks))
			}
			b := rec.blocks[0]
			if b.MissingLines() != x.missing || !strings.Contains(b.Reason, x.reason) ||
				(b.Reason == "") != (x.reason == "") {
				t.Errorf("%d lines missing, %q", b.MissingLines(), b.Reason)
			}
			if a.Stats().Malformed != x.malformed {
				t.Errorf("%+v", a.Stats())
			}
		})
	}
}

// What comes twice or after its block is counted by that name.
func TestCounts(t *testing.T) {
	g := Geometry{Format: Mono8, Width: 16, Height: 4, Unit: 16}
	s := source{geo: g}
	a, rec := newAssembler(t, g, DefaultTiming(false))
	one, two, three := s.block(1, 4), s.block(2, 4), s.block(3, 4)
	for _, p := range slices.Concat(one, one[1:3], two[:2], two[3:], three[:1]) {
		a.Packet(epoch, p)
	}
	now := epoch.Add(time.Second)
	a.Packet(now, three[1]) // block 2 is given up
	a.Packet(now, two[2])
	st := a.Stats()
	if st.Duplicate != 2 || st.Late != 1 || st.LostPackets != 1 || st.LostLines != 1 || len(rec.blocks) != 2 ||
		st.Reordered != 0 {
		t.Errorf("%+v", st)
	}
	a.Packet(now, three[3])
	a.Packet(now, three[2])
	if st := a.Stats(); st.Reordered != 1 {
		t.Errorf("%+v", st)
	}
	a.Flush("the end")
	if len(rec.blocks) != 3 || rec.blocks[2].Reason != "the end" || rec.blocks[2].MissingLines() != 1 {
		t.Errorf("%+v", rec.blocks[len(rec.blocks)-1])
	}
	rec.places = 0
	for _, p := range s.block(4, 4) {
		a.Packet(now, p)
	}
	a.Tick(now)
	if st := a.Stats(); st.NoRoom != 1 || rec.blocks[3].MissingLines() != 4 || rec.blocks[3].Whole() {
		t.Errorf("%+v", st)
	}
}

// The camera's ids say how many blocks are missing; a jump that is too far isn't believed from one packet.
func TestJump(t *testing.T) {
	g := Geometry{Format: Mono8, Width: 16, Height: 1, Unit: 16}
	s := source{geo: g}
	a, rec := newAssembler(t, g, DefaultTiming(false))
	for _, id := range []uint64{65534, 65535, 1, 40} { // 16-bit ids leave out 0
		for _, p := range s.block(id, 1) {
			a.Packet(epoch, p)
		}
	}
	a.Tick(epoch.Add(time.Second))
	if n := len(rec.blocks); n != 42 || rec.blocks[2].ID != 1 || a.Stats().Lost != 38 || a.Stats().Whole != 4 {
		t.Fatalf("%d blocks, %+v", n, a.Stats())
	}
	a.Packet(epoch, s.block(9000, 1)[1])
	a.Packet(epoch, s.block(9100, 1)[0])
	a.Packet(epoch, s.block(9000, 1)[1])
	if len(rec.jumps) > 0 {
		t.Fatalf("strays: %q", rec.jumps)
	}
	for _, p := range s.block(20000, 1) {
		a.Packet(epoch, p)
	}
	if len(rec.jumps) != 1 || !strings.Contains(rec.jumps[0], "from 40 to 20000") {
		t.Fatalf("%q", rec.jumps)
	}
	a.Tick(epoch.Add(time.Second))
	if b := rec.blocks[42]; b.ID != 20000 || b.Whole() { // its leader was what showed where it is
		t.Fatalf("%+v", b)
	}
	a.Restart("again")
	for _, p := range s.block(1, 1) {
		a.Packet(epoch, p)
	}
	if b := rec.blocks[43]; b.ID != 1 || !b.Whole() || len(rec.jumps) != 2 {
		t.Fatalf("%+v", b)
	}
}

func TestGeometry(t *testing.T) {
	for _, x := range []struct {
		g    Geometry
		want string
	}{
		{Geometry{Format: Mono8, Width: 1, Height: 1, Unit: 1}, ""},
		{Geometry{Format: Mono12, Width: 4096, Height: 128, Unit: 1460}, ""},
		{Geometry{Format: 0x010c0026, Width: 1, Height: 1, Unit: 1}, "pixel format BayerGR10Packed isn't taken"},
		{Geometry{Format: 0x0110000c, Width: 2, Height: 1, Unit: 1},
			"2 x 1 pixels: must be 2 x 2 or more in BayerGR10"},
		{Geometry{Format: Mono10p, Width: 8, Height: 3, Unit: 9}, ""},
		{Geometry{Format: Mono10p, Width: 6, Height: 3, Unit: 9}, "width 6: must be a multiple of 4 in Mono10p"},
		{Geometry{Format: Mono12p, Width: 7, Height: 3, Unit: 9}, "width 7: must be a multiple of 2 in Mono12p"},
		{Geometry{Format: YUV422, Width: 7, Height: 3, Unit: 9}, "width 7: must be a multiple of 2 in YUV422_8"},
		{Geometry{Format: 0x01234567, Width: 1, Height: 1, Unit: 1}, "0x01234567"},
		{Geometry{Format: Mono8, Width: 0, Height: 1, Unit: 1}, "width 0"},
		{Geometry{Format: Mono8, Width: 1, Height: largestSide + 1, Unit: 1}, "height 65537"},
		{Geometry{Format: Mono8, Width: largestSide, Height: largestSide, Unit: 9000}, "at most"},
		{Geometry{Format: Mono8, Width: 1, Height: 1, Unit: 0}, "packets of 0"},
		{Geometry{Format: Mono8, Width: 1, Height: 1, Unit: 9, Pad: 1 << 17}, "padded by 131072 bytes"},
		{Geometry{Format: Mono8, Width: 1, Height: 1, Unit: 9, Extra: 1 << 21}, "chunks of 2097152 bytes"},
		{Geometry{Format: Mono8, Width: 1, Height: 1 << 15, Unit: 9000, Pad: 1 << 16}, "at most"},
		{Geometry{Format: Mono8, Width: 1 << 15, Height: 1 << 15, Unit: 1}, "more than there are numbers"},
	} {
		err := x.g.Check()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %q", x.g, err, x.want)
		}
	}
}

func TestFormats(t *testing.T) {
	for f, l := range layouts {
		g, err := ParseFormat(strings.ToUpper(l.Name))
		if err != nil || g != f || f.String() != l.Name {
			t.Errorf("%v: %v, %v", f, g, err)
		}
	}
	if _, err := ParseFormat("Mono12Packed"); err == nil {
		t.Error("a format that is not taken")
	}
}

// Whatever comes, blocks come in order, bounded in number by what the ids say, and their lines add up.
func FuzzPackets(f *testing.F) {
	g := Geometry{Format: Mono8, Width: 7, Height: 5, Unit: 15}
	var whole []byte
	for _, p := range (source{geo: g}).block(1, 5) {
		whole = append(append(whole, byte(len(p))), p...)
	}
	f.Add(whole)
	var wide []byte
	for _, p := range (source{geo: g, extended: true}).block(1<<40, 3) {
		wide = append(append(wide, byte(len(p))), p...)
	}
	f.Add(wide)
	chunked := g
	chunked.Pad, chunked.Extra = 3, 40
	var extra []byte
	for _, p := range (source{geo: chunked, extra: true}).block(3, 5) {
		extra = append(append(extra, byte(len(p))), p...)
	}
	f.Add(append(extra, whole...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b)%2 == 0 {
			g.Pad, g.Extra = 0, 0
		} else {
			g.Pad, g.Extra = 3, 40
		}
		a, rec := newAssembler(t, g, DefaultTiming(true))
		now := epoch
		for n := 0; len(b) > 0; n++ {
			size := min(int(b[0]), len(b)-1)
			a.Packet(now, b[1:1+size])
			b = b[1+size:]
			now = now.Add(time.Millisecond)
			a.Tick(now)
			if len(a.open) > a.timing.Open || len(rec.blocks) > (n+1)*maxGap {
				t.Fatalf("%d blocks are open, %d are finished", len(a.open), len(rec.blocks))
			}
		}
		a.Flush("end")
		for _, b := range rec.blocks {
			last := 0
			for _, m := range b.Missing {
				if m.First < last || m.End <= m.First || m.End > g.Height {
					t.Fatalf("%+v", b.Missing)
				}
				last = m.End
			}
			if (b.Reason == "") != b.Whole() {
				t.Fatalf("%+v", b)
			}
		}
		s := a.Stats()
		if s.Whole+s.Incomplete+s.Lost != uint64(len(rec.blocks)) {
			t.Fatalf("%+v: %d blocks", s, len(rec.blocks))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, p := range (source{geo: Geometry{Format: Mono8, Width: 4, Height: 1, Unit: 4}}).block(3, 1) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		q, err := Parse(p.Append(nil))
		if err != nil || q.Block != p.Block || q.ID != p.ID || q.Kind != p.Kind || q.Status != p.Status ||
			!bytes.Equal(p.Data, q.Data) {
			t.Fatalf("%+v became %+v, %v", p, q, err)
		}
		if l, err := ParseLeader(p.Data); err == nil {
			if m, err := ParseLeader(l.Append(nil)); err != nil || m != l {
				t.Fatalf("%+v became %+v, %v", l, m, err)
			}
		}
		if x, err := ParseTrailer(p.Data); err == nil {
			if y, err := ParseTrailer(x.Append(nil)); err != nil || x != y {
				t.Fatalf("%+v became %+v, %v", x, y, err)
			}
		}
	})
}

// The padding of lines is known from the first leader on.
func TestPadding(t *testing.T) {
	g := Geometry{Format: Mono8, Width: 10, Height: 9, Unit: 16}
	padded := g
	padded.Pad = 2
	a, rec := newAssembler(t, g, DefaultTiming(true))
	for id := uint64(1); id < 4; id++ {
		for _, p := range (source{geo: padded}).block(id, 9) {
			a.Packet(epoch, p)
		}
	}
	if len(rec.blocks) != 3 {
		t.Fatalf("%d blocks", len(rec.blocks))
	}
	for _, b := range rec.blocks {
		checkBlock(t, source{geo: g}, b, nil)
	}
}

func TestParseChunks(t *testing.T) {
	chunk := func(id uint32, data ...byte) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, id), uint32(len(data)))
	}
	image := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), 5000)
	b := slices.Concat(image, chunk(7, 1, 2, 3), chunk(8), chunk(9, 4))
	got, err := ParseChunks(b)
	if err != nil || len(got) != 3 || got[2].ID != 7 || !bytes.Equal(got[2].Data, []byte{1, 2, 3}) || got[0].ID != 9 ||
		len(got[1].Data) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseChunks(b[1:]); err != nil && got != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseChunks(slices.Concat([]byte{1}, image)); err == nil {
		t.Error("a chunk is longer than what is there")
	}
	if _, err := ParseChunks(bytes.Repeat(chunk(1), maxChunks+1)); err == nil {
		t.Error("any number of chunks")
	}
}

func FuzzParseChunks(f *testing.F) {
	f.Add([]byte{1, 2, 0, 0, 0, 7, 0, 0, 0, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseChunks(b)
		n := 0
		for _, c := range got {
			n += len(c.Data) + 8
		}
		if len(got) > maxChunks || n > len(b) || err != nil && got != nil {
			t.Fatalf("%d chunks of %d bytes in %d, %v", len(got), n, len(b), err)
		}
	})
}
