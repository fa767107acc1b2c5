// Store: frames that stay on the device from call to call.

package residents

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Store keeps frames by name until they are released, expire, or are evicted by the device's memory manager, which
// doesn't tell: that shows when they are used next. It remembers for a while why a frame went.
//
// A frame is its tenant's: to others it is as if there were none of its name.
type Store struct {
	limits Limits

	mu     sync.Mutex
	frames map[string]*entry
	used   Totals // of frames, and of uploads that have not ended
	gone   map[string]goneFrame
	order  []string // of gone, a ring: oldest at next
	next   int
	stats  Stats
}

// Limits bound what a store keeps.
type Limits struct {
	Totals
	Idle, MaxIdle time.Duration // of frames that say nothing, and of those that do
	Stall         time.Duration // how long an upload may bring no pixels: it holds memory of the device
}

// Totals are sums over frames.
type Totals struct {
	Count  int
	Bytes  int64 // on the device
	Copies int64 // in host memory
}

// Stats is what a store has seen, and what it holds.
type Stats struct {
	Totals
	Kept uint64
	Went [len(GoneReasons)]uint64
}

// GoneReason says why a frame is not kept any more.
type GoneReason uint8

const (
	GoneUnknown GoneReason = iota // it never was, or went too long ago
	GoneReleased
	GoneExpired
	GoneEvicted
	goneLost
)

var GoneReasons = [...]struct{ Name, Reason, text string }{
	GoneUnknown:  {"unknown", apierr.ReasonUnknownFrame, "there is no such frame, and none went lately"},
	GoneReleased: {"released", apierr.ReasonFrameReleased, "was released"},
	GoneExpired:  {"expired", apierr.ReasonFrameExpired, "expired: nobody used it for its idle timeout"},
	GoneEvicted:  {"evicted", apierr.ReasonFrameEvicted, "was evicted: the device needed its memory while nobody used it"},
	goneLost:     {"lost", apierr.ReasonFrameLost, "was lost with the device"},
}

type goneFrame struct {
	why   GoneReason
	when  time.Time
	owner string // its tenant
}

// rememberGone is how many frames that went are remembered.
const rememberGone = 4096

// entry is a frame that is kept.
type entry struct {
	name, id string
	owner    string          // the tenant
	release  func()          // gives back what counts for that
	frame    kernels.Picture // without pixels
	size     int             // of the pixels, in bytes
	idle     time.Duration
	created  time.Time
	copied   int    // bytes of the copy in host memory: size, or 0 without one
	copy     []byte // what the device got, once all is there

	// Under the store's mu.
	pixels *kernels.Resident[byte] // nil while the device is lost
	users  int
	used   time.Time   // when the last use ended
	timer  *time.Timer // runs where nobody uses it
	out    bool        // of the store
}

// bytes is what it takes of the device's memory.
func (e *entry) bytes() int64 { return kernels.Bytes[byte](e.size) }

// totals is what it adds to the store's.
func (e *entry) totals() Totals { return Totals{1, e.bytes(), int64(e.copied)} }

func (t *Totals) add(o Totals, sign int) {
	t.Count += sign * o.Count
	t.Bytes += int64(sign) * o.Bytes
	t.Copies += int64(sign) * o.Copies
}

// notFound is the error for a frame that is not kept, or not the caller's. st.mu is held.
func (st *Store) notFound(who auth.Caller, name string) error {
	gone := st.gone[name]
	if !who.Owns(gone.owner) {
		gone = goneFrame{}
	}
	why := GoneReasons[gone.why]
	return &apierr.FrameNotFound{Name: name, Reason: why.Reason, Text: why.text, Went: gone.when}
}

func NewStore(l Limits) *Store {
	return &Store{limits: l, frames: map[string]*entry{}, gone: map[string]goneFrame{}}
}

// find returns a frame of the caller's that is kept and has not been evicted. st.mu is held.
func (st *Store) find(who auth.Caller, name string) (*entry, error) {
	e := st.frames[name]
	if e == nil || !who.Owns(e.owner) {
		return nil, st.notFound(who, name)
	}
	if e.pixels != nil && e.pixels.Gone() {
		st.remove(e, GoneEvicted)
		return nil, st.notFound(who, name)
	}
	return e, nil
}

// remove forgets a frame. Calls that use it finish. st.mu is held.
func (st *Store) remove(e *entry, why GoneReason) {
	delete(st.frames, e.name)
	e.out = true
	e.timer.Stop()
	if e.pixels != nil {
		e.pixels.Drop()
	}
	st.used.add(e.totals(), -1)
	e.release()
	st.stats.Went[why]++
	if len(st.order) < rememberGone {
		st.order = append(st.order, e.name)
	} else {
		delete(st.gone, st.order[st.next])
		st.order[st.next] = e.name
		st.next = (st.next + 1) % rememberGone
	}
	st.gone[e.name] = goneFrame{why, time.Now(), e.owner}
}

// sweep removes what was evicted, and says whether there was anything. st.mu is held.
func (st *Store) sweep() (found bool) {
	for _, e := range st.frames {
		if e.pixels != nil && e.pixels.Gone() {
			st.remove(e, GoneEvicted)
			found = true
		}
	}
	return found
}

// Use returns a frame with its pixels on the device, and the client's own name of it. The caller holds a lease of the
// device, and calls release before that ends.
func (st *Store) Use(who auth.Caller, name string) (f kernels.Picture, id string, release func(), err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	e, err := st.find(who, name)
	if err != nil {
		return f, "", nil, err
	}
	pixels := e.pixels
	f = e.frame
	var ok bool
	if f.Resident, ok = pixels.Acquire(); !ok { // just now
		st.remove(e, GoneEvicted)
		return f, "", nil, st.notFound(who, name)
	}
	e.users++
	e.timer.Stop()
	return f, e.id, func() {
		pixels.Release()
		st.mu.Lock()
		defer st.mu.Unlock()
		if e.users--; e.users == 0 {
			st.touch(e)
		}
	}, nil
}

// touch starts the time until a frame expires. st.mu is held.
func (st *Store) touch(e *entry) {
	e.used = time.Now()
	if e.users == 0 && !e.out {
		e.timer.Reset(e.idle)
	}
}

// expire is called by a frame's timer, which may have been too late to stop.
func (st *Store) expire(e *entry) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !e.out && e.users == 0 && time.Since(e.used) >= e.idle {
		st.remove(e, GoneExpired)
	}
}

// get describes a frame, and counts that as a use where touch is set.
func (st *Store) get(who auth.Caller, name string, touch bool) (*pb.ResidentFrame, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	e, err := st.find(who, name)
	if err != nil {
		return nil, err
	}
	if touch {
		if e.pixels != nil {
			if _, ok := e.pixels.Acquire(); ok { // it is the one used last for the memory manager, too
				e.pixels.Release()
			}
		}
		st.touch(e)
	}
	return e.describe(), nil
}

// describe is called with the store's mu held.
func (e *entry) describe() *pb.ResidentFrame {
	used := e.used
	if e.users > 0 {
		used = time.Now()
	}
	return &pb.ResidentFrame{
		Name:      e.name,
		Tenant:    e.owner,
		FrameId:   e.id,
		Layout:    wire.SentLayoutOf(e.frame),
		Bytes:     uint64(e.bytes()),
		CreatedAt: timestamppb.New(e.created),
		UsedAt:    timestamppb.New(used),
		ExpiresAt: timestamppb.New(used.Add(e.idle)),
	}
}

// list describes the caller's first n frames behind a name, in order, and says whether more follow.
func (st *Store) list(who auth.Caller, after string, n int) (page []*pb.ResidentFrame, more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep()
	var names []string
	for name, e := range st.frames {
		if who.Owns(e.owner) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	names = names[from:]
	more = len(names) > n
	page = make([]*pb.ResidentFrame, min(len(names), n))
	for i := range page {
		page[i] = st.frames[names[i]].describe()
	}
	return page, more
}

// Release forgets a frame.
func (st *Store) Release(who auth.Caller, name string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	e, err := st.find(who, name)
	if err != nil {
		return err
	}
	st.remove(e, GoneReleased)
	return nil
}

// idleTimeout is the one asked for, or the default.
func (st *Store) idleTimeout(d *durationpb.Duration, field string) (time.Duration, error) {
	if d == nil {
		return st.limits.Idle, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, apierr.Refuse(field, nil, "is no duration")
	}
	t := d.AsDuration()
	if most := st.limits.MaxIdle; t <= 0 || t > most {
		return 0, apierr.Refuse(field, t, "must be more than 0s and at most %v", most)
	}
	return t, nil
}

// upload is a frame on its way into the store: it has its place, and its pixels are coming. It ends with Keep or Abort.
type upload struct {
	st          *Store
	dev         *kernels.Device
	e           *entry
	least, most int64 // bytes that come
	got         int64
}

// Place makes room for a frame as begin does, with what a request says of its idle timeout, which lies at field.
func (st *Store) Place(who auth.Caller, dev *kernels.Device, f kernels.Picture, id string, idle *durationpb.Duration,
	field string) (*upload, error) {
	d, err := st.idleTimeout(idle, field)
	if err != nil {
		return nil, err
	}
	return st.begin(who, dev, f, id, d)
}

// Keep implements frames.Residents.
func (st *Store) Keep(ctx context.Context, who auth.Caller, dev *kernels.Device, f kernels.Picture) (string, error) {
	u, err := st.Place(who, dev, f, "", nil, "")
	if err != nil {
		return "", err
	}
	if err := errors.Join(u.write(ctx, f.Data), u.Complete(ctx)); err != nil {
		u.Abort()
		return "", err
	}
	return u.Keep().GetName(), nil
}

// begin makes room for a frame, whose pixels are yet to come. The caller holds a lease of the device until the upload
// has ended.
func (st *Store) begin(who auth.Caller, dev *kernels.Device, f kernels.Picture, id string,
	idle time.Duration) (*upload, error) {
	f.Data = nil
	least, most, err := f.Sizes("frame")
	if err != nil {
		return nil, err
	}
	e := &entry{id: id, owner: who.Tenant, frame: f, size: int(least), idle: idle}
	if err := st.reserve(who, e); err != nil {
		return nil, err
	}
	if e.pixels, err = kernels.Store[byte](dev, e.size, "resident frames"); err != nil {
		st.unreserve(e)
		return nil, err
	}
	return &upload{st: st, dev: dev, e: e, least: least, most: most}, nil
}

// reserve counts a frame that is coming, and decides whether it gets a copy.
func (st *Store) reserve(who auth.Caller, e *entry) (err error) {
	full := func(format string, args ...any) error {
		return apierr.Quota(apierr.ReasonFramesFull, "resident frames", fmt.Sprintf(format, args...))
	}
	l, n := st.limits, e.bytes()
	st.mu.Lock()
	defer st.mu.Unlock()
	if n > l.Bytes {
		return full("the frame takes %d bytes; the limit for all together is %d", n, l.Bytes)
	}
	e.release, err = take(who, n)
	if err != nil && st.sweep() {
		e.release, err = take(who, n)
	}
	if err != nil {
		return err
	}
	if st.used.Count >= l.Count || n > l.Bytes-st.used.Bytes {
		st.sweep()
	}
	defer func() {
		if err != nil {
			e.release()
		}
	}()
	switch {
	case st.used.Count >= l.Count:
		return full("%d are kept, which is the limit; release those that are done with", st.used.Count)
	case n > l.Bytes-st.used.Bytes:
		return full("the frame takes %d bytes, and %d of %d are taken; release those that are done with", n,
			st.used.Bytes, l.Bytes)
	}
	if int64(e.size) <= l.Copies-st.used.Copies {
		e.copied = e.size
	}
	st.used.add(e.totals(), 1)
	return nil
}

// take counts a frame of so many bytes for its tenant.
func take(who auth.Caller, bytes int64) (release func(), err error) {
	frame, err := who.Take(auth.Frames, 1)
	if err != nil {
		return nil, err
	}
	memory, err := who.Take(auth.FrameBytes, bytes)
	if err != nil {
		frame()
		return nil, err
	}
	return func() { frame(); memory() }, nil
}

func (st *Store) unreserve(e *entry) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.used.add(e.totals(), -1)
	e.release()
}

// write brings the next pixels to the device. They may be freed when it returns.
func (u *upload) write(ctx context.Context, pieces [][]byte) error {
	var n int64
	for _, p := range pieces {
		n += int64(len(p))
	}
	if u.got+n > u.most {
		return apierr.Refuse("frame.data", fmt.Sprintf("%d bytes", u.got+n), "are too many: the layout takes %d", u.most)
	}
	from := min(u.got, u.least)
	u.got += n
	to := min(u.got, u.least)
	if from == to {
		return nil
	}
	pieces = head(pieces, int(to-from)) // without the gap behind the last row
	return u.dev.Do(ctx, kernels.Job{Label: "upload", Units: to - from}, func(q *kernels.Queue) error {
		return kernels.UploadGather(q, u.e.pixels.Buffer().Range(int(from), int(to)), pieces)
	})
}

// Buffer is where the pixels go, for those who make them on the device. They call Filled then.
func (u *upload) Buffer() kernels.Buffer[byte] { return u.e.pixels.Buffer() }

// Filled says that all pixels are there.
func (u *upload) Filled() { u.got = u.least }

// head is the first n bytes of pieces.
func head(pieces [][]byte, n int) [][]byte {
	for i, p := range pieces {
		switch {
		case n == 0:
			return pieces[:i]
		case n < len(p):
			return append(slices.Clone(pieces[:i]), p[:n])
		}
		n -= len(p)
	}
	return pieces
}

// Complete says what is missing, and makes the copy. It is taken from the device, because pixels in shared memory are
// to be read once.
func (u *upload) Complete(ctx context.Context) error {
	if u.got < u.least {
		return apierr.Refuse("frame.data", fmt.Sprintf("%d bytes", u.got), "are too few: the layout takes %d", u.least)
	}
	if u.e.copied == 0 {
		return nil
	}
	u.e.copy = make([]byte, u.e.copied)
	return u.dev.Do(ctx, kernels.Job{Label: "download", Units: u.least}, func(q *kernels.Queue) error {
		return kernels.Download(q, u.e.copy, u.e.pixels.Buffer())
	})
}

// Keep puts the frame into the store.
func (u *upload) Keep() *pb.ResidentFrame {
	st, e := u.st, u.e
	st.mu.Lock()
	defer st.mu.Unlock()
	e.name = rand.Text() // 130 bits
	e.created = time.Now()
	e.timer = time.AfterFunc(e.idle, func() { st.expire(e) })
	st.touch(e)
	st.frames[e.name] = e
	st.stats.Kept++
	e.pixels.Release()
	return e.describe()
}

// Abort leaves nothing.
func (u *upload) Abort() {
	u.e.pixels.Drop()
	u.e.pixels.Release()
	u.st.unreserve(u.e)
}

// Detach drops all pixels. No lease of the device is out.
func (st *Store) Detach() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep()
	for _, e := range st.frames {
		if e.pixels != nil {
			e.pixels.Drop()
			e.pixels = nil
		}
	}
}

// Restore brings the pixels of all frames to another device, those used last first. Frames without a copy, and those
// that find no room, are lost; it returns how many. An error means that the device is of no use.
func (st *Store) Restore(ctx context.Context, dev *kernels.Device) (lost int, err error) {
	st.mu.Lock()
	frames := slices.SortedFunc(maps.Values(st.frames), func(a, b *entry) int {
		return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.name, b.name))
	})
	st.mu.Unlock()
	for _, e := range frames {
		pixels, err := e.putBack(ctx, dev)
		var capacity *kernels.CapacityError
		if err != nil && !errors.As(err, &capacity) {
			return lost, err
		}
		st.mu.Lock()
		switch {
		case e.out: // released or expired meanwhile
			if pixels != nil {
				pixels.Drop()
			}
		case pixels == nil:
			st.remove(e, goneLost)
			lost++
		default:
			e.pixels = pixels
		}
		st.mu.Unlock()
		if pixels != nil {
			pixels.Release()
		}
	}
	return lost, nil
}

// putBack returns the pixels on dev, held once, or nil where there is no copy.
func (e *entry) putBack(ctx context.Context, dev *kernels.Device) (*kernels.Resident[byte], error) {
	if e.copy == nil {
		return nil, nil
	}
	pixels, err := kernels.Store[byte](dev, e.size, "resident frames")
	if err != nil {
		return nil, err
	}
	err = dev.Do(ctx, kernels.Job{Label: "upload", Units: int64(e.size)}, func(q *kernels.Queue) error {
		return kernels.Upload(q, pixels.Buffer(), e.copy)
	})
	if err != nil {
		pixels.Drop()
		pixels.Release()
		return nil, err
	}
	return pixels, nil
}

// Close forgets everything. No call uses a frame.
func (st *Store) Close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range st.frames {
		st.remove(e, GoneReleased)
	}
}

// Totals counts what is kept, and what went.
func (st *Store) Totals() Stats {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep()
	s := st.stats
	s.Totals = st.used
	return s
}

// Status describes the store.
func (st *Store) Status() *pb.ResidentStatus {
	t := st.Totals()
	out := &pb.ResidentStatus{
		Frames:    uint64(t.Count),
		Bytes:     uint64(t.Bytes),
		CopyBytes: uint64(t.Copies),
		MaxFrames: uint64(st.limits.Count),
		MaxBytes:  uint64(st.limits.Bytes),
		Gone:      map[string]uint64{},
	}
	for why, n := range t.Went {
		if n > 0 {
			out.Gone[GoneReasons[why].Name] = n
		}
	}
	return out
}
