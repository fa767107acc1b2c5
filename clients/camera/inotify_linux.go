package main

import (
	"bytes"
	"cmp"
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

// watcher waits for files of a folder that somebody has closed after writing, or renamed or linked into it. It knows
// what was in the folder before and what it took, so that nothing is missed, or taken twice, when the folder or another
// one in its place is watched anew.
type watcher struct {
	path    string
	file    *os.File // of inotify; nil once it was closed
	folder  folderID // that is watched
	buffer  [64 << 10]byte
	pending []byte
	made    []made           // in the order in which they came
	known   map[string]stamp // files that were there before the first watch, or were taken
	look    time.Time        // when the path is to be looked at again
	gone    error            // of a folder that has gone, once all that came before is taken
}

// folderID is which folder a path leads to.
type folderID struct{ dev, ino uint64 }

// stamp is which file a name is of, and what was written to it last.
type stamp struct {
	ino     uint64
	size    int64
	written unix.Timespec
}

// made is a name that came into the folder, and that is a link unless whoever made it opens it; or one that was found
// there.
type made struct {
	name  string
	at    time.Time
	found bool
	stamp stamp // of what was found
}

// linkTime is how long a name has to be left alone to be taken for a link, or for whole where it was found.
const linkTime = 100 * time.Millisecond

// lookTime is how often the path is looked at: inotify doesn't tell of a file system that is mounted over the folder,
// nor of a link that leads elsewhere.
const lookTime = time.Second

// watchFolder watches a folder. before is its watcher until it went; of a first one (nil), files that are there don't
// count.
func watchFolder(path string, before *watcher) (_ *watcher, err error) {
	w := &watcher{path: path, known: map[string]stamp{}, look: time.Now().Add(lookTime)}
	if w.folder, err = folderAt(path); err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w.file = os.NewFile(uintptr(fd), "inotify")
	const mask = unix.IN_CREATE | unix.IN_OPEN | unix.IN_CLOSE_WRITE | unix.IN_MOVE | unix.IN_DELETE |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, path, mask); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify: %s: %w", path, err), w.close())
	}
	if before != nil {
		w.known = before.known
	}
	if err := w.list(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	if before == nil {
		for _, m := range w.made {
			w.known[m.name] = m.stamp
		}
		w.made = nil
	}
	return w, nil
}

// folderAt is the folder that a path leads to now.
func folderAt(path string) (folderID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return folderID{}, fmt.Errorf("%s: %w", path, err)
	}
	return folderID{uint64(st.Dev), st.Ino}, nil
}

// stampOf is that of a name, if it is there and no folder, and when its file changed: links and renaming count, too.
func (w *watcher) stampOf(name string) (s stamp, changed int64, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(w.path, name), &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return s, 0, false
	}
	return stamp{st.Ino, st.Size, st.Mtim}, st.Ctim.Nano(), true
}

// list finds the files of the folder that aren't known as they are, in the order in which they changed. What was made
// before, and not taken, is among them.
func (w *watcher) list() error {
	dir, err := os.Open(w.path)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	w.made = nil
	now, order := time.Now(), map[string]int64{}
	for _, name := range names {
		if s, changed, ok := w.stampOf(name); ok && w.known[name] != s {
			order[name] = changed
			w.made = append(w.made, made{name, now, true, s})
		}
	}
	slices.SortFunc(w.made, func(a, b made) int {
		return cmp.Or(cmp.Compare(order[a.name], order[b.name]), cmp.Compare(a.name, b.name))
	})
	return nil
}

func (w *watcher) close() error {
	file := w.file
	if w.file = nil; file == nil {
		return nil
	}
	return file.Close()
}

// next is the name of the next file, without the folder's, or of a folder in it. Files wait in the kernel until they
// are asked for. The error is errOverflow where it had no room for more; those that are still there come next.
func (w *watcher) next(ctx context.Context) (string, error) {
	file := w.file // which may be closed before ctx's end is told
	defer context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })()
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
				return "", errors.Join(errOverflow, w.list())
			case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0:
				w.gone = fmt.Errorf("%s: the folder has gone", w.path)
			case name != "" && w.whole(name, mask):
				return w.take(name), nil
			}
		}
		// What has happened is taken in before anything is concluded from the time.
		if n, err := w.poll(); err != nil {
			return "", err
		} else if n > 0 {
			continue
		}
		now := time.Now()
		if w.gone == nil && !now.Before(w.look) {
			w.look = now.Add(lookTime)
			if id, err := folderAt(w.path); err != nil {
				w.gone = fmt.Errorf("%w: the folder has gone", err)
			} else if id != w.folder {
				w.gone = fmt.Errorf("%s: the folder has gone: another one is there", w.path)
			}
		}
		until := w.look
		if len(w.made) > 0 {
			m := w.made[0]
			if due := m.at.Add(linkTime); w.gone == nil && now.Before(due) {
				until = due
			} else {
				w.made = w.made[1:]
				if s, _, ok := w.stampOf(m.name); m.found && ok && s != m.stamp && w.gone == nil { // somebody writes to it
					w.made = append(w.made, made{m.name, now, true, s})
					continue
				}
				return w.take(m.name), nil
			}
		}
		if w.gone != nil {
			return "", w.gone
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

// poll reads events that are there, without waiting for one.
func (w *watcher) poll() (n int, err error) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("inotify: %w", err)
	}
	var readErr error
	err = raw.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), w.buffer[:]) })
	if errors.Is(readErr, unix.EAGAIN) {
		return 0, err
	}
	if err = errors.Join(err, readErr); err != nil {
		return 0, fmt.Errorf("inotify: %w", err)
	}
	w.pending = w.buffer[:n]
	return n, nil
}

// forget lets a file that was taken be new again.
func (w *watcher) forget(name string) { delete(w.known, name) }

// take makes a name known as it is.
func (w *watcher) take(name string) string {
	if s, _, ok := w.stampOf(name); ok {
		w.known[name] = s
	}
	return name
}

// whole takes in what happened to a name, and reports whether it is one to be taken now.
func (w *watcher) whole(name string, mask uint32) bool {
	if mask&unix.IN_ISDIR != 0 { // a folder is told of once
		return mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0
	}
	whole := mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0
	left := mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0
	opened := mask&unix.IN_OPEN != 0
	if left {
		delete(w.known, name)
	}
	w.made = slices.DeleteFunc(w.made, func(m made) bool {
		return m.name == name && (whole || mask&(unix.IN_CREATE|unix.IN_MOVED_FROM) != 0 ||
			opened && !m.found && !isLink(filepath.Join(w.path, name)))
	})
	if mask&unix.IN_CREATE != 0 {
		w.made = append(w.made, made{name: name, at: time.Now()})
	}
	return whole
}

// isLink reports whether a file is surely one, which those who open it read.
func isLink(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1)
}
