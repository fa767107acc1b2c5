//go:build unix

package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sockets get the mode; one that a dead server left is taken over, and nothing else that is in
// the way.
func TestListenUnix(t *testing.T) {
	dir := t.TempDir()
	path, left, file := filepath.Join(dir, "a.sock"), filepath.Join(dir, "left.sock"), filepath.Join(dir, "file")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ address, says string }{
		{"unix:" + path, ""},
		{"unix:" + path, "another server listens there"},
		{"unix://" + left, ""},
		{"unix:" + file, "is not a socket"},
		{"unix:", "the path is missing"},
		{"unix:" + filepath.Join(dir, "none", "a.sock"), "no such file"},
		{path, "is not an address"},
	} {
		l, err := listen(x.address, 0o640)
		if x.says != "" {
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: %v, want %q", x.address, err, x.says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at := l.Addr().String()
		if st, err := os.Stat(at); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", at, st.Mode(), err)
		}
		if where(l) != "unix:"+at {
			t.Errorf("%s is dialed as %s", at, where(l))
		}
	}
}
