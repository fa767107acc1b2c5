// Authentication by bearer tokens.

package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/polyscan/polyscan/server/internal/apierr"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// tokens are the contents of the token file.
type tokens struct {
	file *watchedFile
	log  *slog.Logger

	mu     sync.RWMutex
	hashes [][sha256.Size]byte
}

func newTokens(path string, log *slog.Logger) (*tokens, error) {
	t := &tokens{file: &watchedFile{path: path}, log: log}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *tokens) read() error {
	t.file.check() // before reading, so that a change while we read is seen next time
	data, err := os.ReadFile(t.file.path)
	if err != nil {
		return fmt.Errorf("server: token file: %w", err)
	}
	var hashes [][sha256.Size]byte
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("server: token file: %s: line %d: a token is printable ASCII without spaces", t.file.path,
				i+1)
		}
		hashes = append(hashes, sha256.Sum256([]byte(line)))
	}
	if len(hashes) == 0 {
		return fmt.Errorf("server: token file: %s: there is no token in it", t.file.path)
	}
	t.mu.Lock()
	t.hashes = hashes
	t.mu.Unlock()
	return nil
}

// reload reads the file again. Where that fails, the tokens stay what they were.
func (t *tokens) reload() {
	if err := t.read(); err != nil {
		t.log.Error("the tokens stay what they were", "error", err)
		return
	}
	t.log.Info("tokens read again", "file", t.file.path)
}

// known compares hashes, all of them, in a time that does not depend on what is equal.
func (t *tokens) known(token string) bool {
	if t.file.changed() {
		t.reload()
	}
	h := sha256.Sum256([]byte(token))
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := 0
	for i := range t.hashes {
		found |= subtle.ConstantTimeCompare(h[:], t.hashes[i][:])
	}
	return found == 1
}

// authenticate refuses calls without a token that is known. The health service is open, because those who ask it, load
// balancers and supervisors, have none.
func (s *Server) authenticate(ctx context.Context, method string) error {
	if s.tokens == nil || strings.HasPrefix(method, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		return nil
	}
	err := s.checkToken(ctx)
	if err == nil {
		return nil
	}
	return apierr.WithDetails(codes.Unauthenticated, err.Error(), apierr.Info(apierr.ReasonToken)).Err()
}

func (s *Server) checkToken(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	switch len(values) {
	case 0:
		return errors.New("authorization: a token is needed: Bearer TOKEN")
	case 1:
	default:
		return errors.New("authorization: was given more than once")
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return errors.New("authorization: must be of the form Bearer TOKEN")
	}
	if !s.tokens.known(strings.TrimSpace(token)) {
		return errors.New("authorization: the token is not one of this server's")
	}
	return nil
}

// watchedFile notices that a file was changed.
type watchedFile struct {
	path string

	mu   sync.Mutex
	next time.Time // of the next look
	mod  time.Time
	size int64
}

// watchInterval is how long a change may go unnoticed; a signal is faster.
const watchInterval = time.Second

// changed reports, at most once each interval, whether the file differs from when it was looked at last.
func (w *watchedFile) changed() bool {
	now := time.Now()
	w.mu.Lock()
	if now.Before(w.next) {
		w.mu.Unlock()
		return false
	}
	w.mu.Unlock()
	return w.check()
}

func (w *watchedFile) check() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = time.Now().Add(watchInterval)
	fi, err := os.Stat(w.path)
	if err != nil {
		return false // it may be in the middle of being replaced
	}
	if fi.ModTime().Equal(w.mod) && fi.Size() == w.size {
		return false
	}
	w.mod, w.size = fi.ModTime(), fi.Size()
	return true
}
