package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	polyscanv1 "github.com/polyscan/polyscan/proto/polyscan/v1"
)

func withDetails(t *testing.T, code codes.Code, msg string, d ...protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, msg).WithDetails(d...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func violations(kv ...string) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for i := 0; i < len(kv); i += 2 {
		b.FieldViolations = append(b.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: kv[i], Description: kv[i+1]})
	}
	return b
}

func TestErrorDetails(t *testing.T) {
	sent := withDetails(t, codes.ResourceExhausted, "reduce needs 10 bytes",
		violations("frame.layout.width", "7: too many", "frame.layout.height", "9: too many"),
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "device memory",
			Description: "4 of 9 bytes"}}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(250 * time.Millisecond)})
	c := dial(t, &fake{reduce: func(context.Context, *polyscanv1.ReduceRequest) (*polyscanv1.ReduceResponse, error) {
		return nil, sent
	}})
	_, err := c.Reduce(t.Context(), UseRegions(), Encoded([]byte{1}))
	e := AsError(err)
	if e == nil {
		t.Fatalf("%T %v, want *Error", err, err)
	}
	if e.Code != codes.ResourceExhausted || e.Message != "reduce needs 10 bytes" || !e.Retry ||
		e.RetryDelay != 250*time.Millisecond {
		t.Errorf("error %+v", e)
	}
	if len(e.Violations) != 2 || e.Violations[1] != (FieldViolation{"frame.layout.height", "9: too many"}) {
		t.Errorf("violations %+v", e.Violations)
	}
	if len(e.Quotas) != 1 || e.Quotas[0] != (QuotaViolation{"device memory", "4 of 9 bytes"}) {
		t.Errorf("quotas %+v", e.Quotas)
	}
	if s, ok := status.FromError(fmt.Errorf("wrapped: %w", err)); !ok || s.Code() != codes.ResourceExhausted ||
		len(s.Details()) != 3 {
		t.Errorf("status.FromError: %v", s)
	}
}

func TestErrorText(t *testing.T) {
	many := violations("a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.Unavailable, "connection refused"), "UNAVAILABLE: connection refused"},
		{status.Error(codes.Canceled, ""), "CANCELLED: no reason given"},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 8)"),
			"RESOURCE_EXHAUSTED: a message of 9 bytes: the server takes 8 at most, its max-message"},
		{status.Error(codes.Code(99), "odd"), "CODE(99): odd"},
		{status.Error(codes.Internal, "two\nlines"), "INTERNAL: two lines"},
		{withDetails(t, codes.InvalidArgument, "x.y = 3: too small", violations("x.y", "3: too small")),
			"INVALID_ARGUMENT: x.y = 3: too small"},
		{withDetails(t, codes.InvalidArgument, "bad request", violations("x.y", "3: too small")),
			"INVALID_ARGUMENT: bad request; x.y: 3: too small"},
		{withDetails(t, codes.InvalidArgument, "", many), "INVALID_ARGUMENT: a: 1; b: 2; c: 3; d: 4; and 2 more"},
		{withDetails(t, codes.ResourceExhausted, "no room",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}),
			"RESOURCE_EXHAUSTED: no room (retry in 1s)"},
	} {
		if got := AsError(tt.err).Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestAsError(t *testing.T) {
	for _, err := range []error{nil, io.EOF, errors.New("plain")} {
		if e := AsError(err); e != nil {
			t.Errorf("AsError(%v) = %v, want nil", err, e)
		}
		if got := wrap(err); got != err {
			t.Errorf("wrap(%v) = %v", err, got)
		}
	}
	for _, tt := range []struct {
		code   codes.Code
		target error
	}{{codes.Canceled, context.Canceled}, {codes.DeadlineExceeded, context.DeadlineExceeded}} {
		err := wrap(status.Error(tt.code, "over"))
		if !errors.Is(err, tt.target) {
			t.Errorf("errors.Is(%v, %v) = false", err, tt.target)
		}
		if errors.Is(wrap(status.Error(codes.Internal, "over")), tt.target) {
			t.Errorf("an INTERNAL error is %v", tt.target)
		}
	}
}

// TestCodeNames compares with the names that gRPC reads.
func TestCodeNames(t *testing.T) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		var back codes.Code
		if err := back.UnmarshalJSON([]byte(`"` + codeName(c) + `"`)); err != nil || back != c {
			t.Errorf("code %d is called %q, which reads as %d, %v", c, codeName(c), back, err)
		}
	}
	if !strings.HasPrefix(codeName(17), "CODE(") {
		t.Errorf("code 17 is called %q", codeName(17))
	}
}
