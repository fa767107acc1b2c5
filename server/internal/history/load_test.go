package history

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/events"
)

var (
	queryParts = flag.Int("history.parts", 20_000, "parts of the database of BenchmarkQueries")
	queryDir   = flag.String("history.dir", "", "folder that BenchmarkQueries keeps its database in, to be used again")
)

// residentBytes is the memory that the process has, where the system says so.
func residentBytes() (now, most int) {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "VmRSS: %d kB", &now)
		fmt.Sscanf(line, "VmHWM: %d kB", &most)
	}
	return now << 10, most << 10
}

// A thousand parts a second, of ten regions, one in fifty of which fails: -benchtime 600000x is ten minutes of it.
func BenchmarkThousandASecond(b *testing.B) {
	k := keep(b, b.TempDir(), func(c *Config) { c.Memory = 256 << 20 })
	s := k.bus.Open(events.Source{Method: pb.StreamMethod_STREAM_METHOD_SCAN_LINES, Name: "camera-1", Recipe: "board",
		Version: 3, Count: 10, Backend: "cpu"})
	good, bad := result(10, 50), result(10, 150)
	const every = time.Millisecond
	mostQueue, mostBytes := 0, int64(0)
	var longest time.Duration // of handing over
	runtime.GC()
	before, _ := residentBytes()
	b.ResetTimer()
	start := time.Now()
	for i := range b.N {
		if wait := time.Until(start.Add(time.Duration(i) * every)); wait > 0 {
			time.Sleep(wait)
		}
		r := good
		if i%50 == 49 {
			r = bad
		}
		from := time.Now()
		part(s, uint64(i), fmt.Sprintf("B-%d", i), r)
		longest = max(longest, time.Since(from))
		if i%100 == 0 {
			n, bytes := k.queue.waiting()
			mostQueue, mostBytes = max(mostQueue, n), max(mostBytes, bytes)
		}
	}
	k.written(b, uint64(b.N)-k.state.lostParts.Load())
	b.StopTimer()
	after, most := residentBytes()
	b.ReportMetric(float64(k.state.lostParts.Load()), "lost")
	b.ReportMetric(float64(mostQueue), "parts-waiting")
	b.ReportMetric(float64(mostBytes)/1e6, "MB-waiting")
	b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
	b.ReportMetric(float64(after-before)/1e6, "MB-grown")
	b.ReportMetric(float64(most)/1e6, "MB-most")
	st, err := k.GetHistory(admin, &pb.GetHistoryRequest{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(st.GetDatabaseBytes())/float64(b.N), "B/part")
}

// As many parts a second as there can be.
func BenchmarkKeep(b *testing.B) {
	k := keep(b, b.TempDir(), func(c *Config) { c.Memory = 1 << 30 })
	s := k.bus.Open(events.Source{Name: "camera-1", Recipe: "board", Version: 3, Count: 10})
	r := result(10, 50)
	b.ResetTimer()
	for i := range b.N {
		for {
			if n, _ := k.queue.waiting(); n < queueEntries/2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		part(s, uint64(i), "", r)
	}
	k.written(b, uint64(b.N))
	b.StopTimer()
	if n := k.state.lostParts.Load(); n > 0 {
		b.Fatalf("%d parts were lost", n)
	}
}

// generate makes a database of n parts at one a second: four cameras and two recipes, one part in a hundred fails, in a
// region of a hundred; one part in a thousand is late. Numbers are those of two regions.
func generate(b testing.TB, dir string, n int) {
	b.Helper()
	db, _, err := openDatabase(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer db.close()
	exec := func(text string, args ...any) {
		b.Helper()
		if _, err := db.write.Exec(text, args...); err != nil {
			b.Fatalf("%.60s: %v", text, err)
		}
	}
	exec("PRAGMA synchronous = OFF")
	var blob []byte
	for i, r := range []string{"pad", "hole"} {
		m := &pb.RegionResult{Index: uint32(i), Name: r, Count: 100, Area: 100, Verdict: pb.Verdict_VERDICT_PASS,
			Channels: []*pb.ChannelStatistics{{Sum: new(uint64(5000 + i)), Mean: new(float64(5000+i) / 100)}}}
		d := definitionOf(m)
		data, err := proto.Marshal(d)
		if err != nil {
			b.Fatal(err)
		}
		exec("INSERT INTO regions(id, hash, data, used) VALUES(?, ?, ?, ?)", i+1, []byte(r), data, endOfTime)
		if blob, err = appendRow(blob, int64(i+1), int64(i), d, m); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 4 {
		exec("INSERT INTO texts VALUES(?, ?, ?, ?)", 10+i, nameText, fmt.Sprintf("camera-%d", i), endOfTime)
	}
	for i := range 2 {
		exec("INSERT INTO texts VALUES(?, ?, ?, ?)", 20+i, recipeText, fmt.Sprintf("board-%d", i), endOfTime)
	}
	exec("INSERT INTO texts VALUES(30, ?, 'cpu', ?)", backendText, endOfTime)
	for i := range 100 {
		exec("INSERT INTO texts VALUES(?, ?, ?, ?)", 100+i, regionText, fmt.Sprintf("region %d", i), endOfTime)
	}
	exec("INSERT INTO streams VALUES(1, 'run', 1, ?)", endOfTime)
	indexes := map[string]string{}
	rows, err := db.write.Query("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
	if err != nil {
		b.Fatal(err)
	}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			b.Fatal(err)
		}
		indexes[name] = text
	}
	rows.Close()
	for name := range indexes {
		exec("DROP INDEX " + name)
	}
	const chunk = 250_000
	for from := 0; from < n; from += chunk {
		to := min(from+chunk, n)
		exec(fmt.Sprintf(`WITH RECURSIVE i(x) AS (SELECT %d UNION ALL SELECT x + 1 FROM i WHERE x + 1 < %d)
			INSERT INTO parts SELECT x + 1, %d + x * 1000000, 1, x, 10 + x %% 4, 1, 20 + x / 4 %% 2, 1,
			CASE WHEN x %% 100 = 37 THEN 2 ELSE 1 END, CASE WHEN x %% 1000 = 5 THEN 1 ELSE 0 END, 1, 'B-' || x, '', x, x * 100, 0,
			1000000, 100000, 900000, NULL, 2, CASE WHEN x %% 100 = 37 THEN 1 ELSE 0 END, 30, '', NULL FROM i`, from, to, generatedFrom))
		exec(fmt.Sprintf("INSERT INTO numbers SELECT id, ? FROM parts WHERE id > %d AND id <= %d", from, to), blob)
		exec(fmt.Sprintf(`INSERT INTO failures SELECT id, 100 + id / 100 %% 100, at FROM parts
			WHERE id > %d AND id <= %d AND verdict = 2`, from, to))
	}
	for _, level := range levels {
		exec(`INSERT INTO tallies SELECT ?1, at / ?1 * ?1, tenant, name, recipe, version, verdict, count(*), 0, sum(marks & 1), 0
			FROM parts GROUP BY 1, 2, 3, 4, 5, 6, 7`, level)
		exec(`INSERT INTO failure_tallies SELECT ?1, p.at / ?1 * ?1, tenant, name, recipe, version, region, count(*)
			FROM failures f JOIN parts p ON p.id = f.part GROUP BY 1, 2, 3, 4, 5, 6, 7`, level)
	}
	for _, text := range indexes {
		exec(text)
	}
}

const generatedFrom = int64(1_600_000_000_000_000)

// Queries over a database of -history.parts parts; 10000000 is what docs/history.md has figures of.
func BenchmarkQueries(b *testing.B) {
	dir := *queryDir
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(fileOf(dir)); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		generate(b, dir, *queryParts)
		b.Logf("generated in %v", time.Since(start))
	}
	k := keep(b, dir)
	at := func(share float64) *timestamppb.Timestamp {
		return timestamppb.New(time.UnixMicro(generatedFrom + int64(share*float64(*queryParts))*1e6 + 12_345_678))
	}
	failed := []pb.Verdict{pb.Verdict_VERDICT_FAIL}
	list := func(f *pb.PartFilter) func() (proto.Message, error) {
		return func() (proto.Message, error) {
			return k.ListParts(admin, &pb.ListPartsRequest{Filter: f, Numbers: pb.RegionNumbers_REGION_NUMBERS_ALL})
		}
	}
	for _, q := range []struct {
		name string
		run  func() (proto.Message, error)
	}{
		{"newest", list(nil)},
		{"middle", list(&pb.PartFilter{To: at(0.5)})},
		{"name", list(&pb.PartFilter{Names: []string{"camera-2"}, To: at(0.5)})},
		{"names", list(&pb.PartFilter{Names: []string{"camera-*"}, To: at(0.3)})},
		{"recipe", list(&pb.PartFilter{Recipes: []string{"board-1"}, From: at(0.2), To: at(0.4)})},
		{"failed", list(&pb.PartFilter{Verdicts: failed, To: at(0.5)})},
		{"failed-of-name", list(&pb.PartFilter{Names: []string{"camera-1"}, Verdicts: failed, To: at(0.5)})},
		{"region", list(&pb.PartFilter{Region: "region 7", To: at(0.5)})},
		{"part", list(&pb.PartFilter{PartId: fmt.Sprintf("B-%d", *queryParts/3)})},
		{"late", list(&pb.PartFilter{Marks: []pb.PartMark{pb.PartMark_PART_MARK_LATE}})},
		{"stream", list(&pb.PartFilter{Stream: &pb.StreamRef{ServerId: "run", StreamId: 1,
			ResultNumber: new(uint64(*queryParts / 2))}})},
		{"count", func() (proto.Message, error) { return k.CountParts(admin, &pb.CountPartsRequest{}) }},
		{"count-by-day", func() (proto.Message, error) {
			return k.CountParts(admin, &pb.CountPartsRequest{
				Step: durationpb.New(24 * time.Hour), Filter: &pb.PartFilter{From: at(0.1), To: at(0.9)},
			})
		}},
		{"pareto", func() (proto.Message, error) { return k.GetPareto(admin, &pb.GetParetoRequest{}) }},
		{"pareto-of-name", func() (proto.Message, error) {
			return k.GetPareto(admin, &pb.GetParetoRequest{Filter: &pb.PartFilter{Names: []string{"camera-1"}, From: at(0.1),
				To: at(0.9)}})
		}},
		{"series", func() (proto.Message, error) {
			return k.GetSeries(admin, &pb.GetSeriesRequest{Region: "pad", Quantity: "mean",
				Filter: &pb.PartFilter{Names: []string{"camera-1"}}})
		}},
		{"state", func() (proto.Message, error) { return k.GetHistory(admin, &pb.GetHistoryRequest{}) }},
	} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				m, err := q.run()
				if err != nil {
					b.Fatal(err)
				}
				if proto.Size(m) == 0 {
					b.Fatal("nothing was found")
				}
			}
		})
	}
}
