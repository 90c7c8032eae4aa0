package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// One append of 200 bytes, whatever the length of the stream and the number of its producers, is at most so many
// bytes of WAL; the state of a producer is another row.
const mostWAL = 650

// walOf returns the bytes of WAL, and the share of HOT updates, of n calls of f, each of which updates a row of each table.
func walOf(t *testing.T, db *pgx.Conn, n int, f func(i int), tables ...string) (perCall float64, hot float64) {
	t.Helper()
	updates := func() (n, hot int64) {
		err := db.QueryRow(context.Background(), "SELECT sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint FROM pg_stat_user_tables WHERE relid = ANY ($1::text[]::regclass[])", tables).Scan(&n, &hot)
		if err != nil {
			t.Fatal(err)
		}
		return n, hot
	}
	position := func() (at int64) {
		if err := db.QueryRow(context.Background(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	// The first change of a page after a checkpoint logs the page, so that there is none here.  The first of a new page of the visibility
	// map does so, too: PostgreSQL 19 sets bits when it prunes, and so many appends fill each page of the producers that are active.
	const first = 400
	for i := 0; i < first; i++ {
		f(i)
	}
	// sessions report their updates with a delay
	time.Sleep(1500 * time.Millisecond)
	beforeUpdates, beforeHot := updates()
	before := position()
	for i := 0; i < n; i++ {
		f(first + i)
	}
	wal := position() - before
	for i := 0; ; i++ {
		done, doneHot := updates()
		if done-beforeUpdates >= int64(n*len(tables)) {
			return float64(wal) / float64(n), float64(doneHot-beforeHot) / float64(done-beforeUpdates)
		}
		if i > 300 {
			t.Fatalf("%d updates of %s are reported, of %d each", done-beforeUpdates, tables, n)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// WAL and HOT updates of appends over HTTP, next to those of an UPDATE in SQL.
func TestServerWAL(t *testing.T) {
	db, c := fresh(t)
	c.BodyBytes = 64 << 20
	_, url := serve(t, c)
	n := number(t, "STREAMS_TEST_APPENDS")
	plain := []string{"Content-Type", "text/plain"}
	line := string(bytes.Repeat([]byte("x"), 199)) + "\n"
	sql(t, db, "ALTER TABLE streams.stream SET (autovacuum_enabled = off); ALTER TABLE streams.producer SET (autovacuum_enabled = off); "+
		"CREATE TABLE plain (id int PRIMARY KEY, log appendable_bytea) WITH (fillfactor = 80, autovacuum_enabled = off); INSERT INTO plain VALUES (1, '')")
	// autovacuum would write WAL in the meantime
	sql(t, db, "ALTER SYSTEM SET autovacuum = off")
	sql(t, db, "SELECT pg_reload_conf()")
	defer func() {
		sql(t, db, "ALTER SYSTEM RESET autovacuum")
		sql(t, db, "SELECT pg_reload_conf()")
	}()
	report := func(name string, wal, hot float64, most float64) {
		t.Helper()
		t.Logf("%-44s %6.0f bytes of WAL an append, %6.2f %% HOT", name, wal, 100*hot)
		if most > 0 && (wal > most || hot < 0.99) {
			t.Errorf("%s: more than %.0f bytes of WAL, or less than 99 %% HOT", name, most)
		}
	}

	wal, hot := walOf(t, db, n, func(int) { sql(t, db, "UPDATE plain SET log = log || '"+line+"' WHERE id = 1") }, "plain")
	report("UPDATE in SQL", wal, hot, 0)

	for _, size := range []int{0, 32 << 20} {
		path := fmt.Sprintf("/streams/of%d", size)
		ask(t, "PUT", url+path, string(bytes.Repeat([]byte("y"), size)), plain...).want(t, 201, "")
		wal, hot = walOf(t, db, n, func(int) { ask(t, "POST", url+path, line, plain...).want(t, 204, "") }, "streams.stream")
		report(fmt.Sprintf("POST to a stream of %d MB", size>>20), wal, hot, mostWAL)
	}
	for _, by := range []struct{ producers, active int }{{1, 1}, {1000, 1}, {1000, 100}} {
		path := fmt.Sprintf("/streams/by%d-%d", by.producers, by.active)
		ask(t, "PUT", url+path, "", plain...).want(t, 201, "")
		sql(t, db, fmt.Sprintf("INSERT INTO streams.producer SELECT id, p, 0, 0 FROM streams.stream, generate_series(1, %d) p WHERE path = '%s'", by.producers, path))
		wal, hot = walOf(t, db, n, func(i int) {
			ask(t, "POST", url+path, line, append(plain, "Producer-Id", strconv.Itoa(i%by.active+1), "Producer-Epoch", "0", "Producer-Seq", strconv.Itoa(i/by.active+1))...).want(t, 200, "")
		}, "streams.stream", "streams.producer")
		report(fmt.Sprintf("POST with a producer of %d, %d active", by.producers, by.active), wal, hot, mostWAL)
	}
}
