// The codec: where messages meet the transport's buffers.

package wire

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
)

// Response is a response on its way to the codec, which measures from start to the end of marshalling.
type Response struct {
	proto.Message
	Start time.Time // zero: it is not measured
	// Share is what the response took of the budget for host memory, which is filled with what was marshalled; or nil.
	Share *budget.Share
	// Release gives back what the response took, Share among it, once it has been written to the socket or never will be.
	// It may be nil.
	Release func()
	// Held is called when a marshalled response begins to wait for its client, with its bytes and the function that
	// ends the waiting, which is nil where nobody has counted them; forgotten is to be called when it has ended. It may
	// be nil.
	Held func(bytes int64, end func()) (forgotten func())
	// Ctx is that of the call, and Size about how many bytes the response takes: Ready marshals a large one at a place
	// of the pool of host work. Ctx may be nil.
	Ctx  context.Context
	Size int64
}

// hold keeps what the response took until the transport has written it. What is not worth counting while it is made
// counts then, as far as the transport counts references to it.
func (r *Response) hold(out mem.BufferSlice) {
	n := out.Len()
	release := r.Release
	if release != nil && n <= budget.SmallShare {
		release()
		release = nil
	}
	r.Share.Fill(int64(n))
	largest := 0
	for i, b := range out {
		if b.Len() > out[largest].Len() {
			largest = i
		}
	}
	if release == nil && (r.Held == nil || n == 0 || mem.IsBelowBufferPoolingThreshold(out[largest].Len())) {
		return
	}
	if release != nil {
		release = sync.OnceFunc(release)
	}
	forgotten := func() {}
	if r.Held != nil {
		forgotten = r.Held(int64(n), release)
	}
	b := out[largest]
	out[largest] = framecodec.NewBuffer(b.ReadOnlyData(), func() {
		b.Free()
		if release != nil {
			release()
		}
		forgotten()
	})
}

// Encoded is a message that was marshalled before.
type Encoded mem.BufferSlice

// Codec is the frame codec with a counter of bytes and a stopwatch.
type Codec struct {
	encoding.CodecV2
	received, sent prometheus.Counter
	metrics        *observe.Metrics
	overheadLimit  int64                            // of a request's structs
	work           *hostwork.Pool                   // where large messages are read and written
	sets           *RegionSets                      // nil: none are kept
	panicked       func(context.Context, any) error // makes an error of a panic
}

const (
	// LargeMessage is how many bytes take a place of the pool to be written: 0.1 to 1 ms.
	LargeMessage = 128 << 10
	// Burst is how many bytes, the payload of a frame aside, take a place of the pool to be read and checked, though that
	// takes some 20 µs: where hundreds come at once each of them runs, and every client waits behind all of them. At a
	// place they go one by one, and those of other clients between.
	Burst = 8 << 10
)

// NewCodec makes a codec. It keeps no sets where sets is nil.
func NewCodec(m *observe.Metrics, overheadLimit int64, work *hostwork.Pool, sets *RegionSets,
	panicked func(context.Context, any) error) Codec {
	return Codec{
		CodecV2:       framecodec.Codec(),
		received:      m.Bytes.WithLabelValues("received"),
		sent:          m.Bytes.WithLabelValues("sent"),
		metrics:       m,
		overheadLimit: overheadLimit,
		work:          work,
		sets:          sets,
		panicked:      panicked,
	}
}

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(Encoded); ok {
		out := mem.BufferSlice(e)
		c.sent.Add(float64(out.Len()))
		return out, nil
	}
	var out mem.BufferSlice
	var err error
	if r, ours := v.(*Response); ours {
		out, err = c.response(r)
	} else {
		out, err = c.CodecV2.Marshal(v)
	}
	if err == nil {
		c.sent.Add(float64(out.Len()))
	}
	return out, err
}

func (c Codec) response(r *Response) (mem.BufferSlice, error) {
	out, err := c.CodecV2.Marshal(r.Message)
	if err == nil {
		r.hold(out)
	} else if r.Release != nil {
		r.Release()
	}
	if !r.Start.IsZero() {
		c.metrics.Stage("encode", time.Since(r.Start))
	}
	return out, err
}

// Ready is a message as it is to be sent: a large response is marshalled here, at a place of the pool. A call that ends
// while it waits for the place has the status of its context; an error of Marshal reaches the client as INTERNAL.
func (c Codec) Ready(m any) (any, error) {
	r, ours := m.(*Response)
	if !ours || r.Ctx == nil || r.Size <= LargeMessage {
		return m, nil
	}
	t, err := c.work.Enter(r.Ctx)
	if err != nil {
		if r.Release != nil {
			r.Release()
		}
		return nil, err
	}
	defer t.Leave()
	out, err := c.response(r)
	return Encoded(out), err
}

// Unmarshal implements encoding.CodecV2. It runs before any interceptor, so it takes care of its own panics.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.panicked(context.Background(), p)
		}
	}()
	n := data.Len()
	c.received.Add(float64(n))
	g, ok := v.(*Guarded)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	rest := framecodec.Beside(data, g.V)
	read := func(func() error) error { return c.unmarshal(data, rest, g) }
	if g.Ctx == nil {
		return read(nil)
	}
	if err := c.work.Do(g.Ctx, rest, Burst, read); err != nil {
		g.Err = err // the call ended while it waited
	}
	return nil
}

// unmarshal reads a request that nothing is known of yet.
func (c Codec) unmarshal(data mem.BufferSlice, rest int, g *Guarded) error {
	if c.sets.unmarshal(c.CodecV2, data, rest, g) {
		return nil
	}
	structs := int64(0)
	if m, ok := g.V.(proto.Message); ok && rest > countedRequest {
		limit := c.overheadLimit
		if structs = framecodec.Overhead(data, m, limit); structs > limit {
			g.Err = apierr.Quota(apierr.ReasonRequestTooLarge, "request", fmt.Sprintf(
				"its parts, such as regions and rings, or curves and pixels, would take more than %d bytes of "+
					"memory, which is what the most regions and vertices take that are allowed", limit))
			return nil
		}
	}
	if g.Ctx != nil {
		n := int64(0)
		if rest > countedRequest {
			n = compiled*int64(rest) + structs
		}
		if !budget.RequestOf(g.Ctx).Hold(n) {
			g.Err = apierr.Quota(apierr.ReasonHostMemory, "host memory", fmt.Sprintf(
				"requests under way leave no room for the %d bytes that this one takes", n))
			return nil
		}
	}
	if err := c.CodecV2.Unmarshal(data, g.V); err != nil {
		why := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:")) // it has a space of some kind there
		g.Err = apierr.Refuse("request", nil, "the message can't be read: %s", why)
	}
	return nil
}

// Guarded is a request on its way into v. The codec puts into err what is wrong with it: an error that it returned
// itself would reach the client as one of the server. Ctx is that of the call; without one no place of the pool is
// taken.
type Guarded struct {
	V   any
	Ctx context.Context
	Err error
}

const (
	// countedRequest is how large a message is, the payload of a frame aside, whose structs are worth a look.
	countedRequest = 256 << 10
	// A message is there once when it was read, and once more as what it is compiled to, such as a set of regions.
	compiled = 2
)

// OverheadOf is what the structs of the largest request take that keeps to the bounds.
func OverheadOf(b polygon.Bounds) int64 {
	const limits = polygon.MaxLimits * int64(unsafe.Sizeof(""))
	return int64(b.MaxRegions)*(regionBytes+limits) + int64(b.MaxVertices/3+1)*ringBytes + 1<<20
}

// ReceiveMessage is RecvMsg with a look at what the message would take in memory.
func ReceiveMessage(stream grpc.ServerStream, in proto.Message) error {
	g := &Guarded{V: in, Ctx: stream.Context()}
	if err := stream.RecvMsg(g); err != nil {
		return err
	}
	return g.Err
}
