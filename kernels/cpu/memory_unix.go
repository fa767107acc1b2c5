//go:build unix

package cpu

import "golang.org/x/sys/unix"

// reserve maps n bytes of anonymous memory: it neither counts for the garbage collector nor takes memory from the
// system before it is written.
func reserve(n int) ([]byte, func() error, error) {
	if n == 0 {
		return []byte{}, func() error { return nil }, nil
	}
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	adviseHuge(data)
	return data, func() error { return unix.Munmap(data) }, nil
}
