// Counts of parts and of regions that failed: from tallies of minutes where the filter allows, and else from parts.

package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
)

const (
	// mostSteps is how many steps of time a count has at most.
	mostSteps = 1000
	// mostGroups is how many names or recipes it has at most, by step.
	mostGroups = 10000
)

// tallied says that tallies have what the filter asks for.
func (f *filter) tallied() bool {
	return f.anyRegion && f.partID == "" && f.marks == 0 && f.stream == 0
}

// A slice of time is asked for in tallies of one level, or in parts where level is 0.
type span struct{ from, to, level int64 }

// spans cuts the time of a filter into as few tallies as there can be, and what is left at its ends. Tallies are not
// longer than a step, 0 for any.
func (f *filter) spans(step int64) []span {
	if !f.tallied() {
		return []span{{f.from, f.to, 0}}
	}
	return cut(span{f.from, f.to, 0}, step, len(levels)-1)
}

// cut cuts a slice into tallies of a level and what is left before and behind them, of lower ones.
func cut(s span, step int64, i int) []span {
	if s.from >= s.to {
		return nil
	}
	if i < 0 {
		return []span{s}
	}
	level := levels[i]
	from, to := (s.from+level-1)/level*level, s.to/level*level
	if s.to == endOfTime {
		to = endOfTime
	}
	if step%level != 0 || from >= to {
		return cut(s, step, i-1)
	}
	all := append(cut(span{s.from, from, 0}, step, i-1), span{from, to, level})
	return append(all, cut(span{to, s.to, 0}, step, i-1)...)
}

// tallyConditions are the conditions of a filter on a table of tallies.
func (f *filter) tallyConditions(sp span, failures bool) (string, []any) {
	where := []string{"level = ?", "start >= ?", "start < ?", f.who.where("tenant")}
	args := []any{sp.level, sp.from, sp.to}
	list := func(column string, ids []int64) {
		if len(ids) > 0 {
			where = append(where, column+" IN ("+strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")+")")
		}
	}
	list("name", f.names)
	list("recipe", f.recipes)
	if f.version != 0 {
		where = append(where, "version = ?")
		args = append(args, f.version)
	}
	if f.verdicts != nil && !failures {
		var text []string
		for _, v := range f.verdicts {
			text = append(text, fmt.Sprint(int(v)))
		}
		where = append(where, "verdict IN ("+strings.Join(text, ",")+")")
	}
	return strings.Join(where, " AND "), args
}

// countKey is what is counted together.
type countKey struct {
	step          int64
	text, version int64
}

// CountParts implements pb.HistoryServiceServer.
func (s *Service) CountParts(ctx context.Context, req *pb.CountPartsRequest) (*pb.CountPartsResponse, error) {
	f, err := s.asked(ctx, req)
	if err != nil {
		return nil, err
	}
	step := int64(0)
	if d := req.GetStep(); d != nil {
		t := d.AsDuration()
		if d.CheckValid() != nil || t < time.Minute || t%time.Minute != 0 {
			return nil, apierr.Refuse("step", t, "must be one or more whole minutes")
		}
		step = t.Microseconds()
	}
	group, version := "0", "0"
	switch req.GetGroup() {
	case pb.CountGroup_COUNT_GROUP_NAME:
		group = "name"
	case pb.CountGroup_COUNT_GROUP_RECIPE:
		group, version = "recipe", "version"
	}
	res := &pb.CountPartsResponse{Total: &pb.PartCounts{}}
	groups := map[countKey]*pb.PartCounts{}
	steps := map[int64]bool{}
	var oldest, newest int64
	query := func(text string, args ...any) error {
		return s.each(ctx, func(scan scanner) error {
			var k countKey
			var verdict int32
			var n, failures, late, incomplete int64
			if err := scan(&k.step, &k.text, &k.version, &verdict, &n, &failures, &late, &incomplete); err != nil {
				return err
			}
			if step > 0 && !steps[k.step] {
				if len(steps) == 0 {
					oldest, newest = k.step, k.step
				}
				oldest, newest = min(oldest, k.step), max(newest, k.step)
				steps[k.step] = true
				if (newest-oldest)/step >= mostSteps {
					return apierr.Refuse("step", req.GetStep().AsDuration(), "makes more than %d steps, from %s to %s", mostSteps,
						time.UnixMicro(oldest).UTC().Format(time.RFC3339), time.UnixMicro(newest).UTC().Format(time.RFC3339))
				}
			}
			g := groups[k]
			if g == nil {
				if len(groups) == mostGroups {
					return apierr.Refuse("group", req.GetGroup(), "makes more than %d groups: ask for less time, or fewer names",
						mostGroups)
				}
				g = &pb.PartCounts{}
				groups[k] = g
			}
			for _, c := range []*pb.PartCounts{g, res.Total} {
				c.Parts += uint64(n)
				switch pb.Verdict(verdict) {
				case pb.Verdict_VERDICT_PASS:
					c.Passed += uint64(n)
				case pb.Verdict_VERDICT_FAIL:
					c.Failed += uint64(n)
				default:
					c.Unjudged += uint64(n)
				}
				c.Errors += uint64(failures)
				c.Late += uint64(late)
				c.Incomplete += uint64(incomplete)
			}
			return nil
		}, text, args...)
	}
	for _, sp := range f.spans(step) {
		if f.none {
			break
		}
		if sp.level > 0 {
			where, args := f.tallyConditions(sp, false)
			err := query(fmt.Sprintf(`SELECT %s, %s, %s, verdict, sum(parts), sum(errors), sum(late), sum(incomplete) FROM tallies
				WHERE %s GROUP BY 1, 2, 3, 4`, stepOf("start", step), group, version, where), args...)
			if err != nil {
				return nil, err
			}
			continue
		}
		g := *f
		g.from, g.to = sp.from, sp.to
		for _, d := range g.drivers() {
			text := "1"
			if len(d.where) > 0 {
				text = strings.Join(d.where, " AND ")
			}
			column := func(c string) string {
				if c == "0" {
					return c
				}
				return "p." + c
			}
			err := query(fmt.Sprintf(`SELECT %s, %s, %s, p.verdict, count(*), sum(p.marks >> 2 & 1), sum(p.marks & 1),
				sum(p.marks >> 1 & 1) FROM %s WHERE %s GROUP BY 1, 2, 3, 4`, stepOf("p.at", step), column(group), column(version),
				d.from(), text), d.args...)
			if err != nil {
				return nil, err
			}
		}
	}
	err = s.db.reader().QueryRowContext(ctx, "SELECT coalesce(sum(parts), 0) FROM losses WHERE until >= ? AND since < ?",
		f.from, f.to).Scan(&res.LostParts)
	if err != nil {
		return nil, s.unreadable(ctx, err)
	}
	if group == "0" && step == 0 {
		return res, nil
	}
	for k, g := range groups {
		if step > 0 {
			g.From = timestamppb.New(time.UnixMicro(k.step))
		}
		if group != "0" {
			if err := s.db.reader().QueryRowContext(ctx, "SELECT text FROM texts WHERE id = ?",
				k.text).Scan(&g.Name); err != nil {
				return nil, s.unreadable(ctx, err)
			}
			g.RecipeVersion = uint64(k.version)
		}
		res.Groups = append(res.Groups, g)
	}
	slices.SortFunc(res.Groups, func(a, b *pb.PartCounts) int {
		return cmp.Or(a.GetFrom().AsTime().Compare(b.GetFrom().AsTime()), cmp.Compare(a.GetName(), b.GetName()),
			cmp.Compare(a.GetRecipeVersion(), b.GetRecipeVersion()))
	})
	return res, nil
}

// stepOf is the step that a time lies in; 0 without steps.
func stepOf(column string, step int64) string {
	if step == 0 {
		return "0"
	}
	return fmt.Sprintf("%s / %d * %d", column, step, step)
}

const defaultBars = 20

// GetPareto implements pb.HistoryServiceServer.
func (s *Service) GetPareto(ctx context.Context, req *pb.GetParetoRequest) (*pb.GetParetoResponse, error) {
	f, err := s.asked(ctx, req)
	if err != nil {
		return nil, err
	}
	failures := map[int64]uint64{}
	query := func(text string, args ...any) error {
		return s.each(ctx, func(scan scanner) error {
			var region int64
			var n uint64
			err := scan(&region, &n)
			failures[region] += n
			return err
		}, text, args...)
	}
	// Regions fail in parts that fail: no others have to be looked at.
	switch {
	case f.verdicts == nil:
		f.verdicts = []pb.Verdict{pb.Verdict_VERDICT_FAIL}
	case !slices.Contains(f.verdicts, pb.Verdict_VERDICT_FAIL):
		f.none = true
	default:
		f.verdicts = []pb.Verdict{pb.Verdict_VERDICT_FAIL}
	}
	for _, sp := range f.spans(0) {
		if f.none {
			break
		}
		if sp.level > 0 {
			where, args := f.tallyConditions(sp, true)
			if err := query("SELECT region, sum(parts) FROM failure_tallies WHERE "+where+" GROUP BY 1", args...); err != nil {
				return nil, err
			}
			continue
		}
		g := *f
		g.from, g.to = sp.from, sp.to
		for _, d := range g.drivers() {
			err := query(fmt.Sprintf("SELECT y.region, count(*) FROM %s CROSS JOIN failures y ON y.part = p.id WHERE %s GROUP BY 1",
				d.from(), strings.Join(d.where, " AND ")), d.args...)
			if err != nil {
				return nil, err
			}
		}
	}
	type bar struct {
		region int64
		n      uint64
	}
	var bars []bar
	res := &pb.GetParetoResponse{}
	for region, n := range failures {
		bars = append(bars, bar{region, n})
		res.Failures += n
	}
	// Those that may be among the first have names to be read; equal ones are ordered by these.
	slices.SortFunc(bars, func(a, b bar) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.region, b.region)) })
	limit := int(cmp.Or(req.GetLimit(), defaultBars))
	read := min(limit, len(bars))
	for read > 0 && read < len(bars) && bars[read].n == bars[read-1].n {
		read++
	}
	for _, b := range bars[:read] {
		m := &pb.ParetoBar{Failures: b.n}
		if err := s.db.reader().QueryRowContext(ctx, "SELECT text FROM texts WHERE id = ?",
			b.region).Scan(&m.Region); err != nil {
			return nil, s.unreadable(ctx, err)
		}
		res.Bars = append(res.Bars, m)
	}
	slices.SortFunc(res.Bars, func(a, b *pb.ParetoBar) int {
		return cmp.Or(cmp.Compare(b.GetFailures(), a.GetFailures()), cmp.Compare(a.GetRegion(), b.GetRegion()))
	})
	res.Bars = res.Bars[:min(limit, len(res.Bars))]
	sum := uint64(0)
	for _, m := range res.Bars {
		sum += m.GetFailures()
		m.Share = float64(m.GetFailures()) / float64(res.Failures)
		m.Cumulative = float64(sum) / float64(res.Failures)
	}
	res.OtherRegions, res.OtherFailures = uint64(len(bars)-len(res.Bars)), res.Failures-sum
	return res, nil
}
