// Server: construction, serving, shutdown.

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/polyscan/polyscan/kernels"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/drivers"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
	"github.com/polyscan/polyscan/server/internal/diffuse"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/frames"
	"github.com/polyscan/polyscan/server/internal/framestream"
	"github.com/polyscan/polyscan/server/internal/history"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/inspect"
	"github.com/polyscan/polyscan/server/internal/intake"
	"github.com/polyscan/polyscan/server/internal/mesh"
	"github.com/polyscan/polyscan/server/internal/monitor"
	"github.com/polyscan/polyscan/server/internal/observe"
	"github.com/polyscan/polyscan/server/internal/recipes"
	"github.com/polyscan/polyscan/server/internal/residents"
	"github.com/polyscan/polyscan/server/internal/scan"
	"github.com/polyscan/polyscan/server/internal/setting"
	"github.com/polyscan/polyscan/server/internal/sharedmemory"
	"github.com/polyscan/polyscan/server/internal/teach"
	"github.com/polyscan/polyscan/server/internal/web"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// Server answers calls. Make one with [New] and end it with [Server.Shutdown].
type Server struct {
	cfg       Config
	log       *slog.Logger
	dev       *device.Keeper
	started   time.Time
	validator *wire.Validator
	residents *residents.Store
	frames    *frames.Reader
	host      *budget.Budget
	canvases  *budget.Budget       // of host, what those may have
	shared    *sharedmemory.Leases // nil: off

	// What answers the calls of each service.
	recipes      *recipes.Service
	inspector    *inspect.Service
	frameService *residents.Service
	lowPoly      *mesh.Service
	diffusion    *diffuse.Service
	lineScan     *scan.Service
	monitor      *monitor.Service
	teach        *teach.Service

	inside *web.Inside  // of calls that come over HTTP; nil: there are none
	web    *web.Handler // likewise

	webMetrics *web.Metrics
	history    *history.Service

	events *events.Bus // of what others than the callers see
	work   *hostwork.Pool
	sets   *wire.RegionSets // that come again with requests
	masks  *frames.Masks    // of requests, that are images

	codec    wire.Codec    // of the messages
	tenants  *auth.Tenants // nil: nobody is asked who they are
	certs    *certificates // nil: no TLS
	metrics  *observe.Metrics
	intake   *intake.Guard
	gatherer prometheus.Gatherer

	collectors []prometheus.Collector
	unregister func()

	grpc   *grpc.Server
	health *health.Server

	draining   chan struct{} // closed when the server shuts down
	drain      sync.Once
	background sync.WaitGroup // goroutines that outlive their call for a moment
	closing    sync.Once
	closed     error
}

// Sizes of HTTP/2, measured on a loopback connection with frames of 5 MB; see BenchmarkReduce.
const (
	// Each stream may have this much unread, and all of a connection that. It bounds what connections cost that send
	// and are not read, and is enough to keep a 10 Gbit/s line busy over 0.8 ms.
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
	// writeBuffer is the size of system calls; that of those that read is intake's.
	writeBuffer = 64 << 10

	maxHeaderBytes = 64 << 10
)

// keptRegionSets is what sets of regions may take that come again with requests: ten of a thousand regions each, or an
// eighth of what messages may take where that is less.
const keptRegionSets = 16 << 20

// messageLimits are those of methods that take no frames, regions or drawings.
var messageLimits = map[string]int64{
	"/" + healthpb.Health_ServiceDesc.ServiceName + "/":   4 << 10, // whoever asks has no token
	"/" + pb.DeviceService_ServiceDesc.ServiceName + "/":  4 << 10,
	"/" + pb.MonitorService_ServiceDesc.ServiceName + "/": 64 << 10,
	"/" + pb.HistoryService_ServiceDesc.ServiceName + "/": 64 << 10,
	"/grpc.channelz.":   64 << 10,
	"/grpc.reflection.": 64 << 10,
}

// New opens the device, reads recipes, tokens and certificates, and makes a server that is ready to serve. Errors that
// come again with the same Config match [ErrConfig].
func New(cfg Config) (_ *Server, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, &configError{err}
	}
	s := &Server{
		cfg:      cfg,
		log:      slog.New(auth.LogHandler(cfg.Logger.Handler())),
		started:  time.Now(),
		host:     budget.New(cfg.HostBytes),
		canvases: budget.New(cfg.HostBytes - cfg.HostBytes/4),
		metrics:  observe.New(),
		draining: make(chan struct{}), webMetrics: web.NewMetrics(),
		health: health.NewServer(),
		work:   hostwork.New(max(1, runtime.GOMAXPROCS(0)-1)),
	}
	s.sets = wire.NewRegionSets(min(keptRegionSets, cfg.messageBytes()/8), s.host, host{s}.Forget)
	s.codec = wire.NewCodec(s.metrics, wire.OverheadOf(cfg.bounds()), s.work, s.sets, s.panicked)
	s.host.Heap = new(budget.Heap)
	s.host.Messages, s.host.MaxRecipes = cfg.messageBytes(), cfg.MaxRecipeBytes
	if s.validator, err = wire.NewValidator(); err != nil {
		return nil, fmt.Errorf("server: field rules: %w", err)
	}
	if cfg.TokenFile != "" || cfg.TLS.ClientCAFile != "" {
		if s.tenants, err = auth.New(cfg.TokenFile, s.log); err != nil {
			return nil, &configError{err}
		}
		defer func() {
			if err != nil {
				s.tenants.Close()
			}
		}()
	}
	if s.certs, err = newCertificates(cfg.TLS, s.log); err != nil {
		return nil, &configError{err}
	}
	if cfg.TokenFile != "" && s.certs == nil {
		s.log.Warn("tokens travel in the clear: serve TLS, or where nobody can listen")
	}
	if err := s.openHistory(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.events.Close()
			s.history.Close()
		}
	}()
	// Recipes before the device: what is wrong with a file shows before gigabytes are reserved.
	s.recipes, err = recipes.Open(host{s}, recipes.Config{
		Dir: cfg.RecipeDir, MaxRecipes: cfg.MaxRecipes, MaxBytes: cfg.MaxRecipeBytes, Bounds: cfg.bounds(),
		Memory: s.host, Work: s.work, Events: s.events, Auditor: s.history, Log: s.log,
		Hold: func(tenant string) func() { return s.tenants.Hold(tenant, auth.Recipes, 1) },
	})
	if err != nil {
		return nil, folderError(err)
	}
	defer func() {
		if err != nil {
			s.recipes.Close()
		}
	}()
	d := cfg.Driver
	if d == nil {
		if d, err = drivers.Open(cfg.Device, drivers.Options{Threads: cfg.Threads, Ordinal: cfg.Ordinal}); err != nil {
			return nil, &configError{err}
		}
	}
	s.dev, err = device.Open(func() (*kernels.Device, error) {
		return kernels.Open(d, kernels.Config{
			Ordinal: cfg.Ordinal, MemoryBytes: cfg.MemoryBytes, MemoBytes: cfg.SetupBytes,
			Streams: cfg.Streams, LineScanStreams: cfg.LineScanStreams, BatchStreams: cfg.BatchStreams,
			MaxWaiting: cfg.MaxWaiting, HostPlace: s.work.Place,
			LongestRun: [...]time.Duration{kernels.Interactive: cfg.LongestRun, kernels.Batch: cfg.LongestBatchRun},
			Observe:    s.metrics.Jobs.Observe,
		})
	}, s.log)
	// More than this machine can give won't be there the next time, either; what lacks on a GPU another process may
	// have.
	tooMuch := cfg.MemoryBytes > 0 && d.Name() == "cpu" && errors.Is(err, kernels.ErrOutOfMemory)
	if tooMuch {
		err = fmt.Errorf("server: memory = %s: more than this machine gives: %w", setting.FormatSize(cfg.MemoryBytes),
			kernels.ErrOutOfMemory)
	}
	if tooMuch || errors.Is(err, kernels.ErrNoDevice) {
		return nil, &configError{err}
	} else if err != nil {
		return nil, err
	}
	if err := cfg.checkParts(max(cfg.MemoryBytes, s.dev.Info().MemoryBytes)); err != nil {
		if cfg.MemoryBytes > 0 || d.Name() == "cpu" {
			return nil, errors.Join(&configError{err}, s.dev.Close())
		}
		s.log.Warn("a setting asks for more than the memory of the device", "error", err) // as another process has some of it
	}
	s.residents = residents.NewStore(cfg.frameLimits(s.dev.Info()))
	if s.shared, err = sharedmemory.Open(sharedmemory.Config{
		Listener: cfg.SharedMemoryListener, Bytes: cfg.SharedMemoryBytes, UIDs: cfg.SharedMemoryUIDs, Log: s.log,
		TakeBackAfter: cfg.takeBackAfter, FetchTimeout: cfg.fetchTimeout,
	}, s.dev); err != nil {
		return nil, errors.Join(err, s.dev.Close())
	}
	if limits := cfg.frameLimits(s.dev.Info()); s.tenants != nil {
		s.tenants.SetTotals(auth.Amounts{
			auth.Sessions: int64(cfg.ScanSessions), auth.Frames: int64(limits.Count), auth.FrameBytes: limits.Bytes,
			auth.Leases: sharedmemory.MaxLeases, auth.LeaseBytes: cfg.SharedMemoryBytes,
			auth.Openings: int64(cfg.ScanSessions), auth.Recipes: int64(cfg.MaxRecipes),
		})
	}
	s.frames = &frames.Reader{
		MaxPixels: cfg.MaxFramePixels, MaxBytes: cfg.MaxMessageBytes, Host: s.host, Metrics: s.metrics,
		Work:      s.work,
		Residents: s.residents, Shared: s.shared,
	}
	s.masks = &frames.Masks{Reader: s.frames, Acquire: s.dev.Acquire, Check: s.validator.Validate, Bounds: cfg.bounds(),
		Sets: s.sets}
	s.newServices()
	s.intake = intake.New(intake.Config{
		Memory: s.host, MaxMessage: cfg.MaxMessageBytes, Limits: messageLimits,
		Urgent: "/" + pb.LineScanService_ServiceDesc.ServiceName + "/", StreamWindow: streamWindow,
		ConnectionWindow: connectionWindow, Log: s.log, Calm: s.work.Calm, Comes: s.work.StripComes,
	})
	s.host.Waiting = s.intake.MakeRoom
	if err := s.register(); err != nil {
		s.intake.Close()
		return nil, errors.Join(fmt.Errorf("server: metrics: %w", err), s.shared.Close(), s.dev.Close())
	}
	s.newGRPC()
	if cfg.Console {
		if err := s.newWeb(); err != nil {
			s.grpc.Stop()
			s.unregister()
			s.intake.Close()
			return nil, errors.Join(err, s.shared.Close(), s.dev.Close())
		}
	}
	s.dev.Watch(onDeviceLoss{s})
	return s, nil
}

// folderError is an error of opening a folder, which matches ErrConfig where it comes again.
func folderError(err error) error {
	for _, e := range []error{syscall.ENOTDIR, syscall.EROFS, fs.ErrPermission, fs.ErrNotExist} {
		if errors.Is(err, e) {
			return &configError{err}
		}
	}
	return err
}

// openHistory begins to keep what parts come to, where there is a folder for that, and the bus that tells of them.
func (s *Server) openHistory() (err error) {
	cfg := &s.cfg
	id := rand.Text()
	s.history, err = history.Open(history.Config{
		Dir: cfg.HistoryDir, Age: cfg.HistoryAge, Bytes: cfg.HistoryBytes, Good: cfg.HistoryGood,
		Memory: cfg.HistoryMemory, Server: id, Log: s.log, Metrics: s.metrics.History,
		PNG:      (&frames.Reader{Work: s.work}).PNG,
		Validate: s.validator.Validate,
		Failing: func(failing bool) {
			st := healthpb.HealthCheckResponse_SERVING
			if failing {
				st = healthpb.HealthCheckResponse_NOT_SERVING
			}
			s.health.SetServingStatus(pb.HistoryService_ServiceDesc.ServiceName, st)
		},
	})
	if err != nil {
		return folderError(err)
	}
	var keeper events.Keeper
	if cfg.HistoryDir != "" {
		keeper = s.history
	}
	s.events = events.New(id, s.metrics.Watch, s.work, keeper)
	s.history.Tell(s.events.HistoryChanged)
	return nil
}

// newServices makes the services, on an open device.
func (s *Server) newServices() {
	cfg, h := s.cfg, host{s}
	orElse(&cfg.PreparedBytes, s.dev.Info().MemoryBytes/4)
	streams := &framestream.Streams{Host: h, Depth: cfg.StreamDepth, Metrics: s.metrics}
	s.frameService = residents.New(h, s.residents, s.frames, s.metrics)
	s.inspector = inspect.New(inspect.Config{
		Host: h, Frames: s.frames, Streams: streams, Memory: s.host, Metrics: s.metrics, Recipes: s.recipes,
		Events: s.events, Sets: s.sets, Bounds: cfg.bounds(), MaxMessageBytes: cfg.MaxMessageBytes,
		PreparedBytes: cfg.PreparedBytes,
	})
	s.lowPoly = mesh.New(mesh.Config{
		Host: h, Frames: s.frames, Streams: streams, Memory: s.host, Metrics: s.metrics,
		MaxPoints: cfg.MaxPoints, MaxMessageBytes: cfg.MaxMessageBytes, UploadStall: uploadStall,
		IdleTimeout: cfg.StreamIdleTimeout,
	})
	s.lineScan = scan.New(scan.Config{
		Host: h, Frames: s.frames, Metrics: s.metrics.Scan, Recipes: s.recipes, Events: s.events, Log: s.log,
		Bounds:          cfg.bounds(),
		MaxMessageBytes: cfg.MaxMessageBytes, HostBytes: cfg.HostBytes, Sessions: cfg.ScanSessions,
		CreditBytes: cfg.ScanCreditBytes, UnreadBytes: cfg.ScanUnreadBytes, Parts: cfg.ScanParts,
		ResumeWindow: cfg.ScanResumeWindow, DrainTime: cfg.ScanDrainTime,
	})
	s.monitor = monitor.New(monitor.Config{
		Host: h, Events: s.events, Recipes: s.recipes, Memory: s.host, DrainTime: cfg.ScanDrainTime,
	})
	s.teach = teach.New(teach.Config{
		Host: h, Frames: s.frames, Memory: s.host, Recipes: s.recipes, Bounds: cfg.bounds(),
		MaxMessageBytes: cfg.MaxMessageBytes, IdleTimeout: cfg.StreamIdleTimeout,
	})
	s.diffusion = diffuse.New(diffuse.Config{
		Host: h, Frames: s.frames, Memory: s.host, Canvases: s.canvases, Metrics: s.metrics, Recipes: s.recipes,
		Bounds: cfg.bounds(), MaxPoints: cfg.MaxPoints, MaxMessageBytes: cfg.MaxMessageBytes,
		IdleTimeout: cfg.StreamIdleTimeout,
	})
}

func (s *Server) newGRPC() {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(s.codec),
		experimental.BufferPool(s.intake.Pool()),
		grpc.MaxRecvMsgSize(int(s.cfg.MaxMessageBytes)),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams)),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.ReadBufferSize(0), // connections have their own
		grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second,
			PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(s.unaryInterceptors()...),
		grpc.ChainStreamInterceptor(s.streamInterceptors()...),
	}
	creds := insecure.NewCredentials()
	if s.certs != nil {
		creds = credentials.NewTLS(s.certs.config("h2"))
	}
	options = append(options, grpc.Creds(s.intake.Credentials(web.Credentials(creds))))
	s.grpc = grpc.NewServer(append(options, s.cfg.grpcOptions...)...)
	r := registrar{s.grpc, s}
	r.RegisterService(inspect.Desc(), s.inspector)
	r.RegisterService(scan.Desc(), s.lineScan)
	r.RegisterService(sharedmemory.Desc(), sharedmemory.New(host{s}, s.shared))
	r.RegisterService(residents.Desc(), s.frameService)
	pb.RegisterRecipeServiceServer(r, s.recipes)
	r.RegisterService(mesh.Desc(), s.lowPoly)
	r.RegisterService(diffuse.Desc(), s.diffusion)
	r.RegisterService(teach.Desc(), s.teach)
	pb.RegisterMonitorServiceServer(r, s.monitor)
	pb.RegisterHistoryServiceServer(r, s.history)
	pb.RegisterDeviceServiceServer(r, &deviceServer{server: s})
	s.setHealth(healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(r, healthServer{s.health, s.draining})
	if !s.cfg.NoChannelz {
		channelz.RegisterChannelzServiceToServer(r)
	}
	if !s.cfg.NoReflection {
		reflection.Register(r)
	}
	s.metrics.GRPC.InitializeMetrics(s.grpc)
}

// Serve answers calls that come in over l, until [Server.Shutdown]; then it returns nil. It may be called for several
// listeners at the same time. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if s.cfg.MaxConnections > 0 {
		l = netutil.LimitListener(l, s.cfg.MaxConnections)
	}
	err := s.grpc.Serve(intake.Pace(l))
	select {
	case <-s.draining:
		return nil
	default:
		return err
	}
}

// Reload reads certificates and tokens again. It is for signals: changed files are noticed without it, within a second
// or so of the next call or connection.
func (s *Server) Reload() {
	if s.certs != nil {
		s.certs.reload()
	}
	if s.tenants != nil {
		s.tenants.Reload()
	}
}

// Shutdown ends the server. The health service says NOT_SERVING from now on and new calls are refused; those in flight
// are finished, streams after the frames that they have received, line-scan streams once their clients have half-closed
// or Config.ScanDrainTime is over; then the device is closed. When ctx ends first, what is still in flight is
// cancelled, and the error is ctx's cause. Calls after the first wait for it and return the same.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain.Do(func() {
		close(s.draining)
		s.health.Shutdown()
	})
	s.closing.Do(func() { s.closed = s.shutdown(ctx) })
	return s.closed
}

func (s *Server) shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("server: calls were cancelled: %w", context.Cause(ctx))
		s.grpc.Stop()
		<-done
	}
	if s.tenants != nil {
		s.tenants.Close()
	}
	s.lineScan.Close()
	s.events.Close()
	s.history.Close()
	s.intake.Close()
	s.background.Wait()
	s.inspector.Close()
	s.residents.Close()
	s.recipes.Close()
	s.unregister()
	return errors.Join(err, s.shared.Close(), s.dev.Close())
}

// heapRest is what the heap has beside what is counted: what a busy server has of small things, and garbage.
const heapRest = 208 << 20

// HeapLimit is how large the heap may get now: Config.HostBytes, what sessions, copies of resident frames and the
// history hold beside, recipes beyond Config.MaxRecipeBytes that were stored before, and 208 MiB. A program that is a
// server and nothing else is to tell the runtime, which lets the heap grow to twice of what is in use else
// ([debug.SetMemoryLimit]). Beyond nine tenths of what the runtime was told work that takes much memory is refused, see
// [Config.HostBytes].
func (s *Server) HeapLimit() int64 {
	stored := int64(0)
	if s.lineScan != nil { // all were made
		stored = s.lineScan.Bytes() + max(s.recipes.Bytes()-s.cfg.MaxRecipeBytes, 0) + s.residents.Totals().Copies +
			s.history.Waiting()
	}
	return s.cfg.HostBytes + heapRest + stored
}

// Device describes what the server computes on.
func (s *Server) Device() kernels.Info { return s.dev.Info() }
