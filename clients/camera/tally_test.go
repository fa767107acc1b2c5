package main

import (
	"strings"
	"testing"
	"time"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// Parts are late by the server's clock or by this program's, which sees what the server that stood still doesn't; they
// are marked, and counted.
func TestLateByEitherClock(t *testing.T) {
	budget := 10 * time.Millisecond
	for _, x := range []struct {
		budget  *time.Duration
		server  bool
		latency time.Duration
		late    bool
	}{
		{nil, false, 5 * time.Millisecond, false}, {nil, false, 4151 * time.Millisecond, true}, {nil, true, 1, true},
		{&budget, false, 9 * time.Millisecond, false}, {&budget, false, 11 * time.Millisecond, true},
	} {
		var out, errs strings.Builder
		s := newStream(&streamCmd{Budget: x.budget}, &env{stdout: &out, stderr: &errs}, newSeconds())
		s.tally.begin("one")
		s.tally.add(outcome{part: part{id: "one-0"}, verdict: "PASS", latency: x.latency,
			result: &polyscanv1.PartResult{Late: x.server}})
		err := s.tally.summary(&out)
		passed := !x.late || x.budget == nil
		if strings.Contains(out.String(), ", 1 late") != x.late || strings.Contains(out.String(), "late: ") != x.late ||
			(err == nil) != passed || strings.Contains(out.String(), "1 PASS") != passed {
			t.Errorf("%+v: %v\n%s%s", x, err, &out, &errs)
		}
	}
}
