package driver

import "errors"

// Sentinel errors of backends. Backends wrap them with the op and what the machine said; match with errors.Is.
var (
	ErrNotSupported = errors.New("not supported by this backend")
	ErrNoDevice     = errors.New("no such device")
	ErrOutOfMemory  = errors.New("out of device memory")
	// ErrDeviceLost means that the device can't be used any more and has to be opened again.
	ErrDeviceLost = errors.New("device lost")
)
