package server

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/polyscan/polyscan/internal/seed"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

// as is the server with connections that bring a token.
func (ts *testServer) as(t testing.TB, token string) *testServer {
	t.Helper()
	with := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	c := *ts
	c.conn = ts.connectCleanly(t,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(with(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string,
			streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(with(ctx), d, cc, method, opts...)
		}))
	c.inspection, c.recipe = pb.NewInspectionServiceClient(c.conn), pb.NewRecipeServiceClient(c.conn)
	c.device = pb.NewDeviceServiceClient(c.conn)
	return &c
}

// startTenants starts a server with a token file.
func startTenants(t testing.TB, cfg Config, lines ...string) (s *testServer, file string) {
	t.Helper()
	cfg.TokenFile = writeFile(t, filepath.Join(t.TempDir(), "tokens"), strings.Join(lines, "\n"))
	return start(t, cfg), cfg.TokenFile
}

// wantUnknown checks that an error tells no more than one about a name that never was.
func wantUnknown(t testing.TB, what string, err, unknown error, name, never string) {
	t.Helper()
	d, n := detailsOf(t, err), detailsOf(t, unknown)
	text := func(d details) string {
		return strings.ReplaceAll(fmt.Sprint(d.status.Proto()), name, never)
	}
	if d.status.Code() != codes.NotFound || text(d) != text(n) {
		t.Errorf("%s: %v, where a name that never was gets %v", what, d.status, n.status)
	}
}

// A frame is its tenant's: to others its name says nothing, whatever became of the frame, and admins see all.
func TestFramesOfTenants(t *testing.T) {
	s, _ := startTenants(t, Config{}, "a name=alice role=run", "a2 name=alice role=run", "m", "o name=ops role=admin")
	alice, also, mallory, ops := s.as(t, "a"), s.as(t, "a2"), s.as(t, "m"), s.as(t, "o")
	f := alice.frameClient().put(t, noisyFrame(8, 8, 1))
	if f.GetTenant() != "alice" {
		t.Errorf("a frame of tenant %q", f.GetTenant())
	}
	other := mallory.frameClient().put(t, noisyFrame(8, 8, 2))
	if name := other.GetTenant(); !strings.HasPrefix(name, "token:") || strings.Contains(s.logs.String(), "Bearer") {
		t.Errorf("a frame of tenant %q", name)
	}
	never := strings.Repeat("A", len(f.GetName()))
	in := inspecting(rect("r", 0, 0, 8, 8))
	calls := map[string]func(c *testServer, name string) error{
		"get": func(c *testServer, name string) error {
			_, err := c.frameClient().GetFrame(t.Context(), &pb.GetFrameRequest{Name: name, Touch: true})
			return err
		},
		"reduce": func(c *testServer, name string) error {
			_, err := c.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: keptFrame(name)})
			return err
		},
		"fill": func(c *testServer, name string) error {
			_, err := diffusionClient(c).Background(t.Context(), &pb.BackgroundRequest{
				Frame: keptFrame(name), Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: in.GetRegionSet()}})
			return err
		},
		"stream": func(c *testServer, name string) error {
			st := c.open(t, in)
			st.send(keptFrame(name))
			m := st.recv()
			st.end(nil)
			return status.ErrorProto(m.GetError())
		},
		"convert": func(c *testServer, name string) error {
			_, err := pb.NewLowPolyServiceClient(c.conn).Convert(t.Context(), &pb.ConvertRequest{Frame: keptFrame(name)})
			return err
		},
	}
	release := func(c *testServer, name string) error {
		_, err := c.frameClient().ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: name})
		return err
	}
	for what, call := range calls {
		for who, c := range map[string]*testServer{"alice": alice, "alice's other token": also, "ops": ops} {
			if err := call(c, f.GetName()); status.Code(err) == codes.NotFound {
				t.Errorf("%s: %s: %v", who, what, err)
			}
		}
		wantUnknown(t, what, call(mallory, f.GetName()), call(mallory, never), f.GetName(), never)
	}
	wantUnknown(t, "release", release(mallory, f.GetName()), release(mallory, never), f.GetName(), never)
	names := func(c *testServer) (all []string) {
		for _, f := range c.frameClient().list(t) {
			all = append(all, f.GetName())
		}
		return all
	}
	if got := names(alice); len(got) != 1 || got[0] != f.GetName() {
		t.Errorf("alice lists %v", got)
	}
	if got := names(mallory); len(got) != 1 || got[0] != other.GetName() {
		t.Errorf("mallory lists %v", got)
	}
	if got := names(ops); len(got) != 2 {
		t.Errorf("ops lists %v", got)
	}
	if err := release(ops, f.GetName()); err != nil {
		t.Errorf("ops releases: %v", err)
	}
	// What became of it is alice's to know.
	if d := detailsOf(t, calls["get"](alice, f.GetName())); d.info.GetReason() != apierr.ReasonFrameReleased {
		t.Errorf("alice is told %v", d.status)
	}
	wantUnknown(t, "get after release", calls["get"](mallory, f.GetName()), calls["get"](mallory, never), f.GetName(),
		never)
}

// Pictures that the server keeps for a call are the caller's, and count as frames.
func TestKeptPicturesOfTenants(t *testing.T) {
	s, _ := startTenants(t, Config{}, "a name=alice frames=1", "m name=mallory")
	req := &pb.BackgroundRequest{Frame: noisyFrame(8, 8, 1),
		Foreground: &pb.BackgroundRequest_RegionSet{RegionSet: inspecting(rect("r", 2, 2, 5, 5)).GetRegionSet()},
		Background: &pb.PictureOutput{Keep: true}}
	res, err := diffusionClient(s.as(t, "a")).Background(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if name := res.GetKeptBackground().GetTenant(); name != "alice" {
		t.Errorf("kept for %q", name)
	}
	_, err = diffusionClient(s.as(t, "a")).Background(t.Context(), req)
	wantQuota(t, err, "alice", "frames", 1, 1)
}

// Another tenant's resume is refused like one with a token that never was, and does nothing to the session.
func TestSessionsOfTenants(t *testing.T) {
	s, _ := startTenants(t, Config{}, "a name=alice", "m name=mallory")
	alice, mallory := s.as(t, "a"), s.as(t, "m")
	b := newBelt(4, 8, 100)
	call := alice.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10))
	call.strip(b.strip(0, 0, 10))
	call.acked(1)
	token := call.opened.GetSessionToken()
	resume := func(c *testServer, token []byte) error {
		again := scanOver(t, c.conn)
		again.request(resumeRequest(token, 0))
		_, err := again.Recv()
		return err
	}
	never := make([]byte, len(token))
	wantUnknown(t, "resume", resume(mallory, token), resume(mallory, never), "-", "-")
	call.strip(b.strip(1, 10, 20))
	if got := call.finish(); len(got.parts) != 1 || got.parts[0].GetPartNumber() != 1 { // the first came with the ack
		t.Errorf("after another's attempt %v", got.parts)
	}
	// Between two calls, too.
	call = alice.scan(t, scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10))
	call.strip(b.strip(0, 0, 10))
	call.acked(1)
	call.cancel()
	wantUnknown(t, "resume", resume(mallory, call.opened.GetSessionToken()), resume(mallory, never), "-", "-")
	again := scanOver(t, alice.conn).begin(resumeRequest(call.opened.GetSessionToken(), 0))
	if again.opened.GetNextLine() != 10 {
		t.Errorf("%v", again.opened)
	}
	again.finish()
	s.idle(t)
	for _, line := range strings.Split(s.logs.String(), "\n") {
		if strings.Contains(line, "line-scan session") && strings.Count(line, "tenant=alice") != 1 {
			t.Errorf("a log line without its tenant: %s", line)
		}
	}
}

// A recipe belongs to the tenant that put it first: others run it and change nothing. What nobody's name is on is
// everybody's who may teach.
func TestRecipesOfTenants(t *testing.T) {
	dir := t.TempDir()
	tokens := []string{"a name=alice", "m name=mallory", "r name=line role=run", "v name=viewer role=view",
		"o name=ops role=admin", "bare", "bare2"}
	s, _ := startTenants(t, Config{RecipeDir: dir}, tokens...)
	put := func(c *testServer, name string) error {
		_, err := c.recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: recipeOf(name, rect("r", 0, 0, 4, 4))})
		return err
	}
	remove := func(c *testServer, name string, version uint64) error {
		_, err := c.recipe.DeleteRecipe(t.Context(), &pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: name,
			Version: version}})
		return err
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	owned := func(err error) {
		t.Helper()
		d := detailsOf(t, err)
		if d.status.Code() != codes.PermissionDenied || d.info.GetReason() != apierr.ReasonRecipeOwned ||
			d.info.GetMetadata()["owner"] != "alice" {
			t.Errorf("%v", d.status)
		}
	}
	ok(put(s.as(t, "a"), "board"))
	owned(put(s.as(t, "m"), "board"))
	owned(remove(s.as(t, "m"), "board", 0))
	owned(remove(s.as(t, "bare"), "board", 1))
	if err := remove(s.as(t, "m"), "other", 0); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	ok(put(s.as(t, "o"), "board")) // an admin's version leaves it alice's
	if err := put(s.as(t, "r"), "mine"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a line puts a recipe: %v", err)
	}
	list, err := s.as(t, "v").recipe.ListRecipes(t.Context(), &pb.ListRecipesRequest{AllVersions: true})
	if err != nil || len(list.GetRecipes()) != 2 || list.GetRecipes()[1].GetTenant() != "alice" {
		t.Errorf("%v, %v", list, err)
	}
	for _, who := range []string{"m", "r", "bare"} {
		_, err := s.as(t, who).inspection.Reduce(t.Context(), &pb.ReduceRequest{Frame: noisyFrame(8, 8, 1),
			Inspection: &pb.Inspection{Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "board"}}}})
		if err != nil {
			t.Errorf("%s runs it: %v", who, err)
		}
	}
	ok(put(s.as(t, "bare"), "common"))
	ok(put(s.as(t, "bare2"), "common"))
	ok(put(s.as(t, "m"), "common"))
	got, err := s.as(t, "m").recipe.GetRecipe(t.Context(), &pb.GetRecipeRequest{Recipe: &pb.RecipeRef{Name: "common"}})
	if err != nil || got.GetRecipe().GetTenant() != "" || got.GetRecipe().GetVersion() != 3 {
		t.Errorf("%v, %v", got.GetRecipe(), err)
	}
	// A client can't say whose it is.
	forged := recipeOf("forged", rect("r", 0, 0, 4, 4))
	forged.Tenant = "ops"
	res, err := s.as(t, "m").recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: forged})
	if err != nil || res.GetRecipe().GetTenant() != "mallory" {
		t.Errorf("%v, %v", res, err)
	}
	s.stop(t)

	// It is written down.
	s, _ = startTenants(t, Config{RecipeDir: dir}, tokens...)
	owned(put(s.as(t, "m"), "board"))
	ok(put(s.as(t, "bare2"), "common"))
	ok(put(s.as(t, "a"), "board"))
	ok(remove(s.as(t, "a"), "board", 0))
	ok(put(s.as(t, "m"), "board")) // the name is free again
	if err := put(s.as(t, "a"), "board"); detailsOf(t, err).info.GetMetadata()["owner"] != "mallory" {
		t.Errorf("%v", err)
	}
	s.stop(t)

	// Without tenants everything is everybody's.
	s = start(t, Config{RecipeDir: dir})
	ok(put(s, "board"))
	ok(remove(s, "board", 0))
}

// wantQuota checks that a tenant was refused more of something.
func wantQuota(t testing.TB, err error, tenant, resource string, used, limit int64) {
	t.Helper()
	d := detailsOf(t, err)
	m := d.info.GetMetadata()
	if d.status.Code() != codes.ResourceExhausted || d.info.GetReason() != apierr.ReasonTenantQuota ||
		m["tenant"] != tenant || m["resource"] != resource || m["used"] != fmt.Sprint(used) ||
		m["limit"] != fmt.Sprint(limit) ||
		!strings.Contains(d.quota.String(), tenant) {
		t.Errorf("%v, want a refusal of %s to %s, %d of %d", err, resource, tenant, used, limit)
	}
}

// wantHeld waits until a tenant holds so much of something.
func (ts *testServer) wantHeld(t testing.TB, tenant, resource string, want float64) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%s to hold %v %s", tenant, want, resource), func() bool {
		return metric(t, ts, "polyscan_tenant_used", "tenant", tenant, "resource", resource) == want
	})
}

// Each quota holds to the last one, and what is given back can be had again.
func TestQuotas(t *testing.T) {
	s, file := startTenants(t, Config{}, "a name=alice sessions=2 frames=3 frame-bytes=64KiB streams=2", "b name=bob", "")
	alice, bob := s.as(t, "a"), s.as(t, "b")

	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10)
	one, two := alice.scan(t, open), alice.scan(t, open)
	third := scanOver(t, alice.conn)
	third.request(openRequest(open))
	_, err := third.Recv()
	wantQuota(t, err, "alice", "sessions", 2, 2)
	bob.scan(t, open).finish()
	one.finish()
	s.wantHeld(t, "alice", "sessions", 1)
	alice.scan(t, open).finish()
	two.cancel() // its session stays for a while, and counts
	s.wantHeld(t, "alice", "sessions", 1)
	scanOver(t, alice.conn).begin(resumeRequest(two.opened.GetSessionToken(), 0)).finish()
	s.wantHeld(t, "alice", "sessions", 0)

	frames := alice.frameClient()
	var kept []string
	for i := range 3 {
		kept = append(kept, frames.put(t, noisyFrame(8, 8, uint64(i))).GetName())
	}
	_, err = frames.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(8, 8, 9)})
	wantQuota(t, err, "alice", "frames", 3, 3)
	_, err = frames.upload(t.Context(), noisyFrame(8, 8, 9), 10)
	wantQuota(t, err, "alice", "frames", 3, 3)
	frames.release(t, kept[0])
	frames.release(t, kept[1])
	used := s.usedBy(t, "alice", "frame-bytes")
	rest := int(64<<10 - used)
	_, err = frames.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(rest, 1, 9)})
	if err != nil {
		t.Errorf("the last byte: %v", err)
	}
	s.wantHeld(t, "alice", "frame-bytes", 64<<10)
	_, err = frames.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(1, 1, 9)})
	wantQuota(t, err, "alice", "frame-bytes", 64<<10, 64<<10)
	// An upload that ends early gives back what it took.
	frames.release(t, kept[2])
	if _, err := frames.upload(t.Context(), &pb.Frame{Layout: noisyFrame(8, 8, 1).GetLayout(),
		Source: &pb.Frame_Data{Data: make([]byte, 10)}}, 5); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
	s.wantHeld(t, "alice", "frames", 1)

	st1, st2 := alice.open(t, open.GetInspection()), alice.open(t, open.GetInspection())
	st1.send(noisyFrame(8, 16, 1))
	st1.recv()
	s.wantHeld(t, "alice", "streams", 2)
	third2, err := alice.inspection.StreamFrames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = third2.Recv()
	wantQuota(t, err, "alice", "streams", 2, 2)
	alice.scan(t, open).finish() // counts as a session
	if _, err := alice.inspection.Reduce(t.Context(), &pb.ReduceRequest{Frame: noisyFrame(8, 16, 1),
		Inspection: open.GetInspection()}); err != nil {
		t.Errorf("a call beside the streams: %v", err)
	}
	st1.end(nil)
	s.wantHeld(t, "alice", "streams", 1)
	st3 := alice.open(t, open.GetInspection())
	st3.end(nil)
	st2.end(nil)
	s.wantHeld(t, "alice", "streams", 0)

	// Limits change with the file, and count what is held.
	writeFile(t, file, "a name=alice frames=0\nb name=bob\n")
	s.Reload()
	_, err = frames.PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(8, 8, 9)})
	wantQuota(t, err, "alice", "frames", 1, 0)
	if n := metric(t, s, "polyscan_tenant_refused_total", "tenant", "alice", "resource", "frames"); n != 3 {
		t.Errorf("%v refusals are counted", n)
	}
	if n := metric(t, s, "polyscan_tenant_limit", "tenant", "alice", "resource", "frames"); n != 0 {
		t.Errorf("a limit of %v", n)
	}
	if n := metric(t, s, "polyscan_tenant_calls_total", "tenant", "alice"); n < 10 {
		t.Errorf("%v calls are counted", n)
	}
}

func (ts *testServer) usedBy(t testing.TB, tenant, resource string) float64 {
	t.Helper()
	return metric(t, ts, "polyscan_tenant_used", "tenant", tenant, "resource", resource)
}

// A tenant without limits can't take everything.
func TestOneTenantLeavesSome(t *testing.T) {
	s, _ := startTenants(t, Config{ScanSessions: 8, MaxFrames: 8}, "alice", "mallory")
	alice, mallory := s.as(t, "alice"), s.as(t, "mallory")
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10)
	var err error
	n := 0
	for ; n <= 8 && err == nil; n++ {
		call := scanOver(t, mallory.conn)
		call.request(openRequest(open))
		_, err = call.Recv()
	}
	d := detailsOf(t, err)
	if n != 7 || d.info.GetReason() != apierr.ReasonTenantQuota || !strings.Contains(d.status.Message(), "set aside") {
		t.Errorf("session %d: %v", n, err)
	}
	alice.scan(t, open)
	alice.scan(t, open)
	for n = 0; n <= 8; n++ {
		if _, err = mallory.frameClient().PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(8, 8, 9)}); err != nil {
			break
		}
	}
	if n != 6 || detailsOf(t, err).info.GetReason() != apierr.ReasonTenantQuota {
		t.Errorf("frame %d: %v", n, err)
	}
	alice.frameClient().put(t, noisyFrame(8, 8, 1))
}

// GetDevice says what the caller holds, and to admins what everybody does.
func TestTenantStatus(t *testing.T) {
	s, _ := startTenants(t, Config{}, "a name=alice frames=3 role=run", "v name=viewer role=view", "o name=ops role=admin",
		"x", "l name=viewer role=view sees=all")
	s.as(t, "a").frameClient().put(t, noisyFrame(8, 8, 1))
	status := func(token string) (*pb.GetDeviceResponse, []string) {
		d, err := s.as(t, token).device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, x := range d.GetTenants() {
			names = append(names, x.GetName())
		}
		return d, names
	}
	d, names := status("a")
	if d.GetRole() != "run" || len(names) != 1 || names[0] != "alice" {
		t.Errorf("%v %v", d.GetRole(), names)
	}
	want := []*pb.QuotaStatus{
		{Resource: "sessions"}, {Resource: "frames", Used: 1, Limit: proto.Uint64(3)}, {Resource: "frame-bytes"},
		{Resource: "leases"}, {Resource: "lease-bytes"}, {Resource: "streams"},
		{Resource: "openings"}, {Resource: "recipes"},
	}
	for i, q := range d.GetTenants()[0].GetQuotas() {
		if q.GetResource() == "frame-bytes" && q.GetUsed() >= 64 {
			q.Used = 0
		}
		if !proto.Equal(q, want[i]) {
			t.Errorf("%v, want %v", q, want[i])
		}
	}
	if d, names := status("v"); d.GetRole() != "view" || len(names) != 1 || names[0] != "viewer" {
		t.Errorf("%v %v", d.GetRole(), names)
	}
	if d, names := status("l"); d.GetRole() != "view" || len(names) != 4 || names[0] != "alice" {
		t.Errorf("a shift lead: %v %v", d.GetRole(), names)
	}
	if d, names := status("o"); d.GetRole() != "admin" || len(names) != 4 || names[0] != "alice" || names[3] != "viewer" {
		t.Errorf("%v %v", d.GetRole(), names)
	}
	alone := start(t, Config{})
	got, err := alone.device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
	if err != nil || got.GetRole() != "admin" || len(got.GetTenants()) != 0 {
		t.Errorf("%v %v, %v", got.GetRole(), got.GetTenants(), err)
	}
}

// Whatever streams a tenant has open end within a second when the file takes its token, or its role, and they say why;
// what they held is given back, and nobody else notices.
func TestRevocationEndsEverything(t *testing.T) {
	type change struct {
		line string
		code codes.Code
	}
	for name, c := range map[string]change{
		"token gone":     {"", codes.Unauthenticated},
		"role taken":     {"a name=alice role=view", codes.PermissionDenied},
		"other tenant's": {"a name=mallory", codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "m"), Net: "unix"}); err == nil {
				cfg.SharedMemoryListener = l
			}
			s, file := startTenants(t, cfg, "a name=alice", "b name=bob", "")
			alice, bob := s.as(t, "a"), s.as(t, "b")
			open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10)
			begin := func(c *testServer) map[string]grpc.ClientStream {
				scan := c.scan(t, open)
				frames := c.open(t, open.GetInspection())
				frames.send(noisyFrame(8, 16, 1))
				frames.recv()
				edit := openCanvas(t, c, canvasOf())
				edit.after(0)
				upload, err := c.frameClient().UploadFrame(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				f := noisyFrame(8, 8, 1)
				f.Encoding, f.Source = pb.Encoding_ENCODING_RAW, &pb.Frame_Data{Data: make([]byte, 8)}
				if err := upload.Send(&pb.UploadFrameRequest{Frame: f}); err != nil {
					t.Fatal(err)
				}
				video, err := pb.NewLowPolyServiceClient(c.conn).ConvertFrames(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				silent, err := c.inspection.StreamFrames(t.Context()) // has said nothing yet
				if err != nil {
					t.Fatal(err)
				}
				all := map[string]grpc.ClientStream{"scan": scan, "frames": frames, "edit": edit, "upload": upload,
					"video": video, "silent": silent}
				if cfg.SharedMemoryListener != nil {
					lease, err := pb.NewSharedMemoryServiceClient(c.conn).Lease(t.Context(), &pb.LeaseRequest{Bytes: 4096})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := lease.Recv(); err != nil {
						t.Fatal(err)
					}
					all["lease"] = lease
				}
				return all
			}
			goes, stays := begin(alice), begin(bob)
			s.wantHeld(t, "alice", "streams", 5)
			s.wantHeld(t, "bob", "streams", 5)
			kept := bob.frameClient().put(t, noisyFrame(8, 8, 5))

			writeFile(t, file, c.line+"\nb name=bob\n") // nobody sends a signal
			for what, stream := range goes {
				if err := recvToEnd(stream); status.Code(err) != c.code {
					t.Errorf("%s ended with %v", what, err)
				}
			}
			s.wantHeld(t, "alice", "streams", 0)
			s.wantHeld(t, "alice", "leases", 0)
			if used := s.usedBy(t, "bob", "streams"); used != 5 {
				t.Errorf("bob has %v streams", used)
			}
			if _, err := bob.frameClient().GetFrame(t.Context(), &pb.GetFrameRequest{Name: kept.GetName()}); err != nil {
				t.Error(err)
			}
			if err := stays["frames"].CloseSend(); err != nil {
				t.Error(err)
			}
			if err := recvToEnd(stays["frames"]); err != nil {
				t.Errorf("bob's stream: %v", err)
			}
			if text := s.logs.String(); strings.Contains(text, "Bearer") || strings.Contains(text, "authorization: B") {
				t.Error("the log has a token")
			}
		})
	}
}

// recvToEnd receives until the stream ends, and says with what.
func recvToEnd(stream grpc.ClientStream) error {
	for {
		switch err := stream.RecvMsg(&emptypb.Empty{}); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// A unary call that takes long ends, too.
func TestRevocationEndsUnaryCalls(t *testing.T) {
	s, file := startTenants(t, Config{MemoryBytes: 64 << 20}, "a name=alice", "b name=bob", "")
	ended := make(chan error, 1)
	go func() {
		_, err := diffusionClient(s.as(t, "a")).Solve(t.Context(), &pb.SolveRequest{
			Options: &pb.DiffusionOptions{Method: pb.DiffusionMethod_DIFFUSION_METHOD_NAIVE, Tolerance: 1e-9,
				MaxCycles: 100_000},
			Drawing: &pb.Drawing{Width: 512, Height: 512, Pixels: []*pb.GivenPixel{{X: 1, Y: 1, Red: 1}, {X: 500, Y: 400}}}})
		ended <- err
	}()
	waitFor(t, "the call to compute", func() bool { return metric(t, s, "polyscan_device_jobs_running") > 0 })
	writeFile(t, file, "b name=bob\n")
	if err := <-ended; status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
}

// A certificate is taken back like a token.
func TestRevocationOfCertificates(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, t.TempDir(), 1)
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "certificate=camera-3 role=run sessions=1\nother\n")
	s := start(t, Config{TokenFile: file, TLS: TLS{CertFile: cert, KeyFile: key, ClientCAFile: a.file}},
		a.dial(a.certificate(t, &x509.Certificate{DNSNames: []string{"camera-3"}})))
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 16, 10, 10)
	call := s.scan(t, open)
	second := scanOver(t, s.conn)
	second.request(openRequest(open))
	_, err := second.Recv()
	wantQuota(t, err, "camera-3", "sessions", 1, 1)
	writeFile(t, file, "other\n")
	if err := recvToEnd(call); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the session's call ended with %v", err)
	}
	if _, err := s.device.GetDevice(t.Context(), &pb.GetDeviceRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v", err)
	}
}

// Whatever tenants do with whichever names they have heard of, each sees a store of its own with its own limits, and at
// the end nothing is counted.
func TestTenantsModel(t *testing.T) {
	rng := seed.New(t, 1, 20)
	const total, share = 24, 3 // half of all in four parts
	s, _ := startTenants(t, Config{MaxFrames: total, FrameBytes: 1 << 20}, "a name=a frames=3", "a2 name=a",
		"b name=b frames=5", "c name=c", "o name=ops role=admin")
	owner := map[string]string{"a": "a", "a2": "a", "b": "b", "c": "c", "o": "ops"}
	limit := map[string]int{"a": 3, "b": 5}
	clients := map[string]*testServer{}
	for token := range owner {
		clients[token] = s.as(t, token)
	}
	tokens := slices.Sorted(maps.Keys(owner))
	kept := map[string]string{} // the tenant of each frame
	held := map[string]int{}
	names := []string{"never-was"}
	in := inspecting(rect("r", 0, 0, 4, 4))
	for step := range 600 {
		token := tokens[rng.IntN(len(tokens))]
		c, who := clients[token], owner[token]
		name := names[rng.IntN(len(names))]
		mine := kept[name] != "" && (kept[name] == who || who == "ops")
		want := codes.NotFound
		if mine {
			want = codes.OK
		}
		var err error
		what := ""
		switch rng.IntN(6) {
		case 0, 1:
			what, want = "put", codes.OK
			all, aside := 0, 0 // what is held, and set aside for the others
			for _, o := range []string{"a", "b", "c", "ops"} {
				all += held[o]
				if o != who {
					aside += max(0, share-held[o])
				}
			}
			if n, ok := limit[who]; ok && held[who] >= n || all == total || held[who] >= share && all+aside >= total {
				want = codes.ResourceExhausted
			}
			var res *pb.PutFrameResponse
			res, err = c.frameClient().PutFrame(t.Context(), &pb.PutFrameRequest{Frame: noisyFrame(4, 4, uint64(step))})
			if err == nil {
				name = res.GetFrame().GetName()
				kept[name] = who
				held[who]++
				names = append(names, name)
			}
		case 2:
			what = "release"
			_, err = c.frameClient().ReleaseFrame(t.Context(), &pb.ReleaseFrameRequest{Name: name})
			if err == nil {
				held[kept[name]]--
				delete(kept, name)
			}
		case 3:
			what = "get"
			_, err = c.frameClient().GetFrame(t.Context(), &pb.GetFrameRequest{Name: name})
		case 4:
			what = "reduce"
			_, err = c.inspection.Reduce(t.Context(), &pb.ReduceRequest{Inspection: in, Frame: keptFrame(name)})
		case 5:
			what, want = "list", codes.OK
			n := 0
			for _, o := range kept {
				if o == who || who == "ops" {
					n++
				}
			}
			if list := c.frameClient().list(t); len(list) != n {
				t.Fatalf("step %d: %s lists %d frames of %d", step, who, len(list), n)
			}
		}
		if status.Code(err) != want {
			t.Fatalf("step %d: %s: %s of a frame of %q: %v, want %v", step, who, what, kept[name], err, want)
		}
	}
	for name := range kept {
		clients["o"].frameClient().release(t, name)
	}
	for _, who := range owner {
		if n, b := s.usedBy(t, who, "frames"), s.usedBy(t, who, "frame-bytes"); n != 0 || b != 0 {
			t.Errorf("%s holds %v frames of %v bytes at the end", who, n, b)
		}
	}
}

// The file counts by its content: a change that leaves size and time alone is noticed.
func TestTokensByContent(t *testing.T) {
	t.Parallel()
	s, file := startTenants(t, Config{}, "alice name=x")
	at := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	try := func(token string) codes.Code {
		_, err := s.as(t, token).device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
		return status.Code(err)
	}
	if c := try("alice"); c != codes.OK {
		t.Fatal(c)
	}
	time.Sleep(600 * time.Millisecond) // it has been looked at with this time
	writeFile(t, file, "carol name=x")
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the change to be noticed", func() bool { return try("carol") == codes.OK })
	if c := try("alice"); c != codes.Unauthenticated {
		t.Error(c)
	}
	// Emptied and deleted, without a signal.
	for what, gone := range map[string]func(){
		"emptied": func() { writeFile(t, file, "") }, "deleted": func() { os.Remove(file) },
	} {
		writeFile(t, file, "carol name=x")
		waitFor(t, "the token to count", func() bool { return try("carol") == codes.OK })
		gone()
		waitFor(t, what+": nobody to be admitted", func() bool { return try("carol") == codes.Unauthenticated })
	}
}

// Logs name the tenant of a call, and tokens are in none.
func TestLogsNameTenants(t *testing.T) {
	const secret = "sUpErSeCrEt"
	s, file := startTenants(t, Config{}, secret+" name=line-4 role=run", secret+"2")
	s.as(t, secret).device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
	s.as(t, secret+"2").device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
	s.as(t, secret+"3").device.GetDevice(t.Context(), &pb.GetDeviceRequest{})
	st := s.as(t, secret).open(t, inspecting(rect("r", 0, 0, 2, 1)))
	st.send(smallFrame(1))
	st.recv()
	st.end(nil)
	s.as(t, secret).recipe.PutRecipe(t.Context(), &pb.PutRecipeRequest{Recipe: recipeOf("x", rect("r", 0, 0, 4, 4))})
	for _, bad := range []string{secret + " role=boss", secret + " two", secret + "\n" + secret + " role=run", ""} {
		writeFile(t, file, bad)
		s.Reload()
	}
	log := s.logs.String()
	if strings.Contains(strings.ToLower(log), strings.ToLower(secret)) {
		t.Errorf("a token is in the log:\n%s", log)
	}
	for _, want := range []string{"method=GetDevice", "method=StreamFrames", "method=PutRecipe"} {
		found := false
		for line := range strings.Lines(log) {
			found = found || strings.Contains(line, want) && strings.Contains(line, "tenant=line-4")
		}
		if !found {
			t.Errorf("no line of %s with its tenant:\n%s", want, log)
		}
	}
	if !strings.Contains(log, "tenant=token:") {
		t.Error("no line names a tenant without a name")
	}
}

// A shift lead sees what all tenants do, and may do no more than others of the role; the call ends when that is taken
// back.
func TestSeesAll(t *testing.T) {
	t.Parallel()
	s, file := startTenants(t, Config{}, "a name=alice", "l name=lead role=view sees=all", "v name=visitor role=view")
	lead, visitor := s.as(t, "l").watch(t, &pb.WatchRequest{}), s.as(t, "v").watch(t, &pb.WatchRequest{})
	st := s.as(t, "a").open(t, inspecting(rect("r", 0, 0, 2, 1)))
	st.send(smallFrame(1))
	st.recv()
	if o := lead.event().GetOpened(); o == nil {
		t.Error("the shift lead doesn't see the stream")
	}
	lead.verdict()
	st.end(nil)
	if _, err := s.as(t, "l").frameClient().PutFrame(t.Context(),
		&pb.PutFrameRequest{Frame: noisyFrame(8, 8, 1)}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a shift lead puts a frame: %v", err)
	}
	own := s.as(t, "v").watch(t, &pb.WatchRequest{}) // with what has happened behind it
	if n := len(own.started.GetStreams()); n != 0 {
		t.Errorf("a visitor sees %d streams", n)
	}
	writeFile(t, file, "a name=alice\nl name=lead role=view\nv name=visitor role=view\n")
	for {
		if _, err := lead.Recv(); err != nil {
			if status.Code(err) != codes.PermissionDenied {
				t.Error(err)
			}
			break
		}
	}
	m, err := visitor.Recv() // a heartbeat: the call goes on
	if err != nil || m.GetHeartbeat() == nil {
		t.Errorf("%v, %v", m, err)
	}
}

// Line-scan calls that open no session are counted while they could, and recipes as long as they are stored.
func TestQuotasOfOpeningsAndRecipes(t *testing.T) {
	dir := t.TempDir()
	s, _ := startTenants(t, Config{RecipeDir: dir}, "a name=alice openings=1 recipes=2", "b name=bob role=admin")
	alice := s.as(t, "a")
	silent := scanOver(t, alice.conn)
	s.wantHeld(t, "alice", "openings", 1)
	_, err := scanOver(t, alice.conn).Recv()
	wantQuota(t, err, "alice", "openings", 1, 1)
	silent.cancel()
	s.wantHeld(t, "alice", "openings", 0)
	open := scanOpen(inspecting(rect("r", 0, 0, 8, 10)), 8, 10, 10, 10)
	call := alice.scan(t, open)
	s.wantHeld(t, "alice", "openings", 0)
	call.finish()

	put := func(s *testServer, name string) error {
		_, err := pb.NewRecipeServiceClient(s.conn).PutRecipe(t.Context(), &pb.PutRecipeRequest{
			Recipe: &pb.Recipe{Name: name, RegionSet: inspecting(rect("r", 0, 0, 2, 1)).GetRegionSet()}})
		return err
	}
	for _, name := range []string{"one", "one"} {
		if err := put(alice, name); err != nil {
			t.Fatal(err)
		}
	}
	wantQuota(t, put(alice, "two"), "alice", "recipes", 2, 2)
	wantQuota(t, put(s.as(t, "b"), "one"), "alice", "recipes", 2, 2) // an admin's version of it is alice's
	if _, err := pb.NewRecipeServiceClient(alice.conn).DeleteRecipe(t.Context(),
		&pb.DeleteRecipeRequest{Recipe: &pb.RecipeRef{Name: "one", Version: 1}}); err != nil {
		t.Fatal(err)
	}
	s.wantHeld(t, "alice", "recipes", 1)
	s.stop(t)
	s, _ = startTenants(t, Config{RecipeDir: dir}, "a name=alice recipes=2", "b name=bob role=admin")
	s.wantHeld(t, "alice", "recipes", 1)
}

// Whether another tenant has solved the same is not told.
func TestSetupsOfTenants(t *testing.T) {
	s, _ := startTenants(t, Config{}, "a name=alice", "b name=bob")
	for i, token := range []string{"a", "b", "a", "b"} {
		got, err := diffusionClient(s.as(t, token)).Solve(t.Context(),
			&pb.SolveRequest{Drawing: drawing(5, &pb.ColorStop{Red: 200})})
		if err != nil || got.GetSetupKept() != (i > 1) {
			t.Errorf("call %d, of %s: %v, kept: %v", i, token, err, got.GetSetupKept())
		}
	}
}
