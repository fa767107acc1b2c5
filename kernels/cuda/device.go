//go:build cuda

// The driver and its devices: contexts, kernels, and calls from any goroutine.

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"gorgonia.org/cu"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Name is what the driver is called by users and responses.
const Name = "cuda"

// Driver is the driver.
var Driver driver.Driver = cudaDriver{}

// New returns the driver.
func New() driver.Driver { return Driver }

type cudaDriver struct{}

func (cudaDriver) Name() string { return Name }

// minCapability is what the kernels need: dp4a came with 6.1.
const minCapability = 61

// Devices is how many GPUs there are.
func Devices() (int, error) {
	n, err := cu.NumDevices()
	return n, failed("cuDeviceGetCount", err)
}

// Open opens a device in a context of its own.
func (cudaDriver) Open(ordinal int) (driver.Device, error) {
	n, err := Devices()
	if err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", ordinal, err)
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("cuda: device %d: %w: there are %d", ordinal, driver.ErrNoDevice, n)
	}
	d := &device{ordinal: ordinal}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", ordinal, errors.Join(err, d.destroy()))
	}
	return d, nil
}

// device implements driver.Device.
type device struct {
	ordinal     int
	dev         cu.Device
	info        driver.Info
	total       int64 // bytes of memory
	ctx         cu.CUContext
	has         bool // ctx is there
	modules     []cu.Module
	kernels     []cu.Function // by kernel
	colorShared int           // the same of a block that derives Lab
	sharedBytes int           // of dynamic shared memory that a block of mask_reduce_wide can have
	pairShared  int           // and one of mask_cooccurrence
	// kernels may begin while the one before them ends; they wait for it themselves (after_prior of common.cuh)
	early     bool
	graphless atomic.Bool // cycles can't be made graphs: see stream.makeGraph
	least     int         // stream priorities: least is the lowest and the greater number
	most      int

	lost  atomic.Pointer[lostError]
	ended atomic.Bool // the context is gone

	mu      sync.Mutex
	streams int
	mems    int
	pinned  []pinnedRange // by address
	closed  bool
}

func (d *device) open() error {
	var err error
	if d.dev, err = cu.GetDevice(d.ordinal); err != nil {
		return failed("cuDeviceGet", err)
	}
	name, err := d.dev.Name()
	if err != nil {
		return failed("cuDeviceGetName", err)
	}
	var major, minor, units int
	for _, a := range []struct {
		attr cu.DeviceAttribute
		to   *int
	}{
		{cu.ComputeCapabilityMajor, &major}, {cu.ComputeCapabilityMinor, &minor}, {cu.MultiprocessorCount, &units},
	} {
		if *a.to, err = d.dev.Attribute(a.attr); err != nil {
			return failed("cuDeviceGetAttribute", err)
		}
	}
	if major*10+minor < minCapability {
		return fmt.Errorf("%s has compute capability %d.%d: %w: at least %d.%d is needed", name, major, minor,
			driver.ErrNotSupported, minCapability/10, minCapability%10)
	}
	// A context becomes current on the thread that makes it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.ctx, err = d.dev.MakeContext(cu.SchedBlockingSync); err != nil {
		return failed("cuCtxCreate", err)
	}
	d.has = true
	defer cu.PopCurrentCtx() // the context that was pushed is on top
	var free int64
	if free, d.total, err = cu.MemInfo(); err != nil {
		return failed("cuMemGetInfo", err)
	}
	if d.least, d.most, err = cu.StreamPriorityRange(); err != nil {
		return failed("cuCtxGetStreamPriorityRange", err)
	}
	if err := d.load(); err != nil {
		return err
	}
	d.early = major >= 9
	d.info = driver.Info{
		Backend:      Name,
		Device:       name,
		ComputeUnits: units,
		Capability:   fmt.Sprintf("%d.%d", major, minor),
		MemoryBytes:  free / 5 * 4 &^ (driver.Align - 1),
		MaskMethod:   driver.RowSpans,
	}
	return nil
}

// load loads the kernels into the current context.
func (d *device) load() error {
	modules := map[string]cu.Module{}
	d.kernels = make([]cu.Function, len(kernelNames))
	for k, at := range kernelNames {
		m, ok := modules[at.file]
		if !ok {
			image, err := fatbin(at.file)
			if err != nil {
				return err
			}
			if m, err = cu.LoadFatBinary(image); err != nil {
				return failed("cuModuleLoadFatBinary "+at.file, err)
			}
			modules[at.file] = m
			d.modules = append(d.modules, m)
		}
		f, err := m.Function(at.name)
		if err != nil {
			return failed("cuModuleGetFunction "+at.name, err)
		}
		d.kernels[k] = f
	}
	most, code := sharedBytes(d.dev)
	if err := failedCode("cuDeviceGetAttribute", code); err != nil {
		return err
	}
	for _, k := range []kernelFor[reduceArgs]{reduceWideH, reduceWideHM} {
		if d.sharedBytes, code = reserveShared(d.kernels[k], most); code != 0 {
			return failedCode("cuFuncSetAttribute "+kernelNames[k].name, code)
		}
	}
	for _, k := range []kernelFor[pairArgs]{cooccurrenceGray8, cooccurrence8, cooccurrence16} {
		if d.pairShared, code = reserveShared(d.kernels[k], most); code != 0 {
			return failedCode("cuFuncSetAttribute "+kernelNames[k].name, code)
		}
	}
	return d.reserveColors(most)
}

func (d *device) Info() driver.Info { return d.info }

// do calls f with the context current, from any goroutine.
func (d *device) do(f func() error) error {
	if err := d.alive(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.PushCurrentCtx(d.ctx); err != nil {
		return d.check("cuCtxPushCurrent", err)
	}
	defer cu.PopCurrentCtx() // the context that was pushed is on top
	return f()
}

// check makes an error of what the binding returned for a call, and notes where the device was lost.
func (d *device) check(call string, err error) error {
	if err == nil {
		return nil
	}
	return d.checkCode(call, codeOf(err))
}

func (d *device) checkCode(call string, code int) error {
	err := failedCode(call, code)
	if errors.Is(err, driver.ErrDeviceLost) {
		d.lost.CompareAndSwap(nil, &lostError{err})
	}
	return err
}

// alive returns an error where the device was lost.
func (d *device) alive() error {
	if e := d.lost.Load(); e != nil {
		return e
	}
	if d.ended.Load() {
		return errors.New("the device is closed")
	}
	return nil
}

// destroy ends the context, and with it all that is in it. The context of a lost device ends too, but CUDA may return
// the error that it was lost with.
func (d *device) destroy() error {
	if !d.has {
		return nil
	}
	d.has = false
	d.ended.Store(true)
	err := d.ctx.Destroy()
	if d.lost.Load() != nil {
		return nil
	}
	return failed("cuCtxDestroy", err)
}

func (d *device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	streams, mems, pinned := d.streams, d.mems, len(d.pinned)
	d.mu.Unlock()
	var err error
	if streams == 0 { // else their threads are in the context: it is left to the process
		err = d.destroy()
	}
	if streams != 0 || mems != 0 || pinned != 0 {
		err = errors.Join(fmt.Errorf("device closed with %d streams, %d blocks of memory and %d of host memory in use",
			streams, mems, pinned), err)
	}
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	return nil
}
