package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/polyscan/polyscan/kernels"
	"github.com/polyscan/polyscan/kernels/driver"
	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/wire"
)

func TestStatusOf(t *testing.T) {
	capacity := &kernels.CapacityError{Label: "reduce", Needed: 100, Available: 50, Total: 200}
	never := &kernels.CapacityError{Label: "reduce", Needed: 300, Available: 50, Total: 200}
	for _, c := range []struct {
		err    error
		code   codes.Code
		reason string
		words  []string
	}{
		{apierr.Refuse("frame.layout.stride", 3, "is less than a row of %d bytes", 4), codes.InvalidArgument,
			apierr.ReasonInvalidField, []string{"frame.layout.stride = 3: is less than a row of 4 bytes"}},
		{fmt.Errorf("wrapped: %w", apierr.Refuse("a", nil, "must be given")), codes.InvalidArgument,
			apierr.ReasonInvalidField, []string{"a: must be given"}},
		// Of a domain, and not put in terms of a request: it is the client's input all the same.
		{fmt.Errorf("x: %w", kernels.Invalid("polygon", kernels.Path{"regions", 3}, 7, "must be less")),
			codes.InvalidArgument, apierr.ReasonInvalidField, []string{"regions[3] = 7: must be less"}},
		{&kernels.InvalidError{Domain: "polygon"}, codes.InvalidArgument, apierr.ReasonInvalidField,
			[]string{"polygon: invalid input"}},
		{context.Canceled, codes.Canceled, "", []string{"cancelled"}},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "", []string{"deadline"}},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, capacity), codes.DeadlineExceeded, apierr.ReasonDeadline,
			[]string{"100 bytes", "50 of 200"}},
		{fmt.Errorf("%w: %w", context.Canceled, capacity), codes.Canceled, "", nil},
		{capacity, codes.ResourceExhausted, apierr.ReasonNoRoom, []string{"reduce", "100 bytes", "50 of 200"}},
		{never, codes.ResourceExhausted, apierr.ReasonNoRoom, []string{"300 bytes"}},
		{&kernels.OverloadError{Label: "reduce", Class: kernels.Batch, Waiting: 7}, codes.ResourceExhausted,
			apierr.ReasonOverloaded, []string{"reduce", "batch", "7 jobs"}},
		{&kernels.DeadlineError{Label: "reduce", Estimate: 3e6, Remaining: 2e6}, codes.ResourceExhausted,
			apierr.ReasonUnreachable, []string{"reduce", "3ms", "2ms"}},
		{fmt.Errorf("x: %w", &kernels.RunError{Label: "solve", Class: kernels.Batch, Limit: time.Minute}),
			codes.DeadlineExceeded, apierr.ReasonRanTooLong, []string{"solve", "batch", "1m0s"}},
		{&kernels.DeadlineError{Label: "reduce", Remaining: -1}, codes.DeadlineExceeded, "", []string{"deadline"}},
		{&apierr.FrameNotFound{Name: "XYZ", Reason: apierr.ReasonUnknownFrame, Text: "there is no such frame"},
			codes.NotFound, apierr.ReasonUnknownFrame, []string{`"XYZ"`, "no such frame"}},
		{&apierr.FrameNotFound{Name: "XYZ", Reason: apierr.ReasonFrameExpired, Text: "expired", Went: time.Now()},
			codes.NotFound, apierr.ReasonFrameExpired,
			[]string{`"XYZ"`, "expired", "ago"}},
		{apierr.ErrStalled, codes.Aborted, apierr.ReasonUploadStalled, []string{"nothing came"}},
		{driver.ErrOutOfMemory, codes.ResourceExhausted, apierr.ReasonNoRoom, nil},
		{apierr.Quota(apierr.ReasonResultTooLarge, "result", "too large"), codes.ResourceExhausted,
			apierr.ReasonResultTooLarge, []string{"result: too large"}},
		{&apierr.RecipeNotFound{Name: "board", Version: 3}, codes.NotFound, apierr.ReasonUnknownRecipe,
			[]string{`"board"`, "3"}},
		{&apierr.RecipeNotFound{Name: "board", Version: 0}, codes.NotFound, apierr.ReasonUnknownRecipe, []string{`"board"`}},
		{&apierr.RecipeUnusable{Name: "board", Version: 3, Reason: "a bad limit"}, codes.FailedPrecondition,
			apierr.ReasonRecipeUnusable, []string{`"board"`, "version 3", "a bad limit"}},
		{&apierr.VersionConflict{Name: "board", Expected: 3, Latest: 5}, codes.Aborted, apierr.ReasonVersionConflict,
			[]string{`"board"`, "3", "5"}},
		{&apierr.VersionConflict{Name: "board", Expected: 3, Latest: 0}, codes.Aborted, apierr.ReasonVersionConflict,
			[]string{`"board"`, "not stored"}},
		{fmt.Errorf("op: %w", driver.ErrDeviceLost), codes.Unavailable, apierr.ReasonDeviceLost, []string{"lost"}},
		{fmt.Errorf("op: %w", polygon.ErrInconsistent), codes.DataLoss, apierr.ReasonInconsistent,
			[]string{"contradict", "the server's log has it under id"}},
		{kernels.ErrClosed, codes.Unavailable, apierr.ReasonShuttingDown, nil},
		{apierr.ErrShuttingDown, codes.Unavailable, apierr.ReasonShuttingDown, nil},
		{driver.ErrNotSupported, codes.Unimplemented, apierr.ReasonNotSupported, nil},
		{status.Error(codes.OutOfRange, "its own"), codes.OutOfRange, "", []string{"its own"}},
		{&kernels.ArgError{Op: "MaskReduce", Field: "secret", Value: 1, Reason: "?"}, codes.Internal, apierr.ReasonInternal,
			[]string{"id "}},
		{errors.New("secret: /etc/password"), codes.Internal, apierr.ReasonInternal, []string{"id "}},
	} {
		log := &logBuffer{}
		err := apierr.StatusOf(t.Context(), log.logger(), c.err).Err()
		d := detailsOf(t, err)
		if d.status.Code() != c.code {
			t.Errorf("%v: code %v, want %v", c.err, d.status.Code(), c.code)
		}
		if (d.info == nil) != (c.reason == "") || d.info != nil &&
			(d.info.Reason != c.reason || d.info.Domain != "polyscan") {
			t.Errorf("%v: ErrorInfo %v, want reason %q", c.err, d.info, c.reason)
		}
		msg := d.status.Message()
		for _, w := range c.words {
			if !strings.Contains(msg, w) {
				t.Errorf("%v: message %q lacks %q", c.err, msg, w)
			}
		}
		if strings.Contains(msg, "secret") || strings.Contains(msg, "\n") {
			t.Errorf("%v: message %q says too much", c.err, msg)
		}
		if c.code == codes.Internal {
			if id := d.info.Metadata["id"]; len(id) != 8 || !strings.Contains(msg, id) ||
				!strings.Contains(log.String(), id) || !strings.Contains(log.String(), "secret") {
				t.Errorf("%v: message %q, log %q: want the same id, and the log the rest", c.err, msg, log)
			}
		}
		// Details by code.
		if got, want := d.bad != nil, c.code == codes.InvalidArgument; got != want {
			t.Errorf("%v: BadRequest %v", c.err, d.bad)
		}
		if got, want := d.res != nil, c.code == codes.NotFound; got != want {
			t.Errorf("%v: ResourceInfo %v", c.err, d.res)
		}
		if got, want := d.quota != nil, c.code == codes.ResourceExhausted || c.reason == apierr.ReasonDeadline; got != want {
			t.Errorf("%v: QuotaFailure %v", c.err, d.quota)
		}
		if got, want := d.retry != nil, c.err == capacity || c.code == codes.Unavailable ||
			c.reason == apierr.ReasonOverloaded; got != want {
			t.Errorf("%v: RetryInfo %v", c.err, d.retry)
		}
	}
}

func TestFieldErrorListsMore(t *testing.T) {
	e := &apierr.FieldError{More: 5}
	for i := range 3 {
		e.Add(fmt.Sprintf("f[%d]", i), "x\ny", "is bad")
	}
	d := detailsOf(t, apierr.StatusOf(t.Context(), slog.New(slog.DiscardHandler), e).Err())
	if len(d.bad.FieldViolations) != 3 || !strings.Contains(d.status.Message(), "(and 7 more)") ||
		strings.Contains(d.status.Message(), "\n") {
		t.Errorf("%v", d.status)
	}
}

func TestPaths(t *testing.T) {
	plain := wire.Paths{Root: "inspection.", Set: "inspection.region_set", Reductions: "inspection.reductions",
		Frame: "frame"}
	recipe := plain
	recipe.Stored, recipe.Ref, recipe.StoredReductions = "board@3", "inspection.recipe", true
	for _, c := range []struct {
		p    wire.Paths
		path kernels.Path
		want string
	}{
		{plain, kernels.Path{"regions"}, "inspection.region_set.regions"},
		{plain, kernels.Path{"regions", 3, "rings", 0, "vertices", 5, "x"},
			"inspection.region_set.regions[3].rings[0].xy[10]"},
		{plain, kernels.Path{"regions", 3, "rings", 0, "vertices", 5, "y"},
			"inspection.region_set.regions[3].rings[0].xy[11]"},
		{plain, kernels.Path{"regions", 3, "rings", 0}, "inspection.region_set.regions[3].rings[0]"},
		{plain, kernels.Path{"regions", 2, "limits", 1}, "inspection.region_set.regions[2].limits[1]"},
		{plain, kernels.Path{"reductions", "percentiles", 2}, "inspection.reductions.percentiles[2]"},
		{plain, kernels.Path{"frame", "width"}, "frame.layout.width"},
		{plain, kernels.Path{"frame", "height"}, "frame.layout.height"},
		{plain, kernels.Path{"frame", "stride"}, "frame.layout.stride"},
		{plain, kernels.Path{"frame", "format"}, "frame.layout.pixel_format"},
		{plain, kernels.Path{"frame", "data"}, "frame.data"},
		{plain, kernels.Path{"frame"}, "frame"},
		{plain, kernels.Path{"method"}, "inspection.method"},
		{wire.Paths{}, kernels.Path{"width"}, "width"},
		{recipe, kernels.Path{"regions", 2, "limits", 1}, "inspection.recipe"},
		{recipe, kernels.Path{"reductions", "percentiles", 2}, "inspection.recipe"},
		{recipe, kernels.Path{"frame", "width"}, "frame.layout.width"},
	} {
		err := c.p.Translate(fmt.Errorf("wrapped: %w",
			&kernels.InvalidError{Violations: []kernels.Violation{{Path: c.path, Value: "7", Reason: "is bad"}},
				More: 2}))
		var e *apierr.FieldError
		if !errors.As(err, &e) || e.Violations[0].Path != c.want || e.More != 2 {
			t.Errorf("%s: %v, want %s", c.path, err, c.want)
		} else if strings.HasPrefix(c.want, "inspection.recipe") &&
			!strings.Contains(err.Error(), "board@3: "+c.path.String()+" = 7") {
			t.Errorf("%s: %v does not say where in the recipe", c.path, err)
		}
	}
	if err := plain.Translate(driver.ErrDeviceLost); err != driver.ErrDeviceLost {
		t.Errorf("other errors stay: %v", err)
	}
}

// Numbers of enums that are converted by arithmetic.
func TestEnumsAgree(t *testing.T) {
	for s, want := range map[pb.Statistic]polygon.Statistics{
		pb.Statistic_STATISTIC_COUNT: polygon.Count, pb.Statistic_STATISTIC_SUM: polygon.Sum,
		pb.Statistic_STATISTIC_SUM_OF_SQUARES: polygon.SumOfSquares, pb.Statistic_STATISTIC_MEAN: polygon.Mean,
		pb.Statistic_STATISTIC_VARIANCE: polygon.Variance, pb.Statistic_STATISTIC_STDDEV: polygon.StdDev,
		pb.Statistic_STATISTIC_MIN: polygon.Min, pb.Statistic_STATISTIC_MAX: polygon.Max,
		pb.Statistic_STATISTIC_HISTOGRAM: polygon.Histogram, pb.Statistic_STATISTIC_PERCENTILES: polygon.Percentiles,
		pb.Statistic_STATISTIC_MEDIAN: polygon.Median, pb.Statistic_STATISTIC_MODE: polygon.Mode,
		pb.Statistic_STATISTIC_DISTINCT: polygon.Distinct, pb.Statistic_STATISTIC_CENTROID: polygon.Centroid,
		pb.Statistic_STATISTIC_SKEWNESS: polygon.Skewness, pb.Statistic_STATISTIC_KURTOSIS: polygon.Kurtosis,
		pb.Statistic_STATISTIC_DISTANCES: polygon.Distances,
		pb.Statistic_STATISTIC_ENTROPY:   polygon.Entropy, pb.Statistic_STATISTIC_CUMULATIVE: polygon.Cumulative,
		pb.Statistic_STATISTIC_MEAN_ABSOLUTE_DEVIATION: polygon.MeanAbsoluteDeviation,
		pb.Statistic_STATISTIC_INTERQUARTILE_RANGE:     polygon.InterquartileRange,
	} {
		if got := wire.ReductionsOf(&pb.Reductions{Statistics: []pb.Statistic{s}}).Statistics; got != want {
			t.Errorf("%v = %v, want %v", s, got, want)
		}
	}
	if n := len(pb.Statistic_name) - 1; polygon.AllStatistics != 1<<n-1 {
		t.Errorf("%d statistics in the protocol, %v in package polygon", n, polygon.AllStatistics)
	}
	same := func(name string, a, b int) {
		if a != b {
			t.Errorf("%s: %d in the protocol, %d in Go", name, a, b)
		}
	}
	same("UNSPECIFIED", int(pb.MaskMethod_MASK_METHOD_UNSPECIFIED), int(driver.MethodDefault))
	same("NAIVE", int(pb.MaskMethod_MASK_METHOD_NAIVE), int(driver.Naive))
	same("TILED", int(pb.MaskMethod_MASK_METHOD_TILED), int(driver.Tiled))
	same("EDGE_FILTERED", int(pb.MaskMethod_MASK_METHOD_EDGE_FILTERED), int(driver.EdgeFiltered))
	same("TILED_EDGE_FILTERED", int(pb.MaskMethod_MASK_METHOD_TILED_EDGE_FILTERED), int(driver.TiledEdgeFiltered))
	same("ROW_SPANS", int(pb.MaskMethod_MASK_METHOD_ROW_SPANS), int(driver.RowSpans))
	same("methods", len(pb.MaskMethod_name), int(driver.RowSpans)+1)
	same("no verdict", int(pb.Verdict_VERDICT_UNSPECIFIED), int(polygon.NoVerdict))
	same("PASS", int(pb.Verdict_VERDICT_PASS), int(polygon.Pass))
	same("FAIL", int(pb.Verdict_VERDICT_FAIL), int(polygon.Fail))
	same("no channel", int(pb.Channel_CHANNEL_UNSPECIFIED), int(polygon.NoChannel))
	same("GRAY", int(pb.Channel_CHANNEL_GRAY), int(polygon.Gray))
	same("RED", int(pb.Channel_CHANNEL_RED), int(polygon.Red))
	same("GREEN", int(pb.Channel_CHANNEL_GREEN), int(polygon.Green))
	same("BLUE", int(pb.Channel_CHANNEL_BLUE), int(polygon.Blue))
	same("ALPHA", int(pb.Channel_CHANNEL_ALPHA), int(polygon.Alpha))
	same("MATRIX_Z", int(pb.Channel_CHANNEL_MATRIX_Z), int(polygon.MatrixZ))
	same("GRADIENT", int(pb.Channel_CHANNEL_GRADIENT), int(polygon.Gradient))
	same("LAPLACIAN", int(pb.Channel_CHANNEL_LAPLACIAN), int(polygon.Laplacian))
	for d, want := range map[pb.Derivative]polygon.Channel{
		pb.Derivative_DERIVATIVE_GRADIENT:  polygon.Gradient,
		pb.Derivative_DERIVATIVE_LAPLACIAN: polygon.Laplacian,
	} {
		if got := wire.ReductionsOf(&pb.Reductions{Derivatives: []pb.Derivative{d}}).Derivatives; len(got) != 1 || got[0] != want {
			t.Errorf("%v = %v, want %v", d, got, want)
		}
	}
}
