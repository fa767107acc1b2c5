// The database: its tables, how it is opened, and what becomes of a damaged one.

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// steps make a database of the version after theirs, which PRAGMA user_version tells: the first one a new database, and
// each other one what a server of the version before has left.
var steps = [...]string{schema, located}

// Times are microseconds since 1970, durations are nanoseconds.
//
// Numbers are a blob for each part: ten rows of numbers a part would be ten thousand inserts a second at a thousand
// parts a second, and nobody asks for numbers but of parts that were chosen by other columns. Rows of parts are small,
// so that going through an index of them reads little. Counts over long times come from tallies of minutes, hours and
// days: the time is cut so that the largest of them are used that fit.
const schema = `
CREATE TABLE texts(
	id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, text TEXT NOT NULL, used INTEGER NOT NULL, UNIQUE(kind, text));
CREATE TABLE streams(
	id INTEGER PRIMARY KEY, server TEXT NOT NULL, stream INTEGER NOT NULL, used INTEGER NOT NULL, UNIQUE(server, stream));
CREATE TABLE regions(
	id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL, used INTEGER NOT NULL);
CREATE TABLE parts(
	id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, stream INTEGER, number INTEGER NOT NULL,
	name INTEGER NOT NULL, tenant INTEGER NOT NULL, recipe INTEGER NOT NULL, version INTEGER NOT NULL,
	verdict INTEGER NOT NULL, marks INTEGER NOT NULL, method INTEGER NOT NULL, part_id TEXT NOT NULL,
	frame_id TEXT NOT NULL, part_number INTEGER NOT NULL, first_line INTEGER NOT NULL, missing INTEGER NOT NULL,
	latency INTEGER NOT NULL, queue INTEGER NOT NULL, compute INTEGER NOT NULL, captured INTEGER,
	regions INTEGER NOT NULL, failed INTEGER NOT NULL, backend INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE INDEX parts_at ON parts(at);
CREATE INDEX parts_name ON parts(name, at);
CREATE INDEX parts_recipe ON parts(recipe, at);
CREATE INDEX parts_tenant ON parts(tenant, at) WHERE tenant <> 1;
CREATE INDEX parts_failed ON parts(at) WHERE verdict = 2;
CREATE INDEX parts_failed_name ON parts(name, at) WHERE verdict = 2;
CREATE INDEX parts_failed_recipe ON parts(recipe, at) WHERE verdict = 2;
CREATE INDEX parts_marked ON parts(at) WHERE marks <> 0;
CREATE INDEX parts_part ON parts(part_id, at) WHERE part_id <> '';
CREATE INDEX parts_stream ON parts(stream, number) WHERE stream IS NOT NULL;
CREATE TABLE numbers(part INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE failures(
	part INTEGER NOT NULL, region INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY(part, region)) WITHOUT ROWID;
CREATE INDEX failures_region ON failures(region, at, part);
CREATE TABLE tallies(
	level INTEGER NOT NULL, start INTEGER NOT NULL, tenant INTEGER NOT NULL, name INTEGER NOT NULL,
	recipe INTEGER NOT NULL, version INTEGER NOT NULL, verdict INTEGER NOT NULL, parts INTEGER NOT NULL, errors INTEGER NOT NULL,
	late INTEGER NOT NULL, incomplete INTEGER NOT NULL,
	PRIMARY KEY(level, start, tenant, name, recipe, version, verdict)) WITHOUT ROWID;
CREATE TABLE failure_tallies(
	level INTEGER NOT NULL, start INTEGER NOT NULL, tenant INTEGER NOT NULL, name INTEGER NOT NULL,
	recipe INTEGER NOT NULL, version INTEGER NOT NULL, region INTEGER NOT NULL, parts INTEGER NOT NULL,
	PRIMARY KEY(level, start, tenant, name, recipe, version, region)) WITHOUT ROWID;
CREATE TABLE pictures(
	part INTEGER PRIMARY KEY, file TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
	bytes INTEGER NOT NULL, overlay INTEGER NOT NULL, missing INTEGER NOT NULL);
CREATE TABLE losses(id INTEGER PRIMARY KEY, since INTEGER NOT NULL, until INTEGER NOT NULL, parts INTEGER NOT NULL);
CREATE TABLE audit(
	id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, tenant TEXT NOT NULL, peer TEXT NOT NULL,
	action INTEGER NOT NULL, recipe TEXT NOT NULL, version INTEGER NOT NULL, before INTEGER NOT NULL,
	owner TEXT NOT NULL, changes TEXT NOT NULL);
CREATE INDEX audit_recipe ON audit(recipe, id);
INSERT INTO texts(id, kind, text, used) VALUES(1, 2, '', 0);
`

// located adds where parts lay: a HistoryPart of which nothing but that is set, encoded.
const located = "ALTER TABLE parts ADD COLUMN place BLOB"

// noTenant is the id of the tenant "", which the schema inserts.
const noTenant = 1

// Kinds of texts.
const (
	nameText = iota
	recipeText
	tenantText
	backendText
	regionText
)

// Marks of parts.
const (
	lateMark = 1 << iota
	incompleteMark
	errorMark
	evidenceMark
	omittedMark // there are numbers that were not kept
)

const databaseFile = "history.sqlite"

// readers is how many calls read at the same time; the others wait.
const readers = 4

// database are the connections: one writes, and others read beside it.
type database struct {
	path  string
	write *sql.DB // of the writer alone

	mu   sync.RWMutex
	read *sql.DB
}

// reader are the connections of calls.
func (db *database) reader() *sql.DB {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.read
}

// replace moves the database aside and begins a new one, for the writer. Calls that read the old one end with an error.
func (db *database) replace() (aside string, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := errors.Join(db.read.Close(), db.write.Close()); err != nil {
		return "", err
	}
	if aside, err = moveAside(db.path); err != nil {
		return "", err
	}
	fresh, err := tryDatabase(db.path)
	if err != nil {
		return "", err
	}
	db.write, db.read = fresh.write, fresh.read
	return aside, nil
}

// openDatabase opens the database of a folder, or makes it. One that is damaged is renamed, and aside says how it is
// called now.
func openDatabase(dir string) (db *database, aside string, err error) {
	path := filepath.Join(dir, databaseFile)
	if db, err = tryDatabase(path); err == nil || !damaged(err) {
		return db, "", err
	}
	why := err
	if aside, err = moveAside(path); err != nil {
		return nil, "", errors.Join(why, err)
	}
	db, err = tryDatabase(path)
	return db, aside, err
}

// moveAside renames a database with the files that belong to it.
func moveAside(path string) (aside string, err error) {
	aside = path + time.Now().UTC().Format(".damaged-20060102T150405.000000")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if e := os.Rename(path+suffix, aside+suffix); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return aside, err
}

// damaged says that an error means that the file is no database any more.
func damaged(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// noRoom says that an error is one of the disk, which may pass.
func noRoom(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return true
	}
	return false
}

// connect opens a handle. Write-ahead logging lets calls read while a batch is written. With synchronous=NORMAL a
// commit waits for no disk: a process that dies loses nothing that was committed, and a machine that loses power may
// lose the last commits and still has a database that can be read.
func connect(path string, readOnly bool) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(NORMAL)", "foreign_keys(OFF)"}}
	if readOnly {
		q.Set("mode", "ro")
		q.Add("_pragma", "query_only(ON)")
		q.Add("_pragma", "cache_size(-16384)")
	} else {
		q.Add("_pragma", "journal_mode(WAL)")
		q.Add("_pragma", "journal_size_limit(67108864)")
		q.Add("_pragma", "cache_size(-32768)")
		q.Set("_txlock", "immediate")
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}
	return sql.Open("sqlite", u.String())
}

func tryDatabase(path string) (_ *database, err error) {
	db := &database{path: path}
	if db.write, err = connect(path, false); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			db.close()
		}
	}()
	db.write.SetMaxOpenConns(1)
	var version int
	if err := db.write.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return nil, err
	}
	if version > len(steps) {
		return nil, fmt.Errorf("%s: it has version %d, of a newer server; this one knows %d", path, version, len(steps))
	}
	if version > 0 {
		if err := db.look(); err != nil {
			return nil, err
		}
	}
	if version < len(steps) {
		tx, err := db.write.Begin()
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		for _, text := range append(steps[version:], fmt.Sprintf("PRAGMA user_version = %d", len(steps))) {
			if _, err := tx.Exec(text); err != nil {
				return nil, err
			}
		}
		if err := tx.Commit(); err != nil {
			return nil, err
		}
	}
	if db.read, err = connect(path, true); err != nil {
		return nil, err
	}
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)
	return db, nil
}

// look reads both ends of each table and index, which finds most of what can be wrong with a file without reading all
// of it: a database of ten gigabytes would take minutes.
func (db *database) look() error {
	rows, err := db.write.Query("SELECT type, name, tbl_name FROM sqlite_schema WHERE type IN ('table', 'index')")
	if err != nil {
		return err
	}
	var looks []string
	for rows.Next() {
		var kind, name, table string
		if err := rows.Scan(&kind, &name, &table); err != nil {
			return errors.Join(err, rows.Close())
		}
		if kind == "table" {
			looks = append(looks, fmt.Sprintf("SELECT * FROM (SELECT * FROM %q LIMIT 1)", table))
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	looks = append(looks,
		"SELECT * FROM parts ORDER BY id DESC LIMIT 1", "SELECT * FROM parts ORDER BY at DESC LIMIT 1",
		"SELECT * FROM numbers ORDER BY part DESC LIMIT 1", "SELECT * FROM audit ORDER BY id DESC LIMIT 1",
		"SELECT * FROM pictures ORDER BY part DESC LIMIT 1")
	for _, text := range looks {
		if err := drain(db.write, text); err != nil {
			return err
		}
	}
	return nil
}

// drain reads all rows of a query.
func drain(db *sql.DB, text string) error {
	rows, err := db.QueryContext(context.Background(), text)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

func (db *database) close() error {
	var errs []error
	if db.read != nil {
		errs = append(errs, db.read.Close())
	}
	if db.write != nil {
		errs = append(errs, db.write.Close())
	}
	return errors.Join(errs...)
}
