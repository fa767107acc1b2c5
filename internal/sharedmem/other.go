//go:build !linux

package sharedmem

import (
	"context"
	"net"
)

// Memory can't be made.
type Memory struct{}

// Create returns [ErrUnsupported].
func Create(context.Context, int64) (*Memory, error) { return nil, ErrUnsupported }

// RoundUp returns [ErrUnsupported].
func RoundUp(int64) (int64, error) { return 0, ErrUnsupported }

// Data returns nil.
func (*Memory) Data() []byte { return nil }

// Whole returns [ErrUnsupported].
func (*Memory) Whole() error { return ErrUnsupported }

// Free returns [ErrUnsupported].
func (*Memory) Free(bool) error { return ErrUnsupported }

// Send returns [ErrUnsupported].
func (*Memory) Send(*net.UnixConn) error { return ErrUnsupported }

// ReceiveToken returns [ErrUnsupported].
func ReceiveToken(*net.UnixConn) (Token, error) { return Token{}, ErrUnsupported }

// Await returns at once.
func Await(*net.UnixConn) {}

// TakeBack does nothing.
func TakeBack(*net.UnixConn) {}

// Refuse returns [ErrUnsupported].
func Refuse(*net.UnixConn, Refusal) error { return ErrUnsupported }

// PeerUID returns [ErrUnsupported].
func PeerUID(*net.UnixConn) (uint32, error) { return 0, ErrUnsupported }

// Mapping can't be made.
type Mapping struct{ Data []byte }

// Fetch returns [ErrUnsupported].
func Fetch(context.Context, string, []byte, int64) (*Mapping, error) { return nil, ErrUnsupported }

// Intact returns false.
func (*Mapping) Intact() bool { return false }

// Close returns [ErrUnsupported].
func (*Mapping) Close() error { return ErrUnsupported }
