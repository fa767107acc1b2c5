// Lists of parts: filters, the indexes that they use, and pages.

package history

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/apierr"
	"github.com/polyscan/polyscan/server/internal/auth"
	"github.com/polyscan/polyscan/server/internal/wire"
)

// asker is who asks, and what that one may see.
type asker struct {
	all    bool
	tenant string
}

// where is the condition that a column has the tenant of the asker.
func (a asker) where(column string) string {
	if a.all {
		return "1"
	}
	// Names of tenants have no quotes: see package auth. They are escaped all the same.
	return fmt.Sprintf("%s = (SELECT id FROM texts WHERE kind = %d AND text = '%s')", column, tenantText,
		strings.ReplaceAll(a.tenant, "'", "''"))
}

// ask checks a request, and says who asks.
func (s *Service) ask(ctx context.Context, req any) (asker, error) {
	if s.db == nil {
		return asker{}, status.Error(codes.FailedPrecondition, ErrOff.Error())
	}
	if err := s.Validate(req); err != nil {
		return asker{}, err
	}
	who := auth.FromContext(ctx)
	return asker{who.Role >= auth.Admin || who.SeesAll, who.Tenant}, nil
}

// unreadable is the status of an error of the database.
func (s *Service) unreadable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	s.Log.Warn("the history can't be read", "error", err)
	return status.Error(codes.Unavailable, "the history can't be read: "+err.Error())
}

// scanner reads the columns of a row.
type scanner func(to ...any) error

// each runs a query and calls row for each row, with a function that reads its columns. An error of the database ends
// it as a status; an error of row's own ends it as it is.
func (s *Service) each(ctx context.Context, row func(scan scanner) error, query string, args ...any) error {
	rows, err := s.db.reader().QueryContext(ctx, query, args...)
	if err != nil {
		return s.unreadable(ctx, fmt.Errorf("%w: %s", err, query))
	}
	defer rows.Close()
	scan := func(to ...any) error {
		if err := rows.Scan(to...); err != nil {
			return s.unreadable(ctx, err)
		}
		return nil
	}
	for rows.Next() {
		if err := row(scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.unreadable(ctx, err)
	}
	return nil
}

// asked is the filter of a request, with what the one who asks may see.
func (s *Service) asked(ctx context.Context, req interface{ GetFilter() *pb.PartFilter }) (*filter, error) {
	who, err := s.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.filter(ctx, who, req.GetFilter())
}

// filter is a PartFilter that was looked up in the database.
type filter struct {
	who       asker
	from, to  int64 // of at; to is not included
	names     []int64
	recipes   []int64
	anyName   bool
	anyRecipe bool
	version   int64
	verdicts  []pb.Verdict // nil: any
	region    int64        // 0: any
	anyRegion bool
	partID    string
	marks     int
	stream    int64 // 0: any
	number    *uint64
	none      bool // nothing can match
	hash      [8]byte
}

const endOfTime = int64(1) << 62

// most texts that a name with a star stands for, each of which is asked for alone. Those beyond are a condition.
const mostDrivers = 64

var markBits = map[pb.PartMark]int{
	pb.PartMark_PART_MARK_LATE: lateMark, pb.PartMark_PART_MARK_INCOMPLETE: incompleteMark,
	pb.PartMark_PART_MARK_ERROR: errorMark, pb.PartMark_PART_MARK_EVIDENCE: evidenceMark,
}

// timeOf reads a bound of time.
func timeOf(t *timestamppb.Timestamp, field string, otherwise int64) (int64, error) {
	if t == nil {
		return otherwise, nil
	}
	if err := t.CheckValid(); err != nil {
		return 0, apierr.Refuse(field, t.AsTime(), "is no time")
	}
	return t.AsTime().UnixMicro(), nil
}

// filter looks a filter up.
func (s *Service) filter(ctx context.Context, who asker, m *pb.PartFilter) (f *filter, err error) {
	f = &filter{who: who, anyName: len(m.GetNames()) == 0, anyRecipe: len(m.GetRecipes()) == 0,
		version: int64(m.GetRecipeVersion()), anyRegion: m.GetRegion() == "", partID: m.GetPartId()}
	if f.from, err = timeOf(m.GetFrom(), "filter.from", 0); err != nil {
		return nil, err
	}
	if f.to, err = timeOf(m.GetTo(), "filter.to", endOfTime); err != nil {
		return nil, err
	}
	if f.from > f.to {
		return nil, apierr.Refuse("filter.to", m.GetTo().AsTime().Format(time.RFC3339Nano), "must not be before from")
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	copy(f.hash[:], sum[:])
	for _, v := range m.GetVerdicts() {
		if !slices.Contains(f.verdicts, v) {
			f.verdicts = append(f.verdicts, v)
		}
	}
	if len(f.verdicts) == 3 {
		f.verdicts = nil
	}
	for _, k := range m.GetMarks() {
		f.marks |= markBits[k]
	}
	db := s.db.reader()
	ids := func(kind int, texts []string) ([]int64, error) {
		found := map[int64]bool{}
		for _, t := range texts {
			query, args := "SELECT id FROM texts WHERE kind = ? AND text = ?", []any{kind, t}
			if head, ok := strings.CutSuffix(t, "*"); ok && kind == nameText {
				query, args = "SELECT id FROM texts WHERE kind = ? AND text >= ? AND text < ?",
					[]any{kind, head, head + "\U0010ffff"}
			}
			rows, err := db.QueryContext(ctx, query, args...)
			if err != nil {
				return nil, err
			}
			for rows.Next() {
				var id int64
				if err := rows.Scan(&id); err != nil {
					return nil, errors.Join(err, rows.Close())
				}
				found[id] = true
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return nil, err
			}
		}
		f.none = f.none || len(found) == 0
		return slices.Sorted(maps.Keys(found)), nil
	}
	if !f.anyName {
		if f.names, err = ids(nameText, m.GetNames()); err != nil {
			return nil, s.unreadable(ctx, err)
		}
	}
	if !f.anyRecipe {
		if f.recipes, err = ids(recipeText, m.GetRecipes()); err != nil {
			return nil, s.unreadable(ctx, err)
		}
	}
	if !f.anyRegion {
		found, err := ids(regionText, []string{m.GetRegion()})
		if err != nil {
			return nil, s.unreadable(ctx, err)
		}
		if len(found) > 0 {
			f.region = found[0]
		}
	}
	if r := m.GetStream(); r != nil {
		err := db.QueryRowContext(ctx, "SELECT id FROM streams WHERE server = ? AND stream = ?", r.GetServerId(),
			int64(r.GetStreamId())).Scan(&f.stream)
		if errors.Is(err, sql.ErrNoRows) {
			f.none = true
		} else if err != nil {
			return nil, s.unreadable(ctx, err)
		}
		f.number = r.ResultNumber
	}
	return f, nil
}

func (f *filter) onlyFailed() bool {
	return len(f.verdicts) == 1 && f.verdicts[0] == pb.Verdict_VERDICT_FAIL
}

// drivers are the queries that together find what the filter lets through: each goes through one index in the order of
// time, so that a page reads little more than its parts. Without such an order the database would sort all that match.
func (f *filter) drivers() []driver {
	where, args := f.conditions()
	one := func(index string) []driver { return []driver{{index: index, where: where, args: args}} }
	each := func(index, column string, ids []int64) []driver {
		var all []driver
		for _, id := range ids {
			all = append(all, driver{index: index, where: append([]string{"p." + column + " = ?"}, where...),
				args: append([]any{id}, args...)})
		}
		return all
	}
	failed := ""
	if f.onlyFailed() {
		failed = "_failed"
	}
	switch {
	case f.none:
		return nil
	case f.stream != 0 && f.number != nil:
		return one("parts_stream")
	case f.partID != "":
		return one("parts_part")
	case f.region != 0:
		return []driver{{join: true, where: where, args: args}}
	case len(f.names) > 0 && len(f.names) <= mostDrivers:
		return each("parts"+failed+"_name", "name", f.names)
	case len(f.recipes) > 0:
		return each("parts"+failed+"_recipe", "recipe", f.recipes)
	case failed != "":
		return one("parts_failed")
	case f.marks != 0:
		return one("parts_marked")
	case !f.who.all && f.who.tenant != "":
		return one("parts_tenant")
	}
	return one("parts_at")
}

type driver struct {
	index string
	join  bool // from failures of a region
	where []string
	args  []any
}

// from is the FROM clause.
func (d driver) from() string {
	if d.join {
		return "failures x INDEXED BY failures_region CROSS JOIN parts p ON p.id = x.part"
	}
	return "parts p INDEXED BY " + d.index
}

// order are the columns that say the order.
func (d driver) order() (at, id string) {
	if d.join {
		return "x.at", "x.part"
	}
	return "p.at", "p.id"
}

// conditions are those of the WHERE clause, with p for parts and x for failures.
func (f *filter) conditions() (where []string, args []any) {
	add := func(text string, values ...any) {
		where = append(where, text)
		args = append(args, values...)
	}
	at := "p.at"
	if f.region != 0 && f.partID == "" && (f.stream == 0 || f.number == nil) {
		at = "x.at"
		add("x.region = ?", f.region)
	} else if f.region != 0 {
		add("EXISTS(SELECT 1 FROM failures x WHERE x.part = p.id AND x.region = ?)", f.region)
	}
	if f.from > 0 {
		add(at+" >= ?", f.from)
	}
	if f.to < endOfTime {
		add(at+" < ?", f.to)
	}
	list := func(column string, ids []int64) {
		if len(ids) > 0 {
			text := strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
			add("+p." + column + " IN (" + text + ")")
		}
	}
	list("name", f.names)
	list("recipe", f.recipes)
	if f.version != 0 {
		add("p.version = ?", f.version)
	}
	switch {
	case f.onlyFailed():
		add("p.verdict = 2") // as the indexes have it
	case f.verdicts != nil:
		var text []string
		for _, v := range f.verdicts {
			text = append(text, fmt.Sprint(int(v)))
		}
		add("p.verdict IN (" + strings.Join(text, ",") + ")")
	}
	if f.partID != "" {
		add("p.part_id <> '' AND p.part_id = ?", f.partID)
	}
	if f.marks != 0 {
		add(fmt.Sprintf("p.marks <> 0 AND p.marks & %[1]d = %[1]d", f.marks))
	}
	if f.stream != 0 {
		add("p.stream = ?", f.stream)
	}
	if f.number != nil {
		add("p.number = ?", int64(*f.number))
	}
	if !f.who.all {
		if f.who.tenant != "" {
			add("p.tenant <> 1")
		}
		add(f.who.where("p.tenant"))
	}
	return where, args
}

// place is where a part stands in the order of a list.
type place struct{ at, id int64 }

// before says that a place comes first.
func (a place) before(b place, oldestFirst bool) bool {
	if oldestFirst {
		a, b = b, a
	}
	return a.at > b.at || a.at == b.at && a.id > b.id
}

// page returns up to n places behind one, in order.
func (s *Service) page(ctx context.Context, f *filter, after *place, oldestFirst bool, n int) ([]place, error) {
	var found []place
	drivers := f.drivers()
	for _, d := range drivers {
		at, id := d.order()
		where, args := d.where, d.args
		direction, sign := "DESC", "<"
		if oldestFirst {
			direction, sign = "ASC", ">"
		}
		if after != nil {
			where = append(where[:len(where):len(where)], fmt.Sprintf("(%s, %s) %s (?, ?)", at, id, sign))
			args = append(args[:len(args):len(args)], after.at, after.id)
		}
		text := "1"
		if len(where) > 0 {
			text = strings.Join(where, " AND ")
		}
		query := fmt.Sprintf("SELECT %[1]s, %[2]s FROM %[3]s WHERE %[4]s ORDER BY %[1]s %[5]s, %[2]s %[5]s LIMIT %[6]d", at,
			id, d.from(), text, direction, n)
		err := s.each(ctx, func(scan scanner) error {
			var p place
			err := scan(&p.at, &p.id)
			found = append(found, p)
			return err
		}, query, args...)
		if err != nil {
			return nil, err
		}
	}
	if len(drivers) > 1 {
		slices.SortFunc(found, func(a, b place) int {
			if a.before(b, oldestFirst) {
				return -1
			}
			return 1
		})
		found = found[:min(n, len(found))]
	}
	return found, nil
}

// ListParts implements pb.HistoryServiceServer.
func (s *Service) ListParts(ctx context.Context, req *pb.ListPartsRequest) (*pb.ListPartsResponse, error) {
	f, err := s.asked(ctx, req)
	if err != nil {
		return nil, err
	}
	var after *place
	if t := req.GetPageToken(); t != "" {
		if after, err = parseToken(t, f.hash, req.GetOldestFirst()); err != nil {
			return nil, err
		}
	}
	size := wire.PageSize(req.GetPageSize())
	places, err := s.page(ctx, f, after, req.GetOldestFirst(), size+1)
	if err != nil {
		return nil, err
	}
	more := len(places) > size
	places = places[:min(size, len(places))]
	res := &pb.ListPartsResponse{}
	bytes := 0
	const chunk = 100 // whose numbers are read at a time
	for c := range slices.Chunk(places, chunk) {
		parts, err := s.parts(ctx, c, req.GetNumbers(), pageBytes)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			if p == nil {
				continue // it was removed meanwhile
			}
			if bytes += proto.Size(p); bytes > pageBytes && len(res.Parts) > 0 {
				res.NextPageToken = token(last(res, places), f.hash, req.GetOldestFirst())
				return res, nil
			}
			res.Parts = append(res.Parts, p)
		}
	}
	if more {
		res.NextPageToken = token(places[len(places)-1], f.hash, req.GetOldestFirst())
	}
	return res, nil
}

// last is the place of the last part of a page.
func last(res *pb.ListPartsResponse, places []place) place {
	id := int64(res.Parts[len(res.Parts)-1].GetId())
	i := slices.IndexFunc(places, func(p place) bool { return p.id == id })
	return places[i]
}

// pageBytes is what a page may take as a message, one part at least.
const pageBytes = 2 << 20

// A token is the hash of the filter, the order, and the last part's place.
func token(p place, filter [8]byte, oldestFirst bool) string {
	b := append([]byte{1}, filter[:]...)
	order := byte(0)
	if oldestFirst {
		order = 1
	}
	b = append(b, order)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	b = binary.BigEndian.AppendUint64(b, uint64(p.id))
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseToken(text string, filter [8]byte, oldestFirst bool) (*place, error) {
	const field = "page_token"
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 26 || b[0] != 1 || b[9] > 1 {
		return nil, apierr.Refuse(field, fmt.Sprintf("%q", text), "is no page token of this server")
	}
	if [8]byte(b[1:9]) != filter || b[9] == 1 != oldestFirst {
		return nil, apierr.Refuse(field, fmt.Sprintf("%q", text), "belongs to another filter or order")
	}
	return &place{int64(binary.BigEndian.Uint64(b[10:])), int64(binary.BigEndian.Uint64(b[18:]))}, nil
}

// parts reads parts with their numbers, as far as these take no more than limit bytes in a part. Those that are gone
// are nil.
func (s *Service) parts(ctx context.Context, places []place, numbers pb.RegionNumbers, limit int) ([]*pb.HistoryPart,
	error) {
	at := map[int64]int{}
	var ids []string
	for i, p := range places {
		at[p.id] = i
		ids = append(ids, fmt.Sprint(p.id))
	}
	out := make([]*pb.HistoryPart, len(places))
	blob := "NULL"
	if numbers == pb.RegionNumbers_REGION_NUMBERS_ALL || numbers == pb.RegionNumbers_REGION_NUMBERS_FAILED {
		blob = "(SELECT data FROM numbers WHERE part = p.id)"
	}
	query := `SELECT p.id, p.at, coalesce(s.server, ''), coalesce(s.stream, 0), p.number,
		name.text, tenant.text, recipe.text, p.version, p.verdict, p.marks, p.method, p.part_id, p.frame_id, p.part_number,
		p.first_line, p.missing, p.latency, p.queue, p.compute, p.captured, p.regions, p.failed, backend.text, p.reason,
		p.place, ` + blob + ` FROM parts p LEFT JOIN streams s ON s.id = p.stream JOIN texts name ON name.id = p.name
		JOIN texts tenant ON tenant.id = p.tenant JOIN texts recipe ON recipe.id = p.recipe
		JOIN texts backend ON backend.id = p.backend WHERE p.id IN (` + strings.Join(ids, ",") + ")"
	blobs := map[int64][]byte{}
	err := s.each(ctx, func(scan scanner) error {
		m := &pb.HistoryPart{}
		var id, when, stream, number, version, part, line, missing, latency, queue, compute int64
		var verdict, marks, method int32
		var captured sql.NullInt64
		var place, data []byte
		err := scan(&id, &when, &m.ServerId, &stream, &number, &m.Name, &m.Tenant, &m.Recipe, &version, &verdict, &marks,
			&method, &m.PartId, &m.FrameId, &part, &line, &missing, &latency, &queue, &compute, &captured, &m.Regions,
			&m.FailedRegions, &m.Backend, &m.Reason, &place, &data)
		if err != nil {
			return err
		}
		if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(place, m); err != nil {
			return s.unreadable(ctx, fmt.Errorf("%w: %w", errDamaged, err))
		}
		if m.GetLocation().GetFound() {
			m.Pose = m.GetLocation().GetPose()
		}
		m.Id, m.At, m.StreamId, m.ResultNumber = uint64(id), timestamppb.New(time.UnixMicro(when)), uint64(stream),
			uint64(number)
		m.RecipeVersion, m.PartNumber, m.FirstLine, m.MissingLines = uint64(version), uint64(part), uint64(line),
			uint64(missing)
		m.Verdict, m.Method = pb.Verdict(verdict), pb.StreamMethod(method)
		m.Latency, m.Queue, m.Compute = durationpb.New(time.Duration(latency)), durationpb.New(time.Duration(queue)),
			durationpb.New(time.Duration(compute))
		if captured.Valid {
			m.CapturedAt = timestamppb.New(time.UnixMicro(captured.Int64))
		}
		m.Late, m.Incomplete, m.Error = marks&lateMark != 0, marks&incompleteMark != 0, marks&errorMark != 0
		m.Evidence, m.ResultsOmitted = marks&evidenceMark != 0, marks&omittedMark != 0
		out[at[id]] = m
		if len(data) > limit {
			m.ResultsOmitted = true
		} else if data != nil {
			blobs[id] = data
		}
		return nil
	}, query)
	if err != nil {
		return nil, err
	}
	for id, data := range blobs {
		m := out[at[id]]
		if m.Results, err = s.results(ctx, data, numbers == pb.RegionNumbers_REGION_NUMBERS_FAILED); err != nil {
			return nil, s.unreadable(ctx, err)
		}
	}
	return out, nil
}

// results reads the numbers of a part.
func (s *Service) results(ctx context.Context, data []byte, failedOnly bool) (out []*pb.RegionResult, err error) {
	err = eachRow(data, func(id int64, flags uint64, message []byte) (bool, error) {
		d, err := s.definitions.get(ctx, s.db.reader(), id)
		if err != nil {
			return false, err
		}
		r, err := restore(d, flags, message)
		if err != nil {
			return false, err
		}
		if !failedOnly || r.GetVerdict() == pb.Verdict_VERDICT_FAIL {
			out = append(out, r)
		}
		return true, nil
	})
	return out, err
}

// definitions are those of regions, by id, as they were read.
type definitions struct {
	mu    sync.Mutex
	known map[int64]*pb.RegionResult
}

func (d *definitions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = nil
}

// get returns a definition, which must not be changed.
func (d *definitions) get(ctx context.Context, db *sql.DB, id int64) (*pb.RegionResult, error) {
	d.mu.Lock()
	m := d.known[id]
	d.mu.Unlock()
	if m != nil {
		return m, nil
	}
	var data []byte
	if err := db.QueryRowContext(ctx, "SELECT data FROM regions WHERE id = ?", id).Scan(&data); err != nil {
		return nil, err
	}
	m = &pb.RegionResult{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) > mostKnown || d.known == nil {
		d.known = map[int64]*pb.RegionResult{}
	}
	d.known[id] = m
	return m, nil
}

// GetHistory implements pb.HistoryServiceServer.
func (s *Service) GetHistory(ctx context.Context, req *pb.GetHistoryRequest) (*pb.GetHistoryResponse, error) {
	who, err := s.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	parts, bytes := s.queue.waiting()
	res := &pb.GetHistoryResponse{
		DatabaseBytes: uint64(s.state.databaseBytes.Load()), PictureBytes: uint64(s.state.pictureBytes.Load()),
		QueuedParts: uint64(parts), QueuedBytes: uint64(bytes), LostParts: s.state.lostParts.Load(),
		LostPictures: s.state.lostPictures.Load(), MaxBytes: uint64(s.Bytes),
	}
	if s.Age > 0 {
		res.MaxAge = durationpb.New(s.Age)
	}
	s.state.mu.Lock()
	res.Failure, res.MovedAside = s.state.failure, s.aside
	s.state.mu.Unlock()
	db := s.db.reader()
	err = db.QueryRowContext(ctx, "SELECT coalesce(sum(parts), 0) FROM tallies WHERE level = ? AND "+who.where("tenant"),
		levels[len(levels)-1]).Scan(&res.Parts)
	if err != nil {
		return nil, s.unreadable(ctx, err)
	}
	f := &filter{who: who, to: endOfTime, anyName: true, anyRecipe: true, anyRegion: true}
	for oldest, to := range map[bool]**timestamppb.Timestamp{true: &res.Oldest, false: &res.Newest} {
		p, err := s.page(ctx, f, nil, oldest, 1)
		if err != nil {
			return nil, err
		}
		if len(p) > 0 {
			*to = timestamppb.New(time.UnixMicro(p[0].at))
		}
	}
	return res, nil
}
