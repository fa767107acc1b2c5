// Package drivers knows which backends this build has: the CPU always, CUDA under the tag cuda. It is the one place
// that decides, for the server and the command line alike, and the only importer of kernels/cuda outside tests.
package drivers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/cpu"
)

// Auto is the name that stands for the best backend that has a device here: CUDA before the CPU.
const Auto = "auto"

// probeName is what an executable is called when it is only to say whether it finds a GPU.
const probeName = "polyscan-gpu-probe"

// ErrUnknown is matched by the error of [Open] for a name that no backend of this build has.
var ErrUnknown = errors.New("no such device in this build")

// Options are what backends can be told. Each takes what concerns it.
type Options struct {
	// Threads of the CPU; 0 means GOMAXPROCS.
	Threads int
	// Ordinal of the device that [Auto] looks for.
	Ordinal int
}

// backend is one way to compute. Files with build tags add theirs in front of the CPU.
type backend struct {
	name string
	make func(Options) kernels.Driver
}

var backends = []backend{{cpu.Name, func(o Options) kernels.Driver { return cpu.New(cpu.Options{Threads: o.Threads}) }}}

// Names are the backends of this build, in the order in which [Auto] tries them.
func Names() []string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.name
	}
	return names
}

// Check returns an error that matches [ErrUnknown] and lists the names of this build for a name that [Open] wouldn't
// know, whether the machine has the device or not.
func Check(name string) error {
	if name == "" || name == Auto || slices.Contains(Names(), name) {
		return nil
	}
	return fmt.Errorf("drivers: device %q: %w, which has %s, %s", name, ErrUnknown, Auto, strings.Join(Names(), ", "))
}

// Open returns the driver with the given name; "" means [Auto]. A named driver is returned whether it has a device
// or not, which opening the device will show. The error for an unknown name is that of [Check].
func Open(name string, o Options) (kernels.Driver, error) {
	if o.Threads < 0 {
		return nil, fmt.Errorf("drivers: threads = %d: must not be negative", o.Threads)
	}
	if name == "" || name == Auto {
		return first(backends, o)
	}
	if err := Check(name); err != nil {
		return nil, err
	}
	return backends[slices.Index(Names(), name)].make(o), nil
}

// first returns the first driver whose device opens. The last one is taken as it is: if it has no device either, its
// own error says so best.
func first(backends []backend, o Options) (kernels.Driver, error) {
	for _, b := range backends[:len(backends)-1] {
		d := b.make(o)
		dev, err := d.Open(o.Ordinal)
		if err != nil {
			continue
		}
		if err := dev.Close(); err != nil {
			return nil, fmt.Errorf("drivers: %s: %w", b.name, err)
		}
		return d, nil
	}
	return backends[len(backends)-1].make(o), nil
}
