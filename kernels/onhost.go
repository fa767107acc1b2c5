// Work of jobs that the host does.

package kernels

import "context"

// OnHost runs f, which computes on the host for longer than a millisecond or so, on a place of Config.HostPlace, in the
// midst of a job. f is to call pause about every millisecond: it gives the place back, lets other jobs go first as
// [Queue.Yield] does, and waits for a place again; so nobody who has a place waits for a stream. An error of pause ends
// the work, and comes out of OnHost where f returns it.
func (q *Queue) OnHost(f func(pause func() error) error) error {
	return q.dev.onHost(q.ctx, q.Yield, f)
}

// OnHost is [Queue.OnHost] outside of a job: nobody waits for a stream between pieces.
func (d *Device) OnHost(ctx context.Context, f func(pause func() error) error) error {
	return d.onHost(ctx, func() error { return context.Cause(ctx) }, f)
}

func (d *Device) onHost(ctx context.Context, between func() error, f func(pause func() error) error) (err error) {
	if d.place == nil {
		return f(between)
	}
	var leave func() // nil: there is no place
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	enter := func() (err error) {
		leave, err = d.place(ctx)
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	return f(func() error {
		leave()
		leave = nil
		if err := between(); err != nil {
			return err
		}
		return enter()
	})
}
