// Calls that are none: of methods that no service has, and bodies that hold no messages.

package web

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/internal/spelling"
)

// methodOf is the method that a path leads to, or nil.
func (h *Handler) methodOf(path string) *grpc.MethodInfo {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	methods := h.Services[service].Methods
	i := slices.IndexFunc(methods, func(m grpc.MethodInfo) bool { return m.Name == method })
	if i < 0 {
		return nil
	}
	return &methods[i]
}

// noMethod says why a path leads to no method, with the nearest one that there is; empty where it leads to one.
func (h *Handler) noMethod(path string) string {
	if h.methodOf(path) != nil {
		return ""
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	known, ok := h.Services[service]
	what, full := "method", map[string]string{} // by what is compared
	for _, m := range known.Methods {
		full[m.Name] = m.Name
	}
	if !ok {
		what, method = "service", service[strings.LastIndexByte(service, '.')+1:]
		for name := range h.Services {
			full[name[strings.LastIndexByte(name, '.')+1:]] = name
		}
	}
	words := slices.Sorted(maps.Keys(full))
	hint := "there is " + strings.Join(words, ", ")
	if near := spelling.Nearest(method, words); near != "" {
		hint = fmt.Sprintf("did you mean %s?", full[near])
	}
	return fmt.Sprintf("%.200q: no %s is called so: %s", path, what, hint)
}

// answer is refuse in the protocol of a type of content: clients of gRPC-Web and of Connect's streams look for no error
// in a body of JSON.
func (h *Handler) answer(w http.ResponseWriter, reason, kind string, code codes.Code, text string) {
	switch {
	case strings.HasPrefix(kind, "application/grpc-web"):
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Grpc-Status", fmt.Sprint(uint32(code)))
		w.Header().Set("Grpc-Message", strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	case strings.HasPrefix(kind, "application/connect+"):
		e := connectError{Code: connect.Code(code).String(), Message: text}
		end, _ := json.Marshal(map[string]connectError{"error": e}) // texts have a form
		w.Header().Set("Content-Type", kind)
		w.Write(append(binary.BigEndian.AppendUint32([]byte{2}, uint32(len(end))), end...)) // 2: it ends the stream
	default:
		h.refuse(w, reason, code, text)
		return
	}
	h.Metrics.Refused.WithLabelValues(reason).Inc()
}

// envelopes is a body of messages as gRPC-Web and Connect's streams have them: each behind a byte of flags and four of
// its length. It refuses what is none, which others would take for an error of the server or tell in their own words.
type envelopes struct {
	io.ReadCloser
	limit int64 // of a message
	head  [5]byte
	have  int   // bytes of head
	left  int64 // bytes of the message
}

// Read implements io.Reader.
func (e *envelopes) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	for b := p[:n]; len(b) > 0; {
		if e.have < len(e.head) {
			k := copy(e.head[e.have:], b)
			e.have, b = e.have+k, b[k:]
			if e.head[0] != 0 {
				return 0, status.Errorf(codes.InvalidArgument, "request: a message begins with the byte %d: must be 0, as no message "+
					"is compressed, and its length in 4 bytes", e.head[0])
			}
			if e.left = int64(binary.BigEndian.Uint32(e.head[1:])); e.have == len(e.head) && e.left > e.limit {
				return 0, status.Errorf(codes.ResourceExhausted, "request: a message of %d bytes: the limit is %d", e.left, e.limit)
			}
		}
		if e.have == len(e.head) {
			k := min(int64(len(b)), e.left)
			if e.left, b = e.left-k, b[k:]; e.left == 0 {
				e.have = 0
			}
		}
	}
	if err == io.EOF && e.have > 0 {
		return 0, status.Error(codes.InvalidArgument, "request: the body ends within a message")
	}
	return n, err
}
