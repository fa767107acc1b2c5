package server

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// Strips in shared memory. One whose lease has ended is not counted as received, and comes again in another lease.
func TestScanSharedMemory(t *testing.T) {
	s, c := startShared(t, Config{})
	const width, lines = 8, 10
	strip := func(n uint64) (*pb.Strip, func()) {
		m := leaseMemory(t, c, 1, width*lines)
		slot := takeSlot(t, m)
		for i := range slot.Bytes() {
			slot.Bytes()[i] = byte(n + 1)
		}
		return &pb.Strip{Sequence: n, FirstLine: lines * n,
				Frame: &pb.Frame{Source: &pb.Frame_Shared{Shared: slot.Pixels(width * lines)}}},
			func() { slot.Release(); m.Close(); s.wantUsed(t, 0) }
	}
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, width, lines)), width, lines, lines, lines))
	first, free := strip(0)
	call.strip(first)
	got := call.acked(1)
	free()
	second, free := strip(1)
	free()
	call.strip(second)
	_, err := call.rest(false)
	if d := detailsOf(t, err); d.status.Code() != codes.Unavailable || d.info.GetReason() != apierr.ReasonUnknownLease {
		t.Errorf("a lease that has ended: %v", err)
	}
	call = scanOver(t, s.conn).begin(resumeRequest(call.opened.GetSessionToken(), 1))
	if call.opened.GetNextSequence() != 1 {
		t.Errorf("%v", call.opened)
	}
	second, free = strip(1)
	call.strip(second)
	rest := call.finish()
	free()
	wantEvents(t, got, "")
	wantEvents(t, rest, "")
	for i, p := range append(got.parts, rest.parts...) {
		if p.GetPartNumber() != uint64(i) || p.GetRegions()[0].GetChannels()[0].GetSum() != uint64((i+1)*width*lines) {
			t.Errorf("part %d: %v", i, p)
		}
	}
	if len(got.parts)+len(rest.parts) != 2 {
		t.Errorf("%v, %v", got.parts, rest.parts)
	}
	s.idle(t)
}

// A strip that a panic ends gives its memory back.
func TestScanPanic(t *testing.T) {
	h := newHooked()
	s, c := startShared(t, Config{Driver: h})
	m := leaseMemory(t, c, 1, 80)
	call := s.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10))
	h.set(func() error { panic("on purpose") })
	slot := takeSlot(t, m)
	call.strip(&pb.Strip{Frame: &pb.Frame{Source: &pb.Frame_Shared{Shared: slot.Pixels(80)}}})
	if _, err := call.rest(false); status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
	s.idle(t)
	slot.Release()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	s.wantUsed(t, 0)
}
