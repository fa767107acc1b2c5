package attack

// Tokens: whose things are whose, and what becomes of those that are taken back.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

var tokenAttacks = []attack{
	{row: 9, name: "frames and sessions of another token", run: othersThings,
		red: "what tokens made belongs to nobody"},
	{row: 9, name: "all sessions for one client", args: []string{"--scan-sessions", "16"}, run: allSessions,
		red: "there are no quotas"},
	{row: 14, name: "a token is taken out of the file", run: revoke},
	{row: 14, name: "the token file is emptied", run: func(ctx context.Context, a *attempt) {
		without(ctx, a, func(file string) error { return os.WriteFile(file, nil, 0o600) })
	}},
	{row: 14, name: "the token file is deleted", run: func(ctx context.Context, a *attempt) { without(ctx, a, os.Remove) }},
	{row: 14, name: "a token changes, and the file's size and time don't", run: sameSize},
	{row: 16, name: "a token file for all to read", run: readableTokens},
}

// withTokens starts another server, with a file of tokens; the attempt's own has none, so that the probe needs none.
func withTokens(a *attempt, mode os.FileMode, tokens ...string) (p *process, file string) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { os.RemoveAll(dir) })
	file = filepath.Join(dir, "tokens")
	if err := os.WriteFile(file, []byte(strings.Join(tokens, "\n")+"\n"), mode); err != nil {
		a.Fatal(err)
	}
	return start(a, "--token-file", file), file
}

func as(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// allowed says whether a token is one of the server's.
func allowed(ctx context.Context, p *process, t testing.TB, token string) bool {
	_, err := pb.NewDeviceServiceClient(p.client(t)).GetDevice(as(ctx, token), &pb.GetDeviceRequest{})
	return status.Code(err) == codes.OK
}

// eventually waits for what must be so within two seconds: one for the server to look, and one for this machine.
func eventually(ctx context.Context, ok func() bool) bool {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		if ok() {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ok()
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

// allSessions opens sessions until there are no more; another client must get one all the same.
func allSessions(ctx context.Context, a *attempt) {
	p, _ := withTokens(a, 0o600, "alice", "mallory")
	cc := p.client(a)
	for range 256 {
		if _, _, err := openScan(as(ctx, "mallory"), cc); err != nil {
			break
		}
	}
	if _, _, err := openScan(as(ctx, "alice"), cc); err != nil {
		a.problem("a second token gets no session: %v", status.Code(err))
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
	select {
	case err := <-ended:
		if status.Code(err) != codes.Unauthenticated {
			a.problem("the stream of a token that was taken back: %v", err)
		}
	case <-time.After(2 * time.Second):
		a.problem("the stream of a token that was taken back goes on")
	}
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
	if !eventually(ctx, func() bool { return !allowed(ctx, p, a, "alice") }) {
		a.problem("the token is taken although the file has none")
	}
}

func sameSize(ctx context.Context, a *attempt) {
	p, file := withTokens(a, 0o600, "alice")
	at := time.Now().Add(-time.Hour)
	os.Chtimes(file, at, at)
	if !eventually(ctx, func() bool { return allowed(ctx, p, a, "alice") }) {
		a.problem("the token is refused")
	}
	time.Sleep(1100 * time.Millisecond) // the server has seen that time
	allowed(ctx, p, a, "alice")
	if err := os.WriteFile(file, []byte("carol\n"), 0o600); err != nil {
		a.Fatal(err)
	}
	os.Chtimes(file, at, at)
	if !eventually(ctx, func() bool { return !allowed(ctx, p, a, "alice") && allowed(ctx, p, a, "carol") }) {
		a.problem("the change goes unnoticed")
	}
}

func readableTokens(_ context.Context, a *attempt) {
	p, file := withTokens(a, 0o644, "alice")
	if log := p.log.String(); !strings.Contains(log, file) || !strings.Contains(log, "0644") {
		a.problem("the log doesn't say that all may read the file")
	}
}
