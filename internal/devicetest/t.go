// What the suite needs of a *testing.T, so that it can be run to fail and be watched.

package devicetest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// T is the part of [testing.T] that the suite uses. [On] makes one of a *testing.T and [Watch] one that only records.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Run(name string, f func(T)) bool
}

// On is t as a [T].
func On(t *testing.T) T { return onT{t} }

type onT struct{ *testing.T }

func (t onT) Run(name string, f func(T)) bool {
	return t.T.Run(name, func(t *testing.T) { f(onT{t}) })
}

// Report is what happened in a run that was watched.
type Report struct {
	Ran      []string // names of all subtests, "a/b"
	Failed   []string // of those that failed themselves, each once; "" is the outermost
	Messages []string // of failures, "a/b: message"
	Logs     []string
}

// FailedUnder reports whether anything failed in the subtest of that name or within it.
func (r *Report) FailedUnder(name string) bool {
	return slices.ContainsFunc(r.Failed, func(f string) bool { return f == name || strings.HasPrefix(f, name+"/") })
}

// Watch runs f and records its failures, which fail nothing. A panic is recorded as a failure. It is what shows that a
// check can fail.
func Watch(f func(T)) *Report {
	r := &Report{}
	(&watched{report: r}).run(f)
	return r
}

type watched struct {
	report *Report
	name   string
	failed bool
}

// run calls f on a goroutine of its own, which Fatalf ends.
func (w *watched) run(f func(T)) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				w.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f(w)
	}()
	<-done
	return !w.failed
}

func (w *watched) Helper() {}

func (w *watched) Logf(format string, args ...any) {
	w.report.Logs = append(w.report.Logs, w.name+": "+fmt.Sprintf(format, args...))
}

func (w *watched) Errorf(format string, args ...any) {
	if !w.failed {
		w.failed = true
		w.report.Failed = append(w.report.Failed, w.name)
	}
	w.report.Messages = append(w.report.Messages, w.name+": "+fmt.Sprintf(format, args...))
}

func (w *watched) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

func (w *watched) Run(name string, f func(T)) bool {
	if w.name != "" {
		name = w.name + "/" + name
	}
	w.report.Ran = append(w.report.Ran, name)
	return (&watched{report: w.report, name: name}).run(f)
}
