package clients

// What went wrong: the view of a gRPC status and its details that callers can use.

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FieldViolation says which field of a request was refused, and why.
type FieldViolation struct {
	// Field is the path of the field in the request, such as "inspection.region_set.regions[3].rings[0].xy[5]".
	Field       string
	Description string
}

// QuotaViolation says which quota had no room, and how much was asked for.
type QuotaViolation struct {
	Subject     string
	Description string
}

// Error is the error of every call of this package that the server, or the way to it, refused. Its text is one line.
//
// It unwraps to context.Canceled and context.DeadlineExceeded where the code says so, and status.Code and
// status.FromError work on it.
type Error struct {
	Code    codes.Code
	Message string
	// Fields that were refused, in the order in which the server lists them.
	Violations []FieldViolation
	// Quotas that had no room.
	Quotas []QuotaViolation
	// RetryDelay is how long to wait before trying again; Retry reports whether the server said so.
	RetryDelay time.Duration
	Retry      bool

	status *status.Status
}

// Error returns the code, and the message or the refused fields where the server named any.
func (e *Error) Error() string {
	return codeName(e.Code) + ": " + e.Reason()
}

// Reason is the text of Error without the code: what was refused and why, in one line.
func (e *Error) Reason() string {
	var b strings.Builder
	b.WriteString(e.Message)
	// A message that already says the first violation is left alone.
	for i, v := range e.Violations {
		if v.Description != "" && strings.Contains(e.Message, v.Description) && strings.Contains(e.Message, v.Field) {
			continue
		}
		if i == maxListed {
			fmt.Fprintf(&b, "; and %d more", len(e.Violations)-i)
			break
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(v.Field)
		b.WriteString(": ")
		b.WriteString(v.Description)
	}
	for _, q := range e.Quotas {
		if q.Description != "" && !strings.Contains(e.Message, q.Description) {
			fmt.Fprintf(&b, "; %s: %s", q.Subject, q.Description)
		}
	}
	if e.Retry && e.RetryDelay > 0 {
		fmt.Fprintf(&b, " (retry in %v)", e.RetryDelay.Round(time.Millisecond))
	}
	if b.Len() == 0 {
		return "no reason given"
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// maxListed is how many violations the text of an error lists; all are in Violations.
const maxListed = 4

// GRPCStatus makes status.FromError work.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Is makes errors.Is(err, context.Canceled) and errors.Is(err, context.DeadlineExceeded) true for those codes.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	return false
}

// AsError returns the [Error] in err, or the one that a status in err amounts to. It returns nil for a nil error and
// for one that no server and no transport made.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if err == nil {
		return nil
	}
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) && s.GRPCStatus() != nil {
		return fromStatus(s.GRPCStatus())
	}
	return nil
}

// wrap turns the error of a stub into an [Error]. Others, such as io.EOF, stay what they are.
func wrap(err error) error {
	if e := AsError(err); e != nil {
		return e
	}
	return err
}

// fromProto is fromStatus for a status that travelled inside a message.
func fromProto(s *rpcstatus.Status) *Error { return fromStatus(status.FromProto(s)) }

// tooLarge is what gRPC says of a request, before anything of the server has seen it.
var tooLarge = regexp.MustCompile(`^grpc: received message larger than max \((\d+) vs\. (\d+)\)$`)

func fromStatus(s *status.Status) *Error {
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	e.Message = tooLarge.ReplaceAllString(e.Message, "a message of $1 bytes: the server takes $2 at most, its max-message")
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations,
					FieldViolation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				e.Quotas = append(e.Quotas, QuotaViolation{Subject: v.GetSubject(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.Retry, e.RetryDelay = true, d.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// codeName is the name that the protocol uses, INVALID_ARGUMENT and not InvalidArgument.
func codeName(c codes.Code) string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE(%d)", uint32(c))
}

var codeNames = [...]string{
	codes.OK:                 "OK",
	codes.Canceled:           "CANCELLED",
	codes.Unknown:            "UNKNOWN",
	codes.InvalidArgument:    "INVALID_ARGUMENT",
	codes.DeadlineExceeded:   "DEADLINE_EXCEEDED",
	codes.NotFound:           "NOT_FOUND",
	codes.AlreadyExists:      "ALREADY_EXISTS",
	codes.PermissionDenied:   "PERMISSION_DENIED",
	codes.ResourceExhausted:  "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION",
	codes.Aborted:            "ABORTED",
	codes.OutOfRange:         "OUT_OF_RANGE",
	codes.Unimplemented:      "UNIMPLEMENTED",
	codes.Internal:           "INTERNAL",
	codes.Unavailable:        "UNAVAILABLE",
	codes.DataLoss:           "DATA_LOSS",
	codes.Unauthenticated:    "UNAUTHENTICATED",
}
