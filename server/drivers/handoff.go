//go:build !cuda

// The executable that people run is pure Go. One with the CUDA backend may lie beside it, under libexec: the process
// becomes that one where it is to compute on a GPU and there is one. It can't be the other way around, because the
// binding ends a process without a GPU before main, and the loader one without libcuda.

package drivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// cudaName is what package cuda calls itself.
const cudaName = "cuda"

// probeTime is how long CUDA may take to initialise. With many GPUs it can take seconds.
const probeTime = 30 * time.Second

func init() {
	if exe, ok := sibling(); ok {
		backends = append([]backend{{cudaName, func(Options) kernels.Driver { return elsewhere{exe} }}}, backends...)
	}
}

// sibling is the executable with the CUDA backend, and whether it is there.
func sibling() (string, bool) {
	self, err := os.Executable()
	if err != nil {
		return "", false
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", false
	}
	exe := filepath.Join(filepath.Dir(self), "libexec", filepath.Base(self))
	info, err := os.Stat(exe)
	return exe, err == nil && info.Mode().IsRegular()
}

// Prepare makes the process one that has the backend for a device. A program calls it when it knows the device, and
// before it has read or opened anything. If that takes another executable, Prepare doesn't return: the process goes on
// there from the start, with the same arguments, environment, number and open files. Else [Open] does with the
// backends that are here, and says what is missing. The error is that of starting the other executable.
func Prepare(device string) error {
	exe, ok := sibling()
	if !ok || device != "" && device != Auto && device != cudaName || probe(exe) != nil {
		return nil
	}
	return fmt.Errorf("drivers: %s: %w", exe, syscall.Exec(exe, os.Args, os.Environ()))
}

// probe runs the executable under another name, under which it reports whether it got through its initialisation and
// does nothing else. The error matches kernels.ErrNoDevice.
func probe(exe string) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	c := exec.CommandContext(ctx, exe)
	c.Args = []string{probeName}
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	// The last line is of the loader, of the binding, or of report.
	if lines := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))), "\n"); lines[len(lines)-1] != "" {
		reason := lines[len(lines)-1]
		if _, of, ok := strings.Cut(reason, "error while loading shared libraries: "); ok {
			reason = of
		} else if _, of, ok := strings.Cut(reason, "Error in initialization, "); ok {
			reason = "cuInit: " + of[strings.LastIndex(of, " ")+1:]
		}
		err = errors.New(reason)
	}
	return fmt.Errorf("cuda: %w: %w", kernels.ErrNoDevice, err)
}

// elsewhere is the CUDA driver of a process that can't be the other executable. Its Open says why.
type elsewhere struct{ exe string }

func (elsewhere) Name() string { return cudaName }

func (e elsewhere) Open(int) (driver.Device, error) {
	if err := probe(e.exe); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("cuda: %w in this process: %s has the backend", kernels.ErrNoDevice, e.exe)
}
