// The one table that maps errors to canonical codes with details.

package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
)

// errorDomain is the domain of the reasons below.
const errorDomain = "polyscan"

// Reasons of google.rpc.ErrorInfo, for programs. They are part of the protocol: names stay.
const (
	reasonInvalidField    = "INVALID_FIELD"     // BadRequest says which
	reasonFrameOutOfOrder = "FRAME_BEFORE_OPEN" // StreamFrames
	reasonSecondOpen      = "SECOND_OPEN"       // StreamFrames
	reasonUnknownRecipe   = "UNKNOWN_RECIPE"    // ResourceInfo says which
	reasonVersionConflict = "VERSION_CONFLICT"  // metadata: expected, latest
	reasonHostMemory      = "HOST_MEMORY"       // QuotaFailure
	reasonRecipesFull     = "RECIPE_STORE_FULL" // QuotaFailure
	reasonNoRoom          = "DEVICE_MEMORY"     // QuotaFailure, and RetryInfo where waiting helps
	reasonOverloaded      = "OVERLOADED"        // QuotaFailure, RetryInfo; metadata: class
	// QuotaFailure, and RetryInfo where others are ahead; metadata: class
	reasonUnreachable     = "DEADLINE_UNREACHABLE"
	reasonResultTooLarge  = "RESULT_TOO_LARGE"     // QuotaFailure
	reasonRequestTooLarge = "REQUEST_TOO_LARGE"    // QuotaFailure
	reasonUnknownFrame    = "UNKNOWN_FRAME"        // ResourceInfo says which; so it does for the next four
	reasonFrameReleased   = "FRAME_RELEASED"       // by a client
	reasonFrameExpired    = "FRAME_EXPIRED"        // idle for too long
	reasonFrameEvicted    = "FRAME_EVICTED"        // the device needed its memory
	reasonFrameLost       = "FRAME_LOST"           // with the device, and there was no copy
	reasonFramesFull      = "FRAME_STORE_FULL"     // QuotaFailure
	reasonUploadStalled   = "UPLOAD_STALLED"       // no pixels, or no points, came for a while
	reasonStreamIdle      = "STREAM_IDLE"          // Edit: no change came for a while
	reasonDeviceLost      = "DEVICE_LOST"          // RetryInfo
	reasonInconsistent    = "DEVICE_INCONSISTENT"  // metadata: id, which the log has
	reasonNoSharedSocket  = "SHARED_MEMORY_OFF"    // the server has no socket for it
	reasonNoSharedMemory  = "SHARED_MEMORY"        // QuotaFailure, and RetryInfo where waiting helps
	reasonUnknownLease    = "UNKNOWN_LEASE"        // ResourceInfo says which
	reasonDamagedLease    = "LEASE_DAMAGED"        // its client has removed pages
	reasonLeaseNotFetched = "LEASE_NOT_FETCHED"    // nobody came for the descriptor
	reasonUnknownSession  = "UNKNOWN_SESSION"      // ScanLines: of a resume
	reasonTakenOver       = "SESSION_TAKEN_OVER"   // ScanLines: another call has resumed it
	reasonResultsGone     = "RESULTS_GONE"         // ScanLines: a resume wants results that are not kept
	reasonTooManySessions = "TOO_MANY_SESSIONS"    // QuotaFailure
	reasonTooManyParts    = "TOO_MANY_PARTS"       // QuotaFailure
	reasonCredit          = "CREDIT_EXCEEDED"      // QuotaFailure
	reasonSlowConsumer    = "SLOW_CONSUMER"        // QuotaFailure
	reasonShuttingDown    = "SHUTTING_DOWN"        // RetryInfo
	reasonNotSupported    = "NOT_SUPPORTED"        // by this backend
	reasonInternal        = "INTERNAL"             // metadata: id, which the log has
	reasonToken           = "TOKEN_REQUIRED"       // no token, or none that the server knows
	reasonDeadline        = "DEADLINE_WHILE_QUEUE" // the deadline came while the call waited for memory of the device
)

// violation is one thing wrong with a request.
type violation struct {
	path   string // of the field, from the request message
	value  string // what was there; may be empty
	reason string // what should have been, with the limit; reads on from the value
}

func (v violation) description() string {
	if v.value == "" {
		return v.reason
	}
	return v.value + ": " + v.reason
}

// fieldError refuses fields of a request.
type fieldError struct {
	violations []violation
	more       int // beyond those listed
}

// refuse is a fieldError with one violation.
func refuse(path string, value any, format string, args ...any) *fieldError {
	v := ""
	if value != nil {
		v = fmt.Sprint(value)
	}
	return &fieldError{violations: []violation{{path, v, fmt.Sprintf(format, args...)}}}
}

func (e *fieldError) Error() string {
	v := e.violations[0]
	s := v.path
	if v.value != "" {
		s += " = " + v.value
	}
	s += ": " + v.reason
	if n := len(e.violations) - 1 + e.more; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// recipeNotFound is the error for a name or version that isn't stored.
type recipeNotFound struct {
	name    string
	version uint64 // 0: any
}

func (e *recipeNotFound) Error() string {
	if e.version == 0 {
		return fmt.Sprintf("recipe %q: not stored", e.name)
	}
	return fmt.Sprintf("recipe %q: version %d is not stored", e.name, e.version)
}

// versionConflict is the error of a put whose expected version is not the latest.
type versionConflict struct {
	name             string
	expected, latest uint64
}

func (e *versionConflict) Error() string {
	if e.latest == 0 {
		return fmt.Sprintf("recipe %q: expected_version = %d: but it is not stored", e.name, e.expected)
	}
	return fmt.Sprintf("recipe %q: expected_version = %d: the latest is %d", e.name, e.expected, e.latest)
}

// quotaError is the error for what exceeds a limit of the server that is not a field's.
type quotaError struct {
	reason, subject, text string
}

func (e *quotaError) Error() string { return e.subject + ": " + e.text }

// errShuttingDown ends streams when the server does.
var errShuttingDown = errors.New("the server is shutting down")

// retryDelay is when to come back to a device without room: a few frames later.
const retryDelay = 100 * time.Millisecond

// statusOf maps an error to the status that the client gets. log gets what the client must not see.
func statusOf(ctx context.Context, log *slog.Logger, err error) *status.Status {
	if s, ok := status.FromError(err); ok { // made as a status, here or by gRPC
		return s
	}
	var (
		fields   *fieldError
		capacity *kernels.CapacityError
		missing  *recipeNotFound
		frame    *frameNotFound
		conflict *versionConflict
		quota    *quotaError
		overload *kernels.OverloadError
		late     *kernels.DeadlineError
		idle     idleError
	)
	noRoom := errors.As(err, &capacity)
	switch {
	case errors.As(err, &fields):
		return withDetails(codes.InvalidArgument, fields.Error(), info(reasonInvalidField), badRequest(fields))

	case errors.Is(err, context.DeadlineExceeded) && noRoom:
		return withDetails(codes.DeadlineExceeded, "the deadline passed while the call waited for device memory: "+
			kernelsText(capacity),
			info(reasonDeadline), quotaFailure("device memory", kernelsText(capacity)))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Remaining <= 0:
		return status.New(codes.DeadlineExceeded, "the deadline passed before the call was done")
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the call was cancelled")

	case errors.As(err, &missing):
		name := missing.name
		if missing.version != 0 {
			name += "@" + strconv.FormatUint(missing.version, 10)
		}
		return withDetails(codes.NotFound, missing.Error(), info(reasonUnknownRecipe),
			&errdetails.ResourceInfo{ResourceType: "polyscan.v1.Recipe", ResourceName: name,
				Description: missing.Error()})
	case errors.As(err, &frame):
		return withDetails(codes.NotFound, frame.Error(), info(goneReasons[frame.why].reason),
			&errdetails.ResourceInfo{ResourceType: "polyscan.v1.ResidentFrame", ResourceName: frame.name,
				Description: frame.Error()})
	case errors.Is(err, errStalled):
		return withDetails(codes.Aborted, err.Error(), info(reasonUploadStalled))
	case errors.As(err, &idle):
		return withDetails(codes.Aborted, idle.Error(), info(reasonStreamIdle))
	case errors.As(err, &conflict):
		return withDetails(codes.Aborted, conflict.Error(), info(reasonVersionConflict,
			"expected", strconv.FormatUint(conflict.expected, 10), "latest", strconv.FormatUint(conflict.latest, 10)))

	case noRoom:
		details := []protoadapt.MessageV1{info(reasonNoRoom), quotaFailure("device memory", kernelsText(capacity))}
		if !capacity.Never() {
			details = append(details,
				&errdetails.RetryInfo{RetryDelay: durationpb.New(cmp.Or(capacity.RetryAfter, retryDelay))})
		}
		return withDetails(codes.ResourceExhausted, kernelsText(capacity), details...)
	case errors.As(err, &overload):
		text := kernelsText(overload)
		return withDetails(codes.ResourceExhausted, text, info(reasonOverloaded, "class", overload.Class.String()),
			quotaFailure("device time", text),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(cmp.Or(overload.RetryAfter, retryDelay))})
	case errors.As(err, &late):
		text := kernelsText(late)
		details := []protoadapt.MessageV1{info(reasonUnreachable, "class", late.Class.String()),
			quotaFailure("device time", text)}
		if late.RetryAfter > 0 {
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(late.RetryAfter)})
		}
		return withDetails(codes.ResourceExhausted, text, details...)
	case errors.As(err, &quota):
		return withDetails(codes.ResourceExhausted, quota.Error(), info(quota.reason),
			quotaFailure(quota.subject, quota.text))
	case errors.Is(err, driver.ErrOutOfMemory):
		return withDetails(codes.ResourceExhausted, "the device is out of memory",
			info(reasonNoRoom), quotaFailure("device memory", "the driver has no more"))

	case errors.Is(err, driver.ErrDeviceLost):
		if !errors.Is(err, errDeviceLost) { // a job's, which names the op
			log.ErrorContext(ctx, "a job failed on a lost device", "error", err)
		}
		return withDetails(codes.Unavailable, "the device was lost; the server opens it again", info(reasonDeviceLost),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	case errors.Is(err, polygon.ErrInconsistent):
		return logged(ctx, log, codes.DataLoss, "the device returned numbers that contradict each other",
			reasonInconsistent, "error", err)
	case errors.Is(err, kernels.ErrClosed), errors.Is(err, errShuttingDown):
		return withDetails(codes.Unavailable, errShuttingDown.Error(), info(reasonShuttingDown),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	case errors.Is(err, driver.ErrNotSupported):
		return withDetails(codes.Unimplemented, "not supported by this backend", info(reasonNotSupported))
	}
	return internal(ctx, log, "unexpected error", "error", err)
}

// internal is the status for what is our own fault.
func internal(ctx context.Context, log *slog.Logger, msg string, args ...any) *status.Status {
	return logged(ctx, log, codes.Internal, "internal error", reasonInternal, append([]any{"cause", msg}, args...)...)
}

// logged is the status for what only the log has the details of. The client gets a number; the log has the same number
// and the rest.
func logged(ctx context.Context, log *slog.Logger, code codes.Code, msg, reason string, args ...any) *status.Status {
	var b [4]byte
	rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	log.ErrorContext(ctx, msg, append(args, "id", id)...)
	return withDetails(code, msg+"; the server's log has it under id "+id, info(reason, "id", id))
}

// kernelsText is the error without the name of the package.
func kernelsText(err error) string { return strings.TrimPrefix(err.Error(), "kernels: ") }

func withDetails(c codes.Code, msg string, details ...protoadapt.MessageV1) *status.Status {
	s := status.New(c, oneLine(msg))
	if d, err := s.WithDetails(details...); err == nil {
		return d
	}
	return s
}

// oneLine keeps what came from outside from breaking the message.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

func info(reason string, metadata ...string) *errdetails.ErrorInfo {
	e := &errdetails.ErrorInfo{Reason: reason, Domain: errorDomain}
	for i := 0; i+1 < len(metadata); i += 2 {
		if e.Metadata == nil {
			e.Metadata = map[string]string{}
		}
		e.Metadata[metadata[i]] = metadata[i+1]
	}
	return e
}

func badRequest(e *fieldError) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, v := range e.violations {
		b.FieldViolations = append(b.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.path, Description: oneLine(v.description()),
		})
	}
	return b
}

func quotaFailure(subject, text string) *errdetails.QuotaFailure {
	return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: subject,
		Description: text}}}
}
