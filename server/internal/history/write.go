// The writer: batches of what waits into the database, and what is too old out of it.

package history

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/polyscan/polyscan/polygon"
	pb "github.com/polyscan/polyscan/proto/polyscan/v1"
	"github.com/polyscan/polyscan/server/internal/events"
	"github.com/polyscan/polyscan/server/internal/hostwork"
	"github.com/polyscan/polyscan/server/internal/locate"
	"github.com/polyscan/polyscan/server/internal/wire"
)

const (
	// batchEvery is how long a verdict waits at most before its batch is written, so that a process that dies loses less
	// than a second, the writing included.
	batchEvery = 200 * time.Millisecond
	// batchEntries is how many entries a batch has at most. Larger ones are hardly faster for each part.
	batchEntries = 1024
	// retryEvery is how long the writer waits after an error of the disk.
	retryEvery = time.Second
	// trimEvery is how often it looks for what is too old or too much.
	trimEvery = 10 * time.Second
	// trimParts is how many parts go at a time, so that batches don't wait long between.
	trimParts = 1000
	// closeTries is how often a batch is tried when the server ends.
	closeTries = 3
	// numbersBytes is what the numbers of a part may take in the database.
	numbersBytes = 64 << 20
)

const minute = int64(time.Minute / time.Microsecond)

// levels are the times of tallies. Each is a multiple of the one before.
var levels = [...]int64{minute, 60 * minute, 24 * 60 * minute}

// touchEvery is how old the column used of a text may be before it is written again.
const touchEvery = 60 * minute

// keptName is something that is written once and used by its id.
type keptName struct {
	id   int64
	used int64
}

type textKey struct {
	kind int
	text string
}

// interner knows ids of texts, streams and definitions of regions. What it knows is forgotten when a batch fails: it
// may not be in the database.
type interner struct {
	texts   map[textKey]*keptName
	streams map[uint64]*keptName
	regions map[[sha256.Size]byte]*keptRegion
	sets    map[any][]*keptRegion // by stream, or recipe: definitions by their index
}

type keptRegion struct {
	keptName
	d *pb.RegionResult
}

// mostKnown bounds each map of an interner.
const mostKnown = 1 << 16

func newInterner() *interner {
	return &interner{map[textKey]*keptName{}, map[uint64]*keptName{}, map[[sha256.Size]byte]*keptRegion{},
		map[any][]*keptRegion{}}
}

// writer writes. Its methods are for one goroutine.
type writer struct {
	*Service
	texts *interner
	next  int64 // id of a part
	blob  []byte

	told *pb.HistoryState // to those who look on

	trimmed time.Time
	trash   []string // files whose rows were removed by the transaction that is under way
}

// begin reads what a writer needs to know of the database, and removes files that a crash left.
func (w *writer) begin() error {
	err := w.db.write.QueryRow("SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'parts'").Scan(&w.next)
	if err != nil {
		return err
	}
	if err := w.measure(); err != nil {
		return err
	}
	return w.sweep()
}

// run writes until the service ends.
func (w *writer) run() {
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	for {
		ending := false
		select {
		case <-tick.C:
		case <-w.queue.wake:
		case <-w.stop:
			ending = true
		}
		err := w.flush()
		if ending {
			for range closeTries {
				if err == nil {
					break
				}
				err = w.flush()
			}
			if parts, _ := w.queue.waiting(); parts > 0 {
				w.lose(parts, time.Now())
				w.Log.Error("the history could not be written at the end", "lost_parts", parts, "error", err)
			}
			return
		}
		if err == nil {
			err = w.trim()
		}
		w.failing(err)
		w.sayState()
		if err != nil {
			select {
			case <-time.After(retryEvery):
			case <-w.stop:
			}
		}
		parts, bytes := w.queue.waiting()
		w.Metrics.QueueParts.Set(float64(parts))
		w.Metrics.QueueBytes.Set(float64(bytes))
	}
}

// sayState tells those who look on what has changed.
func (w *writer) sayState() {
	st, tell := w.State(), w.tell.Load()
	if tell != nil && (st.LostParts != w.told.GetLostParts() || st.LostPictures != w.told.GetLostPictures() ||
		st.Failure != w.told.GetFailure()) {
		w.told = st
		(*tell)(st)
	}
}

// flush writes all that waits.
func (w *writer) flush() error {
	for {
		batch := w.queue.head(batchEntries)
		if len(batch) == 0 {
			return w.sayLosses()
		}
		err := w.batch(batch)
		switch {
		case err == nil:
			w.queue.done(len(batch))
		case damaged(err):
			if err := w.anew(err); err != nil {
				return err
			}
		case noRoom(err):
			return err
		default:
			// Something in the batch can't be written: the others can.
			for i := range batch {
				if err := w.batch(batch[i : i+1]); err != nil && noRoom(err) {
					return err
				} else if err != nil {
					w.Log.Error("a part can't be written to the history", "error", err)
					if batch[i].verdict != nil {
						w.lose(1, batch[i].verdict.at)
					}
				}
				w.queue.done(1)
			}
		}
		if len(batch) < batchEntries {
			return w.sayLosses()
		}
	}
}

// anew moves a database aside that turned out to be damaged, and begins a new one.
func (w *writer) anew(why error) error {
	aside, err := w.db.replace()
	if err != nil {
		return errors.Join(why, err)
	}
	w.Metrics.Damaged.Inc()
	w.Log.Error("the history's database is damaged; it was moved aside and a new one begun", "moved_to", aside, "error",
		why)
	w.state.mu.Lock()
	w.aside = aside
	w.state.mu.Unlock()
	w.texts, w.next = newInterner(), 1
	w.definitions.forget()
	return w.measure()
}

// batch writes entries in a transaction.
func (w *writer) batch(entries []entry) (err error) {
	start := time.Now()
	tx, err := w.db.write.Begin()
	if err != nil {
		return err
	}
	next := w.next
	defer func() {
		if err != nil {
			tx.Rollback()
			w.texts, w.next = newInterner(), next
		}
	}()
	defer hostwork.Recovered(&err, w.Metrics.Panics)
	b := &batch{writer: w, tx: tx, statements: map[string]*sql.Stmt{}, tallies: map[tallyKey]*tally{},
		failures: map[failureKey]int64{}}
	defer b.close()
	for i := range entries {
		switch e := &entries[i]; {
		case e.verdict != nil:
			err = b.part(e.verdict)
		case e.late != nil:
			err = b.late(e.late)
		case e.saved != nil:
			err = b.picture(e.saved)
		case e.audit != nil:
			err = b.audit(e.audit, e.owner)
		}
		if err != nil {
			return err
		}
	}
	if err := b.tally(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for i := range entries {
		if p := entries[i].saved; p != nil && p.unknown {
			w.unsave(p)
		} else if p != nil {
			w.state.pictureBytes.Add(p.bytes + p.overlay)
			w.Metrics.Pictures.Inc()
		}
	}
	w.Metrics.Parts.Add(float64(b.parts))
	w.Metrics.Batches.Observe(time.Since(start).Seconds())
	return nil
}

// batch is a transaction.
type batch struct {
	*writer
	tx         *sql.Tx
	statements map[string]*sql.Stmt
	tallies    map[tallyKey]*tally
	failures   map[failureKey]int64
	parts      int
}

type tallyKey struct {
	minute, tenant, name, recipe int64
	version                      uint64
	verdict                      int32
}

type tally struct{ parts, errors, late, incomplete int64 }

type failureKey struct {
	minute, tenant, name, recipe int64
	version                      uint64
	region                       int64
}

func (b *batch) close() {
	for _, s := range b.statements {
		s.Close()
	}
}

func (b *batch) exec(query string, args ...any) (sql.Result, error) {
	s, err := b.statement(query)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

func (b *batch) statement(query string) (*sql.Stmt, error) {
	s := b.statements[query]
	if s == nil {
		var err error
		if s, err = b.tx.Prepare(query); err != nil {
			return nil, err
		}
		b.statements[query] = s
	}
	return s, nil
}

// id is that of a row which is made where it is missing: find and insert say how, with the same arguments.
func (b *batch) id(n *keptName, at int64, table, find, insert string, args ...any) (*keptName, error) {
	if n != nil && at < n.used+touchEvery {
		return n, nil
	}
	if n != nil {
		n.used = at
		_, err := b.exec("UPDATE "+table+" SET used = ? WHERE id = ?", at, n.id)
		return n, err
	}
	n = &keptName{used: at}
	s, err := b.statement(find)
	if err != nil {
		return nil, err
	}
	err = s.QueryRow(args...).Scan(&n.id)
	if err == nil {
		_, err = b.exec("UPDATE "+table+" SET used = ? WHERE id = ?", at, n.id)
		return n, err
	} else if !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	res, err := b.exec(insert, append(args, at)...)
	if err != nil {
		return nil, err
	}
	n.id, err = res.LastInsertId()
	return n, err
}

func (b *batch) text(kind int, text string, at int64) (int64, error) {
	if kind == tenantText && text == "" {
		return noTenant, nil
	}
	if len(b.texts.texts) > mostKnown {
		clear(b.texts.texts)
	}
	key := textKey{kind, text}
	n, err := b.id(b.texts.texts[key], at, "texts", "SELECT id FROM texts WHERE kind = ? AND text = ?",
		"INSERT INTO texts(kind, text, used) VALUES(?, ?, ?)", kind, text)
	if err != nil {
		return 0, err
	}
	b.texts.texts[key] = n
	return n.id, nil
}

// stream is the id of a stream; nil for a call.
func (b *batch) stream(id uint64, at int64) (any, error) {
	if id == 0 {
		return nil, nil
	}
	if len(b.texts.streams) > mostKnown {
		clear(b.texts.streams)
	}
	n, err := b.id(b.texts.streams[id], at, "streams", "SELECT id FROM streams WHERE server = ? AND stream = ?",
		"INSERT INTO streams(server, stream, used) VALUES(?, ?, ?)", b.Server, int64(id))
	if err != nil {
		return nil, err
	}
	b.texts.streams[id] = n
	return n.id, nil
}

// recipeKey is that of a set of definitions.
type recipeKey struct {
	name    string
	version uint64
}

// region is the id of a region's definition, and the definition.
func (b *batch) region(s *events.Stream, r *pb.RegionResult, at int64) (*keptRegion, error) {
	var key any = s
	if s.ID == 0 {
		key = recipeKey{s.Recipe, s.Version}
	}
	index := int(r.GetIndex())
	cached := s.ID != 0 || s.Recipe != ""
	if set := b.texts.sets[key]; cached && index < len(set) && set[index] != nil && at < set[index].used+touchEvery &&
		(s.ID == 0 || defines(set[index].d, r)) {
		return set[index], nil
	}
	d := definitionOf(r)
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(data)
	known := b.texts.regions[hash]
	if known == nil {
		known = &keptRegion{d: d}
	}
	var before *keptName
	if known.id != 0 {
		before = &known.keptName
	}
	n, err := b.id(before, at, "regions", "SELECT id FROM regions WHERE hash = ?1 AND length(?2) > 0",
		"INSERT INTO regions(hash, data, used) VALUES(?, ?, ?)", hash[:], data)
	if err != nil {
		return nil, err
	}
	known.keptName = *n
	if len(b.texts.regions) > mostKnown {
		clear(b.texts.regions)
	}
	b.texts.regions[hash] = known
	if cached && index < mostKnown {
		if len(b.texts.sets) > 256 {
			clear(b.texts.sets)
		}
		set := b.texts.sets[key]
		for len(set) <= index {
			set = append(set, nil)
		}
		set[index] = known
		b.texts.sets[key] = set
	}
	return known, nil
}

// RegionLabel is how a region is called in failures: its name, or "#" and its index.
func RegionLabel(name string, index uint32) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("#%d", index)
}

// reasonBytes is how long a reason may be.
const reasonBytes = 300

// reasonOf says why a part did not pass.
func reasonOf(v *events.Verdict, rows []polygon.RegionResult) string {
	reason := ""
	switch {
	case v.Error != nil:
		reason = v.Error.GetMessage()
		for _, field := range []string{"open.", "inspection.", "region_set."} { // who reads it knows no request
			reason = strings.TrimPrefix(reason, field)
		}
	case v.Location != nil && !v.Location.GetFound(): // so nobody looked at any region
		reason = locate.NotFound + v.Location.GetReason()
	case v.Verdict == pb.Verdict_VERDICT_FAIL:
		for i := range rows {
			r := &rows[i]
			if r.Verdict != polygon.Fail {
				continue
			}
			reason = RegionLabel(r.Name, uint32(r.Index))
			for k := range r.Limits {
				if l := &r.Limits[k]; l.Verdict == polygon.Fail {
					reason += ": " + l.Expression
					if l.Reason != "" {
						reason += " (" + l.Reason + ")"
					}
					break
				}
			}
			break
		}
		if reason == "" && v.Incomplete {
			reason = fmt.Sprintf("%d lines were lost", v.Part.GetMissingLines())
		}
	}
	if len(reason) > reasonBytes {
		reason = strings.ToValidUTF8(reason[:reasonBytes], "")
	}
	return reason
}

// placeOf is where a part lay, as the column place has it; nil where its regions are as they were drawn. A pose that was
// found is in the location alone.
func placeOf(v *events.Verdict) ([]byte, error) {
	m := &pb.HistoryPart{Location: v.Location}
	if !v.Location.GetFound() {
		m.Pose = v.Pose
	}
	return proto.MarshalOptions{}.MarshalAppend(nil, m)
}

// part writes a verdict with its numbers.
func (b *batch) part(k *keptVerdict) error {
	s, v, at := k.stream, k.v, k.at.UnixMicro()
	var names [4]int64
	for i, text := range []string{nameText: s.Name, recipeText: s.Recipe, tenantText: s.Owner, backendText: s.Backend} {
		var err error
		if names[i], err = b.text(i, text, at); err != nil {
			return err
		}
	}
	stream, err := b.stream(s.ID, at)
	if err != nil {
		return err
	}
	result := k.result.AsRows()
	var rows []polygon.RegionResult
	if result != nil {
		rows = result.Regions
	}
	key := tallyKey{at / minute * minute, names[tenantText], names[nameText], names[recipeText], s.Version,
		int32(v.Verdict)}
	t := b.tallies[key]
	if t == nil {
		t = &tally{}
		b.tallies[key] = t
	}
	marks := 0
	mark := func(is bool, m int, count *int64) {
		if is {
			marks |= m
			*count++
		}
	}
	t.parts++
	mark(v.Late, lateMark, &t.late)
	mark(v.Incomplete, incompleteMark, &t.incomplete)
	mark(v.Error != nil, errorMark, &t.errors)
	id := b.next
	b.next++
	failed, err := b.failuresOf(rows, id, at, failureKey{minute: at / minute * minute, tenant: names[tenantText],
		name: names[nameText], recipe: names[recipeText], version: s.Version})
	if err != nil {
		return err
	}
	kept, err := b.numbers(s, result, id, at)
	if err != nil {
		return err
	}
	if !kept {
		marks |= omittedMark
	}
	var captured any
	if c := v.Part.GetCapturedAt(); c != nil {
		captured = c.AsTime().UnixMicro()
	}
	place, err := placeOf(v)
	if err != nil {
		return err
	}
	regions := s.Count
	_, err = b.exec(`INSERT INTO parts(id, at, stream, number, name, tenant, recipe, version, verdict, marks, method, part_id,
		frame_id, part_number, first_line, missing, latency, queue, compute, captured, regions, failed, backend, reason,
		place) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, at, stream, int64(v.Number), names[nameText], names[tenantText], names[recipeText], int64(s.Version),
		int(v.Verdict), marks, int(s.Method), v.PartID, v.FrameID, int64(v.Part.GetPartNumber()),
		int64(v.Part.GetFirstLine()), int64(v.Part.GetMissingLines()), int64(v.Latency), int64(v.Queue), int64(v.Compute),
		captured, regions, failed, names[backendText], reasonOf(v, rows), place)
	if err != nil {
		return err
	}
	if k.part != nil {
		k.part.id = id
	}
	b.parts++
	return nil
}

// failuresOf writes which regions failed, each name once.
func (b *batch) failuresOf(rows []polygon.RegionResult, part, at int64, key failureKey) (failed int, err error) {
	for i := range rows {
		if rows[i].Verdict != polygon.Fail {
			continue
		}
		failed++
		region, err := b.text(regionText, RegionLabel(rows[i].Name, uint32(rows[i].Index)), at)
		if err != nil {
			return 0, err
		}
		res, err := b.exec("INSERT OR IGNORE INTO failures(part, region, at) VALUES(?, ?, ?)", part, region, at)
		if err != nil {
			return 0, err
		}
		if n, err := res.RowsAffected(); err != nil {
			return 0, err
		} else if n > 0 {
			key.region = region
			b.failures[key]++
		}
	}
	return failed, nil
}

// numbers writes the numbers of a part, if they are not too many.
func (b *batch) numbers(s *events.Stream, r *polygon.Result, part, at int64) (kept bool, err error) {
	if r == nil || len(r.Regions) == 0 {
		return true, nil
	}
	b.blob = b.blob[:0]
	before := int64(0)
	for _, m := range wire.RegionResults(r, 0) {
		d, err := b.region(s, m, at)
		if err != nil {
			return false, err
		}
		if !defines(d.d, m) {
			return false, fmt.Errorf("history: region %d of recipe %q has changed within a version", m.GetIndex(), s.Recipe)
		}
		if b.blob, err = appendRow(b.blob, d.id, before, d.d, m); err != nil {
			return false, err
		}
		before = d.id
		if len(b.blob) > numbersBytes {
			return false, nil
		}
	}
	_, err = b.exec("INSERT INTO numbers(part, data) VALUES(?, ?)", part, b.blob)
	return true, err
}

// tally adds up what the batch had.
func (b *batch) tally() error {
	for k, t := range b.tallies {
		for _, level := range levels {
			_, err := b.exec(`INSERT INTO tallies VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
				parts = parts + excluded.parts, errors = errors + excluded.errors, late = late + excluded.late,
				incomplete = incomplete + excluded.incomplete`, level, k.minute/level*level, k.tenant, k.name, k.recipe,
				int64(k.version), k.verdict, t.parts, t.errors, t.late, t.incomplete)
			if err != nil {
				return err
			}
		}
	}
	for k, n := range b.failures {
		for _, level := range levels {
			_, err := b.exec(`INSERT INTO failure_tallies VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
				parts = parts + excluded.parts`, level, k.minute/level*level, k.tenant, k.name, k.recipe, int64(k.version),
				k.region, n)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// late marks a part that became late on its way.
func (b *batch) late(l *keptLate) error {
	s, err := b.statement(`UPDATE parts SET marks = marks | 1 WHERE stream = (SELECT id FROM streams WHERE server = ? AND
		stream = ?) AND number = ? AND marks & 1 = 0 RETURNING at, tenant, name, recipe, version, verdict`)
	if err != nil {
		return err
	}
	var at, tenant, name, recipe, version int64
	var verdict int32
	err = s.QueryRow(b.Server, int64(l.stream.ID), int64(l.number)).Scan(&at, &tenant, &name, &recipe, &version, &verdict)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it could not be kept
	} else if err != nil {
		return err
	}
	key := tallyKey{at / minute * minute, tenant, name, recipe, uint64(version), verdict}
	if b.tallies[key] == nil {
		b.tallies[key] = &tally{}
	}
	b.tallies[key].late++
	return nil
}

// audit writes a change of a recipe.
func (b *batch) audit(m *pb.AuditEntry, owner string) error {
	_, err := b.exec(`INSERT INTO audit(at, tenant, peer, action, recipe, version, before, owner, changes)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)`, m.GetAt().AsTime().UnixMicro(), m.GetTenant(), m.GetPeer(), int(m.GetAction()),
		m.GetRecipe(), int64(m.GetVersion()), int64(m.GetVersionBefore()), owner, strings.Join(m.GetChanges(), "\n"))
	return err
}

// sayLosses writes what was lost since the last time.
func (w *writer) sayLosses() error {
	w.state.mu.Lock()
	l := w.state.unsaid
	w.state.unsaid = losses{}
	w.state.mu.Unlock()
	if l.parts == 0 {
		return nil
	}
	_, err := w.db.write.Exec("INSERT INTO losses(since, until, parts) VALUES(?, ?, ?)", l.since.UnixMicro(),
		l.until.UnixMicro(), int64(l.parts))
	if err != nil {
		w.state.mu.Lock()
		defer w.state.mu.Unlock()
		if n := &w.state.unsaid; n.parts == 0 {
			n.until = l.until
		}
		w.state.unsaid.since = l.since
		w.state.unsaid.parts += l.parts
	}
	return err
}

// measure reads how many bytes there are.
func (w *writer) measure() error {
	var pages, free, size, pictures int64
	for query, to := range map[string]*int64{
		"PRAGMA page_count": &pages, "PRAGMA freelist_count": &free, "PRAGMA page_size": &size,
		"SELECT coalesce(sum(bytes + overlay), 0) FROM pictures": &pictures,
	} {
		if err := w.db.write.QueryRow(query).Scan(to); err != nil {
			return err
		}
	}
	w.state.databaseBytes.Store((pages - free) * size)
	w.state.pictureBytes.Store(pictures)
	w.Metrics.Database.Set(float64((pages - free) * size))
	w.Metrics.PictureBytes.Set(float64(pictures))
	return nil
}

// trim removes what is too old or too much, some of it at a time: the next batch goes first.
func (w *writer) trim() error {
	if time.Since(w.trimmed) < trimEvery {
		return nil
	}
	if err := w.measure(); err != nil {
		return err
	}
	more := false
	if w.Age > 0 {
		n, err := w.removeParts("at < ?", time.Now().Add(-w.Age).UnixMicro())
		if err != nil {
			return err
		}
		more = n == trimParts
	}
	// Pictures go first: they may have three quarters, so that many of them don't cost the history of all parts.
	pictures, all := w.state.pictureBytes.Load(), w.state.pictureBytes.Load()+w.state.databaseBytes.Load()
	if w.Bytes > 0 && pictures > w.Bytes*3/4 {
		if err := w.removePictures(pictures - w.Bytes*3/4); err != nil {
			return err
		}
		more = true
	} else if w.Bytes > 0 && all > w.Bytes {
		n, err := w.removeParts("1")
		if err != nil {
			return err
		}
		more = more || n == trimParts
	}
	if !more {
		w.trimmed = time.Now()
	}
	return nil
}

// removeParts removes the oldest parts that the condition holds for, and all that belongs to them.
func (w *writer) removeParts(where string, args ...any) (n int64, err error) {
	err = w.remove(func(tx *sql.Tx) error {
		for _, text := range []string{
			"CREATE TEMP TABLE IF NOT EXISTS gone(part INTEGER PRIMARY KEY)",
			"DELETE FROM gone",
		} {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		res, err := tx.Exec(fmt.Sprintf("INSERT INTO gone SELECT id FROM parts WHERE %s ORDER BY at LIMIT %d", where,
			trimParts), args...)
		if err != nil {
			return err
		}
		if n, err = res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if err := w.trashFiles(tx, "part IN (SELECT part FROM gone)"); err != nil {
			return err
		}
		for _, level := range levels {
			for _, text := range []string{
				`INSERT INTO tallies SELECT ?1, at / ?1 * ?1, tenant, name, recipe, version, verdict, -count(*),
					-sum(marks >> 2 & 1), -sum(marks & 1), -sum(marks >> 1 & 1) FROM gone JOIN parts ON id = part
					GROUP BY 1, 2, 3, 4, 5, 6, 7 ON CONFLICT DO UPDATE SET parts = parts + excluded.parts,
					errors = errors + excluded.errors, late = late + excluded.late,
					incomplete = incomplete + excluded.incomplete`,
				`INSERT INTO failure_tallies SELECT ?1, p.at / ?1 * ?1, tenant, name, recipe, version, region, -count(*)
					FROM gone JOIN parts p ON id = gone.part JOIN failures f ON f.part = gone.part
					GROUP BY 1, 2, 3, 4, 5, 6, 7 ON CONFLICT DO UPDATE SET parts = parts + excluded.parts`,
			} {
				if _, err := tx.Exec(text, level); err != nil {
					return fmt.Errorf("%.40s: %w", text, err)
				}
			}
		}
		for _, text := range []string{
			"DELETE FROM tallies WHERE parts <= 0",
			"DELETE FROM failure_tallies WHERE parts <= 0",
			"DELETE FROM pictures WHERE part IN (SELECT part FROM gone)",
			"DELETE FROM failures WHERE part IN (SELECT part FROM gone)",
			"DELETE FROM numbers WHERE part IN (SELECT part FROM gone)",
			"DELETE FROM parts WHERE id IN (SELECT part FROM gone)",
		} {
			if _, err := tx.Exec(text); err != nil {
				return fmt.Errorf("%.40s: %w", text, err)
			}
		}
		// What no part uses any more. The column used may be as old as touchEvery, and clocks step.
		var oldest int64
		if err := tx.QueryRow("SELECT coalesce(min(at), 0) FROM parts").Scan(&oldest); err != nil {
			return err
		}
		for _, text := range []string{"DELETE FROM texts WHERE id <> 1 AND used < ?", "DELETE FROM streams WHERE used < ?",
			"DELETE FROM regions WHERE used < ?", "DELETE FROM losses WHERE until < ?"} {
			if _, err := tx.Exec(text, oldest-2*touchEvery); err != nil {
				return err
			}
		}
		w.texts = newInterner()
		return nil
	})
	return n, err
}

// removePictures removes the oldest pictures, of so many bytes, but not too many of them at a time; their parts stay.
func (w *writer) removePictures(bytes int64) error {
	which := fmt.Sprintf(`part IN (SELECT part FROM (SELECT part, sum(bytes + overlay) OVER (ORDER BY part) - bytes - overlay AS before
		FROM (SELECT * FROM pictures ORDER BY part LIMIT 100)) WHERE before < %d)`, bytes)
	return w.remove(func(tx *sql.Tx) error {
		if err := w.trashFiles(tx, which); err != nil {
			return err
		}
		for _, text := range []string{
			"UPDATE parts SET marks = marks & ~8 WHERE id IN (SELECT part FROM pictures WHERE " + which + ")",
			"DELETE FROM pictures WHERE " + which,
		} {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// trashFiles notes the files of pictures, which go when the transaction is written.
func (w *writer) trashFiles(tx *sql.Tx, which string) error {
	rows, err := tx.Query("SELECT file FROM pictures WHERE " + which)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var file string
		if err := rows.Scan(&file); err != nil {
			return err
		}
		w.trash = append(w.trash, file+frameSuffix, file+overlaySuffix)
	}
	return rows.Err()
}

// remove runs a transaction that removes rows, and removes the files that it notes in trash.
func (w *writer) remove(f func(*sql.Tx) error) error {
	w.trash = w.trash[:0]
	tx, err := w.db.write.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for _, file := range w.trash {
		path := filepath.Join(w.Dir, evidenceDir, file)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.Log.Warn("a picture of the history can't be removed", "error", err)
		}
		os.Remove(filepath.Dir(path)) // the folder of a day, once it is empty
	}
	return w.measure()
}
