package sharedmemory

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/polyscan/polyscan/internal/sharedmem"
)

// Users who are not among those of the configuration get nothing, and are told so without being heard.
func TestLeaseUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fetched := make(chan error, 1)
	go func() {
		_, err := sharedmem.Fetch(t.Context(), path, make([]byte, sharedmem.TokenBytes), 1)
		fetched <- err
	}()
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	m := &Leases{uids: []uint32{uint32(os.Geteuid()) + 1}, log: slog.New(slog.DiscardHandler)}
	if m.handOver(conn, func() {}) != nil {
		t.Error("handed over")
	}
	conn.Close()
	if err := <-fetched; !errors.Is(err, sharedmem.RefusedUser) {
		t.Errorf("%v", err)
	}
}
