package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Bytes are dropped at the front; offsets of the others stay the same.
func TestServerRetention(t *testing.T) {
	db, c := fresh(t)
	c.ChunkBytes = 8
	sql(t, db, `ALTER TABLE runs ADD log_begin bigint;
		CREATE OR REPLACE TRIGGER zz_only BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_only('log', 'log_begin')`)
	for i := range c.Routes {
		c.Routes[i].Begin = "log_begin"
	}
	_, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, '0123456789')")
	ask(t, "PUT", url+"/streams/a", "0123456789", plain...).want(t, 201, "")
	incarnation, _, _ := parseToken(ask(t, "HEAD", url+"/streams/a", "").header.Get("Stream-Next-Offset"))
	ask(t, "PUT", url+"/streams/f", "", append([]string{"Stream-Forked-From", "/streams/a"}, plain...)...).want(t, 201, "")
	ask(t, "POST", url+"/streams/f", "ff", plain...).want(t, 204, "")
	for _, of := range []struct {
		path, drop, more string
		at               func(int64) string
		header           []string
	}{
		{"/runs/1/log", "UPDATE runs SET log = appendable_drop_front(log, %[1]d - coalesce(log_begin, 0)), log_begin = %[1]d",
			"UPDATE runs SET log = log || 'abc'", offsets(t, url+"/runs/1/log", token1...), token1},
		{"/streams/a", "SELECT streams.drop_front('/streams/a', %d)",
			"UPDATE streams.stream SET data = data || 'abc' WHERE path = '/streams/a'", offsets(t, url+"/streams/a"), nil},
	} {
		get := func(offset string) answer { return ask(t, "GET", url+of.path+"?offset="+offset, "", of.header...) }
		// a follower at the end does not notice
		lines := events(t, url+of.path+"?offset=now&live=sse", of.header...)
		until(t, lines, "upToDate")
		sql(t, db, fmt.Sprintf(of.drop, 4))
		sql(t, db, of.more)
		if line := until(t, lines, "abc"); line != "abc" {
			t.Fatalf("%s: %q", of.path, line)
		}
		a := get(of.at(5)).want(t, 200, "56789abc")
		a.has(t, "Stream-Next-Offset", of.at(13))
		get(of.at(4)).want(t, 200, "456789ab").has(t, "Stream-Next-Offset", of.at(12))
		// the beginning is what is kept, also for a follower
		a = get("-1").want(t, 200, "456789ab")
		a.has(t, "Stream-Next-Offset", of.at(12))
		get(token(0, 0)).want(t, 200, "456789ab")
		lines = events(t, url+of.path+"?offset=-1&live=sse", of.header...)
		until(t, lines, "456789ab")
		if line := until(t, lines, "streamNextOffset"); !strings.Contains(line, of.at(12)) {
			t.Fatalf("%s: %s", of.path, line)
		}
		until(t, lines, "upToDate")
		for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
			ask(t, "GET", url+of.path+"?offset="+of.at(3)+live, "", of.header...).want(t, 410, "")
			ask(t, "GET", url+of.path+"?offset="+of.at(14)+live, "", of.header...).want(t, 410, "")
		}
		ask(t, "HEAD", url+of.path, "", of.header...).want(t, 200, "").has(t, "Stream-Next-Offset", of.at(13))
		// all of it
		sql(t, db, fmt.Sprintf(of.drop, 13))
		get("-1").want(t, 200, "").has(t, "Stream-Next-Offset", of.at(13))
		get(of.at(12)).want(t, 410, "")
		sql(t, db, of.more)
		get("-1").want(t, 200, "abc")
		get(of.at(13)).want(t, 200, "abc")
	}
	// a fork has lost what its source has
	ask(t, "GET", url+"/streams/f?offset="+token(incarnation, 9), "").want(t, 410, "")
	ask(t, "GET", url+"/streams/f?offset=-1", "").want(t, 200, "ff")
	ask(t, "GET", url+"/streams/f?offset="+token(incarnation, 10), "").want(t, 200, "ff")
	fork := func(at int64) answer {
		return ask(t, "PUT", url+"/streams/g", "g", append([]string{"Stream-Forked-From", "/streams/a", "Stream-Fork-Offset", token(incarnation, at)}, plain...)...)
	}
	fork(12).want(t, 400, "")
	fork(14).want(t, 201, "")
	ask(t, "GET", url+"/streams/g?offset=-1", "").want(t, 200, "ag")
	sql(t, db, "SELECT streams.drop_front('/streams/a', 16)")
	ask(t, "GET", url+"/streams/g?offset=-1", "").want(t, 200, "g")
	// appends continue at the same offsets, and the end can be reached
	ask(t, "POST", url+"/streams/a", "more", plain...).want(t, 204, "").has(t, "Stream-Next-Offset", token(incarnation, 20))
	ask(t, "POST", url+"/streams/a", "", "Stream-Closed", "true").want(t, 204, "")
	sql(t, db, "SELECT streams.drop_front('/streams/a', 17)")
	ask(t, "GET", url+"/streams/a?offset=-1", "").want(t, 200, "ore").has(t, "Stream-Closed", "true")

	// a JSON message is not divided; nothing before the begin is dropped twice
	ask(t, "PUT", url+"/streams/j", `[1,23,4]`, "Content-Type", "application/json").want(t, 201, "")
	for query, want := range map[string]string{
		"SELECT streams.drop_front('/streams/j', 3)":                                                "22023",
		"SELECT streams.drop_front('/streams/j', 8)":                                                "22023",
		"SELECT streams.drop_front('/streams/no', 1)":                                               "P0002",
		"UPDATE streams.stream SET data = appendable_drop_front(data, 2) WHERE path = '/streams/j'": "23514",
		"UPDATE streams.stream SET dropped = 1 WHERE path = '/streams/j'":                           "23514",
	} {
		if _, err := db.Exec(context.Background(), query); sqlState(err) != want {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for _, want := range []string{"2", "0"} {
		if got := value(t, db, "SELECT streams.drop_front('/streams/j', 2)::text"); got != want {
			t.Fatalf("%s bytes are dropped, expected %s", got, want)
		}
	}
	begin := ask(t, "GET", url+"/streams/j?offset=-1", "").want(t, 200, `[23,4]`).header.Get("Stream-Next-Offset")[:17] + token(0, 2)[17:]
	ask(t, "PUT", url+"/streams/k", "", "Stream-Forked-From", "/streams/j", "Stream-Fork-Offset", begin).want(t, 201, "")
	inside := begin[:17] + token(0, 3)[17:]
	ask(t, "PUT", url+"/streams/l", "", "Stream-Forked-From", "/streams/j", "Stream-Fork-Offset", inside).want(t, 400, "")
	// a second setup changes nothing: not the function either
	oid := value(t, db, "SELECT 'streams.read'::regproc::oid::text")
	text, err := os.ReadFile("streams.sql")
	if err != nil {
		t.Fatal(err)
	}
	sql(t, db, string(text))
	if got := value(t, db, "SELECT 'streams.read'::regproc::oid::text"); got != oid {
		t.Fatalf("function %s has become %s", oid, got)
	}
}
