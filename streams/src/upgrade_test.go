package main

import (
	"context"
	"testing"
)

// The tables of a program from before their columns were declared NOT NULL and the producers had the access method of
// growing values, with streams in each of the states that nulls described.
const formerTables = `
CREATE SCHEMA streams;
CREATE TABLE streams.stream (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	path         text COLLATE "C" NOT NULL UNIQUE,
	content_type text NOT NULL,
	media        text NOT NULL,
	data         appendable_bytea NOT NULL DEFAULT '',
	incarnation  bigint NOT NULL DEFAULT 1 + floor(random() * 9e15)::bigint,
	source_id    bigint REFERENCES streams.stream,
	source_bytes bigint NOT NULL DEFAULT 0,
	forked_from  text COLLATE "C",
	fork_offset  bigint,
	fork_sub     bigint NOT NULL DEFAULT 0,
	fork_depth   int NOT NULL DEFAULT 0,
	deleted      boolean NOT NULL DEFAULT false,
	closed       boolean NOT NULL DEFAULT false,
	closed_by    text COLLATE "C",
	closed_epoch bigint,
	closed_seq   bigint,
	last_seq     text COLLATE "C",
	ttl          bigint,
	expires      text,
	expires_at   timestamptz,
	touched      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);
CREATE INDEX stream_source ON streams.stream (source_id) WHERE source_id IS NOT NULL;
CREATE INDEX stream_expiring ON streams.stream (id) WHERE ttl IS NOT NULL OR expires_at IS NOT NULL;
CREATE TABLE streams.producer (
	stream_id bigint NOT NULL REFERENCES streams.stream ON DELETE CASCADE,
	producer  text COLLATE "C" NOT NULL,
	epoch     bigint NOT NULL,
	seq       bigint NOT NULL,
	PRIMARY KEY (stream_id, producer)
) WITH (fillfactor = 80);
INSERT INTO streams.stream (path, content_type, media, data, incarnation, ttl, expires, expires_at, last_seq) VALUES
	('/streams/a', 'text/plain', 'text/plain', 'abcdef', 5, NULL, NULL, NULL, '07'),
	('/streams/ttl', 'text/plain', 'text/plain', 'x', 5, 1000, NULL, NULL, NULL),
	('/streams/until', 'text/plain', 'text/plain', 'x', 5, NULL, '2999-01-01T00:00:00Z', '2999-01-01T00:00:00Z', NULL),
	('/streams/past', 'text/plain', 'text/plain', 'x', 5, NULL, '2001-01-01T00:00:00Z', '2001-01-01T00:00:00Z', NULL);
INSERT INTO streams.stream (path, content_type, media, data, incarnation, source_id, source_bytes, forked_from, fork_offset, fork_depth) VALUES
	('/streams/fork', 'text/plain', 'text/plain', 'xyz', 6, 1, 3, '/streams/a', 3, 1);
INSERT INTO streams.stream (path, content_type, media, data, closed, closed_by, closed_epoch, closed_seq) VALUES
	('/streams/closed', 'text/plain', 'text/plain', 'all', true, 'p', 0, 1), ('/streams/ended', 'text/plain', 'text/plain', 'all', true, NULL, NULL, NULL);
INSERT INTO streams.producer VALUES (1, 'p', 0, 3)`

// Everything about the tables that an upgrade could leave in another state than a new setup makes it.
const describeTables = `SELECT string_agg(d, E'\n' ORDER BY d) FROM (
	SELECT format('%s %s %s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull, pg_get_expr(adbin, adrelid)) AS d
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid IN ('streams.stream'::regclass, 'streams.producer'::regclass) AND attnum > 0
	UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid IN ('streams.stream'::regclass, 'streams.producer'::regclass) AND contype <> 'n'
	UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid IN ('streams.stream'::regclass, 'streams.producer'::regclass)
	UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid IN ('streams.stream'::regclass, 'streams.producer'::regclass) AND NOT tgisinternal
	UNION ALL SELECT format('%s %s %s', c.oid::regclass, amname, reloptions) FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE c.oid IN ('streams.stream'::regclass, 'streams.producer'::regclass)) x`

// A setup over the tables of a former program leaves them as a new setup makes them, and their streams as they were.
func TestServerUpgrade(t *testing.T) {
	db, c := fresh(t)
	want := value(t, db, describeTables)
	sql(t, db, "DROP SCHEMA streams CASCADE; "+formerTables)
	for i := 0; i < 2; i++ {
		if err := setup(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		if got := value(t, db, describeTables); got != want {
			t.Fatalf("after %d upgrades:\n%s\nexpected:\n%s", i+1, got, want)
		}
	}
	sql(t, db, "GRANT USAGE ON SCHEMA streams TO web; GRANT SELECT, INSERT, UPDATE, DELETE ON streams.stream, streams.producer TO web")
	_, url := serve(t, c)
	url += "/streams/"
	plain := []string{"Content-Type", "text/plain"}
	ask(t, "GET", url+"a?offset=-1", "").want(t, 200, "abcdef")
	ask(t, "GET", url+"fork?offset=-1", "").want(t, 200, "abcxyz")
	ask(t, "GET", url+"past?offset=-1", "").want(t, 404, "")
	ask(t, "POST", url+"a", "g", append(plain, "Stream-Seq", "07")...).want(t, 409, "")
	ask(t, "POST", url+"a", "g", append(plain, "Stream-Seq", "08")...).want(t, 204, "")
	ask(t, "POST", url+"a", "h", append(plain, "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "3")...).want(t, 204, "")
	ask(t, "POST", url+"a", "h", append(plain, "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "4")...).want(t, 200, "")
	ask(t, "GET", url+"a?offset=-1", "").want(t, 200, "abcdefgh")
	ask(t, "POST", url+"closed", "", append(plain, "Stream-Closed", "true", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "1")...).want(t, 204, "")
	ask(t, "POST", url+"closed", "", append(plain, "Stream-Closed", "true", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "2")...).want(t, 409, "")
	ask(t, "POST", url+"ended", "", "Stream-Closed", "true").want(t, 204, "")
	for path, want := range map[string][2]string{"ttl": {"1000", ""}, "until": {"", "2999-01-01T00:00:00Z"}, "a": {"", ""}} {
		h := ask(t, "HEAD", url+path, "").want(t, 200, "").header
		if h.Get("Stream-TTL") != want[0] || h.Get("Stream-Expires-At") != want[1] {
			t.Fatalf("%s: %v", path, h)
		}
	}
	// a source that is deleted keeps its bytes for the fork
	ask(t, "DELETE", url+"a", "").want(t, 204, "")
	ask(t, "GET", url+"fork?offset=-1", "").want(t, 200, "abcxyz")
	if _, err := db.Exec(context.Background(), "DELETE FROM streams.stream WHERE path = '/streams/a'"); sqlState(err) != "23503" {
		t.Fatalf("a source of forks is deleted: %v", err)
	}
	// a fork that begins after a transaction's snapshot cannot be seen there
	sql(t, db, "SET default_transaction_isolation = 'repeatable read'")
	if _, err := db.Exec(context.Background(), "DELETE FROM streams.stream WHERE path = '/streams/fork'"); sqlState(err) != "0A000" {
		t.Fatalf("a stream is deleted in an old snapshot: %v", err)
	}
	sql(t, db, "RESET default_transaction_isolation")
	// ... and the server's transactions do not depend on the default of a role
	sql(t, db, "ALTER ROLE web SET default_transaction_isolation = 'repeatable read'")
	_, other := serve(t, c)
	ask(t, "PUT", other+"/streams/alone", "", plain...).want(t, 201, "")
	ask(t, "DELETE", other+"/streams/alone", "").want(t, 204, "")
	sql(t, db, "ALTER ROLE web RESET default_transaction_isolation")
	sql(t, db, "DELETE FROM streams.stream WHERE path IN ('/streams/a', '/streams/fork')")
}
