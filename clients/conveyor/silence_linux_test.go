package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients"
	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

// TestServerHangs: a run whose server hangs, with its connections open, ends with the reason and the code of the
// server.
func TestServerHangs(t *testing.T) {
	defer func(d time.Duration) { silence = d }(silence)
	silence = time.Second
	s, err := startServer("tcp", "cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(s.pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	c, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		for u, err := range c.Watch(ctx, &polyscanv1.WatchRequest{}, clients.WatchOptions{Silence: time.Minute}) {
			if err != nil {
				stopped <- err
				return
			}
			if u.Message.GetVerdict() != nil {
				stopped <- syscall.Kill(s.pid, syscall.SIGSTOP)
				return
			}
		}
		stopped <- ctx.Err()
	}()
	_, errs, code := conveyor(t, "--addr", s.addr, "--width", "256", "--line-rate", "2000", "--quiet", "--duration", "10m",
		"--max-held-up", "1")
	cancel()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	const want = "conveyor: camera 0: the session ended: "
	if code != exitServer || !strings.HasPrefix(errs, want) || !strings.Contains(errs, clients.ErrStalled.Error()) {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// TestPatience: a strip has its time on a slow network, and a fault that makes the connection hang has its own.
func TestPatience(t *testing.T) {
	defer func(d time.Duration) { silence = d }(silence)
	silence = time.Second
	c := &camera{scene: &scene{belt: &belt{width: 10_000, format: clients.Gray8}, stripLines: 100}}
	c.plan.faults = []fault{{faultKill, 0.1, defaultStall}, {faultStall, 0.1, 3 * time.Second}}
	if got, want := c.patience(), 4100*time.Millisecond; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
