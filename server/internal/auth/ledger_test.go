package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

func ledgerOf(t *testing.T, file string, totals Amounts) *ledger {
	t.Helper()
	c, err := parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	l.totals = totals
	l.list(c.tenants)
	return l
}

// takes takes one at a time until it is refused.
func takes(l *ledger, tenant string, what Resource) (n int64, err error) {
	for {
		if _, err := l.take(tenant, what, 1); err != nil {
			return n, err
		}
		n++
	}
}

func TestQuotaToTheLimit(t *testing.T) {
	l := ledgerOf(t, "x name=a sessions=4 frame-bytes=1000\ny name=b streams=0", Amounts{})
	n, err := takes(l, "a", Sessions)
	if n != 4 {
		t.Errorf("%d of 4", n)
	}
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted || s.Message() != "tenant a: sessions: 4 of 4 are in use" {
		t.Errorf("%v", s)
	}
	found := 0
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			m := d.GetMetadata()
			if d.GetReason() == apierr.ReasonTenantQuota && m["tenant"] == "a" && m["resource"] == "sessions" &&
				m["used"] == "4" && m["limit"] == "4" {
				found++
			}
		case *errdetails.QuotaFailure:
			if v := d.GetViolations()[0]; v.GetSubject() == "tenant a: sessions" && v.GetDescription() == "4 of 4 are in use" {
				found++
			}
		}
	}
	if found != 2 {
		t.Errorf("details %v", s.Details())
	}
	release, err := l.take("a", FrameBytes, 600)
	if err != nil {
		t.Fatal(err)
	}
	const tooMany = "401 more are wanted: 600 of 1000"
	if _, err := l.take("a", FrameBytes, 401); err == nil || !strings.Contains(err.Error(), tooMany) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := l.take("a", FrameBytes, 400); err != nil {
		t.Errorf("to the limit: %v", err)
	}
	release()
	if _, err := l.take("a", FrameBytes, 601); err == nil {
		t.Error("more than was given back")
	}
	if _, err := l.take("a", FrameBytes, 600); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	if _, err := l.take("b", Streams, 1); err == nil {
		t.Error("a limit of 0 takes one")
	}
}

// Half of what the server has is set aside in equal parts for the tenants that may run.
func TestSetAside(t *testing.T) {
	const file = "x name=a\ny name=b\nz name=little sessions=1\nv name=viewer role=view"
	l := ledgerOf(t, file, Amounts{Sessions: 16})
	// A share is 16 / 6 = 2: b keeps 2, and little the 1 that it may have.
	n, err := takes(l, "a", Sessions)
	const aside = "13 are in use, and 3 of the server's 16 are set aside for other tenants"
	if n != 13 || !strings.Contains(err.Error(), aside) {
		t.Errorf("a takes %d: %v", n, err)
	}
	if n, _ := takes(l, "viewer", Sessions); n != 0 {
		t.Errorf("a viewer takes %d", n)
	}
	if n, _ := takes(l, "b", Sessions); n != 2 {
		t.Errorf("b takes %d", n)
	}
	if n, _ := takes(l, "little", Sessions); n != 1 {
		t.Errorf("little takes %d", n)
	}
	one := ledgerOf(t, "x name=a", Amounts{Sessions: 16})
	for range 16 {
		if _, err := one.take("a", Sessions, 1); err != nil {
			t.Errorf("the only tenant: %v", err)
		}
	}
	// More tenants than there are sessions: nothing is set aside, and the server's own limit is left to the server.
	var many strings.Builder
	for i := range 40 {
		many.WriteString("t" + strings.Repeat("x", i) + "\n")
	}
	l = ledgerOf(t, many.String(), Amounts{Sessions: 16})
	for i := range 16 {
		if _, err := l.take("someone", Sessions, 1); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
	}
}

// What is held stays counted while the file changes, limits change at once, and who is gone and holds nothing is
// forgotten.
func TestLedgerReload(t *testing.T) {
	l := ledgerOf(t, "x name=a sessions=4\ny name=b", Amounts{})
	release, err := l.take("a", Sessions, 3)
	if err != nil {
		t.Fatal(err)
	}
	list := func(file string) {
		c, _ := parse([]byte(file))
		l.list(c.tenants)
	}
	list("x name=a sessions=2\n")
	if _, err := l.take("a", Sessions, 1); err == nil || !strings.Contains(err.Error(), "3 of 2") {
		t.Errorf("a smaller limit: %v", err)
	}
	list("z name=c\n")
	if u := l.usage(""); len(u) != 2 || u[0].Tenant != "a" || u[0].Named || u[0].Used[Sessions] != 3 ||
		u[1].Tenant != "c" {
		t.Errorf("%+v", u)
	}
	release()
	if u := l.usage(""); len(u) != 1 || l.used != (Amounts{}) {
		t.Errorf("%+v, %v", u, l.used)
	}
}

// Whatever is taken and given back, by whomever: no quota is exceeded, sums add up, everybody gets their share, and at
// the end nothing is held.
func TestLedgerProperty(t *testing.T) {
	const total = 100
	names := []string{"a", "b", "c", "stranger"}
	for k := range uint64(50) {
		r := seed.New(t, k, 1)
		l := ledgerOf(t, "x name=a\ny name=b frames=30\nz name=c frames=5", Amounts{Frames: total})
		type held struct {
			who     string
			n       int64
			release func()
		}
		var all []held
		used := map[string]int64{}
		sum := int64(0)
		for range 400 {
			if len(all) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(all))
				h := all[i]
				all = append(all[:i], all[i+1:]...)
				h.release()
				used[h.who] -= h.n
				sum -= h.n
				continue
			}
			who, n := names[r.IntN(len(names))], int64(1+r.IntN(12))
			release, err := l.take(who, Frames, n)
			if err == nil && sum+n > total { // the server's own limit
				release()
				err = errors.New("full")
			} else if err == nil {
				all = append(all, held{who, n, release})
				used[who] += n
				sum += n
			}
			limit, share := map[string]int64{"a": total, "b": 30, "c": 5, "stranger": total}[who], int64(total/6)
			switch {
			case used[who] > limit:
				t.Fatalf("case %d: %s holds %d, all %d", k, who, used[who], sum)
			case err != nil && who != "stranger" && used[who]+n <= min(share, limit):
				t.Fatalf("case %d: %s holds %d and is refused %d of its share: %v", k, who, used[who], n, err)
			}
		}
		for _, h := range all {
			h.release()
		}
		if l.used != (Amounts{}) || len(l.accounts) != 3 {
			t.Fatalf("case %d: %v, %d accounts", k, l.used, len(l.accounts))
		}
	}
}

func TestLedgerRaces(t *testing.T) {
	l := ledgerOf(t, "x name=a sessions=3\ny name=b", Amounts{Sessions: 8})
	var all sync.WaitGroup
	for _, who := range []string{"a", "b", "c"} {
		for range 4 {
			all.Go(func() {
				for range 200 {
					if release, err := l.take(who, Sessions, 1); err == nil {
						release()
					}
					l.usage("")
				}
			})
		}
	}
	all.Wait()
	if l.used != (Amounts{}) {
		t.Errorf("%v", l.used)
	}
}

func TestCaller(t *testing.T) {
	ctx := t.Context()
	if c := FromContext(ctx); c != (Caller{}) {
		t.Errorf("nobody is %+v", c)
	}
	a := Caller{Tenant: "a", Role: Run}
	ctx = NewContext(ctx, a)
	if FromContext(ctx) != a {
		t.Error("another caller comes out")
	}
	ops := Caller{Tenant: "ops", Role: Admin}
	if !a.Owns("a") || a.Owns("b") || a.Owns("") || !ops.Owns("a") || !Anonymous.Owns("") {
		t.Error("what is whose")
	}
	release, err := Anonymous.Take(Sessions, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestLogHandler(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&b, nil)))
	log.With("camera", 1).WithGroup("g").InfoContext(NewContext(context.Background(), Caller{Tenant: "line-4"}), "begins")
	log.Info("plain")
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[0], "tenant=line-4") || !strings.Contains(lines[0], "camera=1") ||
		strings.Contains(lines[1], "tenant") {
		t.Errorf("%q", lines)
	}
}
