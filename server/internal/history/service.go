// The service: what it is made of, how it starts and ends.

package history

import (
	"context"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/observe"
)

// Config says what is kept.
type Config struct {
	Dir   string // "" keeps nothing, and calls are refused
	Age   time.Duration
	Bytes int64 // on the disk
	// Good is how many parts that did not fail make one whose picture is kept; 0 means none of them.
	Good int
	// Memory is for what waits to be written, and for the pixels of parts that are not decided.
	Memory  int64
	Server  string // id of this run of the server
	Log     *slog.Logger
	Metrics *observe.History
	// PNG makes a file of an image, beside other computing on the host.
	PNG func(context.Context, image.Image) ([]byte, error)
	// Validate checks a message by the rules in the schemas.
	Validate func(m any) error
	// Failing is called with true when nothing can be written any more, and with false when it can again.
	Failing func(bool)
}

// Service keeps verdicts and answers the calls of HistoryService. It is the events.Keeper of the server.
type Service struct {
	pb.UnimplementedHistoryServiceServer
	Config
	db    *database
	lock  *flock.Flock
	aside string // what became of a damaged database

	queue    queue
	pictures chan *picture
	good     atomic.Uint64 // parts that did not fail

	ctx     context.Context
	cancel  context.CancelFunc
	stop    chan struct{}
	encoder sync.WaitGroup
	writer  sync.WaitGroup

	definitions definitions // for those who read

	state state
	tell  atomic.Pointer[func(*pb.HistoryState)]
}

// Tell sets what the writer calls when parts or pictures were lost, or what fails has changed.
func (s *Service) Tell(f func(*pb.HistoryState)) { s.tell.Store(&f) }

// state is what GetHistory shows beside the database.
type state struct {
	lostParts, lostPictures     atomic.Uint64
	databaseBytes, pictureBytes atomic.Int64
	queuedPictures              atomic.Int64
	mu                          sync.Mutex
	failure                     string
	unsaid                      losses // what the table of losses doesn't have yet
}

// losses are parts that were lost in a time.
type losses struct {
	since, until time.Time
	parts        uint64
}

// ErrOff is why calls are refused where nothing is kept.
var ErrOff = errors.New("this server keeps no history: start it with --history and a folder")

// errLocked is why a folder can't be used.
var errLocked = errors.New("another server uses the folder")

// Open opens the folder, and begins to write. With no folder it makes a service that refuses calls.
func Open(cfg Config) (_ *Service, err error) {
	s := &Service{Config: cfg}
	if cfg.Dir == "" {
		return s, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("server: history: %w", err)
			if s.lock != nil {
				s.lock.Close()
			}
		}
	}()
	if err := os.MkdirAll(filepath.Join(cfg.Dir, evidenceDir), 0o755); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(cfg.Dir, ".lock"))
	if ok, err := lock.TryLock(); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%s: %w", cfg.Dir, errLocked)
	}
	s.lock = lock
	if s.db, s.aside, err = openDatabase(cfg.Dir); err != nil {
		return nil, err
	}
	if s.aside != "" {
		s.Metrics.Damaged.Inc()
		s.Log.Error("the history's database is damaged; it was moved aside and a new one begun", "moved_to", s.aside)
	}
	w := &writer{Service: s, texts: newInterner()}
	if err := w.begin(); err != nil {
		return nil, errors.Join(err, s.db.close())
	}
	s.queue.wake, s.stop = make(chan struct{}, 1), make(chan struct{})
	s.queue.limit = cfg.Memory
	s.pictures = make(chan *picture, picturesWaiting)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.writer.Go(w.run)
	s.encoder.Go(s.encode)
	return s, nil
}

// Close writes what waits and ends the service. Nothing is to be handed over any more.
func (s *Service) Close() {
	if s.db == nil {
		return
	}
	close(s.pictures)
	s.encoder.Wait()
	close(s.stop)
	s.writer.Wait()
	s.cancel()
	if err := s.db.close(); err != nil {
		s.Log.Error("the history's database can't be closed", "error", err)
	}
	s.lock.Close()
}

// CanNotWrite says that evidence is being lost: nothing can be written at present.
func (s *Service) CanNotWrite() bool {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return s.state.failure != ""
}

// failing notes whether something can be written.
func (s *Service) failing(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.state.mu.Lock()
	before := s.state.failure
	s.state.failure = text
	s.state.mu.Unlock()
	if (before == "") == (text == "") {
		return
	}
	if err != nil {
		s.Metrics.Failing.Set(1)
		s.Log.Error("the history can't be written: verdicts go on, evidence of them is being lost", "error", err)
	} else {
		s.Metrics.Failing.Set(0)
		s.Log.Info("the history can be written again", "lost_parts", s.state.lostParts.Load())
	}
	if s.Failing != nil {
		s.Failing(err != nil)
	}
}

// State is how the history keeps up; nil where there is none.
func (s *Service) State() *pb.HistoryState {
	if s.Dir == "" {
		return nil
	}
	parts, bytes := s.queue.waiting()
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return &pb.HistoryState{
		QueuedParts: uint64(parts), QueuedBytes: uint64(bytes), LostParts: s.state.lostParts.Load(),
		LostPictures: s.state.lostPictures.Load(), Failure: s.state.failure,
		Bytes: uint64(s.state.databaseBytes.Load() + s.state.pictureBytes.Load()), MaxBytes: uint64(s.Bytes),
	}
}

// lose counts parts that are not kept.
func (s *Service) lose(n int, at time.Time) {
	if n == 0 {
		return
	}
	s.state.lostParts.Add(uint64(n))
	s.Metrics.LostParts.Add(float64(n))
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	l := &s.state.unsaid
	if l.parts == 0 || at.Before(l.since) {
		l.since = at
	}
	if l.parts == 0 || at.After(l.until) {
		l.until = at
	}
	l.parts += uint64(n)
}
