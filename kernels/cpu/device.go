// The driver and its device: what the machine is, and how many threads ops may use.

package cpu

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Name is what the driver is called by users and responses.
const Name = "cpu"

// suggestedMemory is what Info suggests to reserve. The reservation costs address space only: pages are taken from
// the system when they are first written.
const suggestedMemory = 1 << 30

// Options configure a driver. The zero value is fine.
type Options struct {
	// Threads is how many threads one op may use; 0 means GOMAXPROCS at the time of Open. Ops of concurrent streams of
	// one priority share Threads-1 helpers; those of lower priority pause meanwhile. So as many threads work at a time
	// as there are streams of one priority, and those.
	Threads int
}

// Driver is the driver with default options.
var Driver = New(Options{})

// New returns a driver. It has one device, ordinal 0.
func New(o Options) driver.Driver { return cpuDriver{o} }

type cpuDriver struct{ opt Options }

func (cpuDriver) Name() string { return Name }

func (d cpuDriver) Open(ordinal int) (driver.Device, error) {
	if ordinal != 0 {
		return nil, fmt.Errorf("cpu: device %d: %w: there is only device 0", ordinal, driver.ErrNoDevice)
	}
	n := d.opt.Threads
	if n < 0 {
		return nil, fmt.Errorf("cpu: Options.Threads = %d: must not be negative", n)
	}
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	dev := &device{threads: n}
	dev.turns.init(n)
	for l := range dev.crews {
		c := &dev.crews[l]
		c.tokens = make(chan struct{}, n-1)
		for range n - 1 {
			c.tokens <- struct{}{}
		}
	}
	return dev, nil
}

// device implements driver.Device.
type device struct {
	threads int
	turns   turns
	crews   [priorities]crew

	mu      sync.Mutex
	idle    []*scratch // working memory of workers that are not running
	streams int
	mems    int
	closed  bool
}

func (d *device) Info() driver.Info {
	name := cpuid.CPU.BrandName
	if name == "" {
		name = runtime.GOARCH
	}
	return driver.Info{
		Backend:      Name,
		Device:       name,
		ComputeUnits: d.threads,
		Capability:   simd.String(),
		MemoryBytes:  suggestedMemory,
		MaskMethod:   driver.RowSpans,
	}
}

func (d *device) Close() error {
	d.mu.Lock()
	closed, streams, mems := d.closed, d.streams, d.mems
	d.closed = true
	d.idle = nil
	d.mu.Unlock()
	if closed {
		return nil
	}
	for l := range d.crews {
		d.crews[l].running.Wait()
	}
	d.turns.close()
	if streams != 0 || mems != 0 {
		return fmt.Errorf("cpu: device closed with %d streams and %d blocks of memory in use", streams, mems)
	}
	return nil
}
