package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// A result is a part of a stream, as of one snapshot.
type result struct {
	found       bool
	gone        bool   // it ended, but has forks
	key         string // of the hub
	id          string // for ETags
	contentType string
	data        []byte
	begin       int64 // of data
	next, tail  int64
	first       int64 // bytes before it are no longer kept
	upToDate    bool  // no more can be read now
	closed      bool
	timeline    int64 // of the database, when it was read
	ttl         *int64
	expires     *string
	touch       int64 // stream whose time of the last use is old; 0: none

	// of the stream, and of a fork's sources as far up as the read: where the bytes that each wrote begin
	begins, incarnations []int64

	once  sync.Once // frame: what followers get of it, formatted once
	frame string
	after int64
}

// incarnation is that of the stream which wrote the byte before an offset.
func (r *result) incarnation(at int64) int64 {
	for i := len(r.begins) - 1; i >= 0; i-- {
		if r.begins[i] < at {
			return r.incarnations[i]
		}
	}
	return 0
}

// beginAt notes where the bytes of a read from an offset begin; nil is the end.
func (r *result) beginAt(from *int64) {
	r.begin = r.tail
	if from != nil && *from < r.tail {
		r.begin = *from
	}
	if r.begin < r.first {
		r.begin = r.first
	}
}

func (r *result) token(at int64) string { return timedToken(r.incarnation(at), at, r.timeline) }

// media is the content type without parameters.
func media(contentType string) string {
	return strings.ToLower(strings.TrimSpace(strings.SplitN(contentType, ";", 2)[0]))
}

// A source is a stream as a request names it.  read returns at most max bytes from an offset, or from
// the end if it is nil.
type source interface {
	read(ctx context.Context, role string, from *int64, max int) (*result, error)
}

// ---- columns of the application's tables

type table struct {
	route       Route
	before      string
	after       string
	query       string
	name        string
	contentType string
}

// openTable looks up the types of the columns; the role of a request is what decides about access.
func openTable(ctx context.Context, d *database, r Route) (*table, error) {
	open, end := strings.IndexByte(r.Path, '{'), strings.IndexByte(r.Path, '}')
	t := &table{route: r, before: r.Path[:open], after: r.Path[end+1:], name: r.Path}
	name := pgx.Identifier(strings.Split(r.Table, ".")).Sanitize()
	var keyType, columnType string
	err := d.readers.QueryRow(ctx, `SELECT pg_catalog.format_type(k.atttypid, k.atttypmod), c.typname
		FROM pg_catalog.pg_attribute k, pg_catalog.pg_attribute a JOIN pg_catalog.pg_type c ON c.oid = a.atttypid
		WHERE k.attrelid = $1::text::regclass AND k.attname = $2 AND NOT k.attisdropped
			AND a.attrelid = k.attrelid AND a.attname = $3 AND NOT a.attisdropped`, name, r.Key, r.Column).Scan(&keyType, &columnType)
	if err != nil {
		return nil, fmt.Errorf("route %q: table %s with columns %q and %q: %w", r.Path, name, r.Key, r.Column, err)
	}
	length := map[string]string{"appendable_bytea": "appendable_length", "appendable_text": "appendable_octet_length"}[columnType]
	if length == "" {
		return nil, fmt.Errorf("route %q: column %q is of type %s, not appendable_text or appendable_bytea", r.Path, r.Column, columnType)
	}
	t.contentType = r.ContentType
	if t.contentType == "" {
		t.contentType = map[string]string{"appendable_bytea": "application/octet-stream", "appendable_text": "text/plain; charset=utf-8"}[columnType]
	}
	closed := r.Closed
	if closed == "" {
		closed = "false"
	}
	// the key as notifications have it: a request may have another spelling of it, such as 01 or a UUID in capitals
	begin := r.Begin
	if begin == "" {
		begin = "0"
	}
	// the hash of a value, not of its text, which may depend on settings of the session
	t.query = fmt.Sprintf(`SELECT s.key, s.closed, s.begin + s.length, t.data, s.begin + t.next_offset, s.begin, s.incarnation, %[8]s
		FROM (SELECT pg_catalog.format('%%s', %[5]s) AS key, coalesce((%[1]s), false) AS closed, coalesce(%[2]s, '') AS value, coalesce(%[3]s(%[2]s), 0) AS length, coalesce((%[7]s)::bigint, 0) AS begin, pg_catalog.hash_record_extended(ROW((%[9]s)), 0) & ((1::bigint << 52) - 1) AS incarnation FROM %[4]s WHERE %[5]s = CAST($1::text AS %[6]s)) s,
			appendable_tail(s.value, greatest(least($2::bigint - s.begin, s.length), 0), $3::int, $4::boolean) t`,
		closed, pgx.Identifier{r.Column}.Sanitize(), length, name, pgx.Identifier{r.Key}.Sanitize(), keyType, begin, timelineSQL, r.Incarnation)
	return t, nil
}

func (t *table) match(path string) (key string, ok bool) {
	if len(path) <= len(t.before)+len(t.after) || !strings.HasPrefix(path, t.before) || !strings.HasSuffix(path, t.after) {
		return "", false
	}
	key = path[len(t.before) : len(path)-len(t.after)]
	return key, !strings.Contains(key, "/") && !strings.Contains(key, "\x00")
}

type tableSource struct {
	d   *database
	t   *table
	key string
}

func (s tableSource) read(ctx context.Context, role string, from *int64, max int) (*result, error) {
	r := &result{found: true, contentType: s.t.contentType}
	lines := media(s.t.contentType) == "application/json"
	if max < 1 {
		max = 1
	}
	var key string
	var incarnation int64
	err := s.d.as(ctx, s.d.readers, role, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, s.t.query, s.key, from, max, lines).Scan(&key, &r.closed, &r.tail, &r.data, &r.next, &r.first, &incarnation, &r.timeline)
	})
	if state := sqlState(err); errors.Is(err, pgx.ErrNoRows) || state == "22P02" || state == "22003" || state == "22007" || notText(state) {
		return &result{}, nil // no such row, or no key of that type
	} else if err != nil {
		return nil, err
	}
	r.key, r.id = s.t.route.Channel+"\x00"+key, s.t.name+"\x00"+key+"\x00"+formatInt(incarnation)
	r.begins, r.incarnations = []int64{0}, []int64{incarnation}
	r.beginAt(from)
	// without a complete line, the rest is a line that the application has not ended
	r.upToDate = r.next >= r.tail || lines && r.begin+int64(max) >= r.tail || lines && r.next == r.begin
	return r, nil
}

// ---- streams that clients create

type stored struct {
	d    *database
	path string
	id   int64 // a stream that is followed is found by it; 0: by path
}

func storedKey(id int64) string { return ownChannel + "\x00" + formatInt(id) }

func (s stored) read(ctx context.Context, role string, from *int64, max int) (*result, error) {
	r := &result{}
	var path *string
	var byID *int64
	if s.id != 0 {
		byID = &s.id
	} else {
		path = &s.path
	}
	if max < 1 {
		max = 1
	}
	var id, incarnation, next, tail, first *int64
	var status string
	var contentType *string
	var closed, touch *bool
	err := s.d.as(ctx, s.d.readers, role, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT status, stream_id, incarnation, content_type, closed, data, next_offset, tail, ttl, expires, touch, begins, incarnations, first, `+timelineSQL+`
			FROM streams.read($1, $2, $3, $4, true)`, path, byID, from, max).
			Scan(&status, &id, &incarnation, &contentType, &closed, &r.data, &next, &tail, &r.ttl, &r.expires, &touch, &r.begins, &r.incarnations, &first, &r.timeline)
	})
	if err != nil {
		return nil, err
	}
	if status != "ok" {
		return &result{gone: status == "gone"}, nil
	}
	r.contentType, r.closed, r.next, r.tail, r.first = *contentType, *closed, *next, *tail, *first
	r.beginAt(from)
	r.found, r.key, r.id = true, storedKey(*id), formatInt(*incarnation)
	r.upToDate = r.next >= r.tail
	if *touch {
		r.touch = *id
	}
	return r, nil
}

// touch prolongs the life of a stream that is read.  A read does not wait for a row that is held.
func (d *database) touch(ctx context.Context, role string, id int64) error {
	return d.as(ctx, d.slow, role, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, `UPDATE streams.stream SET touched = clock_timestamp()
			WHERE id = (SELECT id FROM streams.stream WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED)`, id)
		return err
	})
}
