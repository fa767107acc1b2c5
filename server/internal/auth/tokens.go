// Package auth knows who may call: bearer tokens from a file that may change while the server runs.
//
// It authenticates calls and ends those whose token was taken back. It doesn't know what the calls are.
package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
)

// Tokens are the contents of the token file.
type Tokens struct {
	path string
	log  *slog.Logger
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	data   []byte // of the file
	hashes []hash
	calls  map[*call]struct{} // under way
}

type hash [sha256.Size]byte

// call is one that was admitted.
type call struct {
	token hash
	end   context.CancelCauseFunc
}

// ErrRevoked is why a call ends whose token was taken out of the file.
var ErrRevoked = errors.New("authorization: the token was taken back")

// errNone is about a file without a token. The server does not start with it, and a running one refuses everybody.
var errNone = errors.New("there is no token in it")

// NewTokens reads the file, and again whenever its content changes, until Close.
func NewTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: log, stop: make(chan struct{}), calls: map[*call]struct{}{}}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("server: token file: %w", err)
	}
	if err := t.use(data); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o007 != 0 {
		log.Warn("the token file is open to all users of this machine", "file", path,
			"mode", fmt.Sprintf("%#o", st.Mode().Perm()))
	}
	t.done.Go(t.watch)
	return t, nil
}

// Close ends the watching of the file.
func (t *Tokens) Close() {
	close(t.stop)
	t.done.Wait()
}

// lookInterval is the time between two looks at the file. A file without tokens counts from the second look on, because
// some programs empty a file before they write it.
const lookInterval = 250 * time.Millisecond

func (t *Tokens) watch() {
	ticks := time.NewTicker(lookInterval)
	defer ticks.Stop()
	for missing := false; ; {
		select {
		case <-t.stop:
			return
		case <-ticks.C:
		}
		data, err := os.ReadFile(t.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // no news
		}
		t.mu.Lock()
		same := bytes.Equal(data, t.data)
		t.mu.Unlock()
		was := missing
		missing = len(bytes.TrimSpace(data)) == 0
		if !same && (!missing || was) {
			t.change(data)
		}
	}
}

// Reload reads the file at once.
func (t *Tokens) Reload() {
	data, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Error("the tokens stay what they were", "error", err)
		return
	}
	t.change(data)
}

// change takes what the file has now. Without a token in it nobody is admitted. A file that can't be understood changes
// nothing.
func (t *Tokens) change(data []byte) {
	switch err := t.use(data); {
	case errors.Is(err, errNone):
		t.log.Error("all calls are refused", "error", err)
	case err != nil:
		t.log.Error("the tokens stay what they were", "error", err)
	default:
		t.log.Info("tokens read again", "file", t.path)
	}
}

func (t *Tokens) use(data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = data
	var hashes []hash
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("server: token file: %s: line %d: a token is printable ASCII without spaces", t.path, i+1)
		}
		hashes = append(hashes, sha256.Sum256([]byte(line)))
	}
	t.hashes = hashes
	for c := range t.calls {
		if !t.known(c.token) {
			c.end(ErrRevoked)
		}
	}
	if len(hashes) == 0 {
		return fmt.Errorf("server: token file: %s: %w", t.path, errNone)
	}
	return nil
}

// known compares hashes, all of them, in a time that does not depend on what is equal. mu is held.
func (t *Tokens) known(h hash) bool {
	found := 0
	for i := range t.hashes {
		found |= subtle.ConstantTimeCompare(h[:], t.hashes[i][:])
	}
	return found == 1
}

// Admit checks the token that a call brought. The context that it returns ends with [ErrRevoked] when the token is taken
// back; done is to be called once the call has ended.
func (t *Tokens) Admit(ctx context.Context) (_ context.Context, done func(), err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	switch len(values) {
	case 0:
		return nil, nil, errors.New("authorization: a token is needed: Bearer TOKEN")
	case 1:
	default:
		return nil, nil, errors.New("authorization: was given more than once")
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return nil, nil, errors.New("authorization: must be of the form Bearer TOKEN")
	}
	h := hash(sha256.Sum256([]byte(strings.TrimSpace(token))))
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known(h) {
		return nil, nil, errors.New("authorization: the token is not one of this server's")
	}
	ctx, end := context.WithCancelCause(ctx)
	c := &call{h, end}
	t.calls[c] = struct{}{}
	return ctx, func() {
		t.mu.Lock()
		delete(t.calls, c)
		t.mu.Unlock()
		end(nil)
	}, nil
}
