// Shared memory: what clients on the same host have leased, and the frames that lie in it.

package sharedmemory

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/internal/sharedmem"
	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/device"
)

// The memory is the server's, so that a client that dies leaves nothing behind; it is sealed, so that one that means
// harm can't take it away under a job. What remains to such a client is to change pixels while they are read, and to
// remove pages. Each byte is read once, when it is copied to the device, and nothing but pixels is: checks look at the
// copy or at the request. A lease with pages removed is refused from the next frame on; a job that is reading it gets
// zeros, or, where the system has no page to spare, an error.

const (
	// takeBackAfter is how long the content of a lease that has ended is left to a client that is still there, and may
	// want to copy it to another lease because its connection broke.
	takeBackAfter = 5 * time.Second
	// fetchTimeout is how long the descriptor of a lease waits for its client.
	fetchTimeout = 10 * time.Second
	// MaxLeases bounds file descriptors: each lease has two.
	MaxLeases = 1024
)

// Leases is the leases of a server.
type Leases struct {
	socket *net.UnixListener
	path   string
	limit  int64
	uids   []uint32 // that may have memory
	log    *slog.Logger
	dev    *device.Keeper

	takeBackAfter, fetchTimeout time.Duration

	ctx     context.Context // ends with the server
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines of the socket

	mu     sync.Mutex
	used   int64                    // bytes; those of leases that have ended count until nobody uses them
	all    map[*lease]struct{}      // that have memory, in use or not
	leases []*lease                 // that frames can refer to
	ended  map[*lease]*net.UnixConn // leases whose content a client may still want
	freed  chan struct{}            // closed, and replaced, when bytes came free
	// freeing is how many leases nobody uses any more whose bytes have not come free.
	freeing int

	granted, refused, unfetched, read uint64 // read: bytes of frames

	// registering is held by those who tell the device of memory, which takes longer than mu should be held.
	registering sync.Mutex
}

// lease is memory of one client.
type lease struct {
	id      uint64
	owner   string // the tenant
	release func() // gives back what counts for that
	memory  *sharedmem.Memory
	token   sharedmem.Token
	fetched chan struct{} // closed when the token is used

	// from the device, of Leases.registering; nil where the device does not know the memory
	unregister func() error

	// Of Leases.mu:
	users   int           // jobs that read it, the connection that it was fetched over, and 1 until it ends
	waiting bool          // for its token
	conn    *net.UnixConn // that it was fetched over; nil before, and when the client has closed it
}

// Config is what a server can be told about shared memory.
type Config struct {
	Listener *net.UnixListener // nil: there is none
	Bytes    int64             // of all leases together
	UIDs     []uint32          // users whose programs may have some, beside this process's and root
	Log      *slog.Logger
	// TakeBackAfter is how long the content of a lease stays behind its end, and FetchTimeout how long its descriptor
	// waits for the client. 0 means 5 s and 10 s.
	TakeBackAfter, FetchTimeout time.Duration
}

// Open starts to hand out memory over the socket of the configuration, and takes it over. It returns nil
// where there is none.
func Open(cfg Config, dev *device.Keeper) (*Leases, error) {
	l := cfg.Listener
	if l == nil {
		return nil, nil
	}
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("server: %w", sharedmem.ErrUnsupported)
	}
	m := &Leases{
		socket: l, path: l.Addr().String(), limit: cfg.Bytes, log: cfg.Log, dev: dev,
		uids:          append([]uint32{0, uint32(os.Geteuid())}, cfg.UIDs...),
		takeBackAfter: cmp.Or(cfg.TakeBackAfter, takeBackAfter), fetchTimeout: cmp.Or(cfg.FetchTimeout, fetchTimeout),
		all: map[*lease]struct{}{}, ended: map[*lease]*net.UnixConn{}, freed: make(chan struct{}),
	}
	if !strings.HasPrefix(m.path, "@") { // which has no file
		var err error
		if m.path, err = filepath.Abs(m.path); err != nil {
			return nil, fmt.Errorf("server: shared memory: %w", err)
		}
		mode := os.FileMode(0o600)
		if len(cfg.UIDs) > 0 {
			mode = 0o666 // credentials decide
		}
		if err := os.Chmod(m.path, mode); err != nil {
			return nil, fmt.Errorf("server: shared memory: %w", err)
		}
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.running.Go(m.accept)
	return m, nil
}

// Close ends everything. No call may be in flight.
func (m *Leases) Close() error {
	if m == nil {
		return nil
	}
	m.cancel()
	err := m.socket.Close()
	m.running.Wait()
	m.mu.Lock()
	leases := slices.Clone(m.leases)
	m.mu.Unlock()
	for _, l := range leases {
		m.end(l)
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// open makes a lease. end is to be called.
func (m *Leases) open(ctx context.Context, bytes uint64) (_ *lease, err error) {
	who := auth.FromContext(ctx)
	size, release, err := m.reserve(ctx, who, bytes)
	if err != nil {
		return nil, err
	}
	l := &lease{
		owner: who.Tenant, release: release,
		fetched: make(chan struct{}), users: 1, waiting: true, token: sharedmem.NewToken(),
	}
	defer func() {
		if err != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.used -= size
			m.refused++
			release()
		}
	}()
	if l.memory, err = sharedmem.Create(ctx, size); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		m.log.WarnContext(ctx, "no shared memory", "bytes", size, "error", err)
		return nil, noSharedMemory(true, fmt.Sprintf("%d bytes: the system has none to give", size))
	}
	m.mu.Lock()
	m.all[l] = struct{}{}
	m.mu.Unlock()
	if dev, err := m.dev.Acquire(); err == nil { // a lost one is told when it is back
		m.register(dev.Device, l)
		dev.End()
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	l.id = binary.LittleEndian.Uint64(id[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = append(m.leases, l)
	m.granted++
	return l, nil
}

// reserve takes bytes, in whole pages, of the limit, and of what who may have; release gives the latter back. Where
// there is no room it takes back what has ended.
func (m *Leases) reserve(ctx context.Context, who auth.Caller, bytes uint64) (size int64, release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	refuse := func(err error) (int64, func(), error) {
		m.refused++
		return 0, nil, err
	}
	if bytes <= uint64(m.limit) {
		if size, err = sharedmem.RoundUp(int64(bytes)); err != nil {
			return 0, nil, err
		}
	}
	if size == 0 || size > m.limit {
		return refuse(noSharedMemory(false,
			fmt.Sprintf("%d bytes wanted: the limit of all leases together is %d", bytes, m.limit)))
	}
	for {
		own := false // it is the tenant's own limit that refuses
		release, err = take(who, size)
		switch {
		case err != nil:
			own = true
		case size <= m.limit-m.used && len(m.all) < MaxLeases:
			m.used += size
			return size, release, nil
		default:
			release()
			err = noSharedMemory(true, fmt.Sprintf("%d bytes wanted: %d of %d are free, and %d of %d leases", size,
				m.limit-m.used, m.limit, MaxLeases-len(m.all), MaxLeases))
		}
		ending := m.freeing > 0
		for l, c := range m.ended {
			if !own || l.owner == who.Tenant {
				c.SetReadDeadline(time.Unix(1, 0))
				ending = true
			}
		}
		if !ending {
			return refuse(err)
		}
		freed := m.freed
		m.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if err := context.Cause(ctx); err != nil {
			return 0, nil, err
		}
	}
}

// take counts a lease of so many bytes for its tenant.
func take(who auth.Caller, bytes int64) (release func(), err error) {
	lease, err := who.Take(auth.Leases, 1)
	if err != nil {
		return nil, err
	}
	memory, err := who.Take(auth.LeaseBytes, bytes)
	if err != nil {
		lease()
		return nil, err
	}
	return func() { lease(); memory() }, nil
}

func noSharedMemory(retry bool, text string) error {
	details := []protoadapt.MessageV1{apierr.Info(apierr.ReasonNoSharedMemory), apierr.QuotaFailure("shared memory", text)}
	if retry {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	}
	return apierr.WithDetails(codes.ResourceExhausted, "shared memory: "+text, details...).Err()
}

// Leased is how many bytes leases take, those that have ended and are in use included, and a channel that is closed
// when that gets less.
func (m *Leases) Leased() (bytes int64, freed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, m.freed
}

// end ends a lease: no frame can refer to it any more. Its memory goes back when nobody uses it.
func (m *Leases) end(l *lease) {
	m.mu.Lock()
	m.leases = slices.DeleteFunc(m.leases, func(o *lease) bool { return o == l })
	l.waiting = false
	if l.conn != nil {
		m.ended[l] = l.conn
		l.conn.SetReadDeadline(time.Now().Add(m.takeBackAfter))
	}
	m.leaveUse(l)
}

// release ends one use.
func (m *Leases) release(l *lease) {
	m.mu.Lock()
	m.leaveUse(l)
}

// leaveUse ends one use, and gives the memory back after the last. mu is held, and unlocked.
func (m *Leases) leaveUse(l *lease) {
	l.users--
	last := l.users == 0
	if last {
		delete(m.all, l)
		m.freeing++
	}
	m.mu.Unlock()
	if !last {
		return
	}
	m.unregister(l)
	size := int64(len(l.memory.Data()))
	// A server that shuts down leaves clients what they have. One that goes on can't: they could have any amount.
	if err := l.memory.Free(m.ctx.Err() == nil); err != nil {
		m.log.Error("shared memory is not freed", "bytes", size, "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= size
	m.freeing--
	l.release()
	close(m.freed)
	m.freed = make(chan struct{})
}

// register tells a device of a lease.
func (m *Leases) register(dev *kernels.Device, l *lease) {
	m.registering.Lock()
	defer m.registering.Unlock()
	if l.unregister != nil { // by restore, which came between
		return
	}
	var err error
	if l.unregister, err = dev.RegisterHost(l.memory.Data()); err != nil {
		m.log.Warn("the device does not take to shared memory: copies will be slower", "bytes", len(l.memory.Data()),
			"error", err)
	}
}

func (m *Leases) unregister(l *lease) {
	m.registering.Lock()
	defer m.registering.Unlock()
	if l.unregister == nil {
		return
	}
	if err := l.unregister(); err != nil {
		m.log.Warn("the device does not let go of shared memory", "bytes", len(l.memory.Data()), "error", err)
	}
	l.unregister = nil
}

// Detach makes the device forget all leases. No job runs.
func (m *Leases) Detach() { m.each(m.unregister) }

// Restore tells another device of them.
func (m *Leases) Restore(dev *kernels.Device) {
	m.each(func(l *lease) { m.register(dev, l) })
}

// each calls f for all leases, those that have ended and are in use included, whose memory stays meanwhile.
func (m *Leases) each(f func(*lease)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	leases := slices.Collect(maps.Keys(m.all))
	for _, l := range leases {
		l.users++
	}
	m.mu.Unlock()
	for _, l := range leases {
		f(l)
		m.release(l)
	}
}

// find returns a lease, to be released; nil where there is none that who may use. The time does not depend on how much
// of an id is right.
func (m *Leases) find(who auth.Caller, id uint64) *lease {
	var want, have [8]byte
	binary.LittleEndian.PutUint64(want[:], id)
	m.mu.Lock()
	defer m.mu.Unlock()
	var found *lease
	for _, l := range m.leases {
		binary.LittleEndian.PutUint64(have[:], l.id)
		if subtle.ConstantTimeCompare(have[:], want[:]) == 1 && who.Owns(l.owner) {
			found = l
		}
	}
	if found != nil {
		found.users++
	}
	return found
}

// Place makes f's pixels those that p refers to, in a lease that who may use; path is where p lies in the request. They
// stay mapped until release is called, once.
func (m *Leases) Place(who auth.Caller, f *kernels.Picture, p *pb.SharedPixels, path string) (release func(),
	err error) {
	if m == nil {
		return nil, errNoSharedMemory()
	}
	// What else is wrong with the frame is left to package polygon.
	if least, most, err := f.Sizes("frame"); err == nil &&
		(p.GetLength() < uint64(least) || p.GetLength() > uint64(most)) {
		return nil, apierr.Refuse(path+".length", p.GetLength(), "the layout takes %d bytes", least)
	}
	l := m.find(who, p.GetLeaseId())
	if l == nil {
		text := fmt.Sprintf("%s.lease_id = %d: there is no such lease (any more)", path, p.GetLeaseId())
		return nil, apierr.WithDetails(codes.NotFound, text, apierr.Info(apierr.ReasonUnknownLease), &errdetails.ResourceInfo{
			ResourceType: "polyscan.v1.Lease", ResourceName: strconv.FormatUint(p.GetLeaseId(), 10), Description: text,
		}).Err()
	}
	defer func() {
		if err != nil {
			m.release(l)
		}
	}()
	data := l.memory.Data()
	if err := checkRange(p.GetOffset(), p.GetLength(), uint64(len(data)), path); err != nil {
		return nil, err
	}
	if err := l.memory.Whole(); err != nil {
		return nil, apierr.WithDetails(codes.FailedPrecondition,
			fmt.Sprintf("%s.lease_id = %d: %v", path, p.GetLeaseId(), err), apierr.Info(apierr.ReasonDamagedLease)).Err()
	}
	m.mu.Lock()
	m.read += p.GetLength()
	m.mu.Unlock()
	from, to := p.GetOffset(), p.GetOffset()+p.GetLength()
	f.Data = [][]byte{data[from:to:to]}
	return func() { m.release(l) }, nil
}

// checkRange checks that [offset, offset+length) is a range of a lease of so many bytes, and not empty.
func checkRange(offset, length, size uint64, path string) error {
	switch {
	case length == 0:
		return apierr.Refuse(path+".length", length, "must be what the layout takes")
	case offset >= size:
		return apierr.Refuse(path+".offset", offset, "is not within the lease of %d bytes", size)
	case length > size-offset:
		return apierr.Refuse(path+".length", length, "is more than the %d bytes from offset %d to the end of the lease of %d",
			size-offset, offset, size)
	}
	return nil
}

var (
	sharedBytesDesc = prometheus.NewDesc("polyscan_shared_memory_bytes",
		"Memory that clients on this host may lease: limit, leased.", []string{"kind"}, nil)
	sharedLeasesDesc = prometheus.NewDesc("polyscan_shared_memory_leases", "Leases of shared memory that are open.",
		nil, nil)
	sharedEndsDesc = prometheus.NewDesc("polyscan_shared_memory_requests_total",
		"Leases of shared memory by outcome: granted, refused; unfetched are those granted that nobody came for.",
		[]string{"outcome"}, nil)
	sharedReadDesc = prometheus.NewDesc("polyscan_shared_memory_read_bytes_total",
		"Bytes of frames in shared memory.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Leases) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sharedBytesDesc, sharedLeasesDesc, sharedEndsDesc, sharedReadDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It takes nil for a server without shared memory.
func (m *Leases) Collect(ch chan<- prometheus.Metric) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	send(sharedBytesDesc, prometheus.GaugeValue, float64(m.limit), "limit")
	send(sharedBytesDesc, prometheus.GaugeValue, float64(m.used), "leased")
	send(sharedLeasesDesc, prometheus.GaugeValue, float64(len(m.leases)))
	send(sharedEndsDesc, prometheus.CounterValue, float64(m.granted), "granted")
	send(sharedEndsDesc, prometheus.CounterValue, float64(m.refused), "refused")
	send(sharedEndsDesc, prometheus.CounterValue, float64(m.unfetched), "unfetched")
	send(sharedReadDesc, prometheus.CounterValue, float64(m.read))
}
