package main

// Faults: what goes wrong between a camera and the server, on purpose.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/digits"
	"github.com/polyscan/polyscan/proto/framecodec"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// faultKind is a way to go wrong.
type faultKind string

const (
	faultStall     faultKind = "stall"     // nothing is sent or read for a while
	faultKill      faultKind = "kill"      // the connection is reset
	faultDuplicate faultKind = "duplicate" // a strip is sent twice
	faultReorder   faultKind = "reorder"   // a strip is sent behind the next one
	faultDrop      faultKind = "drop"      // a strip isn't sent
)

var faultKinds = []faultKind{faultStall, faultKill, faultDuplicate, faultReorder, faultDrop}

// fault says how often a kind happens to a strip.
type fault struct {
	kind faultKind
	rate float64
	time time.Duration // of a stall
}

// defaultStall is how long a stall takes.
const defaultStall = 200 * time.Millisecond

// parseFault reads KIND:RATE or stall:RATE:TIME.
func parseFault(s string) (fault, error) {
	parts := strings.Split(s, ":")
	f := fault{kind: faultKind(parts[0]), time: defaultStall}
	if !slices.Contains(faultKinds, f.kind) {
		return f, usage("--fault %q: want KIND:RATE with one of the kinds %s", s, strings.Trim(fmt.Sprint(faultKinds), "[]"))
	}
	if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && f.kind != faultStall {
		return f, usage("--fault %q: want %s:RATE%s", s, f.kind,
			map[bool]string{true: " or stall:RATE:TIME"}[f.kind == faultStall])
	}
	var err error
	if f.rate, err = digits.Float(parts[1]); err != nil || !(f.rate >= 0 && f.rate <= 1) {
		return f, usage("--fault %q: rate %q: want the share of strips, 0 to 1", s, parts[1])
	}
	if len(parts) == 3 {
		if f.time, err = time.ParseDuration(parts[2]); err != nil || f.time <= 0 {
			return f, usage("--fault %q: %q is no time", s, parts[2])
		}
	}
	return f, nil
}

// faultPlan decides for every strip of a camera. It is a function of its fields and the strip's number alone.
type faultPlan struct {
	faults []fault
	seed   uint64
	camera uint64
}

// of is what happens to a strip: at most one thing.
func (p faultPlan) of(sequence uint64) (fault, bool) {
	for i, f := range p.faults {
		if share(p.seed, domainFault, p.camera, uint64(i)<<48|sequence) < f.rate {
			return f, true
		}
	}
	return fault{}, false
}

// dropped reports whether a strip never reaches the server.
func (p faultPlan) dropped(sequence uint64) bool {
	f, ok := p.of(sequence)
	return ok && f.kind == faultDrop
}

// saboteur carries a plan out, between the client library and the wire.
type saboteur struct {
	plan faultPlan
	// happened is called for each fault, once for each strip.
	happened func(fault)

	mu    sync.Mutex
	conns map[*trackedConn]struct{}
	once  uint64 // faults of strips before it have happened
	began time.Time
	until atomic.Int64 // when a stall ends, behind began: a clock that is set changes nothing
}

func newSaboteur(p faultPlan, happened func(fault)) *saboteur {
	return &saboteur{plan: p, happened: happened, conns: map[*trackedConn]struct{}{}, began: time.Now()}
}

// options make a connection that the saboteur has its hands on. dial makes the transport.
func (s *saboteur) options(dial func(context.Context) (net.Conn, error)) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			t := &trackedConn{Conn: c, owner: s}
			s.mu.Lock()
			s.conns[t] = struct{}{}
			s.mu.Unlock()
			return t, nil
		}),
		grpc.WithChainStreamInterceptor(s.intercept),
	}
}

// trackedConn can be reset from outside of gRPC.
type trackedConn struct {
	net.Conn
	owner *saboteur
}

func (c *trackedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// kill resets all connections, as if the process were gone: without a word, and without sending what is buffered.
func (s *saboteur) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // if that fails the connection ends politely, and is gone as well
		}
		_ = c.Conn.Close()
	}
}

func (s *saboteur) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	cs, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil || method != polyscanv1.LineScanService_ScanLines_FullMethodName {
		return cs, err
	}
	return &sabotaged{ClientStream: cs, s: s}, nil
}

// first reports whether the fault of a strip happens for the first time: one that is sent again after a reset isn't hit
// again, but for a dropped one, which never arrives.
func (s *saboteur) first(sequence uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sequence < s.once {
		return false
	}
	s.once = sequence + 1
	return true
}

// sabotaged is a call of ScanLines.
type sabotaged struct {
	grpc.ClientStream
	s    *saboteur
	held *framecodec.Message // a strip that waits for the next one
}

// pause waits while a stall lasts.
func (c *sabotaged) pause() {
	for {
		d := time.Duration(c.s.until.Load()) - time.Since(c.s.began)
		if d <= 0 {
			return
		}
		select {
		case <-time.After(d):
		case <-c.Context().Done():
			return
		}
	}
}

func (c *sabotaged) RecvMsg(m any) error {
	c.pause()
	return c.ClientStream.RecvMsg(m)
}

func (c *sabotaged) SendMsg(m any) error {
	msg, ok := m.(*framecodec.Message)
	if !ok {
		return c.ClientStream.SendMsg(m)
	}
	req, ok := msg.Message.(*polyscanv1.ScanLinesRequest)
	if !ok || req.GetStrip() == nil {
		return c.ClientStream.SendMsg(m)
	}
	seq := req.GetStrip().GetSequence()
	f, hit := c.s.plan.of(seq)
	first := hit && c.s.first(seq)
	if first {
		c.s.happened(f)
	}
	switch {
	case hit && f.kind == faultDrop:
		return nil
	case !first:
	case f.kind == faultStall:
		c.s.until.Store(int64(time.Since(c.s.began) + f.time))
		c.pause()
	case f.kind == faultKill:
		err := c.ClientStream.SendMsg(m)
		c.s.kill()
		return err
	case f.kind == faultDuplicate:
		if err := c.ClientStream.SendMsg(m); err != nil {
			return err
		}
	case f.kind == faultReorder && c.held == nil:
		c.held = clone(msg)
		return nil
	}
	if err := c.ClientStream.SendMsg(m); err != nil {
		return err
	}
	return c.flush()
}

// flush sends the strip that was held back.
func (c *sabotaged) flush() error {
	if c.held == nil {
		return nil
	}
	held := c.held
	c.held = nil
	err := c.ClientStream.SendMsg(held)
	held.Free()
	return err
}

func (c *sabotaged) CloseSend() error {
	return errors.Join(c.flush(), c.ClientStream.CloseSend())
}

// clone copies a message with its payload: the library has the memory back when SendMsg returns.
func clone(m *framecodec.Message) *framecodec.Message {
	c := framecodec.New(proto.Clone(m.Message))
	if m.Len() == 0 {
		return c // in shared memory, which stays until it is acknowledged
	}
	var b []byte
	for _, p := range m.Pieces(nil) {
		b = append(b, p...)
	}
	c.SetPayload(mem.BufferSlice{framecodec.NewBuffer(b, nil)})
	return c
}

// reorders reports whether a plan changes the order of strips, which a session has to allow for.
func reorders(faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return f.kind == faultReorder && f.rate > 0 })
}

func (f fault) String() string {
	if f.kind == faultStall {
		return fmt.Sprintf("%s:%v:%v", f.kind, f.rate, f.time)
	}
	return fmt.Sprintf("%s:%v", f.kind, f.rate)
}
