//go:build unix

package cpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polyscan/polyscan/kernels/driver"
)

// An upload from memory that was taken away fails, on the stream's goroutine as on helpers, and the stream goes on.
func TestUploadFromMemoryThatIsGone(t *testing.T) {
	const n = 8 << 20
	name := filepath.Join(t.TempDir(), "pixels")
	if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pix, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(pix)

	d, err := New(Options{Threads: 2}).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	s, err := d.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	upload := func() error {
		if err := s.Upload(driver.Slice{Mem: m, Len: n}, [][]byte{pix}); err != nil {
			return err
		}
		return s.Wait(t.Context())
	}
	if err := upload(); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(n / 2); err != nil {
		t.Fatal(err)
	}
	if err := upload(); err == nil || !strings.Contains(err.Error(), "Upload") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	if err := f.Truncate(n); err != nil {
		t.Fatal(err)
	}
	if err := upload(); err != nil {
		t.Errorf("after it: %v", err)
	}
}
