//go:build unix

package kernels

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Memory that was taken away is a panic for a job that touches it, which its caller can get over.
func TestJobTouchesMemoryThatIsGone(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gone, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(gone)
	d, err := Open(&fakeDriver{}, Config{MemoryBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	func() {
		defer func() {
			if _, ok := recover().(runtime.Error); !ok {
				t.Error("no panic")
			}
		}()
		d.Do(t.Context(), Job{Label: "touch", Footprint: 256}, func(*Queue) error {
			_ = gone[0]
			runtime.KeepAlive(gone[0])
			return nil
		})
	}()
	if used := d.Memory().Used; used != 0 {
		t.Errorf("%d bytes are in use", used)
	}
}
