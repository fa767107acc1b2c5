// Sets of regions that come again with each request of a client are read and compiled once.

package wire

import (
	"bytes"
	"context"
	"hash/maphash"
	"math"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/proto/framecodec"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
)

const (
	// smallestKept is how long a set is on the wire, at least, that is worth keeping. Shorter ones are read and
	// compiled in some 10 µs.
	smallestKept = 4 << 10
	// rememberedOnce is how many sets are remembered that came once.
	rememberedOnce = 4096
)

// RegionSets keeps sets of regions that came twice or more, with what was made of them. A set is known by its bytes on
// the wire, all of which are compared. Those that came longest ago go when all take more than there is room for, and a
// client that sends a new set with each request makes it keep none. Its methods may be called from several goroutines.
type RegionSets struct {
	seed     maphash.Seed
	sum      func(*maphash.Hash) uint64 // tests have worse ones
	smallest int                        // set on the wire that is kept
	limit    int64                      // bytes of them all
	memory   *budget.Budget             // where they count, for as long as they are kept or a call uses them
	// forget is told of sets that are not kept any more.
	forget func(*polygon.Set)

	kept *kernels.Cache[keptKey, *keptSet] // comes before mu

	mu        sync.Mutex
	byMessage map[*pb.RegionSet]*keptSet
	once      [rememberedOnce]uint64 // hashes of sets that came once, each at its place
}

// keptKey is a hash of an owner's set. What is kept is for calls of the same owner, as what the device keeps is: others
// can't find out by the time that their calls take.
type keptKey struct {
	owner string
	hash  uint64
}

type keptSet struct {
	from    *RegionSets
	wire    []byte
	message *pb.RegionSet // not to be changed
	bytes   int64
	key     keptKey
	images  bool // masks of the message are images: it is kept once they have become runs, see [RegionSets.Replaced]

	// Guarded by RegionSets.mu.
	set  *polygon.Set // nil before somebody compiled it, and where it can't be compiled
	uses int          // by the keeper, and by calls; it doesn't count any more when there are none
}

func (k *keptSet) Bytes() int64 { return k.bytes }
func (k *keptSet) Gone() bool   { return false }

// Drop is called with the cache locked.
func (k *keptSet) Drop() {
	k.from.mu.Lock()
	delete(k.from.byMessage, k.message)
	set := k.set
	k.from.mu.Unlock()
	k.letGo()
	if set != nil {
		k.from.forget(set)
	}
}

// use is for one more call, until letGo; false where nobody uses the set any more.
func (k *keptSet) use() bool {
	k.from.mu.Lock()
	defer k.from.mu.Unlock()
	if k.uses == 0 {
		return false
	}
	k.uses++
	return true
}

func (k *keptSet) letGo() {
	k.from.mu.Lock()
	defer k.from.mu.Unlock()
	if k.uses--; k.uses == 0 {
		delete(k.from.byMessage, k.message) // of one that was not kept
		k.from.memory.Count(budget.RegionSets, -k.bytes)
	}
}

// NewRegionSets returns a keeper of sets that has none, and keeps at most so many bytes of memory. forget is called for
// each set that is kept no longer.
func NewRegionSets(limit int64, memory *budget.Budget, forget func(*polygon.Set)) *RegionSets {
	return &RegionSets{
		seed: maphash.MakeSeed(), sum: (*maphash.Hash).Sum64, smallest: smallestKept, limit: limit, memory: memory,
		forget:    forget,
		kept:      kernels.NewCache[keptKey, *keptSet](limit, math.MaxInt),
		byMessage: map[*pb.RegionSet]*keptSet{},
	}
}

// The way to the regions of a ReduceRequest.
var (
	requestInspection = (&pb.ReduceRequest{}).ProtoReflect().Descriptor().Fields().ByName("inspection")
	inspectionRegions = requestInspection.Message().Fields().ByName("region_set")
)

// unmarshal reads a request, of rest bytes without its payload, whose regions are kept. It reports false where they are
// not, or where the request is large without them or anything is wrong with it: then that has to be read as a whole.
func (s *RegionSets) unmarshal(codec encoding.CodecV2, data mem.BufferSlice, rest int, g *Guarded) bool {
	m, ok := g.V.(*framecodec.Message)
	if !ok || s == nil || data.Len() < s.smallest {
		return false
	}
	req, ok := m.Message.(*pb.ReduceRequest)
	if !ok {
		return false
	}
	span, ok := framecodec.Locate(data, requestInspection, inspectionRegions)
	if !ok || span.Len() < s.smallest || rest-span.Len() > countedRequest {
		return false
	}
	owner := ""
	if g.Ctx != nil {
		owner = auth.FromContext(g.Ctx).Tenant
	}
	k := s.find(owner, span)
	if k == nil {
		return false
	}
	without := span.Without()
	defer without.Free()
	if codec.Unmarshal(without, m) != nil {
		k.letGo()
		return false
	}
	req.Inspection.Regions = &pb.Inspection_RegionSet{RegionSet: k.message}
	var of *budget.Request
	if g.Ctx != nil {
		of = budget.RequestOf(g.Ctx)
	}
	of.Share(k.letGo)
	return true
}

// find returns a set that is kept, or from now on is, for a call that must let go of it; nil where the set is not.
func (s *RegionSets) find(owner string, span framecodec.Span) *keptSet {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(owner) // no write fails
	for p := range span.Pieces {
		_, _ = h.Write(p)
	}
	key := keptKey{owner, s.sum(&h)}
	if k, ok := s.kept.Get(key); ok {
		if !k.holds(span) || !k.use() { // another set with the same hash; or it went at this moment
			return nil
		}
		return k
	}
	if !s.cameBefore(key.hash) {
		return nil
	}
	k := s.read(span)
	if k == nil {
		return nil
	}
	k.key = key
	s.mu.Lock()
	s.byMessage[k.message] = k
	s.mu.Unlock()
	if k.images {
		k.uses = 1 // the call's
	} else {
		s.keep(k)
	}
	return k
}

func (s *RegionSets) keep(k *keptSet) {
	if k.bytes > s.limit || !s.kept.Put(k.key, k) { // another call was faster
		k.Drop()
	}
}

// Replaced says that the masks of a set which are images have become runs, of so many numbers, in another set. Where
// the first one is to be kept, the other one is: calls that bring the same images get its runs.
func (s *RegionSets) Replaced(from, to *pb.RegionSet, numbers int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	k := s.byMessage[from]
	if k == nil || !k.images {
		s.mu.Unlock()
		return
	}
	delete(s.byMessage, from)
	s.byMessage[to] = k
	k.message, k.images = to, false
	k.uses++           // the keeper's
	const each = 2 * 4 // in the message, and in the compiled set
	k.bytes += each * int64(numbers)
	s.mu.Unlock()
	s.memory.Count(budget.RegionSets, each*int64(numbers))
	s.keep(k)
}

// cameBefore says that a set with this hash came not long ago, or remembers that one came.
func (s *RegionSets) cameBefore(hash uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.once[hash%rememberedOnce]
	if *last == hash {
		return true
	}
	*last = hash
	return false
}

// read reads a set that is to be kept, and counts it for the keeper and for a call. It returns nil for one that can't
// be read, for one that is too large, and for one that memory has no room for.
func (s *RegionSets) read(span framecodec.Span) *keptSet {
	// Coordinates take as much on the wire, in the message and in the compiled set, and up to twice as much in a
	// message that has them one by one.
	content := 4 * int64(span.Len())
	if content > s.limit {
		return nil
	}
	k := &keptSet{from: s, wire: make([]byte, 0, span.Len()), message: &pb.RegionSet{}}
	for p := range span.Pieces {
		k.wire = append(k.wire, p...)
	}
	const region, limit = 128, 384 // what they take in a compiled set, and slices that grew in the message
	k.bytes = content + framecodec.Overhead(mem.BufferSlice{mem.SliceBuffer(k.wire)}, k.message, s.limit)
	if k.bytes > s.limit || !s.memory.Admit(budget.RegionSets, k.bytes, false) {
		return nil
	}
	k.uses = 2
	err := proto.Unmarshal(k.wire, k.message)
	more := int64(0)
	for _, r := range k.message.GetRegions() {
		image := r.GetMask().GetImage()
		k.images = k.images || image != nil
		_, sent := image.GetFrame().GetSource().(*pb.Frame_Data)
		// What a shape comes to isn't known, and would have to count, and pixels elsewhere may be others by the next
		// call.
		if r.GetShape() != "" || image != nil && !sent {
			more = s.limit
		}
		more += region + limit*int64(len(r.GetLimits()))
	}
	s.memory.Count(budget.RegionSets, more)
	if k.bytes += more; err != nil || k.bytes > s.limit {
		s.memory.Count(budget.RegionSets, -k.bytes)
		return nil
	}
	return k
}

// holds says that a set is the same, byte by byte.
func (k *keptSet) holds(span framecodec.Span) bool {
	left := k.wire
	if len(left) != span.Len() {
		return false
	}
	for p := range span.Pieces {
		if !bytes.Equal(left[:len(p)], p) {
			return false
		}
		left = left[len(p):]
	}
	return true
}

// compile is [NewSet], once for a set that is kept; kept says that the set will be.
func (s *RegionSets) compile(ctx context.Context, m *pb.RegionSet, p Paths, b polygon.Bounds,
	pause func() error) (set *polygon.Set, kept bool, err error) {
	if set := s.compiled(m); set != nil {
		return set, true, nil
	}
	if set, err = NewSet(ctx, m, p, b, pause); err != nil || s == nil {
		return set, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byMessage[m]
	if k == nil {
		return set, false, nil
	}
	if k.set == nil {
		k.set = set
	}
	return k.set, true, nil
}

// compiled returns what was made of a kept set; nil where there is none.
func (s *RegionSets) compiled(m *pb.RegionSet) *polygon.Set {
	if s == nil || m == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.byMessage[m]; k != nil {
		return k.set
	}
	return nil
}

// Work is [SetWork], and nothing for a set that was compiled before.
func (s *RegionSets) Work(m *pb.RegionSet) int {
	if s.compiled(m) != nil {
		return 0
	}
	return SetWork(m)
}
