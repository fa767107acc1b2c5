package server

import (
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// A lease is its tenant's, and so are its bytes, until nobody uses them any more.
func TestLeasesOfTenants(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "memory"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := startTenants(t, Config{SharedMemoryListener: l, SharedMemoryBytes: 1 << 20},
		"a name=alice leases=2 lease-bytes=12KiB", "m name=mallory", "v name=viewer role=view")
	alice, mallory := s.as(t, "a"), s.as(t, "m")
	lease := alice.rawLease(t, 4097) // two pages
	lease.fetch(t)
	reduce := func(c *testServer, id uint64) error {
		_, err := c.inspection.Reduce(t.Context(), &pb.ReduceRequest{
			Inspection: inspecting(rect("r", 0, 0, 8, 8)),
			Frame: &pb.Frame{Layout: noisyFrame(8, 8, 1).GetLayout(),
				Source: &pb.Frame_Shared{Shared: &pb.SharedPixels{LeaseId: id, Length: 64}}}})
		return err
	}
	if err := reduce(alice, lease.GetLeaseId()); err != nil {
		t.Error(err)
	}
	for _, id := range []uint64{lease.GetLeaseId(), lease.GetLeaseId() + 1} {
		if d := detailsOf(t, reduce(mallory, id)); d.status.Code() != codes.NotFound ||
			d.info.GetReason() != apierr.ReasonUnknownLease {
			t.Errorf("another tenant reads: %v", d.status)
		}
	}
	refused := func(c *testServer, bytes uint64) error {
		st, err := pb.NewSharedMemoryServiceClient(c.conn).Lease(t.Context(), &pb.LeaseRequest{Bytes: bytes})
		if err == nil {
			_, err = st.Recv()
		}
		return err
	}
	wantQuota(t, refused(alice, 4097), "alice", "lease-bytes", 8192, 12<<10)
	second := alice.rawLease(t, 4096)
	wantQuota(t, refused(alice, 1), "alice", "leases", 2, 2)
	second.end()
	s.wantHeld(t, "alice", "leases", 1)
	// One that has ended is taken back for the next of the same tenant, whose client is still there.
	lease.end()
	waitFor(t, "the lease to end", func() bool { return metric(t, s, "polyscan_shared_memory_leases") == 0 })
	whole := alice.rawLease(t, 12<<10)
	s.wantHeld(t, "alice", "lease-bytes", 12<<10)
	whole.end()
	s.wantHeld(t, "alice", "lease-bytes", 0)
	s.wantHeld(t, "alice", "leases", 0)
	if err := refused(mallory, 1<<20); detailsOf(t, err).info.GetReason() != apierr.ReasonTenantQuota {
		t.Errorf("one tenant takes all: %v", err)
	}
	mallory.rawLease(t, 700<<10).end()
}
