// What a call holds of the requests that it has read.

package budget

import (
	"context"
	"sync"
)

// Request is what the message takes that a call has read last. Its methods may be called at the same time.
type Request struct {
	mu sync.Mutex
	held
	share func() // lets go of what others hold as well; nil: nothing
	ended bool
}

type requestKey struct{}

// WithRequest returns a context in which [RequestOf] finds a Request, and what gives back what that holds at the end of
// the call.
func (b *Budget) WithRequest(ctx context.Context) (_ context.Context, end func()) {
	r := &Request{held: held{of: b, kind: Requests, reserved: Unwritten}}
	return context.WithValue(ctx, requestKey{}, r), func() { r.hold(0, nil, true) }
}

// RequestOf is the Request of a call; nil where it has none.
func RequestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Hold takes n bytes in place of those before, and says whether there was room. A nil Request has room.
func (r *Request) Hold(n int64) bool { return r == nil || r.hold(n, nil, false) }

// More takes n bytes beside those that are held, for as long as these, and says whether there was room. They count as
// reserved until Written is told of them. Of a negative number it gives some back, of those that are not written first.
// A nil Request has room.
func (r *Request) More(n int64) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < 0 && !r.ended {
		bytes := max(r.bytes+n, 0) // another message may have come
		r.became(bytes, min(r.there, bytes))
		return true
	}
	if r.ended || !r.of.admit(Unwritten, n, r.of.smallMessages()) {
		return r.ended
	}
	r.bytes += n
	return true
}

// Written is told that n bytes are there of those that More took.
func (r *Request) Written(n int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.became(r.bytes, min(r.there+n, r.bytes))
}

// Share makes the call hold what others hold as well, who have counted it, in place of what it held before. letGo is
// called once, when the call doesn't hold it any more; a nil Request never does.
func (r *Request) Share(letGo func()) {
	if r == nil {
		letGo()
		return
	}
	r.hold(0, letGo, false)
}

func (r *Request) hold(n int64, share func(), end bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.became(0, 0)
	if r.share != nil {
		r.share()
		r.share = nil
	}
	if r.ended = r.ended || end; r.ended {
		if share != nil {
			share()
		}
		return true
	}
	r.share = share
	if n == 0 {
		return true
	}
	if !r.of.admit(Requests, n, r.of.smallMessages()) { // it is here, and has found room once
		return false
	}
	r.bytes, r.there, r.lived, r.collections = n, n, 0, r.of.Heap.collectionsBefore(0)
	return true
}
