// Files of parts: CSV and Parquet, written as they are read.

package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
)

const (
	// exportChunk is how much of a file a message has, about.
	exportChunk = 256 << 10
	// exportParts is how many parts are read at a time, each in a transaction of its own: an export of hours must not
	// keep the database's log from being cut.
	exportParts = 500
	// exportRows is how many rows a group of a Parquet file has: it is what the writer keeps in memory.
	exportRows = 10_000
)

// PartRow is a row of a file of parts. The tags are the titles of its columns.
type PartRow struct {
	ID            int64     `parquet:"id"`
	At            time.Time `parquet:"at,timestamp(microsecond)"`
	Method        string    `parquet:"method,dict"`
	Name          string    `parquet:"name,dict"`
	PartID        string    `parquet:"part_id"`
	Recipe        string    `parquet:"recipe,dict"`
	RecipeVersion int64     `parquet:"recipe_version"`
	ServerID      string    `parquet:"server_id,dict"`
	StreamID      int64     `parquet:"stream_id"`
	ResultNumber  int64     `parquet:"result_number"`
	PartNumber    int64     `parquet:"part_number"`
	FirstLine     int64     `parquet:"first_line"`
	FrameID       string    `parquet:"frame_id"`
	Verdict       string    `parquet:"verdict,dict"`
	Reason        string    `parquet:"reason"`
	Late          bool      `parquet:"late"`
	Incomplete    bool      `parquet:"incomplete"`
	MissingLines  int64     `parquet:"missing_lines"`
	Error         bool      `parquet:"error"`
	LatencyMs     float64   `parquet:"latency_ms"`
	QueueMs       float64   `parquet:"queue_ms"`
	ComputeMs     float64   `parquet:"compute_ms"`
	Regions       int64     `parquet:"regions"`
	FailedRegions int64     `parquet:"failed_regions"`
	Backend       string    `parquet:"backend,dict"`
	Tenant        string    `parquet:"tenant,dict"`
	Evidence      bool      `parquet:"evidence"`
	// Where the part was searched for, and where its regions were moved: (x, y) to (a x + b y + c, d x + e y + f).
	Found    *bool    `parquet:"found,optional"`
	PoseA    *float64 `parquet:"pose_a,optional"`
	PoseB    *float64 `parquet:"pose_b,optional"`
	PoseC    *float64 `parquet:"pose_c,optional"`
	PoseD    *float64 `parquet:"pose_d,optional"`
	PoseE    *float64 `parquet:"pose_e,optional"`
	PoseF    *float64 `parquet:"pose_f,optional"`
	Residual *float64 `parquet:"residual,optional"` // of the fiducials, in pixels
}

// RegionRow is a row of a file of regions: of one channel of one region of one part, or of a part without results,
// which has no region and says why in Error. So does a region whose limit failed without a value, such as that of a
// part that was not found, and where no region of such a part has a limit, each of them.
type RegionRow struct {
	ID            int64     `parquet:"id"`
	At            time.Time `parquet:"at,timestamp(microsecond)"`
	Name          string    `parquet:"name,dict"`
	PartID        string    `parquet:"part_id"`
	Recipe        string    `parquet:"recipe,dict"`
	RecipeVersion int64     `parquet:"recipe_version"`
	PartVerdict   string    `parquet:"part_verdict,dict"`
	Index         *int64    `parquet:"region_index,optional"`
	Region        string    `parquet:"region,dict"`
	Verdict       string    `parquet:"verdict,dict"`
	Limit         string    `parquet:"failed_limit,dict"`
	Channel       string    `parquet:"channel,dict"`
	Count         *int64    `parquet:"count,optional"`
	Area          *float64  `parquet:"area,optional"`
	Coverage      *float64  `parquet:"coverage,optional"`
	Sum           *uint64   `parquet:"sum,optional"`
	SumOfSquares  *uint64   `parquet:"sum_of_squares,optional"`
	Mean          *float64  `parquet:"mean,optional"`
	Variance      *float64  `parquet:"variance,optional"`
	Stddev        *float64  `parquet:"stddev,optional"`
	Min           *uint32   `parquet:"min,optional"`
	Max           *uint32   `parquet:"max,optional"`
	Median        *float64  `parquet:"median,optional"`
	Mode          *uint32   `parquet:"mode,optional"`
	Distinct      *uint32   `parquet:"distinct,optional"`
	// Percentiles as text, such as "p5=12 p95=210": files of several recipes have several sets of them.
	Percentiles           string   `parquet:"percentiles"`
	Skewness              *float64 `parquet:"skewness,optional"`
	Kurtosis              *float64 `parquet:"kurtosis,optional"`
	Entropy               *float64 `parquet:"entropy,optional"`
	MeanAbsoluteDeviation *float64 `parquet:"mean_absolute_deviation,optional"`
	InterquartileRange    *float64 `parquet:"interquartile_range,optional"`
	KolmogorovSmirnov     *float64 `parquet:"kolmogorov_smirnov,optional"`
	Wasserstein           *float64 `parquet:"wasserstein,optional"`
	JensenShannon         *float64 `parquet:"jensen_shannon,optional"`
	ChiSquare             *float64 `parquet:"chi_square,optional"`
	PlaneX                *float64 `parquet:"plane_x,optional"`
	PlaneY                *float64 `parquet:"plane_y,optional"`
	PlaneResidual         *float64 `parquet:"plane_residual,optional"`
	CountMM2              *float64 `parquet:"count_mm2,optional"` // where the regions have a scale
	AreaMM2               *float64 `parquet:"area_mm2,optional"`
	Error                 string   `parquet:"error"`
}

// word is the last part of the name of an enum's value.
func word(text, prefix string) string {
	text = strings.TrimPrefix(text, prefix)
	if text == "UNSPECIFIED" {
		return ""
	}
	return text
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func partRows(p *pb.HistoryPart) []PartRow {
	row := PartRow{
		ID: int64(p.GetId()), At: p.GetAt().AsTime(), Method: strings.ToLower(word(p.GetMethod().String(), "STREAM_METHOD_")),
		Name: p.GetName(), PartID: p.GetPartId(), Recipe: p.GetRecipe(), RecipeVersion: int64(p.GetRecipeVersion()),
		ServerID: p.GetServerId(), StreamID: int64(p.GetStreamId()), ResultNumber: int64(p.GetResultNumber()),
		PartNumber: int64(p.GetPartNumber()), FirstLine: int64(p.GetFirstLine()), FrameID: p.GetFrameId(),
		Verdict: word(p.GetVerdict().String(), "VERDICT_"), Reason: p.GetReason(), Late: p.GetLate(),
		Incomplete: p.GetIncomplete(), MissingLines: int64(p.GetMissingLines()), Error: p.GetError(),
		LatencyMs: milliseconds(p.GetLatency().AsDuration()), QueueMs: milliseconds(p.GetQueue().AsDuration()),
		ComputeMs: milliseconds(p.GetCompute().AsDuration()), Regions: int64(p.GetRegions()),
		FailedRegions: int64(p.GetFailedRegions()), Backend: p.GetBackend(), Tenant: p.GetTenant(), Evidence: p.GetEvidence(),
	}
	if l := p.GetLocation(); l != nil {
		row.Found = &l.Found
		if l.GetFound() {
			row.Residual = &l.Residual
		}
	}
	if v := p.GetPose().GetAffine(); len(v) == 6 {
		row.PoseA, row.PoseB, row.PoseC, row.PoseD, row.PoseE, row.PoseF = &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]
	}
	return []PartRow{row}
}

func regionRows(p *pb.HistoryPart) (rows []RegionRow) {
	part := RegionRow{
		ID: int64(p.GetId()), At: p.GetAt().AsTime(), Name: p.GetName(), PartID: p.GetPartId(), Recipe: p.GetRecipe(),
		RecipeVersion: int64(p.GetRecipeVersion()), PartVerdict: word(p.GetVerdict().String(), "VERDICT_"),
	}
	if len(p.GetResults()) == 0 { // a file without the part would look as if there had been none
		part.Error = p.GetReason()
		if p.GetResultsOmitted() {
			part.Error = "the numbers of its regions take too much memory"
		}
		return []RegionRow{part}
	}
	if l := p.GetLocation(); l != nil && !l.GetFound() && p.GetFailedRegions() == 0 { // none of them says so
		part.Error = p.GetReason()
	}
	for _, r := range p.GetResults() {
		row := part
		row.Index, row.Region = new(int64(r.GetIndex())), RegionLabel(r.GetName(), r.GetIndex())
		row.Verdict = word(r.GetVerdict().String(), "VERDICT_")
		row.Count, row.Area, row.Coverage = new(int64(r.GetCount())), new(r.GetArea()), r.Coverage
		row.CountMM2, row.AreaMM2 = r.CountMm2, r.AreaMm2
		for _, l := range r.GetLimits() {
			if l.GetVerdict() == pb.Verdict_VERDICT_FAIL {
				row.Limit = l.GetExpression()
				if l.Value == nil {
					row.Error = l.GetReason()
				}
				break
			}
		}
		for _, c := range r.GetChannels() {
			row.Channel = strings.ToLower(word(c.GetChannel().String(), "CHANNEL_"))
			row.Sum, row.SumOfSquares, row.Mean, row.Variance, row.Stddev = c.Sum, c.SumOfSquares, c.Mean, c.Variance, c.Stddev
			row.Min, row.Max, row.Median, row.Mode, row.Distinct = c.Min, c.Max, c.Median, c.Mode, c.Distinct
			row.Skewness, row.Kurtosis, row.Entropy = c.Skewness, c.Kurtosis, c.Entropy
			row.KolmogorovSmirnov, row.Wasserstein = c.KolmogorovSmirnov, c.Wasserstein
			row.JensenShannon, row.ChiSquare = c.JensenShannon, c.ChiSquare
			row.PlaneX, row.PlaneY, row.PlaneResidual = c.PlaneX, c.PlaneY, c.PlaneResidual
			row.MeanAbsoluteDeviation, row.InterquartileRange = c.MeanAbsoluteDeviation, c.InterquartileRange
			var percentiles []string
			for _, v := range c.GetPercentiles() {
				percentiles = append(percentiles, "p"+number(v.GetPercentile())+"="+number(v.GetValue()))
			}
			row.Percentiles = strings.Join(percentiles, " ")
			rows = append(rows, row)
		}
		if len(r.GetChannels()) == 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// number is the shortest text that reads back as v.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// rowWriter writes rows to a file.
type rowWriter[T any] interface {
	Write(rows []T) error
	Close() error
}

// csvWriter writes rows as RFC 4180 has them. Times are RFC 3339 in UTC; what has no value is empty.
type csvWriter[T any] struct{ *csv.Writer }

func newCSV[T any](to io.Writer) (csvWriter[T], error) {
	w := csvWriter[T]{csv.NewWriter(to)}
	w.UseCRLF = true
	t := reflect.TypeFor[T]()
	titles := make([]string, t.NumField())
	for i := range titles {
		titles[i], _, _ = strings.Cut(t.Field(i).Tag.Get("parquet"), ",")
	}
	return w, w.Writer.Write(titles)
}

func (w csvWriter[T]) Write(rows []T) error {
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		cells := make([]string, v.NumField())
		for k := range cells {
			cells[k] = cell(v.Field(k))
		}
		if err := w.Writer.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func (w csvWriter[T]) Close() error {
	w.Flush()
	return w.Error()
}

func cell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format("2006-01-02T15:04:05.000000Z")
	case float64:
		return number(x)
	default:
		return fmt.Sprint(x)
	}
}

// parquetWriter writes groups of rows.
type parquetWriter[T any] struct {
	*parquet.GenericWriter[T]
	rows int
}

func (w *parquetWriter[T]) Write(rows []T) error {
	if _, err := w.GenericWriter.Write(rows); err != nil {
		return err
	}
	if w.rows += len(rows); w.rows >= exportRows {
		w.rows = 0
		return w.Flush()
	}
	return nil
}

// sendWriter sends what is written.
type sendWriter struct {
	stream pb.HistoryService_ExportPartsServer
}

func (w sendWriter) Write(p []byte) (int, error) {
	// A message is not to change once it was sent, and what writes here uses its buffers again.
	if err := w.stream.Send(&pb.ExportPartsResponse{Data: bytes.Clone(p)}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ExportParts implements pb.HistoryServiceServer.
func (s *Service) ExportParts(req *pb.ExportPartsRequest, stream pb.HistoryService_ExportPartsServer) error {
	ctx := stream.Context()
	f, err := s.asked(ctx, req)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(sendWriter{stream}, exportChunk)
	if req.GetRows() == pb.ExportRows_EXPORT_ROWS_REGIONS {
		err = export(ctx, s, f, req.GetFormat(), out, pb.RegionNumbers_REGION_NUMBERS_ALL, regionRows)
	} else {
		err = export(ctx, s, f, req.GetFormat(), out, pb.RegionNumbers_REGION_NUMBERS_NONE, partRows)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

func export[T any](ctx context.Context, s *Service, f *filter, format pb.ExportFormat, out io.Writer,
	numbers pb.RegionNumbers, rowsOf func(*pb.HistoryPart) []T) (err error) {
	var w rowWriter[T]
	if format == pb.ExportFormat_EXPORT_FORMAT_PARQUET {
		w = &parquetWriter[T]{GenericWriter: parquet.NewGenericWriter[T](out, parquet.Compression(&parquet.Zstd),
			parquet.CreatedBy("polyscan", "", ""))}
	} else if w, err = newCSV[T](out); err != nil {
		return err
	}
	var after *place
	for {
		places, err := s.page(ctx, f, after, true, exportParts)
		if err != nil {
			return err
		}
		if len(places) > 0 {
			parts, err := s.parts(ctx, places, numbers, numbersBytes)
			if err != nil {
				return err
			}
			for _, p := range parts {
				if p == nil {
					continue // it was removed meanwhile
				}
				if err := w.Write(rowsOf(p)); err != nil {
					return err
				}
			}
			after = &places[len(places)-1]
		}
		if len(places) < exportParts {
			return w.Close()
		}
	}
}
