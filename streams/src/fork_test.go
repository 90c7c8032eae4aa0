package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestUnitForkTokens(t *testing.T) {
	// a fork of a fork that begins before the latter does: its own bytes begin at 3
	r := &result{begins: []int64{0, 5, 3}, incarnations: []int64{10, 20, 30}}
	for at, want := range map[int64]int64{0: 0, 1: 10, 3: 10, 4: 30, 9: 30} {
		if got := r.incarnation(at); got != want {
			t.Errorf("offset %d is of incarnation %d, expected %d", at, got, want)
		}
	}
}

func value(t *testing.T, c *pgx.Conn, query string) (result string) {
	t.Helper()
	if err := c.QueryRow(context.Background(), query).Scan(&result); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return result
}

// background runs a query in another session, and returns when it waits for a lock.
func background(t *testing.T, db *pgx.Conn, query string) <-chan string {
	t.Helper()
	other := connect(t, strings.ToLower(t.Name()))
	pid := other.PgConn().PID()
	result := make(chan string, 1)
	go func() {
		var value string
		if err := other.QueryRow(context.Background(), query).Scan(&value); err != nil {
			value = err.Error()
		}
		result <- value
	}()
	for i := 0; i < 2000; i++ {
		var blocked bool
		if err := db.QueryRow(context.Background(), "SELECT cardinality(pg_blocking_pids($1)) > 0", int32(pid)).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
		if blocked {
			return result
		}
		select {
		case value := <-result:
			t.Fatalf("%s did not wait: %s", query, value)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not wait for a lock", query)
	return nil
}

func TestServerForks(t *testing.T) {
	db, c := fresh(t)
	c.ChunkBytes = 4
	_, url := serve(t, c)
	plain := []string{"Content-Type", "text/plain"}
	fork := func(from string, more ...string) []string {
		return append([]string{"Stream-Forked-From", "/streams/" + from}, more...)
	}
	// all reads from an offset, which are of at most 4 bytes each
	whole := func(path, offset string) string {
		t.Helper()
		all := ""
		for last := offset; ; {
			a := ask(t, "GET", url+path+"?offset="+last, "")
			if a.status != 200 {
				t.Fatalf("status %d at %s", a.status, last)
			}
			all += a.body
			next := a.header.Get("Stream-Next-Offset")
			if next < last && last != "-1" {
				t.Fatalf("offset %s after %s", next, last)
			}
			if last = next; a.header.Get("Stream-Up-To-Date") == "true" {
				return all
			}
		}
	}

	// a chain of forks; the second begins within the bytes of the source of its source
	ask(t, "PUT", url+"/streams/a", "0123456789", plain...).want(t, 201, "")
	middle := ask(t, "GET", url+"/streams/a?offset=-1", "").want(t, 200, "0123").header.Get("Stream-Next-Offset")
	end := ask(t, "HEAD", url+"/streams/a", "").want(t, 200, "").header.Get("Stream-Next-Offset")
	// a fork to which nothing was appended ends where its source does
	begin := ask(t, "PUT", url+"/streams/b", "", fork("a")...).want(t, 201, "").header.Get("Stream-Next-Offset")
	if begin != end {
		t.Fatalf("the fork begins at %s, its source ends at %s", begin, end)
	}
	ask(t, "GET", url+"/streams/b?offset="+begin, "").want(t, 200, "")
	ask(t, "POST", url+"/streams/b", "bbbbb", plain...).want(t, 204, "")
	ask(t, "PUT", url+"/streams/c", "cc", fork("b", "Stream-Fork-Offset", middle, "Stream-Fork-Sub-Offset", "1")...).want(t, 201, "")
	ask(t, "PUT", url+"/streams/d", "", fork("c")...).want(t, 201, "")
	ask(t, "POST", url+"/streams/d", "dd", plain...).want(t, 204, "")
	ask(t, "POST", url+"/streams/a", "AAAA", plain...).want(t, 204, "")
	for path, want := range map[string]string{"a": "0123456789AAAA", "b": "0123456789bbbbb", "c": "01234cc", "d": "01234ccdd"} {
		if got := whole("/streams/"+path, "-1"); got != want {
			t.Fatalf("%s: %q, expected %q", path, got, want)
		}
		if got := whole("/streams/"+path, middle); got != want[4:] {
			t.Fatalf("%s after %s: %q, expected %q", path, middle, got, want[4:])
		}
	}
	if got := value(t, db, "SELECT string_agg(appendable_length(data)::text, ' ' ORDER BY path) FROM streams.stream"); got != "14 5 2 2" {
		t.Fatalf("lengths %s: a fork is a copy", got)
	}
	// an offset of the source is one of the fork, up to where it begins
	if got := whole("/streams/b", end); got != "bbbbb" {
		t.Fatalf("%q", got)
	}
	later := ask(t, "HEAD", url+"/streams/a", "").header.Get("Stream-Next-Offset")
	ask(t, "GET", url+"/streams/b?offset="+later, "").want(t, 410, "")
	ask(t, "GET", url+"/streams/c?offset="+end, "").want(t, 410, "")
	ask(t, "PUT", url+"/streams/e", "", fork("b", "Stream-Fork-Offset", later)...).want(t, 400, "")

	// in JSON, a fork begins after a message
	ask(t, "PUT", url+"/streams/j", `[{"n":1},{"n":2},{"n":3}]`, "Content-Type", "application/json").want(t, 201, "")
	ask(t, "PUT", url+"/streams/k", `{"k":1}`, fork("j", "Stream-Fork-Offset", token(0, 0), "Stream-Fork-Sub-Offset", "2")...).want(t, 201, "")
	ask(t, "GET", url+"/streams/k?offset="+token(0, 0), "").want(t, 200, `[{"n":1}]`)
	if got := whole("/streams/k", "-1"); got != `[{"n":1}][{"n":2}][{"k":1}]` {
		t.Fatalf("%s", got)
	}
	third := ask(t, "HEAD", url+"/streams/j", "").header.Get("Stream-Next-Offset")
	inside := third[:17] + fmt.Sprintf("%016d", 10)
	ask(t, "PUT", url+"/streams/l", "", fork("j", "Stream-Fork-Offset", inside)...).want(t, 400, "")
	ask(t, "PUT", url+"/streams/l", "{", fork("j")...).want(t, 400, "")
	ask(t, "PUT", url+"/streams/l", "", fork("../../runs/1/log")...).want(t, 404, "")
	ask(t, "PUT", url+"/streams/l", "", "Stream-Forked-From", "/runs/1/log").want(t, 404, "")
	ask(t, "PUT", url+"/streams/l", "", "Stream-Forked-From", "http://other/streams/j").want(t, 400, "")

	// a source that is deleted ends for its followers, and its forks keep its bytes
	lines := events(t, url+"/streams/a?offset=now&live=sse")
	until(t, lines, "upToDate")
	kept := events(t, url+"/streams/b?offset=now&live=sse")
	until(t, kept, "upToDate")
	ask(t, "DELETE", url+"/streams/a", "").want(t, 204, "")
	ended(t, lines)
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		ask(t, method, url+"/streams/a", "").want(t, 410, "")
	}
	ask(t, "POST", url+"/streams/a", "x", plain...).want(t, 410, "")
	ask(t, "POST", url+"/streams/b", "more", plain...).want(t, 204, "")
	until(t, kept, "more")
	// in SQL, too
	if _, err := db.Exec(context.Background(), "DELETE FROM streams.stream WHERE path = '/streams/b'"); sqlState(err) != "23503" {
		t.Fatalf("a source of forks is deleted: %v", err)
	}
	// a role that cannot read the source cannot read the fork
	sql(t, db, `ALTER TABLE streams.stream ENABLE ROW LEVEL SECURITY; CREATE POLICY hidden ON streams.stream USING (path <> '/streams/a')`)
	ask(t, "GET", url+"/streams/d?offset=-1", "").want(t, 403, "")
	ask(t, "PUT", url+"/streams/a", "x", plain...).want(t, 403, "")
	sql(t, db, "ALTER TABLE streams.stream DISABLE ROW LEVEL SECURITY")
	// the last fork takes its sources along
	for _, path := range []string{"b", "c", "d"} {
		ask(t, "DELETE", url+"/streams/"+path, "").want(t, 204, "")
	}
	if got := value(t, db, "SELECT string_agg(path, ' ' ORDER BY path) FROM streams.stream"); got != "/streams/j /streams/k" {
		t.Fatalf("left: %s", got)
	}
	// a source that has expired stays for its forks
	sql(t, db, "UPDATE streams.stream SET ttl = 1, touched = now() - interval '1 hour' WHERE path = '/streams/j'; SELECT streams.remove_expired()")
	ask(t, "GET", url+"/streams/j", "").want(t, 410, "")
	ask(t, "GET", url+"/streams/k?offset=-1", "").want(t, 200, `[{"n":1}]`)
	ask(t, "DELETE", url+"/streams/k", "").want(t, 204, "")
	if got := value(t, db, "SELECT count(*)::text FROM streams.stream"); got != "0" {
		t.Fatalf("%s streams are left", got)
	}
}

// A fork of JSON begins after the n-th message from an offset, whichever of the streams above has it.
func TestServerForkMessages(t *testing.T) {
	db, c := fresh(t)
	_, url := serve(t, c)
	forks := 0
	// the first n messages after an offset of a stream, as a fork has them
	fork := func(of, offset string, n int) (string, int) {
		t.Helper()
		forks++
		path := fmt.Sprintf("/streams/fork%d", forks)
		a := ask(t, "PUT", url+path, "", "Stream-Forked-From", "/streams/"+of, "Stream-Fork-Offset", offset, "Stream-Fork-Sub-Offset", fmt.Sprint(n))
		if a.status != 201 {
			return "", a.status
		}
		a = ask(t, "GET", url+path+"?offset=-1", "")
		if a.status != 200 {
			t.Fatalf("%s: status %d", path, a.status)
		}
		return a.body, 201
	}
	is := func(of, offset string, n int, want string) {
		t.Helper()
		if got, status := fork(of, offset, n); status != 201 || got != want {
			t.Fatalf("%d messages of %s after %s: status %d, %q, expected %q", n, of, offset, status, got, want)
		}
	}
	fails := func(of, offset string, n int) {
		t.Helper()
		if got, status := fork(of, offset, n); status != 400 {
			t.Fatalf("%d messages of %s after %s: status %d, %q", n, of, offset, status, got)
		}
	}
	ask(t, "PUT", url+"/streams/a", `[10,11,1200]`, "Content-Type", "application/json").want(t, 201, "")
	begin := token(0, 0)
	source := []string{"Stream-Forked-From", "/streams/a", "Stream-Fork-Offset", begin, "Stream-Fork-Sub-Offset", "2"}
	second := ask(t, "PUT", url+"/streams/b", "", source...).want(t, 201, "").header.Get("Stream-Next-Offset")
	ask(t, "POST", url+"/streams/b", `[20,21]`, "Content-Type", "application/json").want(t, 204, "")
	third := ask(t, "PUT", url+"/streams/c", "", "Stream-Forked-From", "/streams/b").want(t, 201, "").header.Get("Stream-Next-Offset")
	ask(t, "POST", url+"/streams/c", `[30]`, "Content-Type", "application/json").want(t, 204, "")
	// begins before the source of its source does
	ask(t, "PUT", url+"/streams/d", "", "Stream-Forked-From", "/streams/c", "Stream-Fork-Offset", begin, "Stream-Fork-Sub-Offset", "1").want(t, 201, "")
	ask(t, "POST", url+"/streams/d", `[40,41]`, "Content-Type", "application/json").want(t, 204, "")
	for of, messages := range map[string][]string{"a": {"10", "11", "1200"}, "b": {"10", "11", "20", "21"}, "c": {"10", "11", "20", "21", "30"}, "d": {"10", "40", "41"}} {
		for n := 0; n <= len(messages); n++ {
			is(of, begin, n, "["+strings.Join(messages[:n], ",")+"]")
		}
		fails(of, begin, len(messages)+1)
	}
	is("c", second, 1, "[10,11,20]")
	is("c", second, 3, "[10,11,20,21,30]")
	is("c", third, 1, "[10,11,20,21,30]")
	fails("c", third, 2)
	fails("c", token(1, 1000), 1)

	// what a source has dropped is no message; from the beginning is from the first one that is kept
	sql(t, db, "SELECT streams.drop_front('/streams/a', 3)")
	is("b", begin, 1, "[11]")
	is("c", begin, 4, "[11,20,21,30]")
	fails("c", begin, 5)
	sql(t, db, "SELECT streams.drop_front('/streams/a', 11)")
	fails("c", second[:17]+token(0, 3)[17:], 1)
	is("c", begin, 1, "[20]")
}

// A fork and its source's end, in two sessions.
func TestServerForkLocks(t *testing.T) {
	db, _ := fresh(t)
	const create = "SELECT status FROM streams.create_stream('%s', 'text/plain', 'text/plain', 'x', false, NULL, NULL, %s)"
	const remove = "SELECT status FROM streams.delete_stream('%s')"
	paths := func(want string) {
		t.Helper()
		if got := value(t, db, "SELECT coalesce(string_agg(path || CASE WHEN deleted THEN '-' ELSE '' END, ' ' ORDER BY path), '') FROM streams.stream"); got != want {
			t.Fatalf("streams %q, expected %q", got, want)
		}
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%q, expected %q", got, want)
		}
	}
	is(value(t, db, fmt.Sprintf(create, "a", "NULL")), "created")

	// the source's DELETE waits for a fork, and keeps the source
	sql(t, db, "BEGIN")
	is(value(t, db, fmt.Sprintf(create, "f1", "'a'")), "created")
	waits := background(t, db, fmt.Sprintf(remove, "a"))
	sql(t, db, "COMMIT")
	is(<-waits, "ok")
	paths("a- f1")
	is(value(t, db, fmt.Sprintf(create, "f2", "'a'")), "source gone")
	is(value(t, db, fmt.Sprintf(create, "a", "NULL")), "blocked")

	// of two last forks that are deleted at once, the second takes the source along
	is(value(t, db, fmt.Sprintf(create, "g1", "'f1'")), "created")
	is(value(t, db, fmt.Sprintf(create, "g2", "'f1'")), "created")
	is(value(t, db, fmt.Sprintf(remove, "f1")), "ok")
	paths("a- f1- g1 g2")
	sql(t, db, "BEGIN")
	is(value(t, db, fmt.Sprintf(remove, "g1")), "ok")
	waits = background(t, db, fmt.Sprintf(remove, "g2"))
	sql(t, db, "COMMIT")
	is(<-waits, "ok")
	paths("")

	// a fork waits for its source's DELETE, and is not created; one that is rolled back leaves no trace
	is(value(t, db, fmt.Sprintf(create, "a", "NULL")), "created")
	sql(t, db, "BEGIN")
	is(value(t, db, fmt.Sprintf(remove, "a")), "ok")
	waits = background(t, db, fmt.Sprintf(create, "f1", "'a'"))
	sql(t, db, "COMMIT")
	is(<-waits, "no source")
	is(value(t, db, fmt.Sprintf(create, "a", "NULL")), "created")
	sql(t, db, "BEGIN")
	is(value(t, db, fmt.Sprintf(create, "f1", "'a'")), "created")
	waits = background(t, db, fmt.Sprintf(remove, "a"))
	sql(t, db, "ROLLBACK")
	is(<-waits, "ok")
	paths("")

	// a chain has an end
	is(value(t, db, fmt.Sprintf(create, "0", "NULL")), "created")
	sql(t, db, `DO $$ DECLARE s text; BEGIN
		FOR i IN 1 .. 1001 LOOP
			SELECT status INTO s FROM streams.create_stream(i::text, NULL, NULL, 'y', false, NULL, NULL, (i - 1)::text);
			IF s <> (CASE WHEN i <= 1000 THEN 'created' ELSE 'depth' END) THEN RAISE '%: %', i, s; END IF;
		END LOOP; END $$`)
	is(value(t, db, "SELECT convert_from(data, 'UTF8') FROM streams.read('1000', NULL, 0, 2000, false)"), "x"+strings.Repeat("y", 1000))
	is(value(t, db, "SELECT (max(incarnation) < 1e16)::text FROM streams.stream"), "true")
	sql(t, db, "SELECT streams.delete_stream(i::text) FROM generate_series(0, 1000) i")
	paths("")
}
