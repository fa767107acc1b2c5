// What becomes of the server when its device is lost, and when it is back.

package server

import (
	"context"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"

	"github.com/polyscan/polyscan/kernels"
)

// onDeviceLoss implements User.
type onDeviceLoss struct{ s *Server }

// DeviceLost implements User.
func (r onDeviceLoss) DeviceLost() {
	r.s.setHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	r.tell(false)
}

// tell tells watchers of the device.
func (r onDeviceLoss) tell(available bool) {
	st := host(r).DeviceState()
	st.Available = available
	r.s.events.DeviceChanged(st)
}

// DeviceBack implements User.
func (r onDeviceLoss) DeviceBack() {
	r.s.setHealth(healthpb.HealthCheckResponse_SERVING)
	r.tell(true)
}

// setHealth sets the state of all services. Once the server shuts down they are NOT_SERVING whatever it is set to.
func (s *Server) setHealth(to healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", to)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, to)
	}
	if s.history.CanNotWrite() {
		s.health.SetServingStatus(pb.HistoryService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// Detach implements User.
func (r onDeviceLoss) Detach() {
	r.s.inspector.Detach()
	r.s.residents.Detach()
	r.s.shared.Detach()
}

// Restore implements User. Regions are prepared again when they are needed.
func (r onDeviceLoss) Restore(ctx context.Context, dev *kernels.Device) error {
	r.s.shared.Restore(dev)
	lost, err := r.s.residents.Restore(ctx, dev)
	if lost > 0 {
		r.s.log.Warn("resident frames were lost with the device", "frames", lost)
	}
	return err
}

// Failed delivers the reason, once, when the server has lost its device for good. It goes on refusing calls with
// UNAVAILABLE then, until it is shut down; another process may have more luck.
func (s *Server) Failed() <-chan error { return s.dev.Failed() }
