package web

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
	"time"

	"github.com/polyscan/polyscan/server/internal/budget"
)

// A body is the same behind the wait for its first message, whatever comes of it and in whatever pieces; and nothing of
// it is read beyond that message.
func TestFirstMessage(t *testing.T) {
	message := func(n, has int) []byte {
		b := binary.BigEndian.AppendUint32([]byte{0}, uint32(n))
		return append(b, bytes.Repeat([]byte{7, 8, 9}, has/3+1)[:has]...)
	}
	for _, c := range []struct {
		body []byte
		want int // bytes that are waited for
	}{
		{nil, 0},
		{[]byte{0, 0, 0}, 3},
		{message(0, 0), 5},
		{message(1, 1), 6},
		{append(message(600, 600), message(3, 3)...), 605},
		{message(600, 599), 604},
		{message(awaited, awaited), 5 + awaited},
		{message(1<<20, 1<<20), 5 + awaited},
		{message(1<<32-1, 100), 105},
	} {
		for name, in := range map[string]io.Reader{
			"at once": bytes.NewReader(c.body), "bytes": iotest.OneByteReader(bytes.NewReader(c.body)),
			"with its end": iotest.DataErrReader(bytes.NewReader(c.body)),
		} {
			var read bytes.Buffer
			out, err := firstMessage(&http.Request{Body: io.NopCloser(io.TeeReader(in, &read))})
			if err != nil {
				t.Fatalf("%d bytes, %s: %v", len(c.body), name, err)
			}
			if read.Len() != c.want {
				t.Errorf("%d bytes, %s: waited for %d, want %d", len(c.body), name, read.Len(), c.want)
			}
			if got, err := io.ReadAll(out); err != nil || !bytes.Equal(got, c.body) {
				t.Errorf("%d bytes, %s: %d come behind the wait, %v", len(c.body), name, len(got), err)
			}
		}
	}
	cut := io.MultiReader(bytes.NewReader(message(9, 3)), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := firstMessage(&http.Request{Body: io.NopCloser(cut)}); err != io.ErrUnexpectedEOF {
		t.Errorf("cut off: %v", err)
	}
	if out, err := firstMessage(&http.Request{Body: http.NoBody}); out != http.NoBody || err != nil {
		t.Errorf("no body: %v, %v", out, err)
	}
}

// What a call may take is counted from its beginning, not from when its first message is here.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in   string
		by   time.Duration
		want string
	}{
		{"100m", 0, "101m"}, {"100m", 30 * time.Millisecond, "71m"}, {"100m", time.Second, "1m"},
		{"2S", 500 * time.Millisecond, "1501m"}, {"1M", 0, "60001m"}, {"1500u", time.Millisecond, "1m"}, {"0n", 0, "1m"},
		{"99999999m", 0, "99999999m"}, {"99999999m", time.Second, "99999000m"}, {"99999999M", 0, "99999999M"},
		{"99999999H", time.Hour, "99999999H"}, {"", time.Hour, ""}, {"m", 0, "m"}, {"-5S", 0, "-5S"}, {"5", 0, "5"},
		{"123456789m", 0, "123456789m"},
	} {
		h := http.Header{}
		if c.in != "" {
			h.Set("Grpc-Timeout", c.in)
		}
		if shorten(h, c.by); h.Get("Grpc-Timeout") != c.want {
			t.Errorf("%q, %v later: %q, want %q", c.in, c.by, h.Get("Grpc-Timeout"), c.want)
		}
	}
}

// A large body counts as its text once it comes, and as what it becomes once it is whole; all comes back.
func TestComing(t *testing.T) {
	const mb = 1 << 20
	for _, room := range []int64{0, 9 * mb} {
		m := budget.New(64 * mb)
		release := func() {}
		if room > 0 {
			release, _ = m.Try(budget.HTTPExpected, room)
		}
		c := &coming{memory: m, room: room}
		for i, want := range [][2]int64{{3 * mb, 6 * mb}, {3 * mb, 6 * mb}, {9 * mb, 0}, {9 * mb, 0}} {
			if c.read([]int64{mb, 2 * mb, 0, 0}[i], i >= 2); room == 0 {
				want = [2]int64{[]int64{2, 6, 6, 6}[i] * mb, 0}
			}
			if got := [2]int64{m.Used(budget.HTTP), m.Used(budget.HTTPExpected)}; got != want {
				t.Errorf("room %d, read %d: here and expected are %d, want %d", room, i, got, want)
			}
		}
		c.end()
		release()
		if n, free := m.Out(), m.Sem.TryAcquire(m.Cap); n != 0 || !free {
			t.Errorf("room %d: %d bytes are out at the end, all is free: %t", room, n, free)
		}
	}
}
