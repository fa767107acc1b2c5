package kernels

import (
	"errors"
	"fmt"
	"time"

	"github.com/polyscan/polyscan/kernels/driver"
)

// ErrClosed is returned by calls on a closed device.
var ErrClosed = errors.New("kernels: device is closed")

// ErrEnded is matched by the error of calls on a [Queue] whose job has ended.
var ErrEnded = errors.New("kernels: the queue's job has ended")

// ErrLeak is matched by the error of [Device.Close] when memory was still in use.
var ErrLeak = errors.New("kernels: device memory still in use")

// ErrOverrun is matched by the error of [Device.Do], for the job's memory, and of [Device.Close], for kept memory and
// residents, when [Config.Poison] found that something wrote beyond the end.
var ErrOverrun = errors.New("kernels: device memory written beyond its end")

// ArgError says which argument of an op was refused, and why.
type ArgError = driver.ArgError

func refuse(op, field string, value any, reason string) error {
	return &ArgError{Op: op, Field: field, Value: value, Reason: reason}
}

// CapacityError says that a job, a kept block or a resident does not fit in the device's memory. It matches
// [driver.ErrOutOfMemory].
type CapacityError struct {
	Label     string
	Needed    int64 // bytes asked for
	Available int64 // bytes free at the time
	Evictable int64 // bytes of residents that nobody held; evicting them would not have helped
	Total     int64 // bytes reserved by the device
	Largest   int64 // bytes of the largest free block; less than Available where the memory is in pieces
	Ahead     int   // requests that waited before this one
	// RetryAfter is when what is missing is likely to be back, from how fast memory came back lately; 0 where waiting
	// can't help.
	RetryAfter time.Duration

	unused bool // no job had any memory
}

// noneUsed reports whether there was no room although no job had any memory that could come back.
func noneUsed(err error) bool {
	var c *CapacityError
	return errors.As(err, &c) && c.unused
}

// Never reports whether waiting can't help, because the need exceeds all there is.
func (e *CapacityError) Never() bool { return e.Needed > e.Total }

func (e *CapacityError) Error() string {
	s := fmt.Sprintf("kernels: %s needs %d bytes of device memory; %d of %d are available",
		e.Label, e.Needed, e.Available, e.Total)
	if e.Evictable > 0 {
		s += fmt.Sprintf(" and %d evictable", e.Evictable)
	}
	if e.Largest < e.Available {
		s += fmt.Sprintf(", at most %d in one piece", e.Largest)
	}
	if e.Ahead > 0 {
		s += fmt.Sprintf(", and %d requests are ahead", e.Ahead)
	}
	return s + tryAgain(e.RetryAfter)
}

// Is makes errors.Is(err, driver.ErrOutOfMemory) true.
func (e *CapacityError) Is(target error) bool { return target == driver.ErrOutOfMemory }

// DeadlineError says that a job can't make its deadline, by what such jobs took before and by those ahead of it. It is
// refused before it is uploaded.
type DeadlineError struct {
	Label     string
	Class     Class
	Estimate  time.Duration // until it would be done
	Remaining time.Duration // until its deadline
	// RetryAfter is when those ahead are likely to be done; 0 where none are: only a later deadline helps.
	RetryAfter time.Duration
}

func (e *DeadlineError) Error() string {
	s := fmt.Sprintf("kernels: %s (%v) would be done in %v, and its deadline is in %v",
		e.Label, e.Class, e.Estimate.Round(time.Microsecond), e.Remaining.Round(time.Microsecond))
	return s + tryAgain(e.RetryAfter)
}

// RunError says that a job has had the device for longer than [Config.LongestRun].
type RunError struct {
	Label string
	Class Class
	Limit time.Duration
}

func (e *RunError) Error() string {
	return fmt.Sprintf("kernels: %s (%v) has run for %v, which is the limit of its class", e.Label, e.Class, e.Limit)
}

// OverloadError says that a job was refused because too many wait, and others go before it.
type OverloadError struct {
	Label      string
	Class      Class
	Waiting    int           // jobs in the queue, without it
	RetryAfter time.Duration // when those of its class are likely to be done
}

func (e *OverloadError) Error() string {
	return fmt.Sprintf("kernels: no room for %s (%v): %d jobs wait%s", e.Label, e.Class, e.Waiting,
		tryAgain(e.RetryAfter))
}

func tryAgain(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf("; try again in %v", d.Round(time.Millisecond))
}
