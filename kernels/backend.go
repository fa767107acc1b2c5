package kernels

import "github.com/polyscan/polyscan/kernels/driver"

// Driver opens the devices of one backend, for [Open]. Programs get one from package server/drivers.
type Driver = driver.Driver

// Info describes a device.
type Info = driver.Info

// Bounds of pictures: the longest side, and the most pixels.
const (
	MaxSide   = driver.MaxSide
	MaxPixels = driver.MaxPixels
)

// Errors of backends, which those of calls match.
var (
	ErrNotSupported = driver.ErrNotSupported
	ErrNoDevice     = driver.ErrNoDevice
	ErrOutOfMemory  = driver.ErrOutOfMemory
	// ErrDeviceLost means that the device can't be used any more and has to be opened again.
	ErrDeviceLost = driver.ErrDeviceLost
)
