package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// watcher waits for files of a folder that somebody has closed after writing, or renamed or linked into it.
type watcher struct {
	path    string
	file    *os.File // of inotify
	buffer  [64 << 10]byte
	pending []byte
	made    []made // in the order in which they came
}

// made is a name that came into the folder, and that is a link unless whoever made it opens it.
type made struct {
	name string
	at   time.Time
}

// linkTime is when a name that nobody has opened is a link. An open that makes a file tells of both at once.
const linkTime = 100 * time.Millisecond

func watchFolder(path string) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &watcher{path: path, file: os.NewFile(uintptr(fd), "inotify")}
	const mask = unix.IN_CREATE | unix.IN_OPEN | unix.IN_CLOSE_WRITE | unix.IN_MOVE | unix.IN_DELETE_SELF |
		unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, path, mask); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify: %s: %w", path, err), w.close())
	}
	return w, nil
}

func (w *watcher) close() error { return w.file.Close() }

// next is the name of the next file, without the folder's, or of a folder in it. Files wait in the kernel until they are
// asked for; the error is errOverflow where it has no room for more.
func (w *watcher) next(ctx context.Context) (string, error) {
	defer context.AfterFunc(ctx, func() { w.file.SetReadDeadline(time.Unix(1, 0)) })()
	for {
		for len(w.pending) >= unix.SizeofInotifyEvent {
			mask := binary.NativeEndian.Uint32(w.pending[4:])
			n := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(w.pending[12:]))
			if n > len(w.pending) {
				return "", errors.New("inotify: an event is cut off")
			}
			name := string(bytes.TrimRight(w.pending[unix.SizeofInotifyEvent:n], "\x00"))
			w.pending = w.pending[n:]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				return "", errOverflow
			case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0:
				return "", fmt.Errorf("%s: the folder has gone", w.path)
			case name != "" && w.whole(name, mask):
				return name, nil
			}
		}
		var until time.Time
		if len(w.made) > 0 {
			m := w.made[0]
			if until = m.at.Add(linkTime); !time.Now().Before(until) {
				w.made = w.made[1:]
				return m.name, nil
			}
		}
		w.file.SetReadDeadline(until)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := w.file.Read(w.buffer[:])
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "", fmt.Errorf("inotify: %w", err)
		}
		w.pending = w.buffer[:n]
	}
}

// whole takes in what happened to a name, and reports whether it is one to be taken now.
func (w *watcher) whole(name string, mask uint32) bool {
	whole := mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0
	switch {
	case mask&unix.IN_ISDIR != 0: // a folder is told of once
		return mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0
	case mask&unix.IN_CREATE != 0:
		w.made = append(w.made, made{name, time.Now()})
	case whole, mask&unix.IN_MOVED_FROM != 0, mask&unix.IN_OPEN != 0 && !isLink(filepath.Join(w.path, name)):
		w.made = slices.DeleteFunc(w.made, func(m made) bool { return m.name == name })
	}
	return whole
}

// isLink reports whether a file is surely one, which those who open it read.
func isLink(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1)
}
