package attack

// Line-scan sessions: resumes.

import (
	"context"
	"time"

	"google.golang.org/grpc"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var scanAttacks = []attack{
	{row: 10, name: "resumes whose results nobody reads", args: []string{"--scan-unread", "4MiB"}, asks: true, run: resumes},
}

type scanStream = grpc.BidiStreamingClient[pb.ScanLinesRequest, pb.ScanLinesResponse]

func beginScan(ctx context.Context, cc *grpc.ClientConn, first *pb.ScanLinesRequest) (scanStream, *pb.ScanOpened, error) {
	stream, err := pb.NewLineScanServiceClient(cc).ScanLines(ctx)
	if err == nil {
		err = stream.Send(first)
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	return stream, m.GetOpened(), nil
}

// openScan opens a session of parts of one line, 8 pixels wide. A result takes more than a kilobyte.
func openScan(ctx context.Context, cc *grpc.ClientConn) (scanStream, *pb.ScanOpened, error) {
	inspection := inspect(rectangle("", 8, 1))
	inspection.Reductions = &pb.Reductions{Statistics: []pb.Statistic{pb.Statistic_STATISTIC_PERCENTILES}}
	for i := range 80 {
		inspection.Reductions.Percentiles = append(inspection.Reductions.Percentiles, float64(i)+0.5)
	}
	return beginScan(ctx, cc, &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Open{Open: &pb.ScanOpen{
		Inspection: inspection,
		Layout:     &pb.FrameLayout{Width: 8, Height: 1, PixelFormat: pb.PixelFormat_PIXEL_FORMAT_GRAY8},
		PartLines:  1, Trigger: &pb.ScanOpen_EveryLines{EveryLines: 1},
	}}})
}

func resumeScan(ctx context.Context, cc *grpc.ClientConn, token []byte, next uint64) (scanStream, *pb.ScanOpened, error) {
	return beginScan(ctx, cc, &pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Resume{Resume: &pb.ScanResume{
		SessionToken: token, NextResult: next}}})
}

// resumes makes results, and resumes without reading, and then further on: no result below next_result may come, and
// none be missing above.
func resumes(ctx context.Context, a *attempt) {
	const parts = 600
	cc := a.client(a)
	stream, opened, err := openScan(ctx, cc)
	if err != nil {
		a.problem("open: %v", err)
		return
	}
	go func() {
		for i := range parts {
			if stream.Send(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Strip{Strip: &pb.Strip{
				Sequence: uint64(i), FirstLine: uint64(i), Frame: &pb.Frame{Source: &pb.Frame_Data{Data: make([]byte, 8)}},
			}}}) != nil {
				return
			}
		}
	}()
	got := uint64(0)
	for got < parts { // all of them have come once, so all exist
		m, err := stream.Recv()
		if err != nil {
			a.problem("results: %v", err)
			return
		}
		if p := m.GetPart(); p != nil {
			got = p.GetResultNumber() + 1
		}
	}
	for next := uint64(100); next < parts; next += 100 {
		// A client without a window reads nothing, so all results but some wait in the server.
		m := marshal(&pb.ScanLinesRequest{Message: &pb.ScanLinesRequest_Resume{Resume: &pb.ScanResume{
			SessionToken: opened.GetSessionToken(), NextResult: next - 100}}})
		w := dial(a, a.addr, 0)
		if err := w.call(pb.LineScanService_ScanLines_FullMethodName).data(ctx, append(prefix(len(m)), m...), 0, false); err != nil {
			a.problem("resume at %d: %v", next-100, err)
			return
		}
		time.Sleep(20 * time.Millisecond) // the server can't say that it has it
		s, _, err := resumeScan(ctx, cc, opened.GetSessionToken(), next)
		if err != nil {
			a.problem("resume at %d: %v", next, err)
			return
		}
		for want := next; want < min(next+40, parts); {
			m, err := s.Recv()
			if err != nil {
				a.problem("results from %d: %v", next, err)
				return
			}
			p := m.GetPart()
			if p == nil {
				continue
			}
			if p.GetResultNumber() != want {
				a.problem("after a resume at %d result %d came where %d was next", next, p.GetResultNumber(), want)
				return
			}
			want++
		}
		w.close()
	}
}
