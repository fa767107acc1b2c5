package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// connectError is an error as Connect writes it.
type connectError struct {
	Code    string          `json:"code"`
	Message string          `json:"message,omitempty"`
	Details []connectDetail `json:"details,omitempty"`
}

type connectDetail struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func errorOf(s *spb.Status) connectError {
	e := connectError{Code: connect.Code(s.GetCode()).String(), Message: s.GetMessage()}
	if s.GetCode() == 0 {
		e.Code = "ok" // Connect has no name for it
	}
	for _, d := range s.GetDetails() {
		e.Details = append(e.Details, connectDetail{d.GetTypeUrl()[strings.LastIndexByte(d.GetTypeUrl(), '/')+1:],
			base64.RawStdEncoding.EncodeToString(d.GetValue())})
	}
	return e
}

// httpStatus is that of an error, as Connect has it.
var httpStatus = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.Unauthenticated: http.StatusUnauthorized,
	codes.PermissionDenied: http.StatusForbidden, codes.NotFound: http.StatusNotFound,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.Unimplemented: http.StatusNotImplemented,
	codes.Unavailable: http.StatusServiceUnavailable, codes.DeadlineExceeded: http.StatusGatewayTimeout,
}

func writeError(w http.ResponseWriter, code codes.Code, text string) {
	at, ok := httpStatus[code]
	if !ok {
		at = http.StatusInternalServerError
	}
	writeJSON(w, at, connectError{Code: connect.Code(code).String(), Message: text})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}
