// The answers to /metrics: one for all who ask at the same time.

package server

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/server/internal/hostwork"
)

// scrapes answers /metrics. Those who ask while an answer is made share the next one, which is made at a place of the
// pool of host work; so however many ask, one core at most is busy with it, and who doesn't read holds memory that
// others hold, too.
type scrapes struct {
	handler  http.Handler // makes an answer
	work     *hostwork.Pool
	panicked func(ctx context.Context, p any) error // counts a panic, and says what to answer

	mu     sync.Mutex
	held   int // answers that were not read to their ends
	making map[bool]bool
	next   map[bool]*scrape // by whether it is compressed; nil: nobody waits for one
	last   map[bool]*scrape // that was made
}

// scrape is an answer. Its users count; it is not changed once it is ready.
type scrape struct {
	ready  chan struct{}
	header http.Header
	code   int
	body   bytes.Buffer
	users  int // guarded by scrapes.mu
}

// maxScrapes is how many answers may be held: each is some 100 kB. Whoever asks beyond that gets the last one.
const maxScrapes = 8

func newScrapes(h http.Handler, work *hostwork.Pool, panicked func(context.Context, any) error) *scrapes {
	return &scrapes{handler: h, work: work, panicked: panicked, making: map[bool]bool{}, next: map[bool]*scrape{},
		last: map[bool]*scrape{}}
}

// ServeHTTP implements http.Handler.
func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.join(strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
	defer s.leave(p)
	select {
	case <-p.ready:
	case <-r.Context().Done():
		return
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.WriteHeader(p.code)
	w.Write(p.body.Bytes())
}

// join finds the answer for somebody who asks now.
func (s *scrapes) join(compressed bool) *scrape {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.next[compressed]
	switch {
	case p == nil && s.held >= maxScrapes && s.last[compressed] != nil:
		p = s.last[compressed]
	case p == nil:
		p = &scrape{ready: make(chan struct{}), header: http.Header{}, code: http.StatusOK}
		s.next[compressed] = p
		if !s.making[compressed] {
			s.making[compressed] = true
			go s.make(compressed)
		}
	}
	if p.users++; p.users == 1 {
		s.held++
	}
	return p
}

func (s *scrapes) leave(p *scrape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		s.held--
	}
}

// make makes answers until nobody waits for one.
func (s *scrapes) make(compressed bool) {
	for {
		s.mu.Lock()
		p := s.next[compressed]
		s.next[compressed] = nil
		if p == nil {
			s.making[compressed] = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := s.fill(p, compressed); err != nil {
			clear(p.header)
			p.body.Reset()
			p.code = http.StatusServiceUnavailable
			p.body.WriteString("no metrics: " + err.Error() + "\n")
		}
		close(p.ready)
		s.mu.Lock()
		s.last[compressed] = p
		s.mu.Unlock()
	}
}

// fill makes an answer. Those who wait for it have a fair share of the places, as one client.
func (s *scrapes) fill(p *scrape, compressed bool) (err error) {
	const patience = 10 * time.Second // as long as an answer may take
	ctx, cancel := context.WithTimeout(kernels.WithClient(context.Background(), "metrics"), patience)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked(ctx, r)
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return err
	}
	if compressed {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	return s.work.Do(ctx, 1, 0, func(func() error) error {
		s.handler.ServeHTTP(p, r)
		return nil
	})
}

// Header implements http.ResponseWriter.
func (p *scrape) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *scrape) WriteHeader(code int) { p.code = code }

// Write implements http.ResponseWriter.
func (p *scrape) Write(b []byte) (int, error) { return p.body.Write(b) }
