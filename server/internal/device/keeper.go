// Package device keeps the server's device: leases for those who compute on it, and another device where it is lost.
//
// It knows package kernels, and of the server only what [User] says.
package device

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/polyscan/polyscan/kernels"
)

// Keeper is the server's one way to its device. Work on it is done under a lease. When the device is lost, the
// jobs on it fail, new leases are refused with ErrLost, and, once the leases that are out have ended, the device
// is closed and opened again, and what was resident is put back. If that fails, or the device is lost again soon, it
// stays lost, and the server has to be started anew: failed has the error then.
type Keeper struct {
	open func() (*kernels.Device, error)
	soon time.Duration // soonAgain, but in tests
	log  *slog.Logger
	user User

	mu      sync.Mutex
	dev     *kernels.Device // the lost one until there is another
	lost    bool
	back    chan struct{} // closed when there is another; nil unless lost
	leases  int
	idle    chan struct{} // closed when the last lease ends; nil where nobody waits for that
	regains uint64        // how often a lost device was opened again

	ctx     context.Context // ends with the server
	stop    context.CancelFunc
	watcher sync.WaitGroup
	failed  chan error // one, when the device stays lost; buffered
}

// Leases is how many leases are out.
func (k *Keeper) Leases() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leases
}

// RetryAtOnce makes the keeper open a device again however soon it was lost: tests lose one every few milliseconds.
func (k *Keeper) RetryAtOnce() { k.soon = 0 }

// Failed delivers the reason, once, when the device stays lost.
func (k *Keeper) Failed() <-chan error { return k.failed }

// User has something on the device beyond calls, or wants to know of its state. The methods are called by one
// goroutine.
type User interface {
	// DeviceLost is called at once.
	DeviceLost()
	// Detach drops everything on the device. No lease is out.
	Detach()
	// Restore puts back on another device what should be there. An error makes the server give up.
	Restore(context.Context, *kernels.Device) error
	// DeviceBack is called when leases can be had again.
	DeviceBack()
}

const (
	// leasePatience is how long calls may take to notice that their device is lost.
	leasePatience = 30 * time.Second
	// soonAgain is how long a device that was opened again has to live for it to be worth another try.
	soonAgain = time.Minute
)

// ErrLost is the error of leases while the device is lost. It matches kernels.ErrDeviceLost.
var ErrLost = fmt.Errorf("server: %w", kernels.ErrDeviceLost)

// Open opens the device. The keeper looks after it from watch on.
func Open(open func() (*kernels.Device, error), log *slog.Logger) (*Keeper, error) {
	dev, err := open()
	if err != nil {
		return nil, err
	}
	k := &Keeper{open: open, soon: soonAgain, log: log, dev: dev, failed: make(chan error, 1)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// Lease is the device for the time of a call, or of a session. The embedded device's Lost tells those who wait for
// something else. Memory kept on the device has to go back before the lease ends.
type Lease struct {
	*kernels.Device
	k *Keeper
}

// Acquire returns a lease, which has to be ended, or ErrLost.
func (k *Keeper) Acquire() (Lease, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease()
}

// Wait is acquire for those who can wait until the device is back. Its only error is ctx's cause.
func (k *Keeper) Wait(ctx context.Context) (Lease, error) {
	for {
		k.mu.Lock()
		l, err := k.lease()
		back := k.back
		k.mu.Unlock()
		if err == nil {
			return l, nil
		}
		select {
		case <-back:
		case <-ctx.Done():
			return Lease{}, context.Cause(ctx)
		}
	}
}

// lease is acquire with mu held.
func (k *Keeper) lease() (Lease, error) {
	select {
	case <-k.dev.Lost(): // as reopen will notice
		k.lose()
	default:
	}
	if k.lost {
		return Lease{}, ErrLost
	}
	k.leases++
	return Lease{k.dev, k}, nil
}

// lose begins the time without a device. mu is held.
func (k *Keeper) lose() {
	if !k.lost {
		k.lost, k.back = true, make(chan struct{})
	}
}

// End gives the lease back. To be called once.
func (l Lease) End() {
	k := l.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leases--; k.leases == 0 && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
}

// Current is the device for those who only look at it. It may be lost or closed.
func (k *Keeper) Current() *kernels.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dev
}

// Info describes the device.
func (k *Keeper) Info() kernels.Info { return k.Current().Info() }

// Memory is the state of the device's memory.
func (k *Keeper) Memory() kernels.MemoryStats { return k.Current().Memory() }

// Available says that leases can be had.
func (k *Keeper) Available() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.lost
}

// Regained says how often a lost device was opened again.
func (k *Keeper) Regained() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.regains
}

// Watch starts looking after the device, on behalf of u.
func (k *Keeper) Watch(u User) {
	k.user = u
	k.watcher.Go(func() {
		var back time.Time // when the device was opened again
		for {
			select {
			case <-k.ctx.Done():
				return
			case <-k.Current().Lost():
			}
			err := k.reopen(back)
			if k.ctx.Err() != nil {
				return
			}
			if err != nil {
				k.log.Error("the device is gone for good; start the server again", "error", err)
				k.failed <- err
				return
			}
			back = time.Now()
		}
	})
}

// reopen gets over the loss of a device that was opened, or opened again, at back.
func (k *Keeper) reopen(back time.Time) error {
	k.mu.Lock()
	k.lose()
	idle := make(chan struct{})
	if k.leases == 0 {
		close(idle)
	} else {
		k.idle = idle
	}
	old := k.dev
	k.mu.Unlock()
	info := old.Info()
	k.log.Error("device lost: jobs fail until it is open again", "backend", info.Backend, "device", info.Device)
	k.user.DeviceLost()

	if lived := time.Since(back); lived < k.soon {
		return fmt.Errorf("%w again, %v after it was opened again", ErrLost, lived.Round(time.Millisecond))
	}
	patience := time.NewTimer(leasePatience)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		return fmt.Errorf("%w, and calls still use it after %v", ErrLost, leasePatience)
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	k.user.Detach()
	if err := old.Close(); err != nil { // what a lost device says to that is of no use to anybody
		k.log.Warn("closing the lost device", "error", err)
	}
	dev, err := k.open()
	if err != nil {
		return fmt.Errorf("%w, and can't be opened again: %w", ErrLost, err)
	}
	if err := k.user.Restore(k.ctx, dev); err != nil {
		k.user.Detach()
		return errors.Join(fmt.Errorf("%w, and resident frames can't be put back: %w", ErrLost, err), dev.Close())
	}
	k.mu.Lock()
	k.dev, k.lost = dev, false
	close(k.back)
	k.back = nil
	k.regains++
	k.mu.Unlock()
	k.log.Warn("the device is open again", "backend", info.Backend, "device", info.Device)
	k.user.DeviceBack()
	return nil
}

// Close ends the watch and closes the device. No lease may be out.
func (k *Keeper) Close() error {
	k.stop()
	k.watcher.Wait()
	return k.Current().Close()
}
