// The owner's side: memfds, and handing them over.

package sharedmem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is memory that this process owns and others may write to.
type Memory struct {
	file *os.File
	data []byte
}

// allocChunk is how much is allocated by one system call, after which Create looks at its context.
const allocChunk = 64 << 20

const ownerSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes memory of n bytes, n > 0, rounded up to whole pages. All of them are allocated, and zero. Free it after
// use.
func Create(ctx context.Context, n int64) (_ *Memory, err error) {
	size, err := RoundUp(n)
	if err != nil {
		return nil, err
	}
	file, err := newFile()
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd())
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, fmt.Errorf("size of %d bytes: %w", size, err)
	}
	for off := int64(0); off < size; off += allocChunk {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := retry(func() error { return unix.Fallocate(fd, 0, off, min(allocChunk, size-off)) }); err != nil {
			return nil, fmt.Errorf("pages of %d bytes: %w", size, err)
		}
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, ownerSeals); err != nil {
		return nil, fmt.Errorf("seals: %w", err)
	}
	data, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return &Memory{file, data}, nil
}

// RoundUp is n in whole pages: what [Create] makes of it.
func RoundUp(n int64) (int64, error) {
	page := int64(os.Getpagesize())
	if n <= 0 || n > 1<<62 || int64(int(n)) != n {
		return 0, fmt.Errorf("%d bytes: no size of shared memory", n)
	}
	return (n + page - 1) / page * page, nil
}

func newFile() (*os.File, error) {
	const name, flags = "polyscan", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL) // some systems insist on it
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags) // Linux before 6.3
	}
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Data is the memory, to be read. It is valid until Free.
func (m *Memory) Data() []byte { return m.data }

// Whole returns an error that matches [ErrHole] if a peer has removed pages.
func (m *Memory) Whole() error {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(m.file.Fd()), &st) }); err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	if have := st.Blocks * 512; have < int64(len(m.data)) {
		return fmt.Errorf("%w: it has %d bytes of %d", ErrHole, have, len(m.data))
	}
	return nil
}

// Free ends the owner's use of the memory. With wipe its pages go back to the system, even those that a peer has
// mapped: it sees zeros from now on, in pages that count as its own. Otherwise they live as long as the peer wants
// them. No other method may be called during Free or after it.
func (m *Memory) Free(wipe bool) error {
	size := int64(len(m.data))
	err := unix.Munmap(m.data)
	m.data = nil
	if wipe {
		err = errors.Join(err, retry(func() error {
			return unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size)
		}))
	}
	return errors.Join(err, m.file.Close())
}

// ReceiveToken receives what a peer sends first. Descriptors that come beside it are closed by the system.
func ReceiveToken(c *net.UnixConn) (t Token, err error) {
	_, err = io.ReadFull(c, t[:])
	return t, err
}

// Send hands the memory to the peer.
func (m *Memory) Send(c *net.UnixConn) error {
	_, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(m.file.Fd())), nil)
	return err
}

// Await waits until a peer that has the memory is gone or doesn't need it any more, or the deadline for reading from c
// comes.
func Await(c *net.UnixConn) {
	for b := make([]byte, 1); ; {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

// TakeBack tells a peer, if it is still there, that the memory will not be what it was.
func TakeBack(c *net.UnixConn) {
	c.SetWriteDeadline(time.Now().Add(time.Second))
	c.Write([]byte{0})
}

// Refuse tells the peer that it gets nothing.
func Refuse(c *net.UnixConn, r Refusal) error {
	_, err := c.Write([]byte{byte(r)})
	return err
}

// PeerUID is the user who connected, as the system knows it.
func PeerUID(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, fmt.Errorf("credentials of the peer: %w", err)
	}
	return cred.Uid, nil
}

// retry repeats what a signal interrupted: the runtime sends signals to its own threads.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
