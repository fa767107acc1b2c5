package clients

// Watching a server: what it does, for those who send it no frames.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc/codes"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// The defaults of [WatchOptions].
const (
	defaultHeartbeat   = time.Second // of a server
	silentHeartbeats   = 3
	defaultWatchOutage = 30 * time.Second
	// firstSilence is how long the first message of a call may take at least: there may be a connection to make.
	firstSilence = 5 * time.Second
	// watchRetry is the time from one attempt to the next.
	watchRetry = 100 * time.Millisecond
)

// WatchOptions adjust [Client.Watch]. The zero value is fine.
type WatchOptions struct {
	// Silence is how long the server may say nothing, not even a heartbeat, before it counts as lost; 0 means three
	// heartbeats. It counts from the first message; that may take 5 s at least.
	Silence time.Duration
	// Outage is how long a server that was lost is tried anew; 0 means 30 s. Negative means not at all.
	Outage time.Duration
}

// WatchUpdate is one thing that a watch reports. Message or Lost is set.
type WatchUpdate struct {
	Message *polyscanv1.WatchResponse
	// Lost is why the server can't be heard any more. It is tried anew: what comes next is its first message, or the
	// error that ends the watch.
	Lost error
}

// ErrSilent is the cause of a [WatchUpdate.Lost] after the server said nothing for too long.
var ErrSilent = errors.New("clients: the server is silent")

// Watch yields what the server shows: first its state, then what happens, until ctx ends or the loop over it. When the
// server is lost, that is yielded at once; when it is back, the watch goes on behind the last event that was seen, and
// a message with LostEvents tells of those that the server does not have any more. An error comes last.
func (c *Client) Watch(ctx context.Context, req *polyscanv1.WatchRequest,
	o WatchOptions) iter.Seq2[WatchUpdate, error] {
	return func(yield func(WatchUpdate, error) bool) {
		if o.Silence < 0 {
			yield(WatchUpdate{}, fmt.Errorf("clients: WatchOptions.Silence is %v: must not be negative", o.Silence))
			return
		}
		w := &watch{client: c, req: cloneRequest(req), yield: yield, silence: o.Silence}
		if o.Outage == 0 {
			o.Outage = defaultWatchOutage
		}
		if w.silence == 0 {
			w.silence = silentHeartbeats * defaultHeartbeat
			if h := req.GetHeartbeat(); h != nil {
				w.silence = silentHeartbeats * h.AsDuration()
			}
		}
		for lost := (time.Time{}); ; {
			heard, err := w.call(ctx)
			if err == nil {
				return // the loop has ended
			}
			if heard {
				lost = time.Time{}
			}
			over := ctx.Err() != nil || !w.begun || !again(err)
			if !over && lost.IsZero() {
				if lost = time.Now(); o.Outage > 0 && !yield(WatchUpdate{Lost: err}, nil) {
					return
				}
			}
			if over || time.Since(lost) >= o.Outage {
				yield(WatchUpdate{}, err)
				return
			}
			select {
			case <-time.After(watchRetry):
			case <-ctx.Done():
			}
		}
	}
}

// again says that a watch may succeed later that has ended with err.
func again(err error) bool {
	e := AsError(err)
	return errors.Is(err, ErrSilent) || e != nil && (e.Code == codes.Unavailable || e.Code == codes.ResourceExhausted)
}

func cloneRequest(req *polyscanv1.WatchRequest) *polyscanv1.WatchRequest {
	return &polyscanv1.WatchRequest{
		Names: req.GetNames(), Recipes: req.GetRecipes(), Kinds: req.GetKinds(), Numbers: req.GetNumbers(),
		VerdictRate: req.GetVerdictRate(), Heartbeat: req.GetHeartbeat(), Preview: req.GetPreview(), Resume: req.GetResume(),
	}
}

// watch is a watch over the calls that it takes.
type watch struct {
	client  *Client
	req     *polyscanv1.WatchRequest
	yield   func(WatchUpdate, error) bool
	silence time.Duration
	begun   bool // the server has answered once
}

// call makes one call, and returns what ended it: nil where that was the loop. heard says that the server said
// something.
func (w *watch) call(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(max(w.silence, firstSilence), func() { cancel(ErrSilent) })
	defer timer.Stop()
	failed := func(err error) (bool, error) {
		if errors.Is(context.Cause(ctx), ErrSilent) {
			return heard, fmt.Errorf("%w: nothing came for %v", ErrSilent, w.silence)
		}
		return heard, wrap(err)
	}
	stream, err := w.client.Monitor.Watch(ctx, w.req)
	if err != nil {
		return failed(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return failed(err)
		}
		timer.Stop() // the caller may take its time
		if s := m.GetStarted(); s != nil {
			w.req.Resume = &polyscanv1.WatchResume{ServerId: s.GetServerId()}
		}
		w.begun, heard = true, true
		w.req.Resume.Sequence = m.GetSequence()
		if !w.yield(WatchUpdate{Message: m}, nil) {
			return heard, nil
		}
		timer.Reset(w.silence)
	}
}
