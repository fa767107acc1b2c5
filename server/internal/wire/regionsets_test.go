package wire

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/internal/seed"
	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/observe"
)

// someRegions are n, most of which are as they should be.
func someRegions(rng *rand.Rand, n int) *pb.RegionSet {
	set := &pb.RegionSet{}
	for i := range n {
		r := &pb.Region{Name: fmt.Sprintf("r%d", i), FillRule: pb.FillRule(rng.IntN(3))}
		for range 1 + rng.IntN(2) {
			ring := &pb.Ring{}
			for range 2 * (3 + rng.IntN(6)) {
				ring.Xy = append(ring.Xy, rng.NormFloat64()*100)
			}
			r.Rings = append(r.Rings, ring)
		}
		for range rng.IntN(3) {
			r.Limits = append(r.Limits, []string{"mean < 3", "p99 in [1, 7]", "count > 20"}[rng.IntN(3)])
		}
		set.Regions = append(set.Regions, r)
	}
	return set
}

func requestOf(set *pb.RegionSet) *pb.ReduceRequest {
	return &pb.ReduceRequest{
		Inspection: &pb.Inspection{Name: "camera", Regions: &pb.Inspection_RegionSet{RegionSet: set}},
		Frame:      &pb.Frame{FrameId: "id", Source: &pb.Frame_Data{Data: make([]byte, 100)}},
	}
}

func marshalled(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// receiver takes requests as a server does.
type receiver struct {
	codec Codec
	sets  *RegionSets // nil: it keeps none
}

// newReceiver keeps sets of that size and larger ones.
func newReceiver(smallest int, forget func(*polygon.Set)) receiver {
	sets := NewRegionSets(keptBytes, budget.New(4*keptBytes), forget)
	sets.smallest = smallest
	return receiver{NewCodec(observe.New(), OverheadOf(testBounds), hostwork.New(1), sets, nil), sets}
}

func freshReceiver() receiver {
	return receiver{NewCodec(observe.New(), OverheadOf(testBounds), hostwork.New(1), nil, nil), nil}
}

// keptBytes is what is kept at most.
const keptBytes = 2 << 20

var testBounds = polygon.Bounds{MaxRegions: 1000, MaxVertices: 100_000, MaxRegionVertices: 50_000}

func forgetNothing(*polygon.Set) {}

// receive returns what an owner's request says and asks for, or what is wrong with it.
func (r receiver) receive(owner string, wire []byte) (*pb.ReduceRequest, *Inspection, error) {
	req := &pb.ReduceRequest{}
	in := framecodec.New(req)
	defer in.Free()
	var data mem.BufferSlice
	for part := range slices.Chunk(wire, 1000) {
		data = append(data, mem.SliceBuffer(part))
	}
	g := &Guarded{V: in, Ctx: auth.NewContext(context.Background(),
		auth.Caller{Tenant: owner})}
	if err := r.codec.Unmarshal(data, g); err != nil || g.Err != nil {
		return nil, nil, cmp.Or(err, g.Err)
	}
	if req.GetFrame().GetSource() != nil {
		req.Frame.Source = &pb.Frame_Data{Data: slices.Concat(in.Pieces(nil)...)}
	}
	what, err := NewInspection(context.Background(), req.GetInspection(), "inspection", "frame", noRecipes{}, r.sets, testBounds, nil)
	return req, what, err
}

type noRecipes struct{}

func (noRecipes) FlatField(*pb.FlatField, string) (*kernels.FlatField, error) { return nil, nil }

func (noRecipes) Recipe(name string, _ uint64) (*pb.Recipe, *polygon.Set, error) {
	return nil, nil, fmt.Errorf("no recipe %q", name)
}

// check compares what a receiver makes of a request with what one makes that keeps nothing.
func (r receiver) check(t *testing.T, owner string, wire []byte) *Inspection {
	t.Helper()
	req, what, err := r.receive(owner, wire)
	want, wantWhat, wantErr := freshReceiver().receive("", wire)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%x:\nerror %v\n want %v", wire, err, wantErr)
	}
	if want != nil && !bytes.Equal(marshalled(t, req), marshalled(t, want)) {
		t.Fatalf("%x:\n got %v\nwant %v", wire, req, want)
	}
	if wantErr != nil {
		return nil
	}
	if !reflect.DeepEqual(what.Set, wantWhat.Set) {
		t.Fatalf("%x: another set", wire)
	}
	return what
}

// A set that comes again is compiled once, for its owner, from the second time on.
func TestRegionSetsKept(t *testing.T) {
	rng := seed.New(t, 1, 1)
	var forgotten []*polygon.Set
	r := newReceiver(smallestKept, func(s *polygon.Set) { forgotten = append(forgotten, s) })
	wire := marshalled(t, requestOf(someRegions(rng, 200)))
	var sets []*polygon.Set
	for i, owner := range []string{"a", "a", "a", "b", "b", "a", "b"} {
		what := r.check(t, owner, wire)
		if again := i != 0 && i != 3; what.Keep != again {
			t.Errorf("call %d: kept: %v", i, what.Keep)
		}
		sets = append(sets, what.Set)
	}
	if sets[0] == sets[1] || sets[1] != sets[2] || sets[1] != sets[5] || sets[4] == sets[1] || sets[4] != sets[6] {
		t.Error("calls don't share the sets that they should")
	}
	if st := r.sets.kept.Stats(); st.Entries != 2 || len(r.sets.byMessage) != 2 {
		t.Errorf("%+v, %d messages", st, len(r.sets.byMessage))
	}
	r.sets.kept.Remove(func(k keptKey) bool { return k.owner == "a" })
	if len(forgotten) != 1 || forgotten[0] != sets[1] || len(r.sets.byMessage) != 1 {
		t.Errorf("%d sets forgotten, %d messages left", len(forgotten), len(r.sets.byMessage))
	}
	// Its message still serves calls that are under way.
	small := marshalled(t, requestOf(someRegions(rng, 1)))
	for range 3 {
		if r.check(t, "a", small).Keep {
			t.Error("a small set is kept")
		}
	}
}

// Hashes may collide: no request gets another one's regions.
func TestRegionSetsCollide(t *testing.T) {
	rng := seed.New(t, 2, 1)
	r := newReceiver(1, forgetNothing)
	hashes := map[uint64]bool{} // all three but once in a thousand times
	r.sets.sum = func(h *maphash.Hash) uint64 {
		sum := h.Sum64() % 3
		hashes[sum] = true
		return sum
	}
	var wires [][]byte
	for range 10 {
		wires = append(wires, marshalled(t, requestOf(someRegions(rng, 1+rng.IntN(3)))))
	}
	set := someRegions(rng, 2)
	for range 10 { // as long as each other: a coordinate differs
		set.Regions[1].Rings[0].Xy[0] += 1.0 / 256
		wires = append(wires, marshalled(t, requestOf(set)))
	}
	kept := 0
	for range 600 {
		if r.check(t, "", wires[rng.IntN(len(wires))]).Keep {
			kept++
		}
	}
	if st := r.sets.kept.Stats(); st.Entries != len(hashes) || kept == 0 {
		t.Errorf("%d of a kept set, %+v, %d hashes", kept, st, len(hashes))
	}
}

// Whatever is wrong with a request is told in the same words each time.
func TestRegionSetsRefused(t *testing.T) {
	rng := seed.New(t, 3, 1)
	broken := func(change func(*pb.RegionSet)) []byte {
		set := someRegions(rng, 20)
		change(set)
		return marshalled(t, requestOf(set))
	}
	good := marshalled(t, requestOf(someRegions(rng, 20)))
	recipe := marshalled(t, &pb.ReduceRequest{Inspection: &pb.Inspection{
		Regions: &pb.Inspection_Recipe{Recipe: &pb.RecipeRef{Name: "n"}}}})
	text := bytes.Replace(broken(func(s *pb.RegionSet) { s.Regions[7].Name = "marked" }), []byte("marked"),
		[]byte("\xffarked"), 1)
	frame := bytes.Replace(good, []byte("camera"), []byte("\xffamera"), 1)
	empty := slices.Repeat([]byte{0x0a, 0}, 600_000) // regions
	many := protowire.AppendBytes([]byte{0x0a}, protowire.AppendBytes([]byte{0x0a}, empty))
	for name, wire := range map[string][]byte{
		"a ring of two":    broken(func(s *pb.RegionSet) { s.Regions[3].Rings[0].Xy = []float64{1, 2, 3, 4} }),
		"an odd number":    broken(func(s *pb.RegionSet) { s.Regions[3].Rings[0].Xy = []float64{1, 2, 3, 4, 5, 6, 7} }),
		"a limit":          broken(func(s *pb.RegionSet) { s.Regions[3].Limits = []string{"meen < 3"} }),
		"a fill rule":      broken(func(s *pb.RegionSet) { s.Regions[3].FillRule = 9 }),
		"text in regions":  text,
		"text beside them": frame,
		"too many":         marshalled(t, requestOf(someRegions(rng, testBounds.MaxRegions+1))),
		"far too many":     many,
		"then a recipe":    slices.Concat(good, recipe),
		"cut off":          good[:len(good)-3],
		"a group":          slices.Concat(good, []byte{0x0b}),
	} {
		r := newReceiver(1, forgetNothing)
		for i := range 4 {
			if r.check(t, "", wire) != nil {
				t.Errorf("%s: call %d is good", name, i)
			}
		}
	}
	// And what is merely unusual is taken.
	unknown := protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "later")
	in := marshalled(t, requestOf(someRegions(rng, 20)).GetInspection())
	for name, wire := range map[string][]byte{
		"twice":               slices.Concat(good, good),
		"an unknown field":    slices.Concat(good, unknown),
		"frame first":         slices.Concat([]byte{0x12, 2, 0x7a, 0}, protowire.AppendBytes([]byte{0x0a}, in)),
		"regions in two runs": protowire.AppendBytes([]byte{0x0a}, slices.Concat(in, in)),
	} {
		r := newReceiver(1, forgetNothing)
		for i := range 4 {
			if r.check(t, "", wire) == nil {
				t.Errorf("%s: call %d is refused", name, i)
			}
		}
	}
}

// What is kept stays within its bound: under new sets with each request it is nothing, under sets that come twice each
// 2 MiB at most, whatever they consist of.
func TestRegionSetsBounded(t *testing.T) {
	rng := seed.New(t, 4, 1)
	forgotten := 0
	r := newReceiver(smallestKept, func(*polygon.Set) { forgotten++ })
	once := requestOf(someRegions(rng, 100))
	for i := range 500 {
		once.Inspection.GetRegionSet().Regions[0].Rings[0].Xy[0] = float64(i) / 256
		if _, what, err := r.receive("", marshalled(t, once)); err != nil || what.Keep {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if st := r.sets.kept.Stats(); st.Entries != 0 || len(r.sets.byMessage) != 0 {
		t.Fatalf("%+v of sets that came once", st)
	}
	tooLarge := requestOf(someRegions(rng, 1))
	tooLarge.Inspection.GetRegionSet().Regions[0].Rings[0].Xy = make([]float64, keptBytes/32+2)
	shapes := map[string]func(i int) *pb.RegionSet{
		"octagons": func(i int) *pb.RegionSet {
			set := someRegions(rng, 300)
			set.Regions[0].Name = fmt.Sprint(i)
			return set
		},
		"one outline": func(i int) *pb.RegionSet {
			xy := make([]float64, 5000)
			for k := range xy {
				xy[k] = rng.Float64() * 1000
			}
			return &pb.RegionSet{Regions: []*pb.Region{{Rings: []*pb.Ring{{Xy: xy}}}}}
		},
		"limits": func(i int) *pb.RegionSet {
			set := someRegions(rng, 100)
			for k, r := range set.Regions {
				r.Limits = nil
				for l := range 8 {
					r.Limits = append(r.Limits, fmt.Sprintf("max<%d.%d", 1+rng.IntN(200), 10*(i*100+k)+l))
				}
			}
			return set
		},
		"triangles": func(i int) *pb.RegionSet {
			set := &pb.RegionSet{}
			for range 1000 {
				x := rng.Float64()
				set.Regions = append(set.Regions, &pb.Region{Rings: []*pb.Ring{{Xy: []float64{x, 0, 1, 0, 0, x}}}})
			}
			return set
		},
	}
	for name, shape := range shapes {
		r := newReceiver(smallestKept, func(*polygon.Set) { forgotten++ })
		forgotten = 0
		before := heap()
		n := 0
		for ; forgotten < 3; n++ {
			wire := marshalled(t, requestOf(shape(n)))
			for range 2 {
				if _, _, err := r.receive("", wire); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		took, st := heap()-before, r.sets.kept.Stats()
		t.Logf("%s: %d of %d sets kept, said to take %d bytes, and taking %d", name, st.Entries, n, st.Bytes, took)
		if st.Entries != n-forgotten || len(r.sets.byMessage) != st.Entries || st.Bytes > keptBytes {
			t.Errorf("%s: %+v and %d messages after %d sets", name, st, len(r.sets.byMessage), n)
		}
		if took > st.Bytes {
			t.Errorf("%s: sets that are said to take %d bytes take %d", name, st.Bytes, took)
		}
		for range 3 {
			if _, what, err := r.receive("", marshalled(t, tooLarge)); err == nil && what.Keep {
				t.Errorf("a set of %d numbers is kept", keptBytes/32+2)
			}
		}
		runtime.KeepAlive(r)
	}
}

// heap is what lives on the heap.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Calls come from everywhere at once, and sets go while they are used.
func TestRegionSetsShared(t *testing.T) {
	rng := seed.New(t, 5, 1)
	var forgotten atomic.Int64
	r := newReceiver(1, func(*polygon.Set) { forgotten.Add(1) })
	var wires [][]byte
	var want []*polygon.Set
	for range 6 {
		wires = append(wires, marshalled(t, requestOf(someRegions(rng, 5))))
		_, what, err := freshReceiver().receive("", wires[len(wires)-1])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, what.Set)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for k := range 200 {
				i := (g + k*k) % len(wires)
				req, what, err := r.receive("", wires[i])
				if err != nil || !reflect.DeepEqual(what.Set, want[i]) || proto.Size(req) != len(wires[i]) {
					t.Errorf("request %d: %v", i, err)
				}
				if k%50 == g {
					r.sets.kept.Remove(func(keptKey) bool { return true })
				}
			}
		})
	}
	wg.Wait()
	st := r.sets.kept.Stats()
	if st.Hits == 0 || st.Entries != len(r.sets.byMessage) || forgotten.Load() == 0 {
		t.Errorf("%+v, %d messages, %d forgotten", st, len(r.sets.byMessage), forgotten.Load())
	}
	if n := r.sets.memory.Out(); n != st.Bytes {
		t.Errorf("%d bytes are counted of the %d that are kept", n, st.Bytes)
	}
}

// The ledger of host memory has what is kept, and what calls use that is kept no more, and keeps nothing that it has no
// room for.
func TestRegionSetsCounted(t *testing.T) {
	rng := seed.New(t, 8, 1)
	r := newReceiver(smallestKept, forgetNothing)
	ledger := r.sets.memory
	wire := marshalled(t, requestOf(someRegions(rng, 200)))
	call := func(data []byte) (end func()) {
		t.Helper()
		ctx, forget := ledger.WithRequest(t.Context())
		in := framecodec.New(&pb.ReduceRequest{})
		g := &Guarded{V: in, Ctx: ctx}
		if err := r.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, g); err != nil || g.Err != nil {
			t.Fatal(err, g.Err)
		}
		return func() {
			in.Free()
			forget()
		}
	}
	call(wire)()
	if n := ledger.Out(); n != 0 {
		t.Errorf("%d bytes are counted of a set that came once", n)
	}
	call(wire)()
	one := r.sets.kept.Stats().Bytes
	if n := ledger.Used(budget.RegionSets); n != one || one < int64(len(wire)) {
		t.Errorf("%d bytes are counted of a kept set of %d", n, one)
	}
	first, second := call(wire), call(wire)
	r.sets.kept.Remove(func(keptKey) bool { return true })
	for i, end := range []func(){first, second} {
		if n := ledger.Used(budget.RegionSets); n != one {
			t.Errorf("%d calls have ended: %d bytes are counted of a set of %d that the last one uses", i, n, one)
		}
		end()
	}
	if n := ledger.Out(); n != 0 {
		t.Errorf("%d bytes are counted once nobody uses the set", n)
	}

	ledger.Count(budget.Received, ledger.Cap) // small messages find room beyond Messages, and not beyond that
	call(wire)()
	if n := ledger.Used(budget.RegionSets); n != 0 || r.sets.kept.Stats().Entries != 0 {
		t.Errorf("%d bytes are kept where there is no room", n)
	}
	ledger.Count(budget.Received, -ledger.Cap)

	bad := marshalled(t, requestOf(someRegions(rng, 200)))
	at := bytes.Index(bad, []byte("r199"))
	bad[at] = 0xff // no text
	for range 3 {
		ctx, forget := ledger.WithRequest(t.Context())
		g := &Guarded{V: framecodec.New(&pb.ReduceRequest{}), Ctx: ctx}
		if err := r.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bad)}, g); err != nil || g.Err == nil {
			t.Fatal("taken", err)
		}
		forget()
	}
	if n := ledger.Out(); n != 0 {
		t.Errorf("%d bytes are counted of a set that can't be read", n)
	}
}

func FuzzRegionSets(f *testing.F) {
	rng := rand.New(rand.NewPCG(6, 1))
	for n := range 3 {
		f.Add(marshalled(f, requestOf(someRegions(rng, n))))
	}
	f.Add([]byte(strings.Repeat("\x0a\x02\x0a\x00", 2)))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := newReceiver(0, forgetNothing)
		for range 3 {
			r.check(t, "", wire)
		}
	})
}

// BenchmarkRegionSets is a request of 1000 octagons, up to its compiled set.
func BenchmarkRegionSets(b *testing.B) {
	set := &pb.RegionSet{}
	rng := rand.New(rand.NewPCG(7, 1))
	for i := range 1000 {
		xy := make([]float64, 16)
		for k := range xy {
			xy[k] = rng.Float64() * 1000
		}
		set.Regions = append(set.Regions, &pb.Region{Name: fmt.Sprint("r", i), Rings: []*pb.Ring{{Xy: xy}}})
	}
	wire := marshalled(b, requestOf(set))
	kept := newReceiver(smallestKept, forgetNothing)
	for name, r := range map[string]receiver{"kept": kept, "fresh": freshReceiver()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.receive("", wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
