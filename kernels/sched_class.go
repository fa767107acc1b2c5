// Classes of jobs, and how they and their deadlines travel with contexts.

package kernels

import (
	"context"
	"fmt"
	"time"
)

// Class says how urgent a job is. Jobs of a class go before all jobs of the classes behind it: line-scan first, then
// interactive, then batch.
type Class uint8

const (
	// Interactive is a frame that someone waits for.
	Interactive Class = iota
	// LineScan is a strip of a conveyor, which doesn't wait. Such jobs are never shed and never refused for lateness.
	LineScan
	// Batch is work that may take as long as it takes.
	Batch

	numClasses
)

func (c Class) String() string {
	switch c {
	case Interactive:
		return "interactive"
	case LineScan:
		return "line-scan"
	case Batch:
		return "batch"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// byUrgency is the classes in order, the most urgent first.
var byUrgency = [numClasses]Class{LineScan, Interactive, Batch}

// urgency is the greater the more urgent the class is. It is the priority of the class's streams.
func (c Class) urgency() int {
	switch c {
	case LineScan:
		return 2
	case Interactive:
		return 1
	}
	return 0
}

// schedule is what a context says about jobs.
type schedule struct {
	class    Class
	deadline time.Time // the soft one; zero where there is none
	client   string
	owner    string
	made     func(bytes int64)
}

type scheduleKey struct{}

func scheduleOf(ctx context.Context) schedule {
	s, _ := ctx.Value(scheduleKey{}).(schedule)
	return s
}

// WithClass makes jobs under the context ones of class c; without it they are [Interactive].
func WithClass(ctx context.Context, c Class) context.Context {
	s := scheduleOf(ctx)
	s.class = c
	return context.WithValue(ctx, scheduleKey{}, s)
}

// WithDeadline gives jobs under the context a deadline that orders and admits them, and is counted when it is missed,
// but does not end them as that of [context.WithDeadline] does. Where a context has both, the earlier one counts.
func WithDeadline(ctx context.Context, t time.Time) context.Context {
	s := scheduleOf(ctx)
	s.deadline = t
	return context.WithValue(ctx, scheduleKey{}, s)
}

// WithClient names the client for whom jobs under the context are: those of a class share the device by client, as
// [Device.Do] says. Names are compared and mean nothing else. Jobs without one are those of one client.
func WithClient(ctx context.Context, name string) context.Context {
	s := scheduleOf(ctx)
	s.client = name
	return context.WithValue(ctx, scheduleKey{}, s)
}

// WithOwner names the owner of what jobs under the context leave for others ([Queue.NewMemo]): only jobs of the same
// owner find it, so that nobody learns from what is there already what others compute. Jobs without one share theirs.
func WithOwner(ctx context.Context, name string) context.Context {
	s := scheduleOf(ctx)
	s.owner = name
	return context.WithValue(ctx, scheduleKey{}, s)
}

// WithMade returns a context under which made is told of host memory for results, when it is made: jobs wait before
// they make any, and what they may make at most is known before what they do.
func WithMade(ctx context.Context, made func(bytes int64)) context.Context {
	s := scheduleOf(ctx)
	s.made = made
	return context.WithValue(ctx, scheduleKey{}, s)
}

// Made tells whom [WithMade] has named.
func Made(ctx context.Context, bytes int) {
	if made := scheduleOf(ctx).made; made != nil {
		made(int64(bytes))
	}
}

// ClassOf returns what [WithClass] and [WithClient] have said of a context.
func ClassOf(ctx context.Context) (c Class, client string) {
	s := scheduleOf(ctx)
	return s.class, s.client
}

// deadlineOf is the deadline that jobs under the context are ordered by; zero where there is none.
func deadlineOf(ctx context.Context, s schedule) time.Time {
	if hard, ok := ctx.Deadline(); ok && (s.deadline.IsZero() || hard.Before(s.deadline)) {
		return hard
	}
	return s.deadline
}
