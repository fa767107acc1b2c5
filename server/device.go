// DeviceService.

package server

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/drivers"
)

type deviceServer struct {
	pb.UnimplementedDeviceServiceServer
	*Server
}

func (s *deviceServer) GetDevice(context.Context, *pb.GetDeviceRequest) (*pb.GetDeviceResponse, error) {
	i, m := s.dev.Info(), s.dev.Memory()
	memory := &pb.MemoryStatus{
		ReservedBytes:    uint64(m.Reserved),
		UsedBytes:        uint64(m.Used),
		HighWaterBytes:   uint64(m.HighWater),
		UsedBytesByLabel: make(map[string]uint64, len(m.ByLabel)),
	}
	for label, n := range m.ByLabel {
		memory.UsedBytesByLabel[label] = uint64(n)
	}
	return &pb.GetDeviceResponse{
		Backend:       i.Backend,
		DeviceName:    i.Device,
		ComputeUnits:  uint32(i.ComputeUnits),
		Capability:    i.Capability,
		Memory:        memory,
		ServerVersion: s.cfg.Version,
		GoVersion:     goVersion(),
		StartedAt:     timestamppb.New(s.started),
		Drivers:       drivers.Names(),
		Limits: &pb.ServerLimits{
			MaxMessageBytes:         uint64(s.cfg.MaxMessageBytes),
			MaxFramePixels:          uint64(s.cfg.MaxFramePixels),
			MaxRegions:              uint32(s.cfg.Bounds.MaxRegions),
			MaxVertices:             uint64(s.cfg.Bounds.MaxVertices),
			MaxStreamsPerConnection: uint32(s.cfg.MaxStreams),
		},
	}, nil
}
