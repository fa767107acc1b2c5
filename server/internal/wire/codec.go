// The codec: where messages meet the transport's buffers.

package wire

import (
	"context"
	"fmt"
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
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/observe"
)

// Response is a response on its way to the codec, which measures from start to the end of marshalling.
type Response struct {
	proto.Message
	Start time.Time
	// Release gives back what the response took of the budget for host memory, once it has been written to the socket
	// or never will be. It may be nil.
	Release func()
	// Held is called when a marshalled response begins to wait for its client, with the function that ends the waiting;
	// forgotten is to be called when it has ended. It may be nil.
	Held func(end func()) (forgotten func())
}

// hold keeps what the response took until the transport has written it.
func (r *Response) hold(out mem.BufferSlice) {
	if r.Release == nil {
		return
	}
	if out.Len() <= budget.SmallShare {
		r.Release()
		return
	}
	largest := 0
	for i, b := range out {
		if b.Len() > out[largest].Len() {
			largest = i
		}
	}
	var forgotten func()
	release := sync.OnceFunc(func() { r.Release() })
	if r.Held != nil {
		forgotten = r.Held(release)
	}
	b := out[largest]
	out[largest] = framecodec.NewBuffer(b.ReadOnlyData(), func() {
		b.Free()
		release()
		if forgotten != nil {
			forgotten()
		}
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
	panicked       func(context.Context, any) error // makes an error of a panic
}

func NewCodec(m *observe.Metrics, overheadLimit int64, panicked func(context.Context, any) error) Codec {
	return Codec{
		CodecV2:       framecodec.Codec(),
		received:      m.Bytes.WithLabelValues("received"),
		sent:          m.Bytes.WithLabelValues("sent"),
		metrics:       m,
		overheadLimit: overheadLimit,
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
	r, ours := v.(*Response)
	if ours {
		v = r.Message
	}
	out, err := c.CodecV2.Marshal(v)
	if ours {
		if err == nil {
			r.hold(out)
		} else if r.Release != nil {
			r.Release()
		}
		c.metrics.Stage("encode", time.Since(r.Start))
	}
	if err == nil {
		c.sent.Add(float64(out.Len()))
	}
	return out, err
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
	if m, ok := g.V.(proto.Message); ok && n > smallMessage {
		if limit := c.overheadLimit; framecodec.Overhead(data, m, limit) > limit {
			g.Err = apierr.Quota(apierr.ReasonRequestTooLarge, "request", fmt.Sprintf(
				"its parts, such as regions and rings, or curves and pixels, would take more than %d bytes of "+
					"memory, which is what the most regions and vertices take that are allowed", limit))
			return nil
		}
	}
	if err := c.CodecV2.Unmarshal(data, g.V); err != nil {
		g.Err = apierr.Refuse("request", nil, "the message can't be read: %v", err)
	}
	return nil
}

// Guarded is a request on its way into v. The codec puts into err what is wrong with it: an error that it returned
// itself would reach the client as one of the server.
type Guarded struct {
	V   any
	Err error
}

// smallMessage is how large a message is whose structs are not worth a look.
const smallMessage = 1 << 20

// OverheadOf is what the structs of the largest request take that keeps to the bounds.
func OverheadOf(b polygon.Bounds) int64 {
	const (
		limit   = polygon.MaxLimits * int64(unsafe.Sizeof(""))
		pointer = int64(unsafe.Sizeof(uintptr(0)))
	)
	return int64(b.MaxRegions)*(int64(unsafe.Sizeof(pb.Region{}))+pointer+limit) +
		int64(b.MaxVertices/3+1)*(int64(unsafe.Sizeof(pb.Ring{}))+pointer) + smallMessage
}

// ReceiveMessage is RecvMsg with a look at what the message would take in memory.
func ReceiveMessage(stream grpc.ServerStream, in *framecodec.Message) error {
	g := &Guarded{V: in}
	if err := stream.RecvMsg(g); err != nil {
		return err
	}
	return g.Err
}
