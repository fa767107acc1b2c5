package server

import (
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// hooked is the CPU's driver with a hook in front of an op on masks. The hook's error is the op's.
type hooked struct {
	driver.Driver
	hook *atomic.Pointer[opHook]
}

type opHook struct {
	op string
	f  func() error
}

func newHooked() hooked {
	return hooked{cpu.New(cpu.Options{Threads: 2}), &atomic.Pointer[opHook]{}}
}

// set puts a hook in front of reductions.
func (h hooked) set(f func() error) { h.on("MaskReduce", f) }

// on puts a hook in front of ops of a name, in the place of any other.
func (h hooked) on(op string, f func() error) { h.hook.Store(&opHook{op, f}) }

func (h hooked) Open(ordinal int) (driver.Device, error) {
	d, err := h.Driver.Open(ordinal)
	return hookedDevice{d, h.hook}, err
}

type hookedDevice struct {
	driver.Device
	hook *atomic.Pointer[opHook]
}

func (d hookedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return hookedStream{s, d.hook}, err
}

type hookedStream struct {
	driver.Stream
	hook *atomic.Pointer[opHook]
}

func (s hookedStream) Run(op driver.Op) error {
	if h := s.hook.Load(); h != nil && h.op == driver.Name(op) {
		if err := h.f(); err != nil {
			return err
		}
	}
	return s.Stream.Run(op)
}
