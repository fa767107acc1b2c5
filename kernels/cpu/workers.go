// Workers: the threads that share an op, and the memory they work in.

package cpu

import (
	"sync"
)

// scratch is the working memory of one worker. It is kept by the device between ops, so that ops allocate nothing in
// the steady state. The content is undefined, but for tables, which are zero between uses.
type scratch struct {
	reduce reduceScratch // first, so that it is aligned as the allocation is
	rows   rowScratch
	tiles  tileScratch
	pace   pace
}

func (d *device) lease() *scratch {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		s := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return s
	}
	return new(scratch)
}

func (d *device) giveBack(s *scratch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.idle = append(d.idle, s)
	}
}

// share runs work on the calling goroutine and on up to n-1 helpers, and waits for all. Each call of work takes
// pieces of the op from where it finds them until none is left; whoever comes late finds none. It returns the
// first error; a panic in work becomes an error.
func (d *device) share(name string, n int, stop *stopFlag, work func(*scratch) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	one := func() {
		s := d.lease()
		s.pace = pace{stop: stop, left: paceNs}
		err := guard(name, func() error { return work(s) })
		if err == nil {
			// After an error the scratch may hold anything; the next worker starts with a fresh one.
			d.giveBack(s)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
	}
	for range n - 1 {
		select {
		case <-d.helpers:
			wg.Go(func() {
				defer func() { d.helpers <- struct{}{} }()
				one()
			})
			continue
		default:
		}
		break
	}
	one()
	wg.Wait()
	return first
}
