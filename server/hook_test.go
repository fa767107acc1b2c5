package server

import (
	"sync/atomic"

	"github.com/polyscan/polyscan/kernels/cpu"
	"github.com/polyscan/polyscan/kernels/driver"
)

// hooked is the CPU's driver with a hook in front of each reduction. The hook's error is the op's.
type hooked struct {
	driver.Driver
	hook *atomic.Pointer[func() error]
}

func newHooked() hooked {
	return hooked{cpu.New(cpu.Options{Threads: 2}), &atomic.Pointer[func() error]{}}
}

func (h hooked) set(f func() error) { h.hook.Store(&f) }

func (h hooked) Open(ordinal int) (driver.Device, error) {
	d, err := h.Driver.Open(ordinal)
	return hookedDevice{d, h.hook}, err
}

type hookedDevice struct {
	driver.Device
	hook *atomic.Pointer[func() error]
}

func (d hookedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	return hookedStream{s, d.hook}, err
}

type hookedStream struct {
	driver.Stream
	hook *atomic.Pointer[func() error]
}

func (s hookedStream) MaskReduce(op driver.MaskReduce) error {
	if f := s.hook.Load(); f != nil {
		if err := (*f)(); err != nil {
			return err
		}
	}
	return s.Stream.MaskReduce(op)
}
