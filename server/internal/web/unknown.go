// Calls of methods that no service has.

package web

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/polyscan/polyscan/internal/spelling"
)

// methodsOf are the names of the methods of services, by the full names of these.
func methodsOf(services []string) (map[string][]string, error) {
	all := map[string][]string{}
	for _, name := range services {
		d, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		of, ok := d.(protoreflect.ServiceDescriptor)
		if !ok {
			return nil, fmt.Errorf("web: nobody knows a service %s", name)
		}
		for i := range of.Methods().Len() {
			all[name] = append(all[name], string(of.Methods().Get(i).Name()))
		}
	}
	return all, nil
}

// longestPath is how much of a path that leads nowhere is told again, in bytes.
const longestPath = 200

// noMethod says why a path leads to no method, with the nearest one that there is; empty where it leads to one.
func (h *Handler) noMethod(path string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	known := h.methods[service]
	if slices.Contains(known, method) {
		return ""
	}
	if len(path) > longestPath {
		path = strings.ToValidUTF8(path[:longestPath], "") + "..."
	}
	what, words := "method", known
	if known == nil {
		what, method = "service", service[strings.LastIndexByte(service, '.')+1:]
		for _, name := range h.Services {
			words = append(words, name[strings.LastIndexByte(name, '.')+1:])
		}
	}
	hint := "there is " + strings.Join(words, ", ")
	if near := spelling.Nearest(method, words); near != "" {
		if known == nil {
			near = h.Services[slices.Index(words, near)]
		}
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	return fmt.Sprintf("%q: no %s is called so: %s", path, what, hint)
}

// other answers what is sent to no known path: where it looks like a call, as a call.
func (h *Handler) other(w http.ResponseWriter, r *http.Request) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !calledIn.MatchString(kind) {
		h.files.ServeHTTP(w, r)
		return
	}
	h.unknown(w, kind, h.noMethod(r.URL.Path))
}

// unknown answers a call of a method that there isn't in the protocol of its type of content: clients of gRPC-Web and
// of Connect's streams look for no error in a body of JSON.
func (h *Handler) unknown(w http.ResponseWriter, kind, text string) {
	h.Metrics.Refused.WithLabelValues("method").Inc()
	switch {
	case strings.HasPrefix(kind, "application/grpc-web"):
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Grpc-Status", fmt.Sprint(uint32(codes.Unimplemented)))
		w.Header().Set("Grpc-Message", strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	case strings.HasPrefix(kind, "application/connect+"):
		e := connectError{Code: connect.CodeUnimplemented.String(), Message: text}
		end, _ := json.Marshal(map[string]connectError{"error": e}) // texts have a form
		w.Header().Set("Content-Type", kind)
		w.Write(append(binary.BigEndian.AppendUint32([]byte{2}, uint32(len(end))), end...)) // 2: it ends the stream
	default:
		writeError(w, codes.Unimplemented, text)
	}
}
