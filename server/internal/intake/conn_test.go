package intake

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/internal/steady"
	"github.com/polyscan/polyscan/server/internal/budget"
)

const mebibyte = 1 << 20

// rig is a connection whose client and server are frames in memory.
type rig struct {
	*Conn
	*testing.T
	wire    bytes.Buffer // what the client has sent, and nobody has looked at
	frames  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	random  *rand.Rand
}

func newRig(t *testing.T, bytes int64) *rig {
	memory := budget.New(2 * bytes) // half of which is for messages
	g := New(Config{Memory: memory, MaxMessage: 4 * mebibyte, Limits: map[string]int64{"/small/": 4096}, Urgent: "/scan/",
		StreamWindow: mebibyte, ConnectionWindow: 4 * mebibyte, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(g.Close)
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	if !g.enter() {
		t.Fatal("no room for a connection")
	}
	r := &rig{Conn: g.guard(a), T: t, random: seed.New(t, 1, 2)}
	r.frames = http2.NewFramer(&r.wire, nil)
	r.encoder = hpack.NewEncoder(&r.block)
	r.wire.WriteString(http2.ClientPreface)
	return r
}

// look passes on what the client has sent, cut anywhere, and returns what the server gets.
func (r *rig) look() (out []byte, reason string) {
	b := bytes.Clone(r.wire.Bytes())
	r.wire.Reset()
	out = b
	for len(b) > 0 && reason == "" {
		n := min(1+r.random.IntN(40_000), len(b))
		reason, _ = r.received(b[:n])
		b = b[n:]
	}
	return out, reason
}

// call opens a stream, its headers padded, with a priority, and in two frames.
func (r *rig) call(stream uint32, path string) {
	r.block.Reset()
	r.encoder.WriteField(hpack.HeaderField{Name: ":path", Value: path})
	r.encoder.WriteField(hpack.HeaderField{Name: "x", Value: "some other header"})
	b := r.block.Bytes()
	r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b[:1], PadLength: 7,
		Priority: http2.PriorityParam{StreamDep: 1, Weight: 3}})
	r.frames.WriteContinuation(stream, true, b[1:])
}

// message sends the prefix of a message of n bytes and so many of them.
func (r *rig) message(stream uint32, n uint32, sent int) {
	b := append(binary.BigEndian.AppendUint32([]byte{0}, n), make([]byte, sent)...)
	for len(b) > 0 {
		k := min(len(b), 5+r.random.IntN(16_000))
		r.frames.WriteDataPadded(stream, false, b[:k], make([]byte, r.random.IntN(200)))
		b = b[k:]
	}
}

func (r *rig) expected() int64 { return r.g.cfg.Memory.Used(budget.Expected) }

func (r *rig) want(promised int64) {
	r.Helper()
	if r.promised != promised || r.expected() != promised {
		r.Errorf("%d bytes are promised, %d in all; want %d", r.promised, r.expected(), promised)
	}
}

// What is promised is what has been announced and has not come.
func TestPromised(t *testing.T) {
	r := newRig(t, 64*mebibyte)
	r.call(1, "/a/b")
	r.call(3, "/a/c")
	r.message(1, 100_000, 60_000)
	r.message(3, 50_000, 50_000)
	r.message(3, 3_000_000, 1)
	if _, reason := r.look(); reason != "" {
		t.Fatal(reason)
	}
	r.want(40_000 + 2_999_999)
	r.frames.WriteRSTStream(3, http2.ErrCodeCancel)
	r.look()
	r.want(40_000)
	// The server ends the other one, in trailers that come in two writes.
	var out bytes.Buffer
	http2.NewFramer(&out, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{1, 2, 3},
		EndHeaders: true, EndStream: true})
	r.sent(out.Bytes()[:4])
	r.want(40_000)
	r.sent(out.Bytes()[4:])
	r.want(0)
	r.message(1, 100_000, 10) // of no call
	r.look()
	r.want(0)
	r.call(5, "/a/b")
	r.message(5, 100_000, 10)
	r.look()
	ran := make(chan bool, 1)
	r.await(&answer{bytes: 1, since: time.Now(), limit: time.Hour, end: func() { ran <- true }})
	r.Close()
	if n := r.expected(); n != 0 || !<-ran {
		t.Errorf("%d bytes are promised by a connection that is closed", n)
	}
}

// Urgent messages of much data are told of when they begin to come and when they have come, and no others.
func TestUrgentMessagesComeAndHaveCome(t *testing.T) {
	r := newRig(t, 64*mebibyte)
	var told []bool
	r.g.cfg.Comes = func(whole bool) { told = append(told, whole) }
	r.call(1, "/scan/x")
	r.call(3, "/a/b")
	for _, c := range []struct {
		stream, n uint32
		sent      int
		want      []bool
	}{
		{1, bulkBytes - 1, bulkBytes - 1, nil}, {3, mebibyte, mebibyte, nil}, {1, bulkBytes, bulkBytes, []bool{false, true}},
		{1, mebibyte, 100, []bool{false}}, {3, mebibyte, 100, nil},
	} {
		told = nil
		r.message(c.stream, c.n, c.sent)
		if _, reason := r.look(); reason != "" || !slices.Equal(told, c.want) {
			t.Errorf("%d of %d bytes on stream %d: told %v, want %v (%s)", c.sent, c.n, c.stream, told, c.want, reason)
		}
	}
}

// A message that must not come gets a length that the library refuses.
func TestRefusedByLength(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		n    uint32
		want uint32
	}{
		"small":           {"/small/x", 4096, 4096},
		"method":          {"/small/x", 4097, tooLong},
		"large":           {"/a/b", 4 * mebibyte, 4 * mebibyte},
		"larger than any": {"/a/b", 5 * mebibyte, 5 * mebibyte}, // the library knows that itself
	} {
		r := newRig(t, 16*mebibyte)
		r.call(1, c.path)
		r.look()
		r.message(1, c.n, 100)
		out, reason := r.look()
		f, err := http2.NewFramer(io.Discard, bytes.NewReader(out)).ReadFrame()
		if err != nil || reason != "" {
			t.Fatal(err, reason)
		}
		if got := binary.BigEndian.Uint32(f.(*http2.DataFrame).Data()[1:]); got != c.want {
			t.Errorf("%s: a length of %d becomes %d, want %d", name, c.n, got, c.want)
		}
	}
}

// Large messages share the room, and leave some to small and urgent ones.
func TestRoom(t *testing.T) {
	r := newRig(t, 16*mebibyte)
	other := &Conn{g: r.g}
	admit := func(c *Conn, path string, n int64) string {
		return r.g.admit(c, &message{limit: r.g.limitOf(path), urgent: path == "/scan/x"}, n)
	}
	if why := admit(r.Conn, "/a/b", 4*mebibyte) + admit(r.Conn, "/a/b", 4*mebibyte); why != "" {
		t.Error(why)
	}
	if why := admit(r.Conn, "/a/b", 4*mebibyte); why != "connection" {
		t.Errorf("half of the room for one connection: %q", why)
	}
	if why := admit(other, "/a/b", 4*mebibyte) + admit(other, "/a/b", 4*mebibyte); why != "" {
		t.Error(why)
	}
	third := &Conn{g: r.g}
	if why := admit(third, "/a/b", 2*mebibyte); why != "room" {
		t.Errorf("no room: %q", why)
	}
	if why := admit(third, "/a/b", mebibyte/2) + admit(third, "/scan/x", 2*mebibyte); why != "" {
		t.Errorf("small and urgent ones: %q", why)
	}
	r.g.cfg.Memory.Count(budget.Received, 100*mebibyte)
	if why := admit(third, "/scan/x", 10); why != "room" {
		t.Errorf("all is full: %q", why)
	}
	fourth := &Conn{g: r.g}
	if why := admit(fourth, "/scan/x", 10); why != "" {
		t.Errorf("the strip of a connection that waits for nothing: %q", why)
	}
	if why := admit(fourth, "/scan/x", 10); why != "room" {
		t.Errorf("its second: %q", why)
	}
}

func TestAbuse(t *testing.T) {
	for name, c := range map[string]struct {
		send func(r *rig)
		want string
	}{
		"crumbs": {func(r *rig) {
			r.message(1, 100_000, 0)
			for range 2000 {
				r.frames.WriteData(1, false, []byte{1})
			}
		}, "crumbs"},
		"small messages": {func(r *rig) {
			for range 2000 {
				r.message(1, 3, 3)
			}
		}, ""},
		"settings": {func(r *rig) { repeat(func() { r.frames.WriteSettings() }) }, "floods"},
		"pings":    {func(r *rig) { repeat(func() { r.frames.WritePing(false, [8]byte{}) }) }, ""},
		"resets of calls that the server has answered": {func(r *rig) {
			id := uint32(1)
			repeat(func() {
				id += 2
				r.call(id, "/a/b")
				r.look()
				r.sent([]byte{0, 0, 0, byte(http2.FrameHeaders), 0, 0, 0, byte(id >> 8), byte(id)})
				r.frames.WriteRSTStream(id, http2.ErrCodeCancel)
			})
		}, ""},
		"resets of calls that the server has ended": {func(r *rig) {
			id := uint32(1)
			repeat(func() {
				id += 2
				r.call(id, "/a/b")
				r.look()
				r.sent([]byte{0, 0, 0, byte(http2.FrameHeaders), byte(http2.FlagHeadersEndStream), 0, 0, byte(id >> 8), byte(id)})
				r.frames.WriteRSTStream(id, http2.ErrCodeCancel)
			})
		}, ""},
		"empty frames": {func(r *rig) { repeat(func() { r.frames.WriteData(1, false, nil) }) }, "floods"},
		"resets": {func(r *rig) {
			id := uint32(1)
			repeat(func() { id += 2; r.call(id, "/a/b"); r.frames.WriteRSTStream(id, http2.ErrCodeCancel) })
		}, "floods"},
		"headers without an end": {func(r *rig) {
			r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x82}})
			repeat(func() { r.frames.WriteContinuation(3, false, make([]byte, 1000)) })
		}, "malformed"},
		"no headers": {func(r *rig) {
			r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
		}, "malformed"},
	} {
		r := newRig(t, 64*mebibyte)
		r.call(1, "/a/b")
		c.send(r)
		if _, reason := r.look(); reason != c.want {
			t.Errorf("%s: closed for %q, want %q", name, reason, c.want)
		}
	}
}

// A connection may reset so many calls a second for as long as it likes, and no more.
func TestResetsASecond(t *testing.T) {
	for perSecond, want := range map[int]string{200: "", 2 * controlRate: "floods"} {
		r := newRig(t, 64*mebibyte)
		reason := ""
		for i := 0; i < 10*perSecond && reason == ""; i++ {
			id := uint32(2*i + 1)
			r.call(id, "/a/b")
			r.frames.WriteRSTStream(id, http2.ErrCodeCancel)
			r.last = r.last.Add(-time.Second / time.Duration(perSecond)) // since the one before
			_, reason = r.look()
		}
		if reason != want {
			t.Errorf("%d resets a second: closed for %q, want %q", perSecond, reason, want)
		}
	}
}

// Connections that are closed are counted, all of them, and not all are logged.
func TestClosedInLog(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, 64*mebibyte)
	r.g.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	const n = 10 * logBurst
	for range n {
		r.abuse("floods", "it was flooded")
	}
	if lines := bytes.Count(log.Bytes(), []byte("\n")); lines < logBurst || lines > logBurst+10 {
		t.Errorf("%d lines of log for %d connections", lines, n)
	}
	if got := testutil.ToFloat64(r.g.closed.WithLabelValues("floods")); got != n {
		t.Errorf("%v connections are counted, want %d", got, n)
	}
	log.Reset()
	r.g.counted = r.g.counted.Add(-time.Minute)
	r.g.unlogged = 7
	r.abuse("floods", "it was flooded")
	if !bytes.Contains(log.Bytes(), []byte("connections_not_logged=7")) {
		t.Errorf("the log does not say how many lines are missing: %s", log.Bytes())
	}
}

// repeat does more at once than a connection may.
func repeat(f func()) {
	for range controlBurst + controlRate {
		f()
	}
}

// A message must come in time, as far as the server takes it.
func TestSlow(t *testing.T) {
	r := newRig(t, 64*mebibyte)
	r.call(1, "/a/b")
	r.message(1, 2*mebibyte, 100)
	r.look()
	soon, late := time.Now().Add(messageTime), time.Now().Add(messageTime+3*time.Second)
	if r.slow(soon) || !r.slow(late) {
		t.Errorf("slow: %t, %t", r.slow(soon), r.slow(late))
	}
	r.message(1, 0, mebibyte-30_000) // the window is used up
	r.look()
	if r.slow(late) {
		t.Error("a client that waits for the server is slow")
	}
}

// A connection that has done much for nothing is read in small pieces, and one that brings much behind strips; one that
// brings strips is not.
func TestReadSlowly(t *testing.T) {
	read := func(t *testing.T, prepare func(r *rig), n int) (calm int, most int) {
		r := newRig(t, 64*mebibyte)
		r.g.cfg.Calm = func(time.Duration) { calm++ }
		r.Conn.Conn = &fixedConn{left: 4 * n}
		prepare(r)
		b := make([]byte, n)
		for {
			got, err := r.Read(b)
			most = max(most, got)
			if err != nil {
				return calm, most
			}
		}
	}
	payload := func(r *rig) { // the rest of what comes is one message's
		r.call(1, "/a/b")
		r.message(1, 3*mebibyte, 0)
		r.look()
		r.in.have, r.in.left = len(r.in.header), 2*mebibyte
	}
	// 400 KiB come as 4, three times 128, and the rest.
	if calm, most := read(t, payload, 100<<10); calm != 3 || most != 100<<10 {
		t.Errorf("a large message: %d times behind strips, %d bytes at once", calm, most)
	}
	if calm, _ := read(t, func(r *rig) { r.call(3, "/scan/x"); payload(r) }, 100<<10); calm != 0 {
		t.Errorf("beside strips: %d times behind strips", calm)
	}
	if calm, _ := read(t, payload, 1<<10); calm != 0 {
		t.Errorf("small pieces: %d times behind strips", calm)
	}
	if _, most := read(t, func(r *rig) { payload(r); r.tokens -= patience + 100 }, 100<<10); most != slowBytes {
		t.Errorf("after a flood of resets: %d bytes at once", most)
	}
}

// fixedConn brings so many bytes.
type fixedConn struct {
	net.Conn
	left int
}

func (c *fixedConn) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), c.left)
	clear(b[:n])
	c.left -= n
	return n, nil
}

// Connections are bounded: one more takes the place of the one that has been without a call for longest, and where all
// have calls there is none.
func TestConnections(t *testing.T) {
	r := newRig(t, mebibyte)
	g := r.g
	var all []*Conn
	add := func() *Conn {
		if !g.enter() {
			return nil
		}
		a, b := net.Pipe()
		t.Cleanup(func() { b.Close() })
		c := g.guard(a)
		c.idle.Store(int64(len(all)+1) - int64(time.Hour))
		all = append(all, c)
		return c
	}
	for len(all) < leastConnections-1 { // beside the rig's
		if add() == nil {
			t.Fatalf("%d connections are too many", len(all))
		}
	}
	if got := g.cfg.Memory.Used(budget.Connections) + g.cfg.Memory.Used(budget.Reserved); got !=
		leastConnections*connectionBytes {
		t.Errorf("%d bytes count for %d connections", got, leastConnections)
	}
	all[0].idle.Store(0) // it has a call
	if add() == nil || all[0].closed || !all[1].closed || all[2].closed || r.closed {
		t.Error("the wrong one gave way")
	}
	r.idle.Store(steady.Now()) // it has had a call, long before the others came
	for _, c := range all {
		c.idle.Store(0)
	}
	last := all[5]
	last.idle.Store(0)
	last.Close()
	a, b := net.Pipe()
	t.Cleanup(func() { b.Close() })
	if !g.enter() {
		t.Fatal("no room although one has ended")
	}
	all = append(all, g.guard(a))
	if add() == nil || r.closed || !all[len(all)-2].closed {
		t.Error("a connection that has called gave way before one that has not")
	}
	for _, c := range append(all, r.Conn) {
		c.idle.Store(0)
	}
	if add() != nil {
		t.Error("a connection with a call gave way")
	}
	for _, c := range append(all, r.Conn) {
		c.Close()
		c.Close()
	}
	if n := g.cfg.Memory.Used(budget.Connections); n != 0 || g.entered != 0 {
		t.Errorf("%d bytes count for %d connections after all were closed", n, g.entered)
	}
}

// Of those who have not called the ones give way of which a network has the most, so that a burst shuts out nobody who
// has just come from elsewhere.
func TestBurstGivesWayToItself(t *testing.T) {
	r := newRig(t, mebibyte)
	g := r.g
	add := func(addr string) *Conn {
		if !g.enter() {
			t.Fatalf("no room for %s", addr)
		}
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		return g.guard(remoteConn{a, addr})
	}
	fresh := add("10.0.0.1:5")
	first := add("10.0.0.2:1")
	for i := range leastConnections + 100 {
		add(fmt.Sprintf("10.0.0.2:%d", i+2))
	}
	if fresh.closed || r.closed || !first.closed {
		t.Errorf("closed: one from elsewhere: %t, the one before it: %t, the first of the burst: %t", fresh.closed, r.closed,
			first.closed)
	}
}

// What a connection leaves that is closed for its answers is collected soon, though nobody allocates.
func TestClosedAnswersAreCollected(t *testing.T) {
	r := newRig(t, 32*mebibyte) // of 64, of which 16 are for answers
	collected := make(chan struct{})
	answers := make([]byte, 17*mebibyte)
	runtime.AddCleanup(&answers[0], func(c chan struct{}) { close(c) }, collected)
	runtime.GC() // the next one is far off
	r.await(&answer{bytes: int64(len(answers)), since: time.Now(), limit: time.Hour})
	if !r.closed {
		t.Fatal("a connection has more of unread answers than there may be")
	}
	runtime.KeepAlive(&answers[0])
	select {
	case <-collected:
	case <-time.After(10 * time.Second):
		t.Error("they are not collected")
	}
}

// Answers that nobody has counted count until they are forgotten or their connection has closed. Where they take too
// much, the connection gives way whose client has stalled, then one of the network with the most, then the one with the
// most; answers that are counted elsewhere count for those alone who wait for the ledger.
func TestUnreadAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers [4]int64 // in MiB, of connections of which the first two are of one network
		stalled [4]bool
		counted [4]bool // elsewhere
		want    int     // who gives way; -1: nobody
		makes   int     // who gives way to those who wait
	}{
		"room":           {answers: [4]int64{5, 4, 3, 3}, stalled: [4]bool{true, true, true, true}, want: -1, makes: 0},
		"the most":       {answers: [4]int64{1, 1, 4, 11}, want: 3, makes: -1},
		"of the network": {answers: [4]int64{4, 5, 8, 1}, want: 1, makes: -1},
		"stalled":        {answers: [4]int64{1, 1, 14, 2}, stalled: [4]bool{3: true}, want: 3, makes: -1},
		"elsewhere": {answers: [4]int64{1, 1, 2, 50}, counted: [4]bool{3: true}, stalled: [4]bool{2: true, 3: true},
			want: -1, makes: 3},
	} {
		r := newRig(t, 32*mebibyte) // of 64, of which 16 are for answers
		var conns [4]*Conn
		var ended atomic.Int32
		var sum int64
		var forgotten []func()
		for i, n := range c.answers {
			a, b := net.Pipe()
			t.Cleanup(func() { a.Close(); b.Close() })
			r.g.enter()
			conns[i] = r.g.guard(remoteConn{a, fmt.Sprintf("10.0.0.%d:%d", max(i, 1), i)})
			answer := &answer{bytes: n * mebibyte, since: time.Now(), limit: time.Hour}
			if c.stalled[i] {
				answer.since = answer.since.Add(-2 * longStall)
			}
			if c.counted[i] {
				answer.end = func() { ended.Add(1) }
			} else {
				sum += answer.bytes
			}
			forgotten = append(forgotten, conns[i].await(answer))
		}
		if c.want >= 0 {
			sum -= c.answers[c.want] * mebibyte
		}
		if n := r.g.cfg.Memory.Used(budget.Results); n != sum {
			t.Errorf("%s: %d bytes count, want %d", name, n, sum)
		}
		for i, conn := range conns {
			if conn.closed != (i == c.want) {
				t.Errorf("%s: connection %d is closed: %t", name, i, conn.closed)
			}
		}
		if c.want < 0 {
			r.g.MakeRoom()
			for i, conn := range conns {
				if conn.closed != (i == c.makes) {
					t.Errorf("%s, others wait: connection %d is closed: %t", name, i, conn.closed)
				}
			}
			if c.makes == 3 && ended.Load() != 1 {
				t.Errorf("%s: %d answers ended whose connection has closed", name, ended.Load())
			}
		}
		for _, f := range forgotten {
			f()
			f()
		}
		if n, m := r.g.cfg.Memory.Used(budget.Results), r.g.unread.Load(); n != 0 || m != 0 {
			t.Errorf("%s: %d and %d bytes count of answers that were taken", name, n, m)
		}
		for _, conn := range conns {
			conn.Close()
			conn.await(&answer{bytes: 1, since: time.Now(), limit: time.Hour})()
		}
		if n := r.g.cfg.Memory.Used(budget.Results); n != 0 {
			t.Errorf("%s: %d bytes count of closed connections", name, n)
		}
	}
}

// A client that takes something of its answers has not stalled, and one that leaves an answer for too long is closed.
func TestTakes(t *testing.T) {
	r := newRig(t, 32*mebibyte)
	now := time.Now()
	r.await(&answer{bytes: 5, since: now.Add(-time.Minute), limit: 90 * time.Second})
	if n, idle := r.Conn.unread(false, now); n != 5 || idle != time.Minute {
		t.Errorf("%d bytes, idle for %v", n, idle)
	}
	r.sent([]byte{0, 0, 0, byte(http2.FramePing), 0, 0, 0, 0, 0})
	if _, idle := r.Conn.unread(false, now); idle != time.Minute {
		t.Errorf("after a ping: idle for %v", idle)
	}
	r.sent([]byte{0, 0, 1, byte(http2.FrameData), 0, 0, 0, 0, 1, 7})
	if _, idle := r.Conn.unread(false, time.Now()); idle > 30*time.Second {
		t.Errorf("after data: idle for %v", idle)
	}
	if r.overdue(now) || !r.overdue(now.Add(time.Minute)) {
		t.Error("the answer is overdue too soon, or never")
	}
}

type remoteConn struct {
	net.Conn
	addr string
}

func (c remoteConn) RemoteAddr() net.Addr { return remoteAddr(c.addr) }

type remoteAddr string

func (remoteAddr) Network() string  { return "tcp" }
func (a remoteAddr) String() string { return string(a) }

// A connection that brings little is read into a small buffer and counts with that; one that fills it gets a large one,
// and loses nothing on the way, whatever the sizes of the library's reads are.
func TestReadBuffer(t *testing.T) {
	memory := budget.New(64 * mebibyte)
	g := New(Config{Memory: memory, MaxMessage: 4 * mebibyte, StreamWindow: mebibyte, ConnectionWindow: 4 * mebibyte,
		Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(g.Close)
	if !g.enter() {
		t.Fatal("no room for a connection")
	}
	client, server := net.Pipe()
	c := g.guard(server)
	want := func(there int64) {
		t.Helper()
		if n, all := memory.Used(budget.Connections), memory.Out(); n != there || all != connectionBytes {
			t.Errorf("%d bytes of %d count, want %d of %d", n, all, there, connectionBytes)
		}
	}
	want(quietBytes)
	random := seed.New(t, 1, 2)
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	frames := http2.NewFramer(&sent, nil)
	for range 100 { // of a kind that nobody looks into
		if err := frames.WriteRawFrame(0x20, 0, 0, bytes.Repeat([]byte{byte(random.IntN(256))}, 10)); err != nil {
			t.Fatal(err)
		}
	}
	quiet := sent.Len()
	for range 30 {
		if err := frames.WriteRawFrame(0x20, 0, 0, bytes.Repeat([]byte{byte(random.IntN(256))}, 16_000)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(from, to, most int) {
		for b := sent.Bytes()[from:to]; len(b) > 0; {
			n, err := client.Write(b[:min(len(b), most)])
			if err != nil {
				t.Error(err)
				return
			}
			b = b[n:]
		}
	}
	var got []byte
	read := func(to, most int) {
		b := make([]byte, most)
		for len(got) < to {
			n, err := c.Read(b[:min(1+random.IntN(most), to-len(got))])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b[:n]...)
		}
	}
	go write(0, quiet, 1000)
	read(quiet, 3000)
	want(quietBytes)
	go write(quiet, sent.Len(), sent.Len())
	read(sent.Len(), 20_000)
	want(quietBytes + largeRead)
	if !bytes.Equal(got, sent.Bytes()) {
		t.Error("other bytes came than were sent")
	}
	c.Close()
	c.takes(largeRead)
	if n := memory.Out(); n != 0 {
		t.Errorf("%d bytes count of a connection that is closed", n)
	}
}

// What a connection leaves that is closed with answers counts until it is collected, and is in nobody's way.
func TestClosedAnswersCount(t *testing.T) {
	r := newRig(t, 64*mebibyte)
	memory := r.g.cfg.Memory
	forget := r.await(&answer{bytes: 5 * mebibyte, since: time.Now(), limit: time.Hour})
	before := memory.Out()
	r.Close()
	late := r.await(&answer{bytes: mebibyte, since: time.Now(), limit: time.Hour})
	runtime.GC()
	if n := memory.Used(budget.Closed); n < 5*mebibyte || memory.Out() >= before {
		t.Errorf("%d bytes are left of 5 MiB that the transport holds, and %d out, %d before", n, memory.Out(), before)
	}
	forget()
	late()
	forget, late = nil, nil
	for deadline := time.Now().Add(10 * time.Second); memory.Used(budget.Closed) != 0; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are left that nobody has", memory.Used(budget.Closed))
		}
	}
}
