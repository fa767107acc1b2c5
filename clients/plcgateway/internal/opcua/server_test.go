package opcua

import (
	"context"
	"crypto/rsa"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"
	"github.com/polyscan/polyscan/clients/plcgateway/internal/station"
)

// truth is a source that knows each part: those whose ids end with an even digit are good, and one with an x is never
// judged.
type truth struct{}

func (truth) Inspect(j *station.Job) {
	o := station.Outcome{Reason: station.ReasonFail, PartID: j.PartID, Recipe: j.Recipe.Name,
		RecipeVersion: j.Recipe.Version,
		FailedRegions: 1, FirstFailed: 2, Values: []float32{1.5, 2.5}}
	switch {
	case strings.HasSuffix(j.PartID, "x"):
		return
	case j.PartID != "" && (j.PartID[len(j.PartID)-1]-'0')%2 == 0:
		o.Reason, o.FailedRegions, o.FirstFailed = station.ReasonPass, 0, 0
	}
	j.Answer(o)
}

func (truth) Prepare(_ context.Context, r station.Recipe) (uint64, error) {
	if r.Version > 7 {
		return 0, station.UnknownRecipe
	}
	if r.Version == 0 {
		r.Version = 7
	}
	return r.Version, nil
}
func (truth) Unprepare(station.Recipe) {}
func (truth) Reset()                   {}

func newStation(t testing.TB, timeout time.Duration) *station.Station {
	t.Helper()
	st, err := station.New(station.Config{Name: "cell", Deadline: 200 * time.Millisecond, HeartbeatTimeout: timeout,
		Slots:  map[uint16]station.Recipe{1: {Name: "board"}, 2: {Name: "lid", Version: 3}},
		Values: []string{"U7.mean", "gaps.max"}}, truth{})
	if err != nil {
		t.Fatal(err)
	}
	st.Link(true)
	t.Cleanup(st.Close)
	return st
}

// served is a server that runs, until the test ends or stop is called.
type served struct {
	*Server
	url  string
	stop func()
}

func serve(t testing.TB, cfg Config, address string, stations ...*station.Station) *served {
	t.Helper()
	if cfg.ApplicationURI == "" {
		cfg.ApplicationURI = "urn:test:plcgateway"
	}
	if cfg.Log == nil && testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, st := range stations {
		wg.Go(s.AddStation(st))
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		for _, st := range stations {
			st.Close()
		}
		wg.Wait()
	})
	t.Cleanup(stop)
	return &served{s, "opc.tcp://" + l.Addr().String(), stop}
}

// identity is a certificate with its key, made once for all tests: keys take long.
type identity struct {
	uri, certFile, keyFile string
	cert                   []byte
	key                    *rsa.PrivateKey
}

var identities = map[string]func() (*identity, error){}
var identityMu sync.Mutex
var identityDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "opcua")
	if err != nil {
		panic(err)
	}
	identityDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func identityOf(t testing.TB, name string) *identity {
	t.Helper()
	identityMu.Lock()
	f := identities[name]
	if f == nil {
		f = sync.OnceValues(func() (*identity, error) {
			i := &identity{uri: "urn:test:" + name, certFile: filepath.Join(identityDir, name+".pem"),
				keyFile: filepath.Join(identityDir, name+".key")}
			var err error
			i.cert, i.key, err = LoadIdentity(i.certFile, i.keyFile, i.uri, []string{"localhost", "127.0.0.1"})
			return i, err
		})
		identities[name] = f
	}
	identityMu.Unlock()
	i, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func trust(t testing.TB, whom ...*identity) Trust {
	t.Helper()
	dir := t.TempDir()
	for _, i := range whom {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(i.certFile)), i.cert, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Trust{dir}
}

func users(t testing.TB) *Users {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("# who may log in\n\nplc:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := LoadUsers(file)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func dial(t testing.TB, url string, opts ...opcua.Option) (*opcua.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := opcua.NewClient(url, append([]opcua.Option{opcua.AutoReconnect(false),
		opcua.RequestTimeout(10 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c, nil
}

func call(t testing.TB, c *opcua.Client, object, method string, args ...any) []any {
	t.Helper()
	req := &ua.CallMethodRequest{ObjectID: ua.NewStringNodeID(3, object), MethodID: ua.NewStringNodeID(3,
		object+"/"+method)}
	for _, a := range args {
		req.InputArguments = append(req.InputArguments, variant(a))
	}
	r, err := c.Call(context.Background(), req)
	if err != nil {
		t.Fatalf("%s.%s: %v", object, method, err)
	}
	if r.StatusCode != ua.StatusOK {
		t.Fatalf("%s.%s: %v, arguments %v", object, method, r.StatusCode, r.InputArgumentResults)
	}
	var out []any
	for _, v := range r.OutputArguments {
		out = append(out, v.Value())
	}
	return out
}

func read(t testing.TB, c *opcua.Client, names ...string) []any {
	t.Helper()
	req := &ua.ReadRequest{TimestampsToReturn: ua.TimestampsToReturnBoth}
	for _, n := range names {
		req.NodesToRead = append(req.NodesToRead, &ua.ReadValueID{NodeID: ua.NewStringNodeID(3, n),
			AttributeID: ua.AttributeIDValue, DataEncoding: &ua.QualifiedName{}})
	}
	resp, err := c.Read(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out []any
	for i, r := range resp.Results {
		if r.Status != ua.StatusOK {
			t.Fatalf("%s: %v", names[i], r.Status)
		}
		out = append(out, r.Value.Value())
	}
	return out
}

// eventually waits for a condition that some other goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

const automatic = "cell/VisionStateMachine/AutomaticModeStateMachine"

func TestAnonymous(t *testing.T) {
	st := newStation(t, time.Minute)
	s := serve(t, Config{Policies: []string{"None"}, Anonymous: true}, "127.0.0.1:0", st)
	c, err := dial(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, c, automatic, "StartSingleJob", structure(&measID{named{ID: "5"}}), structure(&partID{}),
		structure(&recipeIDExternal{}),
		structure(&productID{}), []*ua.Variant{}); got[1] != failure(station.NotAcknowledged) {
		t.Fatalf("a job before automatic mode: %v", got)
	}
	if got := call(t, c, "cell/VisionStateMachine", "SelectModeAutomatic"); got[0] != int32(0) {
		t.Fatalf("SelectModeAutomatic: %v", got)
	}
	if got := call(t, c, "cell/RecipeManagement", "PrepareRecipe",
		structure(&recipeIDExternal{binaryID{ID: "board"}}), structure(&recipeIDInternal{})); got[2] != int32(0) {
		t.Fatalf("PrepareRecipe: %v", got)
	}
	if got := call(t, c, automatic, "StartSingleJob", structure(&measID{named{ID: "5"}}),
		structure(&partID{named{ID: "p2"}}), structure(&recipeIDExternal{}),
		structure(&productID{}), []*ua.Variant{}); got[1] != int32(0) ||
		got[0].(*ua.ExtensionObject).Value.(*jobID).ID != "5" {
		t.Fatalf("StartSingleJob: %v", got)
	}
	h := "cell/Handshake/"
	eventually(t, "the verdict is shown", func() bool { return read(t, c, h+"Sequence")[0] != uint32(0) })
	got := read(t, c, h+"Sequence", h+"Verdict", h+"Complement", h+"TriggerId", h+"PartId", h+"SequenceEnd")
	want := []any{uint32(1), uint16(station.Pass), ^uint16(station.Pass), uint32(5), "p2", uint32(1)}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if got := call(t, c, "cell/Handshake", "Acknowledge", uint32(1)); got[0] != int32(0) {
		t.Fatalf("Acknowledge: %v", got)
	}
	eventually(t, "the result is gone", func() bool { return read(t, c, h+"Sequence")[0] == uint32(0) })
}
