package attack

// Tokens: whose things are whose, and what becomes of those that are taken back.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var tokenAttacks = []attack{
	{row: 9, name: "frames and sessions of another token", apart: true, asks: true, run: othersThings},
	{row: 9, name: "names of another token are guessed", apart: true, asks: true, run: guessNames},
	{row: 9, name: "all sessions for one client", apart: true, asks: true, run: allSessions},
	{row: 9, name: "all frames for one client", apart: true, asks: true, run: allFrames},
	{row: 9, name: "all shared memory for one client", apart: true, asks: true, run: allSharedMemory},
	{row: 9, name: "more than a quota", apart: true, asks: true, run: beyondQuota},
	{row: 9, name: "frames of a token that may only look", apart: true, run: viewerFloods},
	{row: 14, name: "a token is taken out of the file", apart: true, asks: true, run: revoke},
	{row: 14, name: "the token file is emptied", apart: true, asks: true, run: func(ctx context.Context, a *attempt) {
		without(ctx, a, func(file string) error { return os.WriteFile(file, nil, 0o600) })
	}},
	{row: 14, name: "the token file is deleted", apart: true, asks: true, run: func(ctx context.Context, a *attempt) {
		without(ctx, a, os.Remove)
	}},
	{row: 14, name: "a token changes, and the file's size and time don't", apart: true, asks: true, run: sameSize},
	{row: 16, name: "a token file for all to read", apart: true, run: readableTokens},
}

// withTokens starts another server, with a file of tokens; the attempt's own has none, so that the probe needs none.
func withTokens(a *attempt, mode os.FileMode, tokens ...string) (p *process, file string) {
	return withTokensAnd(a, mode, nil, tokens...)
}

// withTokensAnd is withTokens with other settings, too.
func withTokensAnd(a *attempt, mode os.FileMode, args []string, tokens ...string) (p *process, file string) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { os.RemoveAll(dir) })
	file = filepath.Join(dir, "tokens")
	if err := os.WriteFile(file, []byte(strings.Join(tokens, "\n")+"\n"), mode); err != nil {
		a.Fatal(err)
	}
	return start(a, append(args, "--token-file", file)...), file
}

func as(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// allowed says whether a token is one of the server's.
func allowed(ctx context.Context, p *process, a *attempt, token string) bool {
	_, err := pb.NewDeviceServiceClient(p.client(a)).GetDevice(as(ctx, token), &pb.GetDeviceRequest{})
	if code := status.Code(err); code != codes.OK && code != codes.Unauthenticated {
		a.problem("a call of the token %q: %v", token, err)
	}
	return err == nil
}

// eventually waits for what must be so within two seconds: one for the server to look, and one for this machine.
func (a *attempt) eventually(ok func() bool, otherwise string) {
	const bound = 2 * time.Second
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > gross*bound {
			a.problem("%s", otherwise)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	a.felt(time.Since(begun), bound, "%s for %v", otherwise, time.Since(begun))
}

func othersThings(ctx context.Context, a *attempt) {
	p, _ := withTokens(a, 0o600, "alice", "mallory")
	cc := p.client(a)
	frames, inspection := pb.NewFrameServiceClient(cc), pb.NewInspectionServiceClient(cc)
	alice, mallory := as(ctx, "alice"), as(ctx, "mallory")
	put, err := frames.PutFrame(alice, &pb.PutFrameRequest{Frame: grayFrame(16, 16)})
	if err != nil {
		a.problem("put a frame: %v", err)
		return
	}
	name := put.GetFrame().GetName()
	if list, err := frames.ListFrames(mallory, &pb.ListFramesRequest{}); err != nil || len(list.GetFrames()) > 0 {
		a.problem("another token lists %d frames, %v", len(list.GetFrames()), err)
	}
	_, err = inspection.Reduce(mallory, &pb.ReduceRequest{Inspection: inspect(rectangle("", 8, 8)),
		Frame: &pb.Frame{Source: &pb.Frame_Resident{Resident: name}}})
	if status.Code(err) != codes.NotFound {
		a.problem("another token reduces a frame: %v", status.Code(err))
	}
	if _, err := frames.ReleaseFrame(mallory, &pb.ReleaseFrameRequest{Name: name}); status.Code(err) != codes.NotFound {
		a.problem("another token releases a frame: %v", status.Code(err))
	}
	stream, opened, err := openScan(alice, p.client(a))
	if err != nil {
		a.problem("open a session: %v", err)
		return
	}
	defer stream.CloseSend()
	if _, _, err := resumeScan(mallory, p.client(a), opened.GetSessionToken(), 0); status.Code(err) != codes.NotFound {
		a.problem("another token takes a session over: %v", status.Code(err))
	}
}

// guessNames asks for another's frame and session and for those that never were, in turn: the answers must be the same,
// and take the same time.
func guessNames(ctx context.Context, a *attempt) {
	p, _ := withTokens(a, 0o600, "alice", "mallory")
	cc := p.client(a)
	frames := pb.NewFrameServiceClient(cc)
	alice, mallory := as(ctx, "alice"), as(ctx, "mallory")
	put, err := frames.PutFrame(alice, &pb.PutFrameRequest{Frame: grayFrame(16, 16)})
	if err != nil {
		a.problem("put a frame: %v", err)
		return
	}
	stream, opened, err := openScan(alice, p.client(a))
	if err != nil {
		a.problem("open a session: %v", err)
		return
	}
	defer stream.CloseSend()
	name, token := put.GetFrame().GetName(), opened.GetSessionToken()
	guesses := map[string]func(real bool) error{
		"frame": func(real bool) error {
			n := name
			if !real {
				n = strings.Repeat("A", len(n))
			}
			_, err := frames.GetFrame(mallory, &pb.GetFrameRequest{Name: n, Touch: true})
			return err
		},
		"session": func(real bool) error {
			b := token
			if !real {
				b = make([]byte, len(b))
			}
			call, _, err := resumeScan(mallory, cc, b, 0)
			if err == nil {
				call.CloseSend()
			}
			return err
		},
	}
	for what, guess := range guesses {
		var took [2]latencies
		for i := 0; i < 400 && ctx.Err() == nil; i++ {
			begun := time.Now()
			err := guess(i%2 == 0)
			took[i%2] = append(took[i%2], time.Since(begun))
			if ctx.Err() == nil && status.Code(err) != codes.NotFound {
				a.problem("another token's %s, which is there: %t: %v", what, i%2 == 0, err)
			}
		}
		// Medians, since single calls take any time on a machine that others use.
		if there, never := took[0].percentile(50), took[1].percentile(50); there > 2*never || never > 2*there {
			a.tooSlow("another token's %s takes %v to be refused, and one that never was %v", what, there, never)
		}
	}
	if _, err := frames.GetFrame(alice, &pb.GetFrameRequest{Name: name}); err != nil && ctx.Err() == nil {
		a.problem("the frame's own tenant: %v", err)
	}
}

// greedy takes what it can get until it is refused, which must happen before it has all; another must get one then.
func greedy(ctx context.Context, a *attempt, all int, take func(ctx context.Context) error) {
	n := 0
	var err error
	for ; n < all && ctx.Err() == nil; n++ {
		if err = take(as(ctx, "mallory")); err != nil {
			break
		}
	}
	if n == all || n < all/2 || ctx.Err() == nil && status.Code(err) != codes.ResourceExhausted {
		a.problem("one token got %d of %d, %v", n, all, err)
	}
	if err := take(as(ctx, "alice")); err != nil && ctx.Err() == nil {
		a.problem("a second token gets none: %v", err)
	}
}

func allSessions(ctx context.Context, a *attempt) {
	p, _ := withTokensAnd(a, 0o600, []string{"--scan-sessions", "16"}, "alice", "mallory")
	cc := p.client(a)
	greedy(ctx, a, 16, func(ctx context.Context) error {
		_, _, err := openScan(ctx, cc)
		return err
	})
}

func allFrames(ctx context.Context, a *attempt) {
	p, _ := withTokensAnd(a, 0o600, []string{"--max-frames", "32"}, "alice", "mallory")
	frames := pb.NewFrameServiceClient(p.client(a))
	greedy(ctx, a, 32, func(ctx context.Context) error {
		_, err := frames.PutFrame(ctx, &pb.PutFrameRequest{Frame: grayFrame(16, 16)})
		return err
	})
	p, _ = withTokensAnd(a, 0o600, []string{"--frame-memory", "16MiB"}, "alice", "mallory")
	frames = pb.NewFrameServiceClient(p.client(a))
	greedy(ctx, a, 16, func(ctx context.Context) error {
		_, err := frames.PutFrame(ctx, &pb.PutFrameRequest{Frame: grayFrame(1024, 1024)})
		return err
	})
}

func allSharedMemory(ctx context.Context, a *attempt) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { os.RemoveAll(dir) })
	p, _ := withTokensAnd(a, 0o600, []string{"--shm-socket", filepath.Join(dir, "shm"), "--shm-memory", "16MiB"},
		"alice", "mallory")
	leases := pb.NewSharedMemoryServiceClient(p.client(a))
	greedy(ctx, a, 16, func(ctx context.Context) error {
		stream, err := leases.Lease(ctx, &pb.LeaseRequest{Bytes: 1 << 20})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
}

// beyondQuota asks for more than the file gives, of everything, on many connections.
func beyondQuota(ctx context.Context, a *attempt) {
	p, _ := withTokens(a, 0o600, "alice", "mallory name=mallory sessions=2 frames=3 streams=4")
	mallory := as(ctx, "mallory")
	count := map[string]int{}
	for range 4 {
		cc := p.client(a)
		for range 10 {
			if _, _, err := openScan(mallory, cc); err == nil {
				count["sessions"]++
			}
			_, err := pb.NewFrameServiceClient(cc).PutFrame(mallory, &pb.PutFrameRequest{Frame: grayFrame(16, 16)})
			if err == nil {
				count["frames"]++
			}
			stream, err := pb.NewInspectionServiceClient(cc).StreamFrames(mallory)
			if err == nil {
				err = stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Open{
					Open: inspect(rectangle("", 8, 8))}})
			}
			if err == nil {
				stream.Send(&pb.StreamFramesRequest{Message: &pb.StreamFramesRequest_Frame{Frame: grayFrame(8, 8)}})
				_, err = stream.Recv()
			}
			if err == nil {
				count["streams"]++
			}
		}
	}
	for what, limit := range map[string]int{"sessions": 2, "frames": 3, "streams": 4} {
		if count[what] != limit && ctx.Err() == nil {
			a.problem("%d %s where the quota is %d", count[what], what, limit)
		}
	}
}

// viewerFloods sends large requests with a token that may only look: they are refused before they have come.
func viewerFloods(ctx context.Context, a *attempt) {
	p, _ := withTokens(a, 0o600, "alice", "mallory role=view")
	before, peak := p.resident(), int64(0)
	message := make([]byte, 8<<20)
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond) // what is measured is memory: this program takes the CPU itself
		w := dial(a, p.addr, 1<<20)
		for range 4 {
			c := w.call(pb.InspectionService_Reduce_FullMethodName, "authorization", "Bearer mallory")
			go c.send(ctx, message)
			if code, err := c.wait(ctx); err == nil && ctx.Err() == nil {
				a.answered(code)
				if code != codes.PermissionDenied {
					a.problem("a token that may only look gets %v", code)
				}
			}
		}
		peak = max(peak, p.resident())
		w.close()
	}
	if more := peak - before; more > 64<<20 {
		a.problem("%d MB for requests that are refused", more/1e6)
	}
	if !allowed(context.Background(), p, a, "mallory") {
		a.problem("it may not look any more")
	}
}

func revoke(ctx context.Context, a *attempt) {
	p, file := withTokens(a, 0o600, "alice", "mallory")
	stream, _, err := openScan(as(ctx, "mallory"), p.client(a))
	if err != nil {
		a.problem("open a session: %v", err)
		return
	}
	if err := os.WriteFile(file, []byte("alice\n"), 0o600); err != nil {
		a.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	a.eventually(func() bool {
		select {
		case err := <-ended:
			if status.Code(err) != codes.Unauthenticated {
				a.problem("the stream of a token that was taken back: %v", err)
			}
			return true
		default:
			return false
		}
	}, "the stream of a token that was taken back goes on")
}

// without does something to the file, after which no token is one.
func without(ctx context.Context, a *attempt, change func(file string) error) {
	p, file := withTokens(a, 0o600, "alice")
	if !allowed(ctx, p, a, "alice") {
		a.problem("the token is refused")
	}
	if err := change(file); err != nil {
		a.Fatal(err)
	}
	a.eventually(func() bool { return !allowed(ctx, p, a, "alice") }, "the token is taken although the file has none")
}

func sameSize(ctx context.Context, a *attempt) {
	p, file := withTokens(a, 0o600, "alice")
	at := time.Now().Add(-time.Hour)
	os.Chtimes(file, at, at)
	a.eventually(func() bool { return allowed(ctx, p, a, "alice") }, "the token is refused")
	time.Sleep(1100 * time.Millisecond) // the server has seen that time
	allowed(ctx, p, a, "alice")
	if err := os.WriteFile(file, []byte("carol\n"), 0o600); err != nil {
		a.Fatal(err)
	}
	os.Chtimes(file, at, at)
	a.eventually(func() bool { return !allowed(ctx, p, a, "alice") && allowed(ctx, p, a, "carol") },
		"the change goes unnoticed")
}

func readableTokens(_ context.Context, a *attempt) {
	p, file := withTokens(a, 0o644, "alice")
	if log := p.log.String(); !strings.Contains(log, file) || !strings.Contains(log, "0644") {
		a.problem("the log doesn't say that all may read the file")
	}
}
