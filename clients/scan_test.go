package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// scanFake runs a script for each call of ScanLines.
type scanFake struct {
	polyscanv1.UnimplementedLineScanServiceServer
	calls  atomic.Int32
	script func(call int, s *scanCall) error
}

func (f *scanFake) ScanLines(rpc polyscanv1.LineScanService_ScanLinesServer) error {
	return f.script(int(f.calls.Add(1))-1, &scanCall{rpc: rpc})
}

// scanCall is the server's end, in short.
type scanCall struct {
	rpc polyscanv1.LineScanService_ScanLinesServer
}

var token = []byte("0123456789abcdef")

func (c *scanCall) opened(next, line, credit uint64) error {
	return c.rpc.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Opened{Opened: &polyscanv1.ScanOpened{
		SessionToken: token, NextSequence: next, NextLine: line, CreditLine: credit,
		ResumeWindow: durationpb.New(5 * time.Second), Backend: "fake",
	}}})
}

func (c *scanCall) ack(next, credit uint64) error {
	return c.rpc.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Ack{
		Ack: &polyscanv1.ScanAck{NextSequence: next, CreditLine: credit}}})
}

func (c *scanCall) result(n, strip uint64) error {
	return c.rpc.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Part{Part: &polyscanv1.PartResult{
		ResultNumber: n, PartNumber: n, StripSequence: strip,
	}}})
}

func (c *scanCall) event(k polyscanv1.ScanEventKind) error {
	return c.rpc.Send(&polyscanv1.ScanLinesResponse{Message: &polyscanv1.ScanLinesResponse_Event{Event: &polyscanv1.ScanEvent{Kind: k}}})
}

// first is the open or the resume that a call starts with.
func (c *scanCall) first() (*polyscanv1.ScanOpen, *polyscanv1.ScanResume, error) {
	m, err := c.rpc.Recv()
	return m.GetOpen(), m.GetResume(), err
}

// strip is the next strip; io.EOF after the last one.
func (c *scanCall) strip() (*polyscanv1.Strip, error) {
	m, err := c.rpc.Recv()
	if err != nil {
		return nil, err
	}
	if m.GetStrip() == nil {
		return nil, fmt.Errorf("%T, want a strip", m.GetMessage())
	}
	return m.GetStrip(), nil
}

// begin answers an open with much credit.
func (c *scanCall) begin() error {
	if _, _, err := c.first(); err != nil {
		return err
	}
	return c.opened(0, 0, 1<<40)
}

// scanTB is what *testing.T and *rapid.T have in common.
type scanTB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Error(...any)
	Fatal(...any)
}

func serveScan(t scanTB, script func(call int, s *scanCall) error, opts ...Option) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	polyscanv1.RegisterLineScanServiceServer(server, &scanFake{script: script})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	c, err := Dial(l.Addr().String(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

const (
	scanWidth = 8
	scanLines = 4
)

func scanOpen() *polyscanv1.ScanOpen {
	return &polyscanv1.ScanOpen{
		Inspection: UseRegions(Polygon("a", 0, 0, 4, 0, 4, 4)),
		Layout:     &polyscanv1.FrameLayout{Width: scanWidth, Height: scanLines, PixelFormat: Gray8},
		PartLines:  2 * scanLines,
		Trigger:    &polyscanv1.ScanOpen_EveryLines{EveryLines: 2 * scanLines},
	}
}

// pixelsOf are the pixels of strip n.
func pixelsOf(n uint64) []byte {
	p := make([]byte, scanWidth*scanLines)
	for i := range p {
		p[i] = byte(n*31 + uint64(i))
	}
	return p
}

func openScan(t scanTB, c *Client, o ScanOptions) *Scan {
	t.Helper()
	s, err := c.OpenScan(t.Context(), scanOpen(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// inspectAll is a script that acknowledges every strip and sends a result for each, with credit for two strips.
func inspectAll(_ int, c *scanCall) error {
	if _, _, err := c.first(); err != nil {
		return err
	}
	if err := c.opened(0, 0, 2*scanLines); err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		st, err := c.strip()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if st.GetSequence() != n || st.GetFirstLine() != n*scanLines ||
			!bytes.Equal(st.GetFrame().GetData(), pixelsOf(n)) || st.GetFrame().GetLayout() != nil {
			return status.Errorf(codes.InvalidArgument, "strip %d is %v", n, st)
		}
		if err := c.result(n, n); err != nil {
			return err
		}
		if err := c.ack(n+1, (n+3)*scanLines); err != nil {
			return err
		}
	}
}

func TestScan(t *testing.T) {
	const strips = 200
	for _, ring := range []int{0, 1, 3} {
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("strips=%d,buffer=%v", ring, direct), func(t *testing.T) {
				s := openScan(t, serveScan(t, inspectAll), ScanOptions{Strips: ring})
				var sending sync.WaitGroup
				sending.Go(func() {
					defer s.CloseSend()
					reused := make([]byte, scanWidth*scanLines)
					for n := range uint64(strips) {
						st := Strip{}
						if direct {
							b, err := s.Buffer(t.Context())
							if err != nil {
								t.Error(err)
								return
							}
							copy(b, pixelsOf(n))
						} else {
							copy(reused, pixelsOf(n)) // Send has copied them
							st.Pixels = reused
						}
						if q, err := s.Send(t.Context(), st); err != nil || q != n {
							t.Errorf("strip %d: %d, %v", n, q, err)
							return
						}
					}
				})
				next := uint64(0)
				for u, err := range s.Updates() {
					if err != nil {
						t.Fatal(err)
					}
					if u.Part.GetResultNumber() != next || u.Latency <= 0 {
						t.Fatalf("update %d: %+v", next, u)
					}
					next++
				}
				sending.Wait()
				if st := s.Stats(); next != strips || st.Handed != strips || st.Sent != strips || st.Acked != strips ||
					st.Results != strips || st.Lines != strips*scanLines || st.Reconnects+st.Resent+st.Repeated != 0 {
					t.Errorf("%d results, %+v", next, st)
				}
				if _, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(0)}); !errors.Is(err, ErrScanEnded) {
					t.Errorf("Send after the end: %v", err)
				}
			})
		}
	}
}

// TestScanCredit holds credit back and sees how much is sent, and that Send waits for room and not for longer than it
// is told to.
func TestScanCredit(t *testing.T) {
	got := make(chan uint64, 100)
	more := make(chan struct{})
	s := openScan(t, serveScan(t, func(_ int, c *scanCall) error {
		if _, _, err := c.first(); err != nil {
			return err
		}
		if err := c.opened(0, 0, 2*scanLines+1); err != nil {
			return err
		}
		for n := uint64(0); ; n++ {
			st, err := c.strip()
			if err != nil {
				return nil
			}
			got <- st.GetSequence()
			if n == 1 {
				<-more
				if err := c.ack(0, 3*scanLines); err != nil {
					return err
				}
			}
			if n == 2 {
				<-more
				if err := c.ack(3, 4*scanLines); err != nil {
					return err
				}
			}
		}
	}), ScanOptions{Strips: 3})
	for n := range uint64(3) {
		if _, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(n)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	busy := errors.New("the belt stopped")
	time.AfterFunc(20*time.Millisecond, func() { cancel(busy) })
	if _, err := s.Send(ctx, Strip{Pixels: pixelsOf(3)}); !errors.Is(err, busy) {
		t.Errorf("Send without room: %v", err)
	}
	if a, b := <-got, <-got; a != 0 || b != 1 || len(got) != 0 {
		t.Errorf("strips %d, %d and %d more, credit was for two and a line", a, b, len(got))
	}
	if st := s.Stats(); st.Sent != 2 || st.Room != 0 || st.Credit != 1 {
		t.Errorf("%+v", st)
	}
	more <- struct{}{}
	if n := <-got; n != 2 {
		t.Errorf("strip %d", n)
	}
	more <- struct{}{}
	// There is room now, and what didn't fit is sent as strip 3.
	if n, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(3), Lost: 0}); err != nil || n != 3 {
		t.Errorf("strip %d, %v", n, err)
	}
	if n := <-got; n != 3 {
		t.Errorf("strip %d", n)
	}
}

// TestScanReconnect breaks the connection in several ways.
func TestScanReconnect(t *testing.T) {
	const strips = 20
	for _, tt := range []struct {
		name  string
		cause error
		stall time.Duration
		want  string
	}{
		{"unavailable", status.Error(codes.Unavailable, "going away"), 0, "going away"},
		{"reset", status.Error(codes.Internal, "stream terminated"), 0, "stream terminated"},
		{"stalled", nil, time.Second, ErrStalled.Error()}, // which no answer may take on a machine with other work
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			taken := map[uint64]int{}
			resumed := make(chan *polyscanv1.ScanResume, 1)
			s := openScan(t, serveScan(t, func(call int, c *scanCall) error {
				_, resume, err := c.first()
				if err != nil {
					return err
				}
				next := uint64(0)
				results := uint64(0)
				if call == 1 {
					return status.Error(codes.Unavailable, "not yet")
				}
				if call == 2 {
					resumed <- resume
					next, results = 3, 1 // two of the results that it has had come again
				}
				if err := c.opened(next, next*scanLines, 1<<40); err != nil {
					return err
				}
				for ; ; next++ {
					st, err := c.strip()
					if errors.Is(err, io.EOF) {
						return nil
					}
					if err != nil {
						return err
					}
					if st.GetSequence() != next || !bytes.Equal(st.GetFrame().GetData(), pixelsOf(next)) {
						return status.Errorf(codes.InvalidArgument, "strip %d: %v", next, st)
					}
					mu.Lock()
					taken[next]++
					mu.Unlock()
					for ; results <= next; results++ {
						if call == 0 && results == 3 {
							break
						}
						if err := c.result(results, results); err != nil {
							return err
						}
					}
					if call == 0 && next == 5 {
						if tt.cause == nil {
							<-c.rpc.Context().Done()
						}
						return tt.cause
					}
					if err := c.ack(min(next+1, 3+uint64(call)*1000), 1<<40); err != nil {
						return err
					}
				}
			}), ScanOptions{Strips: strips, Stall: tt.stall})
			for n := range uint64(strips) {
				if _, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(n)}); err != nil {
					t.Fatal(err)
				}
			}
			s.CloseSend()
			next, again := uint64(0), 0
			for u, err := range s.Updates() {
				switch {
				case err != nil:
					t.Fatal(err)
				case u.Reconnected != nil:
					again++
					if r := u.Reconnected; !strings.Contains(r.Cause.Error(), tt.want) || r.Attempts != 2 ||
						r.Resent < 3 || r.Outage <= 0 {
						t.Errorf("%+v", r)
					}
				case u.Part.GetResultNumber() != next:
					t.Fatalf("result %d, want %d", u.Part.GetResultNumber(), next)
				default:
					next++
				}
			}
			if r := <-resumed; !bytes.Equal(r.GetSessionToken(), token) || r.GetNextResult() != 3 {
				t.Errorf("resumed by %v", r)
			}
			if st := s.Stats(); next != strips || again != 1 || st.Reconnects != 1 || st.Repeated != 2 {
				t.Errorf("%d results, %d reconnections, %+v", next, again, st)
			}
			for n := range uint64(strips) {
				if want := 1; taken[n] != want && !(taken[n] == 2 && n >= 3 && n <= 5) {
					t.Errorf("strip %d came %d times", n, taken[n])
				}
			}
		})
	}
}

func TestScanEnds(t *testing.T) {
	begin := func(then func(c *scanCall) error) func(int, *scanCall) error {
		return func(call int, c *scanCall) error {
			if call > 0 {
				return status.Error(codes.NotFound, "no such session")
			}
			if err := c.begin(); err != nil {
				return err
			}
			return then(c)
		}
	}
	for _, tt := range []struct {
		name   string
		script func(int, *scanCall) error
		opts   ScanOptions
		want   string
		code   codes.Code
	}{
		{"session gone", begin(func(*scanCall) error {
			return status.Error(codes.Unavailable, "crashed")
		}), ScanOptions{},
			"could not be resumed: NOT_FOUND: no such session (the connection had broken: UNAVAILABLE: crashed)",
			codes.NotFound},
		{"no resuming", begin(func(*scanCall) error {
			return status.Error(codes.Unavailable, "crashed")
		}), ScanOptions{Outage: -1},
			"UNAVAILABLE: crashed", codes.Unavailable},
		{"never comes back", func(call int, c *scanCall) error {
			if call == 0 {
				if err := c.begin(); err != nil {
					return err
				}
			}
			return status.Error(codes.Unavailable, "crashed")
		}, ScanOptions{Outage: 50 * time.Millisecond}, "no connection for ", codes.Unavailable},
		{"slow consumer", begin(func(*scanCall) error {
			return status.Error(codes.ResourceExhausted, "results are not read")
		}), ScanOptions{},
			"RESOURCE_EXHAUSTED: results are not read", codes.ResourceExhausted},
		{"taken over", begin(func(*scanCall) error {
			return status.Error(codes.Aborted, "resumed elsewhere")
		}), ScanOptions{},
			"ABORTED: resumed elsewhere", codes.Aborted},
		{"lost result", begin(func(c *scanCall) error {
			return errors.Join(c.result(0, 0), c.result(3, 0), waitFor(c))
		}), ScanOptions{},
			"result 3 came: want 1; 2 results are lost", codes.OK},
		{"ack of nothing", begin(func(c *scanCall) error {
			return errors.Join(c.ack(9, 0), waitFor(c))
		}), ScanOptions{},
			"acknowledged strip 9", codes.OK},
		{"opened twice", begin(func(c *scanCall) error {
			return errors.Join(c.opened(0, 0, 0), waitFor(c))
		}), ScanOptions{},
			"want an ack, a part or an event", codes.OK},
		{"ended early", begin(func(*scanCall) error { return nil }), ScanOptions{}, "ended the stream", codes.OK},
		{"wants what is gone", func(call int, c *scanCall) error {
			if err := c.begin(); call > 0 || err != nil {
				return errors.Join(err, waitFor(c))
			}
			if _, err := c.strip(); err != nil {
				return err
			}
			if err := c.ack(1, 1<<40); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "crashed")
		}, ScanOptions{}, "the server wants strip 0; this side has strips 1 to 1", codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openScan(t, serveScan(t, tt.script), tt.opts)
			if _, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(0)}); err != nil && !errors.Is(err, ErrScanEnded) {
				t.Fatal(err)
			}
			var last error
			for _, err := range s.Updates() {
				last = err
			}
			if last == nil || !strings.Contains(last.Error(), tt.want) || strings.Contains(last.Error(), "\n") {
				t.Errorf("ended with %v, want %q", last, tt.want)
			}
			if e := AsError(last); tt.code != codes.OK && (e == nil || e.Code != tt.code) || tt.code == codes.OK &&
				e != nil {
				t.Errorf("%v: %v, want %v", last, e, tt.code)
			}
			if _, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(0)}); !errors.Is(err, ErrScanEnded) {
				t.Errorf("Send: %v", err)
			}
			if _, err := s.Buffer(t.Context()); !errors.Is(err, ErrScanEnded) {
				t.Errorf("Buffer: %v", err)
			}
			s.Close()
		})
	}
}

// waitFor keeps a call open until the client ends it.
func waitFor(c *scanCall) error {
	<-c.rpc.Context().Done()
	return nil
}

func TestScanRefused(t *testing.T) {
	c := serveScan(t, func(int, *scanCall) error {
		return status.Error(codes.InvalidArgument, "open.part_lines: too many")
	})
	if _, err := c.OpenScan(t.Context(), scanOpen(), ScanOptions{}); AsError(err) == nil ||
		AsError(err).Code != codes.InvalidArgument {
		t.Errorf("refused by the server: %v", err)
	}
	bad := scanOpen()
	bad.Layout.Stride = 4
	for _, tt := range []struct {
		open *polyscanv1.ScanOpen
		opts ScanOptions
		want string
	}{
		{bad, ScanOptions{}, "clients: open.layout: stride 4: less than a row of 8 bytes"},
		{&polyscanv1.ScanOpen{}, ScanOptions{}, "clients: open.layout: pixel format"},
		{scanOpen(), ScanOptions{Strips: -1}, "clients: ScanOptions.Strips is -1: must be 0 to 4096"},
		{scanOpen(), ScanOptions{Updates: -1}, "clients: ScanOptions.Updates is -1: must be 0 to 1048576"},
	} {
		if _, err := c.OpenScan(t.Context(), tt.open, tt.opts); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	s := openScan(t, serveScan(t, inspectAll), ScanOptions{})
	for _, tt := range []struct {
		strip Strip
		want  string
	}{
		{Strip{Pixels: make([]byte, 31)}, "clients: strip: 31 bytes of pixels: 4 lines take 32"},
		{Strip{Lines: 5}, "clients: strip: lines is 5: must be 1 to 4, the height of the session's layout"},
		{Strip{Lines: -1}, "clients: strip: lines is -1: must be"},
		{Strip{Pixels: pixelsOf(0), Lost: -1}, "clients: strip: lost is -1: must not be negative"},
		{Strip{Pixels: pixelsOf(0), PartStarts: []int{4}},
			"clients: strip: part start 0 is 4: must be 0 to 3, and ascend"},
		{Strip{Pixels: pixelsOf(0), PartStarts: []int{2, 2}},
			"clients: strip: part start 1 is 2: must be 0 to 3, and ascend"},
		{Strip{}, "clients: strip: no pixels, and no buffer was asked for"},
	} {
		if _, err := s.Send(t.Context(), tt.strip); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if st := s.Stats(); st.Handed != 0 {
		t.Errorf("%d bad strips were taken", st.Handed)
	}
}

// TestScanSlowConsumer never receives: what waits is bounded, and Send waits in the end.
func TestScanSlowConsumer(t *testing.T) {
	s := openScan(t, serveScan(t, inspectAll), ScanOptions{Strips: 4, Updates: 5})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := uint64(0)
	for ; ; n++ {
		if st := s.Stats(); st.Waiting == 5 && st.Room == 0 {
			break
		}
		if n > 1000 {
			t.Fatal("Send never waits")
		}
		short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := s.Send(short, Strip{Pixels: pixelsOf(n)})
		stop()
		if err != nil {
			n--
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v", s.Stats())
		}
	}
	if n > 5+4+4 {
		t.Errorf("%d strips were taken", n)
	}
	s.CloseSend()
	got := uint64(0)
	for u, err := range s.Updates() {
		if err != nil {
			t.Fatal(err)
		}
		if u.Part.GetResultNumber() != got {
			t.Fatalf("result %d, want %d", u.Part.GetResultNumber(), got)
		}
		got++
	}
	if got != n {
		t.Errorf("%d results of %d strips", got, n)
	}
}

// TestScanKilled resets the connection under strips that are being written: their memory comes back all the same.
func TestScanKilled(t *testing.T) {
	const width, lines, strips = 4096, 512, 6
	conns := make(chan net.Conn, 10)
	dialer := WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			conns <- conn
		}
		return conn, err
	}))
	c := serveScan(t, func(call int, c *scanCall) error {
		if err := c.begin(); err != nil {
			return err
		}
		for n := uint64(0); ; n++ {
			if call == 0 {
				return waitFor(c) // without reading: what doesn't fit into the windows waits on the other side
			}
			st, err := c.strip()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if want := bytes.Repeat([]byte{byte(n)}, width*lines); !bytes.Equal(st.GetFrame().GetData(), want) {
				return status.Errorf(codes.InvalidArgument, "strip %d has other pixels", n)
			}
			if err := errors.Join(c.result(n, n), c.ack(n+1, 1<<40)); err != nil {
				return err
			}
		}
	}, dialer)
	open := scanOpen()
	open.Layout.Width, open.Layout.Height = width, lines
	s, err := c.OpenScan(t.Context(), open, ScanOptions{Strips: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sending sync.WaitGroup
	sending.Go(func() {
		defer s.CloseSend()
		for n := range strips {
			if _, err := s.Send(t.Context(), Strip{Pixels: bytes.Repeat([]byte{byte(n)}, width*lines)}); err != nil {
				t.Errorf("strip %d: %v", n, err)
				return
			}
			if n == 1 {
				if err := (<-conns).Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	results := 0
	for u, err := range s.Updates() {
		if err != nil {
			t.Fatal(err)
		}
		if u.Part != nil {
			results++
		}
	}
	sending.Wait()
	if results != strips {
		t.Errorf("%d results of %d strips", results, strips)
	}
}

// TestScanResume goes on with a session in another stream, as another process would.
func TestScanResume(t *testing.T) {
	c := serveScan(t, func(call int, c *scanCall) error {
		_, resume, err := c.first()
		if err != nil {
			return err
		}
		if call == 0 {
			if err := errors.Join(c.opened(0, 0, 1<<40), c.result(0, 0)); err != nil {
				return err
			}
			return waitFor(c)
		}
		if !bytes.Equal(resume.GetSessionToken(), token) || resume.GetNextResult() != 1 {
			return status.Errorf(codes.NotFound, "resumed by %v", resume)
		}
		if err := c.opened(7, 30, 1<<40); err != nil {
			return err
		}
		st, err := c.strip()
		if err != nil {
			return err
		}
		if st.GetSequence() != 7 || st.GetFirstLine() != 35 || !slices.Equal(st.GetPartStarts(), []uint64{36}) ||
			st.GetFrame().GetLayout().GetHeight() != 2 ||
			st.GetNextResult() != 1 || len(st.GetFrame().GetData()) != 2*scanWidth {
			return status.Errorf(codes.InvalidArgument, "%v", st)
		}
		if _, err := c.strip(); !errors.Is(err, io.EOF) {
			return status.Errorf(codes.InvalidArgument, "%v, want the end", err)
		}
		return errors.Join(c.event(polyscanv1.ScanEventKind_SCAN_EVENT_KIND_GAP), c.result(1, 7))
	})
	s := openScan(t, c, ScanOptions{})
	if u, err := s.Recv(); err != nil || u.Part == nil || s.Backend() != "fake" {
		t.Fatalf("%+v, %v", u, err)
	}
	session := s.Session()
	s.Close()
	if _, err := s.Recv(); !errors.Is(err, context.Canceled) {
		t.Errorf("after Close: %v", err)
	}
	again := openScan(t, c, ScanOptions{Resume: &session})
	if n, err := again.Send(t.Context(),
		Strip{Pixels: make([]byte, 2*scanWidth), Lines: 2, Lost: 5, PartStarts: []int{1}}); err != nil || n != 7 {
		t.Fatalf("strip %d, %v", n, err)
	}
	again.CloseSend()
	if u, err := again.Recv(); err != nil || u.Event.GetKind() != polyscanv1.ScanEventKind_SCAN_EVENT_KIND_GAP {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := again.Recv(); err != nil || u.Part.GetResultNumber() != 1 || u.Latency <= 0 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := again.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// TestScanProperty breaks connections at random places, with random acknowledgements: every strip is inspected once,
// with its own pixels, and every result comes once.
func TestScanProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strips := rapid.Uint64Range(0, 40).Draw(t, "strips")
		ring := rapid.IntRange(1, 8).Draw(t, "ring")
		// After how many strips each connection breaks, and how many strips an ack lags behind.
		breaks := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 6).Draw(t, "breaks")
		lag := rapid.Uint64Range(0, uint64(ring-1)).Draw(t, "lag")

		inspected, results := uint64(0), uint64(0) // the server's session; calls follow each other
		script := func(call int, c *scanCall) error {
			_, resume, err := c.first()
			if err != nil {
				return err
			}
			if err := c.opened(inspected, inspected*scanLines, (inspected+2)*scanLines); err != nil {
				return err
			}
			for n := resume.GetNextResult(); n < results; n++ {
				if err := c.result(n, n); err != nil {
					return err
				}
			}
			for i := 0; call >= len(breaks) || i < breaks[call]; i++ {
				st, err := c.strip()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if st.GetSequence() != inspected || !bytes.Equal(st.GetFrame().GetData(), pixelsOf(inspected)) {
					return status.Errorf(codes.InvalidArgument, "strip %d is %v", inspected, st)
				}
				inspected++
				results++
				if err := errors.Join(c.result(results-1, inspected-1),
					c.ack(inspected-min(lag, inspected), (inspected+2)*scanLines)); err != nil {
					return err
				}
			}
			return status.Error(codes.Unavailable, "cut")
		}
		s := openScan(t, serveScan(t, script), ScanOptions{Strips: ring})
		var sending sync.WaitGroup
		sending.Go(func() {
			for n := range strips {
				if _, err := s.Send(t.Context(), Strip{Pixels: pixelsOf(n)}); err != nil {
					t.Errorf("strip %d: %v", n, err)
					break
				}
			}
			s.CloseSend()
		})
		next := uint64(0)
		for u, err := range s.Updates() {
			if err != nil {
				t.Errorf("after %d results: %v", next, err)
			}
			if u != nil && u.Part != nil {
				if u.Part.GetResultNumber() != next {
					t.Errorf("result %d, want %d", u.Part.GetResultNumber(), next)
				}
				next++
			}
		}
		sending.Wait()
		if next != strips || inspected != strips {
			t.Errorf("%d results, %d strips inspected, want %d", next, inspected, strips)
		}
	})
}
