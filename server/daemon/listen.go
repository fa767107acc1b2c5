// Listening on addresses as users write them.

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// listenAll listens on all addresses, or on none. Sockets get the mode.
func listenAll(addresses []string, mode fs.FileMode) ([]net.Listener, error) {
	var out []net.Listener
	for _, a := range addresses {
		l, err := listen(a, mode)
		if err != nil {
			for _, l := range out {
				l.Close()
			}
			return nil, fmt.Errorf("--listen: %w", err)
		}
		out = append(out, l)
	}
	return out, nil
}

// checkAddress says whether listen takes an address.
func checkAddress(address string) error {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if strings.TrimPrefix(path, "//") == "" {
			return fmt.Errorf("%q is not an address: the path is missing", address)
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%q is not an address: want host:port or unix:/path", address)
	}
	return nil
}

// listen takes host:port and unix:/path. A socket that a server left behind is taken over; one that is in use is not.
// A socket gets the mode, whatever the umask. The error of an address that no later try would get is a settingError:
// one that this user may not use, a folder or host that isn't there, a path that is no path. What is in use now, or an
// address that this machine doesn't have yet, may be there later.
func listen(address string, mode fs.FileMode) (net.Listener, error) {
	l, err := open(address, mode)
	var call *os.SyscallError
	if op := (*net.OpError)(nil); errors.As(err, &op) && errors.As(op.Err, &call) {
		op.Err = call.Err // users know of no call "bind"
	}
	var dns *net.DNSError
	for _, e := range []error{fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EINVAL,
		syscall.EROFS} {
		if errors.Is(err, e) {
			return nil, settingError{err}
		}
	}
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil, settingError{err}
	}
	return l, err
}

func open(address string, mode fs.FileMode) (net.Listener, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		host, port, _ := net.SplitHostPort(address) // checked above
		if host != "localhost" {
			return net.Listen("tcp", address)
		}
		// It means this machine even where nothing, such as /etc/hosts in an empty container, says so (RFC 6761).
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			l, err = net.Listen("tcp", net.JoinHostPort("::1", port))
		}
		return l, err
	}
	path = strings.TrimPrefix(path, "//") // unix:///path is the URL form
	if fi, err := os.Stat(path); err == nil {
		if fi.Mode().Type() != os.ModeSocket {
			return nil, settingError{fmt.Errorf("%s: the file exists and is not a socket", path)}
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
			return nil, fmt.Errorf("%s: another server listens there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil || strings.HasPrefix(path, "@") { // an abstract one has no file
		return l, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// where is the address of a listener as clients dial it.
func where(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}

// local says that nobody reaches a listener but from this machine.
func local(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return !ok || a.IP.IsLoopback()
}
