package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watcher waits for files of a folder that somebody has closed after writing, or renamed into it.
type watcher struct {
	path    string
	file    *os.File // of inotify
	buffer  [64 << 10]byte
	pending []byte
}

func watchFolder(path string) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &watcher{path: path, file: os.NewFile(uintptr(fd), "inotify")}
	const mask = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, path, mask); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify: %s: %w", path, err), w.close())
	}
	return w, nil
}

func (w *watcher) close() error { return w.file.Close() }

// next is the name of the next file, without the folder's. Files wait in the kernel until they are asked for; the error
// is errOverflow where it has no room for more.
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
			case mask&unix.IN_ISDIR == 0:
				return name, nil
			}
		}
		n, err := w.file.Read(w.buffer[:])
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("inotify: %w", err)
		}
		w.pending = w.buffer[:n]
	}
}
