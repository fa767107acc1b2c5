// The other side: fetching memory and mapping it.

package sharedmem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Mapping is memory of another process that this one has mapped.
type Mapping struct {
	// Data may be read and written until Close.
	Data []byte
	conn *net.UnixConn
}

// Fetch gets the memory that token stands for from its owner, who listens at the unix socket path, and maps the first n
// bytes of it. It looks first whether the memory has them and can't lose them. Close the mapping after use.
//
// The error matches fs.ErrNotExist where there is no such socket: mostly because the owner is on another host. It is a
// [Refusal] where the owner refused.
func Fetch(ctx context.Context, path string, token []byte, n int64) (*Mapping, error) {
	if n <= 0 || int64(int(n)) != n {
		return nil, fmt.Errorf("%d bytes: no size of shared memory", n)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn)
	data, err := fetch(ctx, conn, token, n)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Mapping{data, conn}, nil
}

func fetch(ctx context.Context, conn *net.UnixConn, token []byte, n int64) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fd, err := exchange(conn, token)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	defer unix.Close(fd)
	return mapFile(fd, n)
}

// Intact reports whether the memory still holds what was written there, now that the owner may have taken it back; see
// [Await]. An owner that died has not.
func (m *Mapping) Intact() bool {
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return false
	}
	kept := false
	err = raw.Control(func(fd uintptr) {
		var n int
		err := retry(func() (err error) {
			n, _, err = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			return err
		})
		kept = n == 0 || err != nil // nothing yet, or nothing any more
	})
	return err == nil && kept
}

// Close unmaps the memory and tells the owner.
func (m *Mapping) Close() error {
	err := unix.Munmap(m.Data)
	m.Data = nil
	return errors.Join(err, m.conn.Close())
}

// exchange sends the token and receives the descriptor.
func exchange(c *net.UnixConn, token []byte) (fd int, err error) {
	_, sent := c.Write(token) // an owner that refuses the user doesn't wait for it
	answer := make([]byte, 1)
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(answer, oob) // close-on-exec
	if err != nil {
		return -1, cmp.Or(sent, err)
	}
	fds, err := rights(oob[:oobn])
	switch {
	case err != nil:
	case n == 0:
		err = errors.New("the connection was closed without an answer")
	case answer[0] != 0:
		err = Refusal(answer[0])
	case len(fds) != 1:
		err = fmt.Errorf("the answer has %d descriptors, want 1", len(fds))
	default:
		return fds[0], nil
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return -1, err
}

// rights are the descriptors in a control message. All of them are returned, whatever the error, to be closed.
func rights(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	for i := range messages {
		if len(messages[i].Data)%4 != 0 { // ParseUnixRights would panic
			err = errors.New("control message: part of a descriptor")
			continue
		}
		more, e := unix.ParseUnixRights(&messages[i])
		fds = append(fds, more...)
		if e != nil && err == nil {
			err = fmt.Errorf("control message: %w", e)
		}
	}
	return fds, err
}

// mapFile maps n bytes of a file that must have them for ever.
func mapFile(fd int, n int64) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("seals: %w", os.NewSyscallError("fcntl", err))
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.New("the memory is not sealed: it could be truncated while it is used")
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Size < n {
		return nil, fmt.Errorf("the memory has %d bytes, want %d", st.Size, n)
	}
	data, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	return data, nil
}
