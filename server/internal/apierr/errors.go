// Package apierr holds the errors that clients get, and the one table that maps errors to canonical codes with details.
//
// An error type or a reason that more than one room needs, and anything that decides about a code, belongs here. It
// knows the sentinel errors of kernels and of the domains, and no room.
package apierr

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
	"github.com/polyscan/polyscan/polygon"
	"github.com/polyscan/polyscan/server/internal/budget"
	"github.com/polyscan/polyscan/server/internal/device"
)

// errorDomain is the domain of the reasons below.
const errorDomain = "polyscan"

// Reasons of google.rpc.ErrorInfo, for programs. They are part of the protocol: names stay.
const (
	ReasonInvalidField    = "INVALID_FIELD"     // BadRequest says which
	ReasonFrameOutOfOrder = "FRAME_BEFORE_OPEN" // StreamFrames
	ReasonSecondOpen      = "SECOND_OPEN"       // StreamFrames
	ReasonUnknownRecipe   = "UNKNOWN_RECIPE"    // ResourceInfo says which
	ReasonRecipeUnusable  = "RECIPE_UNUSABLE"   // metadata: recipe, version
	ReasonVersionConflict = "VERSION_CONFLICT"  // metadata: expected, latest
	ReasonHostMemory      = "HOST_MEMORY"       // QuotaFailure
	ReasonRecipesFull     = "RECIPE_STORE_FULL" // QuotaFailure
	ReasonNoRoom          = "DEVICE_MEMORY"     // QuotaFailure, and RetryInfo where waiting helps
	ReasonOverloaded      = "OVERLOADED"        // QuotaFailure, RetryInfo; metadata: class
	// QuotaFailure, and RetryInfo where others are ahead; metadata: class
	ReasonUnreachable     = "DEADLINE_UNREACHABLE"
	ReasonRanTooLong      = "RUN_TOO_LONG"         // metadata: class, limit
	ReasonResultTooLarge  = "RESULT_TOO_LARGE"     // QuotaFailure
	ReasonRequestTooLarge = "REQUEST_TOO_LARGE"    // QuotaFailure
	ReasonUnknownFrame    = "UNKNOWN_FRAME"        // ResourceInfo says which; so it does for the next four
	ReasonFrameReleased   = "FRAME_RELEASED"       // by a client
	ReasonFrameExpired    = "FRAME_EXPIRED"        // idle for too long
	ReasonFrameEvicted    = "FRAME_EVICTED"        // the device needed its memory
	ReasonFrameLost       = "FRAME_LOST"           // with the device, and there was no copy
	ReasonFramesFull      = "FRAME_STORE_FULL"     // QuotaFailure
	ReasonUploadStalled   = "UPLOAD_STALLED"       // no pixels, or no points, came for a while
	ReasonStreamIdle      = "STREAM_IDLE"          // Edit: no change came for a while
	ReasonDeviceLost      = "DEVICE_LOST"          // RetryInfo
	ReasonInconsistent    = "DEVICE_INCONSISTENT"  // metadata: id, which the log has
	ReasonNoSharedSocket  = "SHARED_MEMORY_OFF"    // the server has no socket for it
	ReasonNoSharedMemory  = "SHARED_MEMORY"        // QuotaFailure, and RetryInfo where waiting helps
	ReasonUnknownLease    = "UNKNOWN_LEASE"        // ResourceInfo says which
	ReasonDamagedLease    = "LEASE_DAMAGED"        // its client has removed pages
	ReasonLeaseNotFetched = "LEASE_NOT_FETCHED"    // nobody came for the descriptor
	ReasonUnknownSession  = "UNKNOWN_SESSION"      // ScanLines: of a resume
	ReasonTakenOver       = "SESSION_TAKEN_OVER"   // ScanLines: another call has resumed it
	ReasonResultsGone     = "RESULTS_GONE"         // ScanLines: a resume wants results that are not kept
	ReasonTooManySessions = "TOO_MANY_SESSIONS"    // QuotaFailure
	ReasonTooManyWatchers = "TOO_MANY_WATCHERS"    // QuotaFailure
	ReasonTooManyParts    = "TOO_MANY_PARTS"       // QuotaFailure
	ReasonCredit          = "CREDIT_EXCEEDED"      // QuotaFailure
	ReasonSlowConsumer    = "SLOW_CONSUMER"        // QuotaFailure
	ReasonShuttingDown    = "SHUTTING_DOWN"        // RetryInfo
	ReasonNotSupported    = "NOT_SUPPORTED"        // by this backend
	ReasonInternal        = "INTERNAL"             // metadata: id, which the log has
	ReasonToken           = "TOKEN_REQUIRED"       // no token, or none that the server knows
	ReasonRecipeOwned     = "RECIPE_OWNED"         // metadata: owner
	ReasonRole            = "ROLE_REQUIRED"        // metadata: role, needed
	ReasonTenantQuota     = "TENANT_QUOTA"         // QuotaFailure; metadata: tenant, resource, used, limit
	ReasonDeadline        = "DEADLINE_WHILE_QUEUE" // the deadline came while the call waited for memory of the device
)

// violation is one thing wrong with a request.
type violation struct {
	Path   string // of the field, from the request message
	value  string // what was there; may be empty
	reason string // what should have been, with the limit; reads on from the value
}

func (v violation) description() string {
	if v.value == "" {
		return v.reason
	}
	return v.value + ": " + v.reason
}

// FieldError refuses fields of a request.
type FieldError struct {
	Violations []violation
	More       int // beyond those listed
}

// maxViolations is how many violations a refusal lists; package polygon has the same number.
const maxViolations = 32

// Add adds a violation, or counts it where enough are listed.
func (e *FieldError) Add(path, value, reason string) {
	if len(e.Violations) == maxViolations {
		e.More++
		return
	}
	e.Violations = append(e.Violations, violation{path, value, reason})
}

// Fields refuses what a domain refused. field says what a violation is in terms of the request.
func Fields(err *kernels.InvalidError, field func(kernels.Violation) (path, value, reason string)) *FieldError {
	e := &FieldError{More: err.More}
	for _, v := range err.Violations {
		e.Add(field(v))
	}
	if len(e.Violations) == 0 {
		e.Add("", "", err.Error())
	}
	return e
}

// Join adds the violations of another refusal.
func (e *FieldError) Join(o *FieldError) {
	for _, v := range o.Violations {
		e.Add(v.Path, v.value, v.reason)
	}
	e.More += o.More
}

// OrNil is e where something is wrong, and nil where nothing is.
func (e *FieldError) OrNil() error {
	if len(e.Violations) == 0 {
		return nil
	}
	return e
}

// Under puts the fields of a refusal below one of another message.
func Under(field string, err error) error {
	var bad *FieldError
	if errors.As(err, &bad) {
		for i, v := range bad.Violations {
			// a refusal of the message itself has no path
			bad.Violations[i].Path = strings.TrimSuffix(field+"."+v.Path, ".")
		}
	}
	return err
}

// About adds to a refusal which of several things it is about.
func About(what string, err error) error {
	var bad *FieldError
	if errors.As(err, &bad) {
		for i := range bad.Violations {
			bad.Violations[i].reason += " (" + what + ")"
		}
	}
	return err
}

// Refuse is a FieldError with one violation.
func Refuse(path string, value any, format string, args ...any) *FieldError {
	v := ""
	if size, ok := value.([2]int); ok {
		v = fmt.Sprintf("%d x %d", size[0], size[1])
	} else if value != nil {
		v = fmt.Sprint(value)
	}
	return &FieldError{Violations: []violation{{path, v, fmt.Sprintf(format, args...)}}}
}

func (e *FieldError) Error() string {
	v := e.Violations[0]
	s := v.reason
	switch {
	case v.value != "":
		s = v.Path + " = " + v.value + ": " + s
	case v.Path != "":
		s = v.Path + ": " + s
	}
	if n := len(e.Violations) - 1 + e.More; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// RecipeNotFound is the error for a name or version that isn't stored.
type RecipeNotFound struct {
	Name    string
	Version uint64 // 0: any
}

func (e *RecipeNotFound) Error() string {
	if e.Version == 0 {
		return fmt.Sprintf("recipe %q: not stored", e.Name)
	}
	return fmt.Sprintf("recipe %q: version %d is not stored", e.Name, e.Version)
}

// RecipeUnusable is the error for a stored version that this server refuses: one that an earlier or a later server
// took.
type RecipeUnusable struct {
	Name    string
	Version uint64
	Reason  string
}

func (e *RecipeUnusable) Error() string {
	return fmt.Sprintf("recipe %q: version %d can't be used: %s", e.Name, e.Version, e.Reason)
}

// RecipeOwned is the error of a change to a recipe that belongs to another tenant.
type RecipeOwned struct{ Name, Owner string }

func (e *RecipeOwned) Error() string {
	return fmt.Sprintf("recipe %q: belongs to tenant %s: only that and admins change it", e.Name, e.Owner)
}

// VersionConflict is the error of a put whose expected version is not the latest.
type VersionConflict struct {
	Name             string
	Expected, Latest uint64
}

func (e *VersionConflict) Error() string {
	if e.Latest == 0 {
		return fmt.Sprintf("recipe %q: expected_version = %d: but it is not stored", e.Name, e.Expected)
	}
	return fmt.Sprintf("recipe %q: expected_version = %d: the latest is %d", e.Name, e.Expected, e.Latest)
}

// QuotaError is the error for what exceeds a limit of the server that is not a field's.
type QuotaError struct {
	reason, subject, text string
}

// Quota is a QuotaError: the subject is what there is too little of, and the text says how much.
func Quota(reason, subject, text string) *QuotaError { return &QuotaError{reason, subject, text} }

func (e *QuotaError) Error() string { return e.subject + ": " + e.text }

// FrameNotFound is the error for a resident frame that is not kept.
type FrameNotFound struct {
	Name   string
	Reason string    // of google.rpc.ErrorInfo
	Text   string    // reads on from the name
	Went   time.Time // when it went; zero where that isn't known
}

func (e *FrameNotFound) Error() string {
	s := fmt.Sprintf("frame %q: %s", e.Name, e.Text)
	if !e.Went.IsZero() {
		s += fmt.Sprintf(" (%v ago)", time.Since(e.Went).Round(time.Millisecond))
	}
	return s
}

// ErrStalled ends an upload, of a frame or of points, of which nothing comes.
var ErrStalled = errors.New("the upload stalled: nothing came for too long")

// IdleError ends a stream whose client has said nothing for so long.
type IdleError time.Duration

func (e IdleError) Error() string {
	return fmt.Sprintf("the stream was idle: nothing came for %v", time.Duration(e))
}

// ErrShuttingDown ends streams when the server does.
var ErrShuttingDown = errors.New("the server is shutting down")

// retryDelay is when to come back to a device without room: a few frames later.
const retryDelay = 100 * time.Millisecond

// StatusOf maps an error to the status that the client gets. log gets what the client must not see.
func StatusOf(ctx context.Context, log *slog.Logger, err error) *status.Status {
	if s, ok := status.FromError(err); ok { // made as a status, here or by gRPC
		return s
	}
	var (
		fields   *FieldError
		invalid  *kernels.InvalidError
		capacity *kernels.CapacityError
		missing  *RecipeNotFound
		unusable *RecipeUnusable
		frame    *FrameNotFound
		conflict *VersionConflict
		owned    *RecipeOwned
		full     *QuotaError
		overload *kernels.OverloadError
		late     *kernels.DeadlineError
		long     *kernels.RunError
		heap     *budget.FullError
		idle     IdleError
	)
	noRoom := errors.As(err, &capacity)
	switch {
	case errors.As(err, &fields):
		return WithDetails(codes.InvalidArgument, fields.Error(), Info(ReasonInvalidField), badRequest(fields))
	case errors.As(err, &invalid): // that no room put in terms of its request; the domain's names are close to them
		fields = Fields(invalid, func(v kernels.Violation) (path, value, reason string) {
			return v.Path.String(), v.Value, v.Reason
		})
		return WithDetails(codes.InvalidArgument, fields.Error(), Info(ReasonInvalidField), badRequest(fields))

	case errors.Is(err, context.DeadlineExceeded) && noRoom:
		return WithDetails(codes.DeadlineExceeded, "the deadline passed while the call waited for device memory: "+
			kernelsText(capacity),
			Info(ReasonDeadline), QuotaFailure("device memory", kernelsText(capacity)))
	case errors.As(err, &long):
		return WithDetails(codes.DeadlineExceeded, kernelsText(long), Info(ReasonRanTooLong, "class", long.Class.String(),
			"limit", long.Limit.String()))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Remaining <= 0:
		return status.New(codes.DeadlineExceeded, "the deadline passed before the call was done")
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the call was cancelled")

	case errors.As(err, &missing):
		name := missing.Name
		if missing.Version != 0 {
			name += "@" + strconv.FormatUint(missing.Version, 10)
		}
		return WithDetails(codes.NotFound, missing.Error(), Info(ReasonUnknownRecipe),
			&errdetails.ResourceInfo{ResourceType: "polyscan.v1.Recipe", ResourceName: name,
				Description: missing.Error()})
	case errors.As(err, &unusable):
		return WithDetails(codes.FailedPrecondition, unusable.Error(), Info(ReasonRecipeUnusable,
			"recipe", unusable.Name, "version", strconv.FormatUint(unusable.Version, 10)))
	case errors.As(err, &owned):
		return WithDetails(codes.PermissionDenied, owned.Error(), Info(ReasonRecipeOwned, "owner", owned.Owner))
	case errors.As(err, &frame):
		return WithDetails(codes.NotFound, frame.Error(), Info(frame.Reason),
			&errdetails.ResourceInfo{ResourceType: "polyscan.v1.ResidentFrame", ResourceName: frame.Name,
				Description: frame.Error()})
	case errors.Is(err, ErrStalled):
		return WithDetails(codes.Aborted, err.Error(), Info(ReasonUploadStalled))
	case errors.As(err, &idle):
		return WithDetails(codes.Aborted, idle.Error(), Info(ReasonStreamIdle))
	case errors.As(err, &conflict):
		return WithDetails(codes.Aborted, conflict.Error(), Info(ReasonVersionConflict,
			"expected", strconv.FormatUint(conflict.Expected, 10), "latest", strconv.FormatUint(conflict.Latest, 10)))

	case noRoom:
		details := []protoadapt.MessageV1{Info(ReasonNoRoom), QuotaFailure("device memory", kernelsText(capacity))}
		if !capacity.Never() {
			details = append(details,
				&errdetails.RetryInfo{RetryDelay: durationpb.New(cmp.Or(capacity.RetryAfter, retryDelay))})
		}
		return WithDetails(codes.ResourceExhausted, kernelsText(capacity), details...)
	case errors.As(err, &overload):
		text := kernelsText(overload)
		return WithDetails(codes.ResourceExhausted, text, Info(ReasonOverloaded, "class", overload.Class.String()),
			QuotaFailure("device time", text),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(cmp.Or(overload.RetryAfter, retryDelay))})
	case errors.As(err, &late):
		text := kernelsText(late)
		details := []protoadapt.MessageV1{Info(ReasonUnreachable, "class", late.Class.String()),
			QuotaFailure("device time", text)}
		if late.RetryAfter > 0 {
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(late.RetryAfter)})
		}
		return WithDetails(codes.ResourceExhausted, text, details...)
	case errors.As(err, &heap):
		return WithDetails(codes.ResourceExhausted, heap.Error(), Info(ReasonHostMemory, "class", heap.Class.String()),
			QuotaFailure("host memory", heap.Error()), &errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay)})
	case errors.As(err, &full):
		return WithDetails(codes.ResourceExhausted, full.Error(), Info(full.reason),
			QuotaFailure(full.subject, full.text))
	case errors.Is(err, kernels.ErrOutOfMemory):
		return WithDetails(codes.ResourceExhausted, "the device is out of memory",
			Info(ReasonNoRoom), QuotaFailure("device memory", "the driver has no more"))

	case errors.Is(err, kernels.ErrDeviceLost):
		if !errors.Is(err, device.ErrLost) { // a job's, which names the op
			log.ErrorContext(ctx, "a job failed on a lost device", "error", err)
		}
		return WithDetails(codes.Unavailable, "the device was lost; the server opens it again", Info(ReasonDeviceLost),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	case errors.Is(err, polygon.ErrInconsistent):
		return logged(ctx, log, codes.DataLoss, "the device returned numbers that contradict each other",
			ReasonInconsistent, "error", err)
	case errors.Is(err, kernels.ErrClosed), errors.Is(err, ErrShuttingDown):
		return WithDetails(codes.Unavailable, ErrShuttingDown.Error(), Info(ReasonShuttingDown),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	case errors.Is(err, kernels.ErrNotSupported):
		return WithDetails(codes.Unimplemented, "not supported by this backend", Info(ReasonNotSupported))
	}
	return Internal(ctx, log, "unexpected error", "error", err)
}

// Internal is the status for what is our own fault.
func Internal(ctx context.Context, log *slog.Logger, msg string, args ...any) *status.Status {
	return logged(ctx, log, codes.Internal, "internal error", ReasonInternal, append([]any{"cause", msg}, args...)...)
}

// logged is the status for what only the log has the details of. The client gets a number; the log has the same number
// and the rest.
func logged(ctx context.Context, log *slog.Logger, code codes.Code, msg, reason string, args ...any) *status.Status {
	var b [4]byte
	rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	log.ErrorContext(ctx, msg, append(args, "id", id)...)
	return WithDetails(code, msg+"; the server's log has it under id "+id, Info(reason, "id", id))
}

// kernelsText is the error without the name of the package.
func kernelsText(err error) string { return strings.TrimPrefix(err.Error(), "kernels: ") }

func WithDetails(c codes.Code, msg string, details ...protoadapt.MessageV1) *status.Status {
	s := status.New(c, OneLine(msg))
	if d, err := s.WithDetails(details...); err == nil {
		return d
	}
	return s
}

// OneLine keeps what came from outside from breaking the message.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

func Info(reason string, metadata ...string) *errdetails.ErrorInfo {
	e := &errdetails.ErrorInfo{Reason: reason, Domain: errorDomain}
	for i := 0; i+1 < len(metadata); i += 2 {
		if e.Metadata == nil {
			e.Metadata = map[string]string{}
		}
		e.Metadata[metadata[i]] = metadata[i+1]
	}
	return e
}

func badRequest(e *FieldError) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, v := range e.Violations {
		b.FieldViolations = append(b.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.Path, Description: OneLine(v.description()),
		})
	}
	return b
}

func QuotaFailure(subject, text string) *errdetails.QuotaFailure {
	return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: subject,
		Description: text}}}
}
