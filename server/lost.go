// The device, which may be lost: then it is opened once more.

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
)

// deviceKeeper is the server's one way to its device. Work on it is done under a lease. When the device is lost, the
// jobs on it fail, new leases are refused with errDeviceLost, and, once the leases that are out have ended, the device
// is closed and opened again, and what was resident is put back. If that fails, or the device is lost again soon, it
// stays lost, and the server has to be started anew: failed has the error then.
type deviceKeeper struct {
	open func() (*kernels.Device, error)
	soon time.Duration // soonAgain
	log  *slog.Logger
	user deviceUser

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

// deviceUser has something on the device beyond calls, or wants to know of its state. The methods are called by one
// goroutine.
type deviceUser interface {
	// deviceLost is called at once.
	deviceLost()
	// detach drops everything on the device. No lease is out.
	detach()
	// restore puts back on another device what should be there. An error makes the server give up.
	restore(context.Context, *kernels.Device) error
	// deviceBack is called when leases can be had again.
	deviceBack()
}

const (
	// leasePatience is how long calls may take to notice that their device is lost.
	leasePatience = 30 * time.Second
	// soonAgain is how long a device that was opened again has to live for it to be worth another try.
	soonAgain = time.Minute
)

// errDeviceLost is the error of leases while the device is lost. It matches driver.ErrDeviceLost.
var errDeviceLost = fmt.Errorf("server: %w", driver.ErrDeviceLost)

// deviceLost implements deviceUser.
func (s *Server) deviceLost() { s.setHealth(healthpb.HealthCheckResponse_NOT_SERVING) }

// deviceBack implements deviceUser.
func (s *Server) deviceBack() { s.setHealth(healthpb.HealthCheckResponse_SERVING) }

// setHealth sets the state of all services. Once the server shuts down they are NOT_SERVING whatever it is set to.
func (s *Server) setHealth(to healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", to)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, to)
	}
}

// detach implements deviceUser.
func (s *Server) detach() {
	s.prepared.clear()
	s.frames.detach()
	s.shared.detach()
}

// restore implements deviceUser. Regions are prepared again when they are needed.
func (s *Server) restore(ctx context.Context, dev *kernels.Device) error {
	s.shared.restore(dev)
	lost, err := s.frames.restore(ctx, dev)
	if lost > 0 {
		s.log.Warn("resident frames were lost with the device", "frames", lost)
	}
	return err
}

// Failed delivers the reason, once, when the server has lost its device for good. It goes on refusing calls with
// UNAVAILABLE then, until it is shut down; another process may have more luck.
func (s *Server) Failed() <-chan error { return s.dev.failed }

// openDevice opens the device. The keeper looks after it from watch on.
func openDevice(open func() (*kernels.Device, error), log *slog.Logger) (*deviceKeeper, error) {
	dev, err := open()
	if err != nil {
		return nil, err
	}
	k := &deviceKeeper{open: open, soon: soonAgain, log: log, dev: dev, failed: make(chan error, 1)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k, nil
}

// lease is the device for the time of a call, or of a session. The embedded device's Lost tells those who wait for
// something else. Memory kept on the device has to go back before the lease ends.
type lease struct {
	*kernels.Device
	k *deviceKeeper
}

// acquire returns a lease, which has to be ended, or errDeviceLost.
func (k *deviceKeeper) acquire() (lease, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease()
}

// wait is acquire for those who can wait until the device is back. Its only error is ctx's cause.
func (k *deviceKeeper) wait(ctx context.Context) (lease, error) {
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
			return lease{}, context.Cause(ctx)
		}
	}
}

// lease is acquire with mu held.
func (k *deviceKeeper) lease() (lease, error) {
	select {
	case <-k.dev.Lost(): // as reopen will notice
		k.lose()
	default:
	}
	if k.lost {
		return lease{}, errDeviceLost
	}
	k.leases++
	return lease{k.dev, k}, nil
}

// lose begins the time without a device. mu is held.
func (k *deviceKeeper) lose() {
	if !k.lost {
		k.lost, k.back = true, make(chan struct{})
	}
}

// end gives the lease back. To be called once.
func (l lease) end() {
	k := l.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leases--; k.leases == 0 && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
}

// current is the device for those who only look at it. It may be lost or closed.
func (k *deviceKeeper) current() *kernels.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dev
}

// Info describes the device.
func (k *deviceKeeper) Info() driver.Info { return k.current().Info() }

// Memory is the state of the device's memory.
func (k *deviceKeeper) Memory() kernels.MemoryStats { return k.current().Memory() }

// available says that leases can be had.
func (k *deviceKeeper) available() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.lost
}

// regained says how often a lost device was opened again.
func (k *deviceKeeper) regained() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.regains
}

// watch starts looking after the device, on behalf of u.
func (k *deviceKeeper) watch(u deviceUser) {
	k.user = u
	k.watcher.Go(func() {
		var back time.Time // when the device was opened again
		for {
			select {
			case <-k.ctx.Done():
				return
			case <-k.current().Lost():
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
func (k *deviceKeeper) reopen(back time.Time) error {
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
	k.user.deviceLost()

	if lived := time.Since(back); lived < k.soon {
		return fmt.Errorf("%w again, %v after it was opened again", errDeviceLost, lived.Round(time.Millisecond))
	}
	patience := time.NewTimer(leasePatience)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		return fmt.Errorf("%w, and calls still use it after %v", errDeviceLost, leasePatience)
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	k.user.detach()
	if err := old.Close(); err != nil { // what a lost device says to that is of no use to anybody
		k.log.Warn("closing the lost device", "error", err)
	}
	dev, err := k.open()
	if err != nil {
		return fmt.Errorf("%w, and can't be opened again: %w", errDeviceLost, err)
	}
	if err := k.user.restore(k.ctx, dev); err != nil {
		k.user.detach()
		return errors.Join(fmt.Errorf("%w, and resident frames can't be put back: %w", errDeviceLost, err), dev.Close())
	}
	k.mu.Lock()
	k.dev, k.lost = dev, false
	close(k.back)
	k.back = nil
	k.regains++
	k.mu.Unlock()
	k.log.Warn("the device is open again", "backend", info.Backend, "device", info.Device)
	k.user.deviceBack()
	return nil
}

// close ends the watch and closes the device. No lease may be out.
func (k *deviceKeeper) close() error {
	k.stop()
	k.watcher.Wait()
	return k.current().Close()
}
