//go:build cuda

// Errors of the driver: what CUDA calls them, and which of the errors of package driver they are.

package cuda

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/polyscan/polyscan/kernels/driver"
)

// Error is a call to the CUDA driver that failed. It matches, with errors.Is, [driver.ErrOutOfMemory],
// [driver.ErrNoDevice], [driver.ErrNotSupported] and [driver.ErrDeviceLost].
type Error struct {
	Call string // such as "cuMemAlloc", or "mask_reduce_gray8" for the launch of a kernel
	Name string // such as "CUDA_ERROR_OUT_OF_MEMORY"
	Code int    // CUresult
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Is reports whether target is what the code stands for.
func (e *Error) Is(target error) bool { return target != nil && target == kinds[e.Code] }

// kinds are the codes, by their values in cuda.h, that callers tell apart. After one of those that are ErrDeviceLost
// every call fails in the same context.
var kinds = map[int]error{
	2:   driver.ErrOutOfMemory,  // OUT_OF_MEMORY
	46:  driver.ErrDeviceLost,   // DEVICE_UNAVAILABLE
	100: driver.ErrNoDevice,     // NO_DEVICE
	101: driver.ErrNoDevice,     // INVALID_DEVICE
	209: driver.ErrNotSupported, // NO_BINARY_FOR_GPU
	214: driver.ErrDeviceLost,   // ECC_UNCORRECTABLE
	220: driver.ErrDeviceLost,   // NVLINK_UNCORRECTABLE
	700: driver.ErrDeviceLost,   // ILLEGAL_ADDRESS
	702: driver.ErrDeviceLost,   // LAUNCH_TIMEOUT
	709: driver.ErrDeviceLost,   // CONTEXT_IS_DESTROYED
	710: driver.ErrDeviceLost,   // ASSERT
	714: driver.ErrDeviceLost,   // HARDWARE_STACK_ERROR
	715: driver.ErrDeviceLost,   // ILLEGAL_INSTRUCTION
	716: driver.ErrDeviceLost,   // MISALIGNED_ADDRESS
	717: driver.ErrDeviceLost,   // INVALID_ADDRESS_SPACE
	718: driver.ErrDeviceLost,   // INVALID_PC
	719: driver.ErrDeviceLost,   // LAUNCH_FAILED
	721: driver.ErrDeviceLost,   // CONTAINED in later versions
	911: driver.ErrDeviceLost,   // EXTERNAL_DEVICE
	999: driver.ErrDeviceLost,   // UNKNOWN
}

// codeOf is the CUresult in an error of the binding, whose type is an integer that it does not export.
func codeOf(err error) int {
	if v := reflect.ValueOf(err); v.CanInt() {
		return int(v.Int())
	}
	return 999
}

// failed makes an error of what the binding returned for a call.
func failed(call string, err error) error {
	if err == nil {
		return nil
	}
	return failedCode(call, codeOf(err))
}

// failedCode makes an error of a result.
func failedCode(call string, code int) error {
	if code == 0 {
		return nil
	}
	return &Error{Call: call, Name: errorName(code), Code: code}
}

var (
	errAborted = errors.New("cuda: op stopped")
	errClosed  = errors.New("cuda: stream is closed")
)

// lostError is what is returned for everything on a device that was lost, without asking it again.
type lostError struct{ cause error }

func (e *lostError) Error() string   { return "the device was lost before: " + e.cause.Error() }
func (e *lostError) Unwrap() []error { return []error{driver.ErrDeviceLost, e.cause} }
