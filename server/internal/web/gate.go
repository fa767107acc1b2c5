package web

import (
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The transcoder reads a request in one goroutine and writes its answer in another, and both may end the call: where a
// body that can't be read is noticed after the call has ended otherwise, it would write an answer whose connection is
// gone, and take the process down with it. A gate lets one goroutine of a call into the transcoder at a time, but for
// the time in which it waits for the client, and nobody once the call has ended.
type gate struct {
	control *http.ResponseController

	mu     sync.Mutex  // held within the transcoder
	inside atomic.Bool // the reader of the request holds it

	state   sync.Mutex
	changed sync.Cond
	reading bool
	over    bool
}

func newGate(c *http.ResponseController) *gate {
	g := &gate{control: c}
	g.changed.L = &g.state
	return g
}

type gateKey struct{}

// waiting runs f, which waits for the client, outside the gate.
func (g *gate) waiting(f func() (int, error)) (int, error) {
	if !g.inside.Load() {
		return f()
	}
	g.inside.Store(false)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.inside.Store(true)
	}()
	return f()
}

// end waits until nobody reads the request any more.
func (g *gate) end() {
	g.state.Lock()
	defer g.state.Unlock()
	g.over = true
	if g.reading { // it may wait for a client that says nothing
		g.control.SetReadDeadline(time.Unix(1, 0))
	}
	for g.reading {
		g.changed.Wait()
	}
}

// through is next, whose request and answer go through the gate of its call.
func through(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, ok := r.Context().Value(gateKey{}).(*gate)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		out := &gatedWriter{of: w, gate: g, header: http.Header{}}
		r.Body = gatedBody{r.Body, g}
		defer func() {
			g.end()
			out.copyHeader() // the trailers
		}()
		next.ServeHTTP(out, r)
	})
}

// gatedBody is a request as the transcoder gives it.
type gatedBody struct {
	io.ReadCloser
	gate *gate
}

// Read implements io.Reader.
func (b gatedBody) Read(p []byte) (int, error) {
	g := b.gate
	g.state.Lock()
	if g.over {
		g.state.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	g.reading = true
	g.state.Unlock()
	defer func() {
		g.state.Lock()
		g.reading = false
		g.state.Unlock()
		g.changed.Broadcast()
	}()
	g.mu.Lock()
	g.inside.Store(true)
	defer func() {
		g.inside.Store(false)
		g.mu.Unlock()
	}()
	return b.ReadCloser.Read(p)
}

// gatedWriter is where the answer goes. Its header is its own until it is written.
type gatedWriter struct {
	of     http.ResponseWriter
	gate   *gate
	header http.Header
	wrote  bool
}

// Header implements http.ResponseWriter.
func (w *gatedWriter) Header() http.Header { return w.header }

func (w *gatedWriter) copyHeader() { maps.Copy(w.of.Header(), w.header) }

// WriteHeader implements http.ResponseWriter.
func (w *gatedWriter) WriteHeader(code int) {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	w.wrote = true
	w.copyHeader()
	w.of.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *gatedWriter) Write(b []byte) (int, error) {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	if !w.wrote {
		w.wrote = true
		w.copyHeader()
	}
	return w.of.Write(b)
}

// Flush implements http.Flusher.
func (w *gatedWriter) Flush() {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	if f, ok := w.of.(http.Flusher); ok {
		f.Flush()
	}
}
