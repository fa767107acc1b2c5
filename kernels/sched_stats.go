// What the scheduler tells.

package kernels

import "time"

// SchedStats is the state of a device's scheduler, by class.
type SchedStats [numClasses]ClassStats

// ClassStats is the part of [SchedStats] of one class. Waited and the fields behind it count from [Open] on.
type ClassStats struct {
	Running  int           // jobs that have begun and not ended
	Waiting  int           // jobs in the queue, those included that gave up their stream in [Queue.Yield]
	Admitted int64         // jobs that began
	Waited   time.Duration // of those, from arrival to begin, in all
	Done     int64         // jobs that began and ended, however
	Missed   int64         // jobs whose deadline passed before they were done; not those that were refused or shed
	Shed     int64         // jobs refused with an [*OverloadError]
	Refused  int64         // jobs refused with a [*DeadlineError] or, where they never fit, a [*CapacityError]
}

// Sched returns the state of the scheduler now.
func (d *Device) Sched() SchedStats {
	s := &d.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	var out SchedStats
	for c := range s.classes {
		q := &s.classes[c]
		out[c] = q.stats
		out[c].Running, out[c].Waiting = len(q.running), len(q.waiting)
	}
	return out
}

// JobEvent says what came of a job. See [Config.Observe].
type JobEvent struct {
	Label  string
	Class  Class
	Units  int64
	Waited time.Duration // from its arrival to its begin, or to its end where it never began
	Ran    time.Duration // from its begin to its end, without Paused; 0 where it never began
	Paused time.Duration // that it gave to others in [Queue.Yield]
	Late   time.Duration // from its deadline to its end; 0 where it made it or has none
	// Err is what Do returned: nil for a job that was done, a [*DeadlineError], [*CapacityError] or [*OverloadError]
	// for one that was refused, and else why it failed. Where its function panicked it is [ErrEnded].
	Err error
}
