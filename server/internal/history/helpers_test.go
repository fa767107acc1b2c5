package history

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// patience is how long tests wait for what must come: long, for machines with other work.
const patience = time.Minute

// logs collects what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// kept is a service with the bus that feeds it.
type kept struct {
	*Service
	bus  *events.Bus
	log  *logs
	once sync.Once
}

func (k *kept) close() {
	k.once.Do(func() {
		k.bus.Close()
		k.Close()
	})
}

func config(t testing.TB, dir string) (Config, *logs) {
	v, err := wire.NewValidator()
	if err != nil {
		t.Fatal(err)
	}
	log := &logs{}
	return Config{
		Dir: dir, Memory: 64 << 20, Server: t.Name(), Log: slog.New(slog.NewTextHandler(log, nil)),
		Metrics:  observe.New().History,
		Validate: v.Validate, PNG: func(_ context.Context, im image.Image) ([]byte, error) {
			var b bytes.Buffer
			err := png.Encode(&b, im)
			return b.Bytes(), err
		},
	}, log
}

// keep opens a service in a folder.
func keep(t testing.TB, dir string, change ...func(*Config)) *kept {
	t.Helper()
	cfg, log := config(t, dir)
	for _, c := range change {
		c(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{Service: s, log: log, bus: events.New(cfg.Server, observe.New().Watch, hostwork.New(1), s)}
	t.Cleanup(k.close)
	return k
}

// as is a context of a caller.
func as(tenant string, role auth.Role) context.Context {
	return auth.NewContext(context.Background(), auth.Caller{Tenant: tenant, Role: role})
}

var admin = as("", auth.Admin)

// result makes the numbers of a part with so many regions, the first of which has that mean; it fails above 100.
func result(regions int, mean float64) *polygon.Result {
	r := &polygon.Result{Verdict: polygon.Pass}
	for i := range regions {
		const count = 1000
		sum := uint64(count*50 + i)
		if i == 0 {
			sum = uint64(mean * count)
		}
		q := polygon.RegionResult{
			Index: i, Name: fmt.Sprintf("region %d", i), Count: count, Area: 1000.5, Coverage: 1, CoverageKnown: true,
			Bounds: polygon.Rect{X0: i, Y0: 0, X1: i + 40, Y1: 25}, Verdict: polygon.Pass,
			Limits: []polygon.LimitResult{{
				Expression: "mean <= 100", Verdict: polygon.Pass, Value: float64(sum) / count, Measured: true,
			}},
			Channels: []polygon.ChannelStatistics{{
				Has: polygon.Count | polygon.Sum | polygon.SumOfSquares | polygon.Mean | polygon.Variance |
					polygon.StdDev | polygon.Min | polygon.Max,
				Count: count, Sum: sum, SumOfSquares: sum * 60, Mean: float64(sum) / count, Min: 3, Max: 220,
				MinAt: polygon.Position{X: i, Y: 3}, MaxAt: polygon.Position{X: i + 1, Y: 7},
			}},
		}
		if float64(sum)/count > 100 {
			q.Verdict, r.Verdict = polygon.Fail, polygon.Fail
			q.Limits[0].Verdict, q.Limits[0].Reason = polygon.Fail, fmt.Sprintf("%v is above 100", float64(sum)/count)
		}
		r.Regions = append(r.Regions, q)
	}
	return r
}

// part publishes a line-scan part.
func part(s *events.Stream, number uint64, id string, r *polygon.Result) {
	m := &pb.PartResult{ResultNumber: number, PartNumber: number, FirstLine: number * 100, PartId: id}
	if r != nil {
		m.Verdict = pb.Verdict(r.Verdict)
	}
	s.Part(m, "", r, time.Millisecond, false)
}

// list reads all parts that a filter lets through, in pages of that size.
func (k *kept) list(t testing.TB, f *pb.PartFilter, size uint32, oldestFirst bool) (all []*pb.HistoryPart) {
	t.Helper()
	req := &pb.ListPartsRequest{Filter: f, PageSize: size, OldestFirst: oldestFirst,
		Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL}
	for {
		res, err := k.ListParts(admin, req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, res.GetParts()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// written waits until so many parts are in the database, and wakes the writer, which else lets them wait for others.
func (k *kept) written(t testing.TB, parts uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d parts in the history", parts), func() bool {
		select {
		case k.queue.wake <- struct{}{}:
		default:
		}
		res, err := k.GetHistory(admin, &pb.GetHistoryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetParts() >= parts
	})
}

func fileOf(dir string) string { return filepath.Join(dir, databaseFile) }
