package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/polyscan/polyscan/internal/exact"
	"github.com/polyscan/polyscan/internal/race"
	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// camera opens a stream.
func (k *kept) camera(name, recipe string) *events.Stream {
	return k.bus.Open(events.Source{Method: pb.StreamMethod_STREAM_METHOD_SCAN_LINES, Name: name, Recipe: recipe,
		Version: 1, Count: 3, Backend: "cpu"})
}

// Whatever is filtered, and however large the pages are, each part comes once and in order; and parts that are written
// meanwhile move nothing.
func TestPages(t *testing.T) {
	rng := seed.New(t, 1, 40)
	k := keep(t, t.TempDir())
	type truth struct {
		id, name, recipe string
		failed           bool
	}
	var all []truth
	streams := map[string]*events.Stream{}
	write := func(n int) {
		for range n {
			x := truth{id: fmt.Sprintf("P%d", len(all)), name: fmt.Sprintf("camera-%d", rng.IntN(3)),
				recipe: fmt.Sprintf("board-%d", rng.IntN(2)), failed: rng.IntN(3) == 0}
			s := streams[x.name+x.recipe]
			if s == nil {
				s = k.camera(x.name, x.recipe)
				streams[x.name+x.recipe] = s
			}
			mean := 50.0
			if x.failed {
				mean = 150
			}
			part(s, uint64(len(all)), x.id, result(3, mean))
			all = append(all, x)
		}
	}
	write(200)
	k.written(t, 200)
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		k.written(outer, uint64(len(all)))
		before := slices.Clone(all)
		f := &pb.PartFilter{}
		if n := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"camera-0", "camera-1", "camera-*", "camera-9"}), 0, 2,
			rapid.ID[string]).Draw(t, "names"); len(n) > 0 {
			f.Names = n
		}
		f.Recipes = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"board-0", "board-1", "board-2"}), 0, 2,
			rapid.ID[string]).Draw(t, "recipes")
		f.Verdicts = rapid.SliceOfNDistinct(rapid.SampledFrom([]pb.Verdict{0, 1, 2}), 0, 3, rapid.ID[pb.Verdict]).Draw(t,
			"verdicts")
		if rapid.Bool().Draw(t, "region") {
			f.Region = "region 0"
		}
		oldest := rapid.Bool().Draw(t, "oldest first")
		size := rapid.Uint32Range(1, 50).Draw(t, "size")
		var want []string
		for _, x := range before {
			has := func(list []string, name string) bool {
				return len(list) == 0 || slices.Contains(list, name) || slices.Contains(list, "camera-*")
			}
			verdict := pb.Verdict_VERDICT_PASS
			if x.failed {
				verdict = pb.Verdict_VERDICT_FAIL
			}
			if has(f.Names, x.name) && (len(f.Recipes) == 0 || slices.Contains(f.Recipes, x.recipe)) &&
				(len(f.Verdicts) == 0 || slices.Contains(f.Verdicts, verdict)) && (f.Region == "" || x.failed) {
				want = append(want, x.id)
			}
		}
		var got []string
		req := &pb.ListPartsRequest{Filter: f, PageSize: size, OldestFirst: oldest}
		for first := true; first || req.PageToken != ""; first = false {
			res, err := k.ListParts(admin, req)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.GetParts()) > int(size) {
				t.Fatalf("%d parts on a page of %d", len(res.GetParts()), size)
			}
			for _, p := range res.GetParts() {
				got = append(got, p.GetPartId())
			}
			req.PageToken = res.GetNextPageToken()
			if first && len(all) < 1000 {
				write(3)
			}
		}
		if oldest { // those that were written meanwhile come behind
			got = got[:min(len(got), len(want))]
		} else {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v\ngot  %v\nwant %v", f, got, want)
		}
		if rapid.IntRange(0, 3).Draw(t, "count too") == 0 {
			n, err := k.CountParts(admin, &pb.CountPartsRequest{Filter: f})
			if err != nil || n.GetTotal().GetParts() < uint64(len(want)) {
				t.Fatalf("%v: %v, want %d", n, err, len(want))
			}
		}
	})
}

// Counts and Pareto are the same whether tallies are used or parts, for any time, and after parts were removed.
func TestTallies(t *testing.T) {
	rng := seed.New(t, 2, 40)
	race.Skip(t)
	dir := t.TempDir()
	generate(t, dir, 20_000) // more than five hours
	k := keep(t, dir)
	check := func() {
		t.Helper()
		for range 30 {
			from := generatedFrom + rng.Int64N(20_000*1_000_000)
			to := from + rng.Int64N(20_000*1_000_000)
			f := &pb.PartFilter{From: timestamppb.New(time.UnixMicro(from)), To: timestamppb.New(time.UnixMicro(to))}
			if rng.IntN(2) == 0 {
				f.Names = []string{"camera-2", "camera-3"}
			}
			if rng.IntN(3) == 0 {
				f.Recipes, f.RecipeVersion = []string{"board-1"}, 1
			}
			slow := proto.Clone(f).(*pb.PartFilter)
			slow.Stream = &pb.StreamRef{ServerId: "run", StreamId: 1} // which tallies don't have
			for _, req := range []*pb.CountPartsRequest{{Filter: f}, {Filter: f, Group: pb.CountGroup_COUNT_GROUP_RECIPE},
				{Filter: f, Step: durationpb.New(time.Duration(1+rng.IntN(90)) * time.Minute)}} {
				fast, err := k.CountParts(admin, req)
				if err != nil {
					t.Fatal(err)
				}
				req = proto.Clone(req).(*pb.CountPartsRequest)
				req.Filter = slow
				want, err := k.CountParts(admin, req)
				if err != nil {
					t.Fatal(err)
				}
				if !proto.Equal(fast, want) {
					t.Fatalf("%v\ntallies %v\nparts   %v", req, fast, want)
				}
			}
			fast, err := k.GetPareto(admin, &pb.GetParetoRequest{Filter: f, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			want, err := k.GetPareto(admin, &pb.GetParetoRequest{Filter: slow, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(fast, want) {
				t.Fatalf("%v\ntallies %v\nparts   %v", f, fast, want)
			}
		}
	}
	check()
	k.close()
	// A year is over: all but the last 3000 parts go, a thousand at a time.
	age := time.Since(time.UnixMicro(generatedFrom + 17_000*1_000_000))
	k = keep(t, dir, func(c *Config) { c.Age = age })
	eventually(t, "old parts are removed", func() bool {
		n, err := k.CountParts(admin, &pb.CountPartsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return n.GetTotal().GetParts() <= 3000
	})
	k.close()
	k = keep(t, dir)
	check()
	var left int
	if err := k.db.reader().QueryRow(`SELECT (SELECT count(*) FROM numbers) - (SELECT count(*) FROM parts) +
		(SELECT count(*) FROM tallies WHERE parts <= 0)`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows too many: %v", left, err)
	}
}

// The oldest pictures go where they take more than three quarters, and the oldest parts where all takes too much; what
// belongs to a part goes with it.
func TestBytes(t *testing.T) {
	rng := seed.New(t, 3, 40)
	dir := t.TempDir()
	k := keep(t, dir, func(c *Config) { c.Bytes = 1 << 20 })
	s := k.camera("camera", "board")
	noise := make([]byte, 200*200)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	const parts = 60
	for i := range uint64(parts) {
		part(s, i, fmt.Sprint(i), result(3, 150))
		k.Picture(s, i, fmt.Sprint(i), nil, &events.Picture{Picture: kernels.Picture{Width: 200, Height: 200, Stride: 200,
			Format: kernels.Gray8, Data: [][]byte{noise}}, Free: func() {}})
	}
	eventually(t, "pictures are removed", func() bool {
		res, err := k.GetHistory(admin, &pb.GetHistoryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetPictureBytes() > 0 && res.GetPictureBytes() <= 3<<18 && res.GetQueuedParts() == 0 &&
			k.state.queuedPictures.Load() == 0
	})
	k.close()
	k = keep(t, dir)
	all := k.list(t, nil, 100, true)
	if len(all) != parts {
		t.Errorf("%d parts", len(all))
	}
	with := 0
	for _, p := range all {
		if p.GetEvidence() {
			with++
		}
	}
	files := 0
	filepath.WalkDir(filepath.Join(dir, evidenceDir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	})
	if with == 0 || with == parts || files != 2*with {
		t.Errorf("%d parts have pictures, of %d files", with, files)
	}
	k.close()
	k = keep(t, dir, func(c *Config) { c.Bytes = 300_000 })
	eventually(t, "parts are removed", func() bool {
		res, err := k.GetHistory(admin, &pb.GetHistoryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetPictureBytes()+res.GetDatabaseBytes() <= 300_000
	})
}

// A disk that is full loses evidence, and nothing else; it is said, and writing goes on when there is room.
func TestFullDisk(t *testing.T) {
	failing := make(chan bool, 10)
	k := keep(t, t.TempDir(), func(c *Config) {
		c.Memory = 1 << 20
		c.Failing = func(f bool) { failing <- f }
	})
	said := make(chan *pb.HistoryState, 1000)
	k.Tell(func(st *pb.HistoryState) { said <- st })
	s := k.camera("camera", "board")
	part(s, 0, "first", result(3, 50))
	k.written(t, 1)
	limit := func(pages string) { // which is what SQLite says of a disk without room
		t.Helper()
		var n int
		if err := k.db.write.QueryRow("PRAGMA max_page_count = " + pages).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	limit("1") // as many as there are
	n := uint64(1)
	for ; k.state.lostParts.Load() == 0; n++ {
		part(s, n, fmt.Sprint(n), result(3, 50)) // never waits
	}
	if !<-failing {
		t.Error("the first word is that all is well")
	}
	if !k.CanNotWrite() {
		t.Error("all is well")
	}
	res, err := k.GetHistory(admin, &pb.GetHistoryRequest{})
	if err != nil || !strings.Contains(res.GetFailure(), "full") || res.GetLostParts() == 0 || res.GetParts() < 1 {
		t.Errorf("%v: %v", res, err)
	}
	lost := k.state.lostParts.Load()
	limit("1000000")
	if <-failing {
		t.Error("it fails again")
	}
	k.written(t, n-lost)
	eventually(t, "the loss is in the counts", func() bool {
		c, err := k.CountParts(admin, &pb.CountPartsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return c.GetLostParts() == lost && c.GetTotal().GetParts() == n-lost
	})
	// Those who look on are told of the failure, of all that is lost, and that it is over, and of nothing else.
	first := <-said
	if !strings.Contains(first.GetFailure(), "full") && first.GetLostParts() == 0 {
		t.Errorf("told first: %v", first)
	}
	for st, failed := first, false; ; st = <-said {
		failed = failed || strings.Contains(st.GetFailure(), "full")
		if failed && st.GetFailure() == "" && st.GetLostParts() == lost {
			break
		}
	}
	if log := k.log.String(); !strings.Contains(log, "can't be written") ||
		!strings.Contains(log, "can be written again") {
		t.Errorf("log: %s", log)
	}
}

// A folder that can't be written to is an error at the start.
func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("root may write everywhere: a file in the place of the folder stands for it")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	cfg, _ := config(t, filepath.Join(file, "history"))
	if _, err := Open(cfg); err == nil || !strings.HasPrefix(err.Error(), "server: history: ") {
		t.Errorf("%v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, databaseFile), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg, _ = config(t, dir)
	if _, err := Open(cfg); err == nil {
		t.Error("a folder in the place of the database")
	}
}

// A database that is none, or is damaged, is moved aside and a new one begun; a newer one is left alone.
func TestDamagedDatabase(t *testing.T) {
	rng := seed.New(t, 4, 40)
	for name, damage := range map[string]func(data []byte) []byte{
		"no database": func([]byte) []byte { return []byte(strings.Repeat("no database ", 1000)) },
		"zeros behind the first page": func(data []byte) []byte {
			clear(data[4096:])
			return data
		},
		"noise behind the first page": func(data []byte) []byte {
			for i := range data[4096:] {
				data[4096+i] = byte(rng.Uint32())
			}
			return data
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			k := keep(t, dir)
			s := k.camera("camera", "board")
			for i := range uint64(50) {
				part(s, i, "", result(3, 50))
			}
			k.written(t, 50)
			k.close()
			db, err := sql.Open("sqlite", fileOf(dir))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("PRAGMA journal_mode = DELETE"); err != nil { // all of it into the one file
				t.Fatal(err)
			}
			db.Close()
			data, err := os.ReadFile(fileOf(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(fileOf(dir), damage(data), 0o644); err != nil {
				t.Fatal(err)
			}
			k = keep(t, dir)
			part(k.camera("camera", "board"), 0, "new", result(3, 50))
			k.written(t, 1)
			res, err := k.GetHistory(admin, &pb.GetHistoryRequest{})
			if err != nil || !strings.Contains(res.GetMovedAside(), ".damaged-") || res.GetParts() != 1 {
				t.Errorf("%v: %v", res, err)
			}
			if _, err := os.Stat(res.GetMovedAside()); err != nil {
				t.Error(err)
			}
			if !strings.Contains(k.log.String(), "moved aside") {
				t.Errorf("log: %s", k.log)
			}
		})
	}
	dir := t.TempDir()
	keep(t, dir).close()
	db, err := sql.Open("sqlite", fileOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	cfg, _ := config(t, dir)
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "newer server") {
		t.Errorf("%v", err)
	}
}

// A database that a server of an older version left is brought to this one with its parts, which say nothing of where
// they lay; those that come after do.
func TestOlderDatabase(t *testing.T) {
	dir := t.TempDir()
	k := keep(t, dir)
	s := k.camera("camera", "board")
	part(s, 0, "old", result(2, 50))
	k.written(t, 1)
	s.Close(nil)
	k.close()
	db, err := sql.Open("sqlite", fileOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"ALTER TABLE parts DROP COLUMN place", "PRAGMA user_version = 1"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	k = keep(t, dir)
	moved := result(2, 50)
	moved.Pose = &polygon.Pose{A: 1, C: 7, E: 1, F: -4}
	part(k.camera("camera", "board"), 0, "new", moved)
	k.written(t, 2)
	all := k.list(t, nil, 100, true)
	if len(all) != 2 || all[0].GetPartId() != "old" || all[0].GetPose() != nil || len(all[0].GetResults()) != 2 {
		t.Fatalf("%v", all)
	}
	if v := all[1].GetPose().GetAffine(); !slices.Equal(v, []float64{1, 0, 7, 0, 1, -4}) || all[1].GetLocation() != nil {
		t.Errorf("%v", all[1])
	}
}

// Files of pictures that no part knows of are removed at the start, and others are left alone.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	day := filepath.Join(dir, evidenceDir, "2026-01-01")
	if err := os.MkdirAll(day, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.png", "a.svg", "b.png.writing", "README"} {
		if err := os.WriteFile(filepath.Join(day, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	keep(t, dir).close()
	left, err := os.ReadDir(day)
	if err != nil || len(left) != 1 || left[0].Name() != "README" {
		t.Errorf("%v: %v", left, err)
	}
}

// A result that became late on its way is late in the history, also in the counts.
func TestLateOnItsWay(t *testing.T) {
	k := keep(t, t.TempDir())
	s := k.camera("camera", "board")
	for i := range uint64(3) {
		part(s, i, "", result(3, 50))
	}
	s.Late(1, time.Second)
	s.Late(1, time.Second)
	eventually(t, "the mark", func() bool {
		c, err := k.CountParts(admin, &pb.CountPartsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return c.GetTotal().GetLate() == 1 && c.GetTotal().GetParts() == 3
	})
	if late := k.list(t, &pb.PartFilter{Marks: []pb.PartMark{pb.PartMark_PART_MARK_LATE}}, 10, false); len(late) != 1 ||
		late[0].GetResultNumber() != 1 || !late[0].GetLate() {
		t.Errorf("%v", late)
	}
}

// Numbers come back as they were, bit for bit, whatever is in them.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Custom(func(t *rapid.T) *pb.RegionResult {
			m := &pb.RegionResult{Index: rapid.Uint32Max(3).Draw(t, "index"),
				Name:  rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"),
				Count: rapid.Uint64Max(3).Draw(t, "count"), Area: rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1.5}).Draw(t,
					"area")}
			if rapid.Bool().Draw(t, "coverage") {
				m.Coverage = new(rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "share"))
				m.Bounds = &pb.PixelRect{X1: rapid.Uint32Max(2).Draw(t, "x1")}
			}
			for range rapid.IntRange(0, 2).Draw(t, "channels") {
				c := &pb.ChannelStatistics{Count: new(m.Count)}
				if rapid.Bool().Draw(t, "sums") {
					c.Sum, c.SumOfSquares = new(rapid.Uint64Max(1000).Draw(t, "sum")),
						new(rapid.Uint64Range(1_000_000, 2_000_000).Draw(t, "squares"))
				}
				if m.Count > 0 && c.Sum != nil && rapid.Bool().Draw(t, "derived") {
					c.Mean = new(exact.Quotient(0, c.GetSum(), m.Count))
					v, root := exact.Variance(m.Count, c.GetSum(), c.GetSumOfSquares())
					c.Variance, c.Stddev = &v, &root
				} else if rapid.Bool().Draw(t, "else") {
					c.Mean, c.Stddev = new(rapid.Float64().Draw(t, "mean")), new(math.Inf(1))
				}
				m.Channels = append(m.Channels, c)
			}
			if rapid.Bool().Draw(t, "limits") {
				m.Limits = []*pb.LimitResult{{Expression: "mean < 3", Verdict: 2, Value: new(4.0), Reason: "4 is not below 3"}}
			}
			return m
		})
		first := r.Draw(t, "first")
		d := definitionOf(first)
		var data []byte
		var want []*pb.RegionResult
		for i := range rapid.IntRange(1, 4).Draw(t, "rows") {
			m := first
			if i > 0 {
				m = r.Draw(t, "row")
			}
			if !defines(d, m) {
				continue
			}
			want = append(want, proto.Clone(m).(*pb.RegionResult))
			var err error
			if data, err = appendRow(data, 7, 7*int64(min(i, 1)), d, proto.Clone(m).(*pb.RegionResult)); err != nil {
				t.Fatal(err)
			}
		}
		var got []*pb.RegionResult
		err := eachRow(data, func(_ int64, flags uint64, message []byte) (bool, error) {
			m, err := restore(d, flags, message)
			got = append(got, m)
			return true, err
		})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d rows of %d: %v", len(got), len(want), err)
		}
		for i := range got {
			if !proto.Equal(got[i], want[i]) {
				t.Fatalf("row %d:\ngot  %v\nwant %v", i, got[i], want[i])
			}
		}
	})
}

// The same through the queue and the database, of columns as well.
func TestKeptNumbers(t *testing.T) {
	rng := seed.New(t, 5, 40)
	k := keep(t, t.TempDir())
	s := k.camera("camera", "board")
	var want [][]*pb.RegionResult
	for i := range uint64(20) {
		r := result(30, float64(rng.IntN(200)))
		for j := range r.Regions { // some lie elsewhere than in the definition
			r.Regions[j].Bounds.X1 += rng.IntN(2)
		}
		want = append(want, wire.RegionResults(r, 0))
		part(s, i, "", r)
	}
	k.written(t, 20)
	for i, p := range k.list(t, nil, 6, true) {
		for j, r := range p.GetResults() {
			if !proto.Equal(r, want[i][j]) {
				t.Fatalf("part %d:\ngot  %v\nwant %v", i, r, want[i][j])
			}
		}
		if len(p.GetResults()) != 30 {
			t.Errorf("part %d has %d regions", i, len(p.GetResults()))
		}
	}
}

// A reject's picture is refused room, and its verdict is kept.
func TestNoRoomForPictures(t *testing.T) {
	k := keep(t, t.TempDir(), func(c *Config) { c.Memory = 100_000 })
	s := k.camera("camera", "board")
	big := kernels.Picture{Width: 1000, Height: 1000, Stride: 1000, Format: kernels.Gray8,
		Data: [][]byte{make([]byte, 1_000_000)}}
	if p := s.Copy(big, pb.Verdict_VERDICT_FAIL); p != nil {
		t.Error("a picture of 1 MB in 0.1 MB")
	}
	part(s, 0, "", result(3, 150))
	k.written(t, 1)
	if n := k.state.lostPictures.Load(); n != 1 {
		t.Errorf("%d pictures lost", n)
	}
	eventually(t, "memory goes back", func() bool { return k.queue.used.Load() == 0 })
}

// A panic in an encoder, or in what is made of a result, costs that picture or part and nothing else.
func TestPanics(t *testing.T) {
	k := keep(t, t.TempDir(), func(c *Config) {
		c.PNG = func(context.Context, image.Image) ([]byte, error) { panic("no picture") }
	})
	s := k.camera("camera", "board")
	small := kernels.Picture{Width: 4, Height: 4, Stride: 4, Format: kernels.Gray8, Data: [][]byte{make([]byte, 16)}}
	strange := result(3, 150)
	strange.Columns = &polygon.Columns{Rows: 3} // with columns of nothing
	for i, r := range []*polygon.Result{result(3, 150), strange, result(3, 150)} {
		s.Frame(uint64(i), &pb.Frame{}, r, nil, nil, time.Millisecond, s.Copy(small, pb.Verdict_VERDICT_FAIL))
	}
	for end := time.Now().Add(patience); k.state.lostPictures.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d pictures were missed", k.state.lostPictures.Load())
		}
	}
	k.written(t, 2)
	if log := k.log.String(); !strings.Contains(log, "panic: no picture") || !strings.Contains(log, "index out of range") {
		t.Errorf("%s", log)
	} else if n := int(testutil.ToFloat64(k.Metrics.Panics)) - strings.Count(log, "panic: "); n < 0 || n > 1 { // a batch is tried again
		t.Errorf("%d more panics are counted than the log has:\n%s", n, log)
	}
}

// Each n-th part that did not fail, and each that did.
func TestWants(t *testing.T) {
	k := keep(t, t.TempDir(), func(c *Config) { c.Good = 5 })
	good, bad := 0, 0
	for range 100 {
		if k.Wants(pb.Verdict_VERDICT_PASS) {
			good++
		}
		if k.Wants(pb.Verdict_VERDICT_FAIL) {
			bad++
		}
	}
	if good != 20 || bad != 100 {
		t.Errorf("%d good ones and %d rejects of 100 each", good, bad)
	}
}

// Strips become the picture of a part; lines that did not come are 0 and counted, and all memory goes back. Lines are
// read from where they are for as long as they are held, and copied where they can't be held or came in crumbs.
func TestStrips(t *testing.T) {
	for _, tt := range []struct {
		name         string
		pieces, held int // pieces of a strip, and strips whose memory is held
		lent         bool
	}{{"copied", 2, 0, false}, {"held", 2, 4, true}, {"crumbs", 36, 0, true}} {
		t.Run(tt.name, func(t *testing.T) {
			const width, stride, lines = 5, 6, 10
			k := keep(t, t.TempDir())
			s := k.camera("camera", "board")
			strips := s.Strips(lines)
			at := func(line, x int) byte { return byte(line*7 + x + 1) }
			held, released := 0, 0
			strip := func(first, n int) {
				data := make([]byte, stride*n)
				for i := range data {
					data[i] = at(first+i/stride, i%stride)
				}
				p := kernels.Picture{Width: width, Height: n, Stride: stride, Format: kernels.Gray8}
				for rest, i := data, 1; len(rest) > 0; i++ {
					end := len(rest)
					if i < tt.pieces {
						end = (end-1)/(tt.pieces-i+1) + 1 // rows go over the ends of pieces
					}
					p.Data, rest = append(p.Data, rest[:end]), rest[end:]
				}
				wipe := func() {
					for i := range data {
						data[i] = 0xee
					}
				}
				kept := false
				var hold func() (release func())
				if tt.lent {
					hold = func() func() {
						held++
						kept = true
						return func() { released++; wipe() }
					}
				}
				if strips.Strip(uint64(first), p, hold); !kept {
					wipe()
				}
			}
			r := result(3, 150)
			tell := func(number, line uint64) {
				m := &pb.PartResult{ResultNumber: number, FirstLine: line, Verdict: pb.Verdict_VERDICT_FAIL}
				s.Part(m, "", r, 0, false)
				strips.Part(m, r)
			}
			strip(0, 6)
			tell(0, 2) // its last line is yet to come
			strip(6, 6)
			tell(1, 8) // as the gap behind it is seen, before the strip behind that
			strip(16, 6)
			strip(22, 6)
			strips.Close()
			if held != tt.held || released != held {
				t.Errorf("%d strips were held and %d released: want %d", held, released, tt.held)
			}
			eventually(t, "both pictures", func() bool {
				return len(k.list(t, &pb.PartFilter{Marks: []pb.PartMark{pb.PartMark_PART_MARK_EVIDENCE}}, 10, true)) == 2
			})
			rows, err := k.db.reader().Query("SELECT file, missing FROM pictures ORDER BY part")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var missing []int
			for rows.Next() {
				var file string
				var n int
				if err := rows.Scan(&file, &n); err != nil {
					t.Fatal(err)
				}
				f, err := os.Open(filepath.Join(k.Dir, evidenceDir, file+frameSuffix))
				if err != nil {
					t.Fatal(err)
				}
				im, err := png.Decode(f)
				f.Close()
				if err != nil {
					t.Fatal(err)
				}
				if got := im.Bounds().Size(); got != image.Pt(width, lines) {
					t.Fatalf("part %d: %v", len(missing), got)
				}
				for y := range lines {
					line := []int{2, 8}[len(missing)] + y
					for x := range width {
						want := at(line, x)
						if line >= 12 && line < 16 {
							want = 0
						}
						if got := im.(*image.Gray).GrayAt(x, y).Y; got != want {
							t.Fatalf("part %d, line %d, pixel %d is %d: want %d", len(missing), line, x, got, want)
						}
					}
				}
				missing = append(missing, n)
			}
			if err := rows.Err(); err != nil || !slices.Equal(missing, []int{0, 4}) {
				t.Errorf("missing lines %v, %v", missing, err)
			}
			eventually(t, "memory goes back", func() bool { return k.queue.used.Load() == 0 })
		})
	}
}

// Lines are held up to a bound over all sessions, which those that are released make room in again.
func TestStripsHeld(t *testing.T) {
	const bytes, bound = 1 << 20, 32
	k := keep(t, t.TempDir())
	held, released := 0, 0
	hold := func() (release func()) {
		held++
		return func() { released++ }
	}
	data := make([]byte, bytes)
	p := kernels.Picture{Width: bytes, Height: 1, Format: kernels.Gray8, Data: [][]byte{data}}
	a, b := k.camera("a", "board").Strips(bound+8), k.camera("b", "board").Strips(1)
	for line := range uint64(bound + 4) {
		a.Strip(line, p, hold)
	}
	b.Strip(0, p, hold)
	if held != bound || released != 0 {
		t.Errorf("%d strips of 1 MiB are held, and %d were released: want %d", held, released, bound)
	}
	a.Close()
	if released != bound {
		t.Errorf("%d of %d strips were released", released, bound)
	}
	for line := range uint64(3) { // each lets go of the one before
		b.Strip(1+line, p, hold)
	}
	b.Close()
	if held != bound+3 || released != held {
		t.Errorf("%d strips were held and %d released: want %d", held, released, bound+3)
	}
	eventually(t, "memory goes back", func() bool { return k.queue.used.Load() == 0 })
}

// Tenants don't see each other's, whatever they filter.
func TestOwnParts(t *testing.T) {
	k := keep(t, t.TempDir())
	for _, owner := range []string{"x", "y'; --", ""} {
		s := k.bus.Open(events.Source{Name: "camera", Recipe: "board", Version: 1, Owner: owner})
		part(s, 0, "id", result(3, 150))
	}
	k.written(t, 3)
	for _, owner := range []string{"x", "y'; --"} {
		for _, f := range []*pb.PartFilter{nil, {Names: []string{"camera"}}, {Recipes: []string{"board"}},
			{Region: "region 0"}, {PartId: "id"}, {Verdicts: []pb.Verdict{2}}} {
			res, err := k.ListParts(as(owner, auth.View), &pb.ListPartsRequest{Filter: f})
			if err != nil || len(res.GetParts()) != 1 || res.GetParts()[0].GetTenant() != owner {
				t.Errorf("%s, %v: %v: %v", owner, f, res, err)
			}
		}
	}
}

// Filters and tokens of any bytes are answered or refused, never more.
func FuzzListParts(f *testing.F) {
	k := keep(f, f.TempDir())
	s := k.camera("camera", "board")
	part(s, 0, "id", result(3, 150))
	k.written(f, 1)
	seed, err := proto.Marshal(&pb.ListPartsRequest{
		Filter: &pb.PartFilter{
			Names: []string{"c*"}, Region: "region 0", Verdicts: []pb.Verdict{2},
			From: timestamppb.New(time.Unix(1, 0)), Marks: []pb.PartMark{4},
		},
		PageToken: token(place{1, 1}, [8]byte{}, false),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &pb.ListPartsRequest{}
		if proto.Unmarshal(data, req) != nil {
			return
		}
		for range 2 {
			res, err := k.ListParts(admin, req)
			if err != nil {
				var field *apierr.FieldError
				if code := apierr.StatusOf(admin, k.Log, err).Code(); code != codes.InvalidArgument || !errors.As(err, &field) {
					t.Fatalf("%v: %v", req, err)
				}
				return
			}
			if len(res.GetParts()) > 1 {
				t.Fatalf("%d parts of one", len(res.GetParts()))
			}
			f, err := k.filter(admin, asker{all: true}, req.GetFilter()) // once more, with a token of the server's own
			if err != nil {
				t.Fatal(err)
			}
			req.PageToken = token(place{math.MaxInt64, 5}, f.hash, req.GetOldestFirst())
		}
	})
}
