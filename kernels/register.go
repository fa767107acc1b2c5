package kernels

import "github.com/polyscan/polyscan/kernels/driver"

// RegisterHost tells the device of host memory that will be uploaded from again and again, outside of the Go heap, so
// that it can page-lock it; see [driver.HostRegistrar]. unregister is to be called before the memory is unmapped, and
// before Close. Where the backend has no use for it nothing happens. An error says why uploads from there are no
// faster; they work all the same.
func (d *Device) RegisterHost(b []byte) (unregister func() error, err error) {
	if r, ok := d.dev.(driver.HostRegistrar); ok {
		return r.RegisterHost(b)
	}
	return func() error { return nil }, nil
}
