//go:build !linux

package cpu

// yieldProcessor is a matter of the system: only Linux has a call for it that Go reaches without C.
func yieldProcessor() {}
