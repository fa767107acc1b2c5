// DeviceService.

package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/drivers"
	"github.com/polyscan/polyscan/server/internal/auth"
)

// deviceServer answers the calls of DeviceService: it is of no room, because it tells what all of them have.
type deviceServer struct {
	pb.UnimplementedDeviceServiceServer
	server *Server
}

func (d *deviceServer) GetDevice(ctx context.Context, _ *pb.GetDeviceRequest) (*pb.GetDeviceResponse, error) {
	s := d.server
	dev := s.dev.Current()
	i := dev.Info()
	return &pb.GetDeviceResponse{
		Backend:       i.Backend,
		DeviceName:    i.Device,
		ComputeUnits:  uint32(i.ComputeUnits),
		Capability:    i.Capability,
		Memory:        memoryStatus(dev.Memory()),
		ServerVersion: s.cfg.Version,
		GoVersion:     goVersion(),
		StartedAt:     timestamppb.New(s.started),
		Drivers:       drivers.Names(),
		Limits: &pb.ServerLimits{
			MaxMessageBytes:         uint64(s.cfg.MaxMessageBytes),
			MaxFramePixels:          uint64(s.cfg.MaxFramePixels),
			MaxRegions:              uint32(s.cfg.MaxRegions),
			MaxVertices:             uint64(s.cfg.MaxVertices),
			MaxStreamsPerConnection: uint32(s.cfg.MaxStreams),
		},
		Scheduler:      schedulerStatus(dev.Sched()),
		ResidentFrames: s.residents.Status(),
		DeviceLosses:   s.dev.Regained(),
		Role:           auth.FromContext(ctx).Role.String(),
		Tenants:        s.tenantStatus(auth.FromContext(ctx)),
	}, nil
}

// tenantStatus is what a caller may see of what tenants hold.
func (s *Server) tenantStatus(who auth.Caller) (all []*pb.TenantStatus) {
	if s.tenants == nil {
		return nil
	}
	for _, u := range s.tenants.Usage(who.Tenant) {
		if !who.Sees(u.Tenant) {
			continue
		}
		t := &pb.TenantStatus{Name: u.Tenant}
		for what := range u.Used {
			q := &pb.QuotaStatus{Resource: auth.Resource(what).String(), Used: uint64(u.Used[what]),
				Refused: uint64(u.Refused[what])}
			if limit := u.Limits[what]; limit >= 0 {
				q.Limit = proto.Uint64(uint64(limit))
			}
			t.Quotas = append(t.Quotas, q)
		}
		all = append(all, t)
	}
	return all
}

func memoryStatus(m kernels.MemoryStats) *pb.MemoryStatus {
	out := &pb.MemoryStatus{
		ReservedBytes:    uint64(m.Reserved),
		UsedBytes:        uint64(m.Used),
		HighWaterBytes:   uint64(m.HighWater),
		UsedBytesByLabel: make(map[string]uint64, len(m.ByLabel)),
		ScratchBytes:     uint64(m.ByTenant.Scratch),
		SessionBytes:     uint64(m.ByTenant.Session),
		ResidentBytes:    uint64(m.ByTenant.Resident),
		EvictableBytes:   uint64(m.Evictable),
		LargestFreeBytes: uint64(m.Largest),
		Evictions:        uint64(m.Evictions),
		Refusals:         uint64(m.Refused),
		Waiting:          uint32(m.Waiting),
	}
	for label, n := range m.ByLabel {
		out.UsedBytesByLabel[label] = uint64(n)
	}
	return out
}

func schedulerStatus(s kernels.SchedStats) []*pb.ClassStatus {
	var out []*pb.ClassStatus
	for _, c := range []kernels.Class{kernels.LineScan, kernels.Interactive, kernels.Batch} {
		out = append(out, &pb.ClassStatus{
			Name:            c.String(),
			Running:         uint32(s[c].Running),
			Waiting:         uint32(s[c].Waiting),
			Admitted:        uint64(s[c].Admitted),
			Waited:          durationpb.New(s[c].Waited),
			Done:            uint64(s[c].Done),
			MissedDeadlines: uint64(s[c].Missed),
			Shed:            uint64(s[c].Shed),
			Refused:         uint64(s[c].Refused),
		})
	}
	return out
}
