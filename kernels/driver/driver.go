// Package driver is the seam between the front (package kernels) and the backends (kernels/cpu, kernels/cuda).
//
// It holds interfaces, plain op structs, the layouts that both sides share and sentinel errors, and nothing that
// computes. A backend implements [Driver], [Device], [Mem] and [Stream]; everything that backends would otherwise
// each do again (argument checks, the byte budget, pooling, deadlines) is done once, in package kernels, before
// a call gets here. A backend may therefore trust what an op's comment promises, but never the pixels.
//
// The package imports the standard library only.
package driver

import "context"

// Driver opens the devices of one backend.
type Driver interface {
	// Name is short and lower case, such as "cpu" or "cuda"; it is what users type and responses report.
	Name() string
	// Open opens device ordinal, counted from 0. It returns [ErrNoDevice] where there is none.
	Open(ordinal int) (Device, error)
}

// Info describes a device.
type Info struct {
	Backend      string // the driver's name
	Device       string // such as "AMD EPYC" or "NVIDIA H200"
	ComputeUnits int    // worker threads of the CPU, multiprocessors of a GPU
	Capability   string // instruction sets in use, or the compute capability
	MemoryBytes  int64  // memory that can be reserved; on the CPU a suggestion
	MaskMethod   Method // what MethodDefault stands for
}

// Device is one opened device. Its methods may be called from several goroutines.
type Device interface {
	Info() Info
	// Alloc reserves memory aligned to [Align] bytes. The content is undefined. It returns an error that
	// matches [ErrOutOfMemory] where the memory can't be had. It is slow: package kernels calls it once and
	// hands out parts.
	Alloc(bytes int64) (Mem, error)
	// NewStream makes an in-order queue. Higher priority runs first where the device can do so.
	NewStream(priority int) (Stream, error)
	// Scratch says how large the slice of an op has to be whose length is the backend's to say: Scratch of most ops,
	// State of DiffusionSolve, Dst of the ops that prepare something. Slices of the op are not looked at. It returns an
	// error that matches [ErrNotSupported] where the backend lacks the op, or its method.
	Scratch(Op) (int64, error)
	// Close frees the device. All streams must have been closed and all memory freed.
	Close() error
}

// Mem is a block of device memory. Implementations can be compared with ==, and differ where the memory does.
type Mem interface {
	Bytes() int64
	Free() error
}

// Align is the alignment of device memory in bytes. Every [Slice] that an op writes structures to starts at a
// multiple of it.
const Align = 256

// Slice is the part [Off, Off+Len) of a block of device memory, in bytes. A slice owns nothing.
type Slice struct {
	Mem Mem
	Off int64
	Len int64
}

// Stream is an in-order queue of work on a device. Methods enqueue and return; what they are given (device memory
// and host slices alike) has to stay untouched until Wait has returned. An op that fails makes the ops behind it
// do nothing, and Wait returns its error and clears it. A stream belongs to one goroutine at a time.
//
// An op that a backend lacks returns [ErrNotSupported] at once. An op may return other errors at once too; it then
// has enqueued nothing, leaves what was enqueued before as it is, and Wait does not repeat its error.
type Stream interface {
	// Upload copies the concatenation of src to dst. Their lengths add up to dst.Len.
	Upload(dst Slice, src [][]byte) error
	// Download copies src to dst, whose length is src.Len.
	Download(dst []byte, src Slice) error
	// Run enqueues an op.
	Run(Op) error
	// Wait blocks until everything enqueued is done. When ctx ends first, work that has not begun is dropped,
	// work that can stop early does, and Wait returns ctx's cause; but it never returns before the stream has
	// drained, so that memory can go back.
	Wait(ctx context.Context) error
	Close() error
}
