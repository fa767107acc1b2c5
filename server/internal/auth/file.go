package auth

import (
	"crypto/sha256"
	"os"
	"sync"
	"time"
)

// File notices that a file was replaced, by its content.
type File struct {
	Path string

	mu   sync.Mutex
	next time.Time // of the next look
	sum  [sha256.Size]byte
}

// watchInterval is how long a change may go unnoticed; a signal is faster.
const watchInterval = time.Second

// Changed reports, at most once each interval, whether the file differs from when it was looked at last. A file that
// can't be read has not changed: it may be in the middle of being replaced.
func (f *File) Changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().Before(f.next) {
		return false
	}
	return f.look()
}

// Look is Changed without the interval.
func (f *File) Look() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.look()
}

func (f *File) look() bool {
	f.next = time.Now().Add(watchInterval)
	data, err := os.ReadFile(f.Path)
	sum := sha256.Sum256(data)
	if err != nil || sum == f.sum {
		return false
	}
	f.sum = sum
	return true
}
