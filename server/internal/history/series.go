// Series: a number of a region over time.

package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/polyscan/polyscan/internal/exact"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

const (
	defaultValues = 500
	// seriesParts is how many parts are read at most for a series: of a filter that lets through parts without the region,
	// most of them may have no value.
	seriesParts = 50_000
	// seriesPage is how many are read at a time.
	seriesPage = 500
)

// quantity reads one number of a region; ok is false where it has no value.
type quantity func(r *pb.RegionResult) (v float64, ok bool)

// ofChannel are the quantities of a channel.
var ofChannel = map[string]func(c *pb.ChannelStatistics) (float64, bool){
	"sum": func(c *pb.ChannelStatistics) (float64, bool) {
		return exact.SampleSum(c.GetSum(), c.GetCount(), c.GetStep(), c.GetZero()),
			c.Sum != nil && (c.GetZero() == 0 || c.Count != nil)
	},
	"mean":     func(c *pb.ChannelStatistics) (float64, bool) { return c.GetMean(), c.Mean != nil },
	"variance": func(c *pb.ChannelStatistics) (float64, bool) { return c.GetVariance(), c.Variance != nil },
	"stddev":   func(c *pb.ChannelStatistics) (float64, bool) { return c.GetStddev(), c.Stddev != nil },
	"min": func(c *pb.ChannelStatistics) (float64, bool) {
		return exact.Sample(c.GetMin(), c.GetStep(), c.GetZero()), c.Min != nil
	},
	"max": func(c *pb.ChannelStatistics) (float64, bool) {
		return exact.Sample(c.GetMax(), c.GetStep(), c.GetZero()), c.Max != nil
	},
	"median": func(c *pb.ChannelStatistics) (float64, bool) { return c.GetMedian(), c.Median != nil },
	"mode": func(c *pb.ChannelStatistics) (float64, bool) {
		return exact.Sample(c.GetMode(), c.GetStep(), c.GetZero()), c.Mode != nil
	},
	"distinct": func(c *pb.ChannelStatistics) (float64, bool) { return float64(c.GetDistinct()), c.Distinct != nil },
	"skewness": func(c *pb.ChannelStatistics) (float64, bool) { return c.GetSkewness(), c.Skewness != nil },
	"kurtosis": func(c *pb.ChannelStatistics) (float64, bool) { return c.GetKurtosis(), c.Kurtosis != nil },
	"entropy":  func(c *pb.ChannelStatistics) (float64, bool) { return c.GetEntropy(), c.Entropy != nil },
	"mad": func(c *pb.ChannelStatistics) (float64, bool) {
		return c.GetMeanAbsoluteDeviation(), c.MeanAbsoluteDeviation != nil
	},
	"ks": func(c *pb.ChannelStatistics) (float64, bool) {
		return c.GetKolmogorovSmirnov(), c.KolmogorovSmirnov != nil
	},
	"wasserstein": func(c *pb.ChannelStatistics) (float64, bool) { return c.GetWasserstein(), c.Wasserstein != nil },
	"js":          func(c *pb.ChannelStatistics) (float64, bool) { return c.GetJensenShannon(), c.JensenShannon != nil },
	"chisquare":   func(c *pb.ChannelStatistics) (float64, bool) { return c.GetChiSquare(), c.ChiSquare != nil },
	"plane.x":     func(c *pb.ChannelStatistics) (float64, bool) { return c.GetPlaneX(), c.PlaneX != nil },
	"plane.y":     func(c *pb.ChannelStatistics) (float64, bool) { return c.GetPlaneY(), c.PlaneY != nil },
	"plane.residual": func(c *pb.ChannelStatistics) (float64, bool) {
		return c.GetPlaneResidual(), c.PlaneResidual != nil
	},
	"iqr": func(c *pb.ChannelStatistics) (float64, bool) {
		return c.GetInterquartileRange(), c.InterquartileRange != nil
	},
}

var ofRegion = map[string]quantity{
	"count":    func(r *pb.RegionResult) (float64, bool) { return float64(r.GetCount()), true },
	"area":     func(r *pb.RegionResult) (float64, bool) { return r.GetArea(), true },
	"coverage": func(r *pb.RegionResult) (float64, bool) { return r.GetCoverage(), r.Coverage != nil },

	"count_mm2": func(r *pb.RegionResult) (float64, bool) { return r.GetCountMm2(), r.CountMm2 != nil },
	"area_mm2":  func(r *pb.RegionResult) (float64, bool) { return r.GetAreaMm2(), r.AreaMm2 != nil },
}

var channels = map[string]pb.Channel{
	"r": pb.Channel_CHANNEL_RED, "g": pb.Channel_CHANNEL_GREEN, "b": pb.Channel_CHANNEL_BLUE,
	"a": pb.Channel_CHANNEL_ALPHA, "gray": pb.Channel_CHANNEL_GRAY, "gray709": pb.Channel_CHANNEL_GRAY_709,
	"hue": pb.Channel_CHANNEL_HUE, "saturation": pb.Channel_CHANNEL_SATURATION, "value": pb.Channel_CHANNEL_VALUE,
	"lab.l": pb.Channel_CHANNEL_LAB_L, "lab.a": pb.Channel_CHANNEL_LAB_A, "lab.b": pb.Channel_CHANNEL_LAB_B,
	"matrix.x": pb.Channel_CHANNEL_MATRIX_X, "matrix.y": pb.Channel_CHANNEL_MATRIX_Y,
	"matrix.z": pb.Channel_CHANNEL_MATRIX_Z, "gradient": pb.Channel_CHANNEL_GRADIENT,
	"laplacian": pb.Channel_CHANNEL_LAPLACIAN,
}

// quantityOf finds a quantity by its name.
func quantityOf(text string) (quantity, error) {
	if q := ofRegion[text]; q != nil {
		return q, nil
	}
	at := strings.IndexByte(text, '.')
	if strings.HasPrefix(text, "lab.") || strings.HasPrefix(text, "matrix.") {
		at += 1 + strings.IndexByte(text[at+1:], '.')
	}
	var channel pb.Channel
	name, coloured := text, false
	if at > 0 {
		channel, coloured = channels[text[:at]]
		name = text[at+1:]
	}
	if !coloured {
		name, coloured = text, false
	}
	read := ofChannel[name]
	if p, ok := strings.CutPrefix(name, "p"); ok && read == nil {
		if at, err := strconv.ParseFloat(p, 64); err == nil && at >= 0 && at <= 100 {
			read = func(c *pb.ChannelStatistics) (float64, bool) {
				i := slices.IndexFunc(c.GetPercentiles(), func(v *pb.PercentileValue) bool { return v.GetPercentile() == at })
				if i < 0 {
					return 0, false
				}
				return c.GetPercentiles()[i].GetValue(), true
			}
		}
	}
	if read == nil {
		return nil, apierr.Refuse("quantity", strconv.Quote(text), "must be count, area, count_mm2, area_mm2, coverage, "+
			"sum, mean, variance, stddev, min, max, median, mode, distinct, skewness, kurtosis, entropy, mad, iqr, ks, "+
			"wasserstein, js, chisquare, plane.x, plane.y, plane.residual "+
			"or a percentile such as p99, behind r., g., b. or a. for a channel of colours, or one derived from them, such as lab.a.")
	}
	return func(r *pb.RegionResult) (float64, bool) {
		for _, c := range r.GetChannels() {
			if !coloured && len(r.GetChannels()) == 1 || coloured && c.GetChannel() == channel {
				return read(c)
			}
		}
		return 0, false
	}, nil
}

// GetSeries implements pb.HistoryServiceServer.
func (s *Service) GetSeries(ctx context.Context, req *pb.GetSeriesRequest) (*pb.GetSeriesResponse, error) {
	who, err := s.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	read, err := quantityOf(req.GetQuantity())
	if err != nil {
		return nil, err
	}
	if n := req.GetSubgroup(); n == 1 {
		return nil, apierr.Refuse("subgroup", n, "must be 2 to 25, or 0 for %d", defaultSubgroup)
	}
	if req.LowerSpec != nil && req.UpperSpec != nil && req.GetLowerSpec() >= req.GetUpperSpec() {
		return nil, apierr.Refuse("upper_spec", req.GetUpperSpec(), "must be above lower_spec, which is %v",
			req.GetLowerSpec())
	}
	f, err := s.filter(ctx, who, req.GetFilter())
	if err != nil {
		return nil, err
	}
	limit := int(cmp.Or(req.GetLimit(), defaultValues))
	res := &pb.GetSeriesResponse{}
	var after *place
	looked, hasRegion, hasValue := 0, false, false
	for len(res.Points) < limit {
		places, err := s.page(ctx, f, after, false, seriesPage)
		if err != nil {
			return nil, err
		}
		points, region, err := s.points(ctx, places, req.GetRegion(), read)
		if err != nil {
			return nil, err
		}
		hasRegion, hasValue = hasRegion || region, hasValue || len(points) > 0
		res.Points = append(res.Points, points...)
		if len(places) < seriesPage {
			break
		}
		if looked += len(places); looked >= seriesParts {
			res.Truncated = len(res.Points) < limit
			break
		}
		after = &places[len(places)-1]
	}
	if hasRegion && !hasValue {
		why := "is not among what was computed of the region"
		if _, err := quantityOf("r." + req.GetQuantity()); err == nil { // of a channel, and it says none
			why += ", or the frames have colours and it needs a channel such as r." + req.GetQuantity()
		}
		return nil, apierr.Refuse("quantity", strconv.Quote(req.GetQuantity()), "%s", why)
	}
	res.Points = res.Points[:min(limit, len(res.Points))]
	slices.Reverse(res.Points)
	values := make([]float64, len(res.Points))
	for i, p := range res.Points {
		values[i] = p.GetValue()
	}
	res.Chart = chartOf(values, req.GetChart(), int(req.GetSubgroup()), req.LowerSpec, req.UpperSpec)
	return res, nil
}

// points reads a number of a region of each of some parts, in their order, and says whether any had the region.
func (s *Service) points(ctx context.Context, places []place, region string, read quantity) (out []*pb.SeriesPoint,
	any bool, err error) {
	if len(places) == 0 {
		return nil, false, nil
	}
	at := map[int64]int{}
	var ids []string
	for i, p := range places {
		at[p.id] = i
		ids = append(ids, fmt.Sprint(p.id))
	}
	found := make([]*pb.SeriesPoint, len(places))
	type blob struct {
		id   int64
		data []byte
	}
	var blobs []blob // definitions are read on another connection: the rows are read first
	err = s.each(ctx, func(scan scanner) error {
		var b blob
		err := scan(&b.id, &b.data)
		blobs = append(blobs, b)
		return err
	}, "SELECT part, data FROM numbers WHERE part IN ("+strings.Join(ids, ",")+")")
	if err != nil {
		return nil, false, err
	}
	for _, b := range blobs {
		err := eachRow(b.data, func(id int64, flags uint64, message []byte) (bool, error) {
			d, err := s.definitions.get(ctx, s.db.reader(), id)
			if err != nil || RegionLabel(d.GetName(), d.GetIndex()) != region {
				return true, err
			}
			any = true
			r, err := restore(d, flags, message)
			if err != nil {
				return false, err
			}
			if v, ok := read(r); ok {
				i := at[b.id]
				found[i] = &pb.SeriesPoint{Id: uint64(b.id), At: timestamppb.New(time.UnixMicro(places[i].at)), Value: v,
					Verdict: r.GetVerdict()}
			}
			return false, nil
		})
		if err != nil {
			return nil, false, s.unreadable(ctx, err)
		}
	}
	for _, p := range found {
		if p != nil {
			out = append(out, p)
		}
	}
	return out, any, nil
}
