package main

import (
	"strings"
	"testing"
	"time"
)

// offsets returns the token of an offset of a stream, which has bytes, as a function of the offset.
func offsets(t *testing.T, url string, headers ...string) func(at int64) string {
	t.Helper()
	incarnation, _, _ := parseToken(ask(t, "HEAD", url, "", headers...).header.Get("Stream-Next-Offset"))
	if incarnation == 0 {
		t.Fatalf("%s: no incarnation", url)
	}
	return func(at int64) string { return token(incarnation, at) }
}

// A row is deleted and inserted again with other bytes: who has an offset of the former row, and a follower that waits there, gets an
// error, and never bytes of the new one.
func TestServerIncarnation(t *testing.T) {
	db, c := fresh(t)
	c.LongPollMS = 60000
	_, url := serve(t, c)
	_, other := serve(t, c)
	url, other = url+"/runs/1/log", other+"/runs/1/log"
	sql(t, db, `INSERT INTO runs (id, log) VALUES (1, E'one\n')`)
	whole := events(t, url+"?live=sse&offset=-1", token1...)
	until(t, whole, "upToDate")
	sql(t, db, `UPDATE runs SET log = log || E'lost\n'`)
	until(t, whole, "lost")
	a := ask(t, "GET", url+"?offset=-1", "", token1...).want(t, 200, "one\nlost\n")
	tag, end := a.header.Get("ETag"), a.header.Get("Stream-Next-Offset")
	lines := events(t, url+"?live=sse&offset="+end, token1...)
	until(t, lines, "upToDate")
	polled := make(chan answer, 1)
	go func() { polled <- ask(t, "GET", url+"?live=long-poll&offset="+end, "", token1...) }()
	time.Sleep(300 * time.Millisecond)
	refused := func(offset string) {
		t.Helper()
		for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
			ask(t, "GET", url+"?offset="+offset+live, "", token1...).want(t, 410, "")
		}
	}

	// of the same length: only the incarnation shows that it is another row
	sql(t, db, `BEGIN; DELETE FROM runs; INSERT INTO runs (id, log) VALUES (1, E'one\nbest\n'); COMMIT`)
	ask(t, "GET", url+"?offset=-1", "", append([]string{"If-None-Match", tag}, token1...)...).want(t, 200, "one\nbest\n")
	refused(end)
	sql(t, db, `UPDATE runs SET log = log || E'other line\n'`)
	refused(end)
	for _, of := range []<-chan string{lines, whole} {
		for line := range of {
			if strings.Contains(line, "line") || strings.Contains(line, "best") {
				t.Errorf("a follower got %q", line)
			}
		}
	}
	if a := <-polled; a.status != 410 {
		t.Errorf("status %d of a long poll, %q", a.status, a.body)
	}
	at := offsets(t, url, token1...)
	ask(t, "GET", url+"?offset="+at(4), "", token1...).want(t, 200, "best\nother line\n")
	// an update of another column keeps the incarnation, and another server has the same
	sql(t, db, `UPDATE runs SET events = ''`)
	ask(t, "GET", other+"?offset="+at(9), "", token1...).want(t, 200, "other line\n")
	// another row gets the key
	sql(t, db, `INSERT INTO runs (id, log) VALUES (2, E'two\n'); DELETE FROM runs WHERE id = 1; UPDATE runs SET id = 1`)
	refused(at(4))
	ask(t, "GET", url, "", token1...).want(t, 200, "two\n")
}
