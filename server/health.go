// The health service.

package server

import (
	"context"
	"sync"

	"github.com/polyscan/polyscan/server/internal/apierr"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthServer ends watches when the server shuts down: they have no end of their own, and would keep it from ending.
type healthServer struct {
	healthpb.HealthServer
	draining <-chan struct{}
}

// Watch implements healthpb.HealthServer. Who watches is told NOT_SERVING before the end.
func (h healthServer) Watch(in *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	w := &healthWatch{Health_WatchServer: stream}
	w.ctx, w.cancel = context.WithCancel(stream.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-h.draining:
			w.end()
		case <-w.ctx.Done():
		}
	})
	err := h.HealthServer.Watch(in, w)
	w.cancel()
	waiting.Wait()
	if w.ending {
		return apierr.ErrShuttingDown
	}
	return err
}

// healthWatch is a watch. Its context ends once it is to end and the client knows why.
type healthWatch struct {
	healthpb.Health_WatchServer
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	ending bool
	told   bool // that the service isn't there
}

func (w *healthWatch) Context() context.Context { return w.ctx }

func (w *healthWatch) Send(r *healthpb.HealthCheckResponse) error {
	err := w.Health_WatchServer.Send(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = r.GetStatus() != healthpb.HealthCheckResponse_SERVING
	if w.ending && w.told {
		w.cancel()
	}
	return err
}

func (w *healthWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	if w.told {
		w.cancel()
	}
}
