package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The tests named TestServer need the PostgreSQL of streams/test/run.sh.

const secretSum = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // of "secret"

func connect(t testing.TB, name string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), "host="+os.Getenv("STREAMS_TEST_SOCKETS")+" user=postgres dbname="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func sql(t testing.TB, c *pgx.Conn, text string) {
	t.Helper()
	if _, err := c.PgConn().Exec(context.Background(), text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// fresh makes a database with both kinds of streams, and a configuration for it.
func fresh(t testing.TB) (*pgx.Conn, *Config) {
	t.Helper()
	if os.Getenv("STREAMS_TEST_SOCKETS") == "" {
		t.Fatal("STREAMS_TEST_SOCKETS is not set: run streams/test/run.sh")
	}
	name := strings.ToLower(t.Name())
	if strings.HasPrefix(name, "fuzz") { // each process that fuzzes has its own
		name += fmt.Sprintf("_%d", os.Getpid())
	}
	admin := connect(t, "postgres")
	sql(t, admin, `DO $$ DECLARE r text; BEGIN
		FOR r IN SELECT n FROM unnest(ARRAY['web', 'reader']) n WHERE to_regrole(n) IS NULL LOOP EXECUTE 'CREATE ROLE ' || r; END LOOP; END $$`)
	sql(t, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	sql(t, admin, "CREATE DATABASE "+name)
	file := filepath.Join(t.TempDir(), "c.json")
	tokens := filepath.Join(t.TempDir(), "tokens")
	os.WriteFile(tokens, []byte("reader "+secretSum+"\n"), 0o600)
	os.WriteFile(file, []byte(`{"listen": "127.0.0.1:0", "prefix": "/streams/", "tokens": "`+tokens+`", "anonymous": "web", "long_poll_ms": 3000, "event_ms": 30000,
		"poll_ms": 20000, "body_bytes": 100000, "database": "host=`+os.Getenv("STREAMS_TEST_SOCKETS")+` user=postgres dbname=`+name+`",
		"routes": [{"path": "/runs/{id}/log", "table": "runs", "key": "id", "column": "log", "incarnation": "incarnation", "closed": "finished_at IS NOT NULL", "channel": "runs"},
			{"path": "/runs/{id}/events", "table": "public.runs", "key": "id", "column": "events", "incarnation": "incarnation", "content_type": "application/json", "channel": "runs"}]}`), 0o600)
	c, err := loadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	db := connect(t, name)
	sql(t, db, `CREATE TABLE runs (id int PRIMARY KEY, owner text DEFAULT 'reader', log appendable_text, events appendable_bytea, finished_at timestamptz,
			incarnation uuid DEFAULT gen_random_uuid()) WITH (fillfactor = 80);
		CREATE TRIGGER zz_only BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION appendable_only();
		CREATE TRIGGER told AFTER INSERT OR DELETE OR UPDATE OF log, events, finished_at ON runs FOR EACH ROW EXECUTE FUNCTION appendable_notify('runs', 'id');
		ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
		CREATE POLICY own ON runs USING (owner = current_user);
		GRANT SELECT ON runs TO reader;
		GRANT USAGE ON SCHEMA streams TO web;
		GRANT SELECT, INSERT, UPDATE, DELETE ON streams.stream, streams.producer TO web`)
	return db, c
}

// serve runs a server in this process.
func serve(t testing.TB, c *Config) (*server, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := newServer(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(s)
	h.Config.ConnContext = withConn
	h.Start()
	t.Cleanup(func() {
		s.hub.close()
		h.Close()
		cancel()
		s.d.close()
	})
	return s, h.URL
}

type answer struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	r, _ := http.NewRequest(method, url, strings.NewReader(body))
	if body == "" {
		r, _ = http.NewRequest(method, url, nil)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	data, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.StatusCode, w.Header, string(data)}
}

func (a answer) want(t *testing.T, status int, body string) answer {
	t.Helper()
	if a.status != status || status < 300 && a.body != body {
		t.Fatalf("status %d, body %q; expected %d, %q", a.status, a.body, status, body)
	}
	return a
}

// events follows a stream, and sends the lines of data in order; the channel ends with the answer.
func events(t *testing.T, url string, headers ...string) <-chan string {
	t.Helper()
	r, _ := http.NewRequest("GET", url, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if w.StatusCode != 200 {
		t.Fatalf("status %d", w.StatusCode)
	}
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		defer w.Body.Close()
		for lines := bufio.NewScanner(w.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data:") {
				out <- strings.TrimPrefix(lines.Text()[5:], " ")
			}
		}
	}()
	t.Cleanup(func() { w.Body.Close() })
	return out
}

// until takes lines until one contains a text, and returns it.
func until(t *testing.T, lines <-chan string, text string) string {
	t.Helper()
	over := time.After(20 * time.Second)
	for {
		select {
		case line, more := <-lines:
			if !more {
				t.Fatalf("the answer ended before %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-over:
			t.Fatalf("no %q", text)
		}
	}
}

func ended(t *testing.T, lines <-chan string) {
	t.Helper()
	over := time.After(20 * time.Second)
	for {
		select {
		case _, more := <-lines:
			if !more {
				return
			}
		case <-over:
			t.Fatal("the answer did not end")
		}
	}
}

var token1 = []string{"Authorization", "Bearer secret"}

func TestServerTable(t *testing.T) {
	db, c := fresh(t)
	_, url := serve(t, c)
	sql(t, db, `INSERT INTO runs (id, owner, log, events) VALUES (1, 'reader', E'line 1\n', E'{"a": 1}\n{"b"'), (2, 'other', 'hidden', '')`)

	// privileges and row security are those of the role of the token
	ask(t, "GET", url+"/runs/1/log", "").want(t, 403, "")
	ask(t, "GET", url+"/runs/1/log", "", "Authorization", "Bearer wrong").want(t, 401, "")
	ask(t, "GET", url+"/runs/1/log", "", "Authorization", "Bearer ").want(t, 401, "")
	ask(t, "GET", url+"/runs/2/log", "", token1...).want(t, 404, "")
	ask(t, "GET", url+"/runs/3/log", "", token1...).want(t, 404, "")
	ask(t, "GET", url+"/runs/x/log", "", token1...).want(t, 404, "")
	ask(t, "GET", url+"/runs/99999999999/log", "", token1...).want(t, 404, "")
	ask(t, "GET", url+"/runs/1%27/log", "", token1...).want(t, 404, "")
	ask(t, "POST", url+"/runs/1/log", "x", token1...).want(t, 405, "")
	ask(t, "PUT", url+"/runs/9/log", "x", token1...).want(t, 405, "")
	ask(t, "DELETE", url+"/runs/1/log", "", token1...).want(t, 405, "")

	a := ask(t, "GET", url+"/runs/1/log", "", token1...).want(t, 200, "line 1\n")
	at := offsets(t, url+"/runs/1/log", token1...)
	next := a.header.Get("Stream-Next-Offset")
	if a.header.Get("Stream-Up-To-Date") != "true" || a.header.Get("Stream-Closed") != "" || !strings.HasPrefix(a.header.Get("Cache-Control"), "private") {
		t.Fatalf("headers %v", a.header)
	}
	ask(t, "GET", url+"/runs/1/log", "", append(token1, "If-None-Match", a.header.Get("ETag"))...).want(t, 304, "")
	ask(t, "GET", url+"/runs/1/log?offset="+at(8), "", token1...).want(t, 410, "")
	ask(t, "GET", url+"/runs/1/log?offset=x", "", token1...).want(t, 400, "")
	// a line that has not ended is no message
	ask(t, "GET", url+"/runs/1/events", "", token1...).want(t, 200, `[{"a": 1}]`)

	// a long poll and an event stream get the transaction's append after its commit, and nothing of one rolled back
	lines := events(t, url+"/runs/1/log?offset="+next+"&live=sse", token1...)
	until(t, lines, "upToDate")
	polled := make(chan answer, 1)
	go func() {
		polled <- ask(t, "GET", url+"/runs/1/log?offset="+next+"&live=long-poll", "", token1...)
	}()
	sql(t, db, "BEGIN; UPDATE runs SET log = log || E'rolled back\\n' WHERE id = 1; ROLLBACK")
	sql(t, db, "BEGIN; UPDATE runs SET log = log || E'line 2: é\\n' WHERE id = 1; SELECT pg_sleep(0.3); COMMIT")
	(<-polled).want(t, 200, "line 2: é\n")
	if line := until(t, lines, "line"); line != "line 2: é" {
		t.Fatalf("%q", line)
	}
	// the end of the row is the end of the stream
	sql(t, db, "UPDATE runs SET log = log || 'last', finished_at = now() WHERE id = 1")
	until(t, lines, "last")
	until(t, lines, `"streamClosed":true`)
	ended(t, lines)
	a = ask(t, "HEAD", url+"/runs/1/log", "", token1...).want(t, 200, "")
	if a.header.Get("Stream-Closed") != "true" || a.header.Get("Stream-Next-Offset") != at(22) {
		t.Fatalf("headers %v", a.header)
	}
	// deleted while it is followed
	lines = events(t, url+"/runs/1/events?offset=-1&live=sse", token1...)
	until(t, lines, "upToDate")
	sql(t, db, "DELETE FROM runs WHERE id = 1")
	ended(t, lines)
}

// A request may spell a key differently; its followers are woken by the notification of the row.
func TestServerSpelledKey(t *testing.T) {
	db, c := fresh(t)
	c.PollMS = 600000
	sql(t, db, `CREATE TABLE files (id uuid PRIMARY KEY, log appendable_text); GRANT SELECT ON files TO reader;
		CREATE TRIGGER told AFTER UPDATE OF log ON files FOR EACH ROW EXECUTE FUNCTION appendable_notify('files', 'id');
		INSERT INTO files VALUES ('0a0b0c0d-0000-4000-8000-00000000000f', ''); INSERT INTO runs (id, log) VALUES (1, '')`)
	c.Routes = append(c.Routes, Route{Path: "/files/{id}", Table: "files", Key: "id", Column: "log", Incarnation: "0", Channel: "files"})
	_, url := serve(t, c)
	var all []<-chan string
	for _, path := range []string{"/runs/1/log", "/runs/01/log", "/runs/%201/log", "/files/0A0B0C0D-0000-4000-8000-00000000000F", "/files/%7B0a0b0c0d000040008000-00000000000f%7D"} {
		lines := events(t, url+path+"?offset=-1&live=sse", token1...)
		until(t, lines, "upToDate")
		all = append(all, lines)
	}
	time.Sleep(300 * time.Millisecond) // their first reads are over
	sql(t, db, "UPDATE runs SET log = log || 'news'; UPDATE files SET log = log || 'news'")
	for _, lines := range all {
		until(t, lines, "news")
	}
}

func TestServerNothingByDefault(t *testing.T) {
	_, c := fresh(t)
	c.Anonymous, c.Tokens = "", ""
	_, url := serve(t, c)
	for _, path := range []string{"/", "/runs/1/log", "/streams/a", "/streams/"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE"} {
			ask(t, method, url+path, "").want(t, 401, "")
		}
	}
	c.TokenSQL = "SELECT CASE $1 WHEN 'good' THEN 'web' WHEN 'none' THEN 'none' END"
	_, url = serve(t, c)
	ask(t, "PUT", url+"/streams/a", "", "Authorization", "Bearer bad").want(t, 401, "")
	ask(t, "PUT", url+"/streams/a", "", "Authorization", "Bearer none").want(t, 401, "") // not the connection's role
	ask(t, "PUT", url+"/streams/a", "", "Authorization", "Bearer good").want(t, 201, "")
}

func TestServerSharedReads(t *testing.T) {
	db, c := fresh(t)
	s, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, '')")
	var all []<-chan string
	for i := 0; i < 100; i++ {
		all = append(all, events(t, url+"/runs/1/log?offset=-1&live=sse", token1...))
		until(t, all[i], "upToDate")
	}
	before := s.hub.count()
	for n := 0; n < 20; n++ {
		sql(t, db, fmt.Sprintf("UPDATE runs SET log = log || 'append %d;' WHERE id = 1", n))
		for _, lines := range all {
			until(t, lines, fmt.Sprintf("append %d;", n))
		}
	}
	// a follower that is late reads at a former position; most share the read
	if reads := s.hub.count() - before; reads > 20*4 {
		t.Fatalf("%d reads for 20 appends and 100 followers", reads)
	}
	var listeners int
	db.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()").Scan(&listeners)
	if listeners != 1 {
		t.Fatalf("%d connections listen", listeners)
	}
}

func TestServerStored(t *testing.T) {
	db, c := fresh(t)
	_, url := serve(t, c)
	_, other := serve(t, c)
	text := []string{"Content-Type", "text/plain"}
	ask(t, "PUT", url+"/streams/a", "", text...).want(t, 201, "")
	// a follower of one server, appends through the other and in SQL
	lines := events(t, url+"/streams/a?offset=-1&live=sse")
	until(t, lines, "upToDate")
	ask(t, "POST", other+"/streams/a", "through the other", text...).want(t, 204, "")
	until(t, lines, "through the other")
	sql(t, db, "UPDATE streams.stream SET data = data || 'in SQL' WHERE path = '/streams/a'")
	until(t, lines, "in SQL")
	// bytes do not change, and a closed stream gets none, whoever writes
	for _, bad := range []string{"SET data = 'other'", "SET data = '\\x'"} {
		if _, err := db.Exec(context.Background(), "UPDATE streams.stream "+bad); sqlState(err) != "23514" {
			t.Fatalf("%s: %v", bad, err)
		}
	}
	ask(t, "POST", url+"/streams/a", "", "Stream-Closed", "true").want(t, 204, "")
	until(t, lines, `"streamClosed":true`)
	ended(t, lines)
	for _, bad := range []string{"SET data = data || 'x'", "SET closed = false"} {
		if _, err := db.Exec(context.Background(), "UPDATE streams.stream "+bad); sqlState(err) != "23514" {
			t.Fatalf("%s: %v", bad, err)
		}
	}
	// the same path again is another stream: an offset of the former one is refused, with the same length too
	a := ask(t, "HEAD", url+"/streams/a", "").want(t, 200, "")
	ask(t, "DELETE", url+"/streams/a", "").want(t, 204, "")
	ask(t, "PUT", url+"/streams/a", "THROUGH THE OTHERIN sql", text...).want(t, 201, "")
	ask(t, "GET", url+"/streams/a?offset="+a.header.Get("Stream-Next-Offset"), "").want(t, 410, "")
	// sizes
	ask(t, "POST", url+"/streams/a", strings.Repeat("x", 100001), text...).want(t, 413, "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /streams/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\npart of it")
	conn.(*net.TCPConn).CloseWrite()
	reply, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(reply), "HTTP/1.1 400") {
		t.Fatalf("an incomplete request got %q", reply)
	}
	ask(t, "GET", url+"/streams/a", "").want(t, 200, "THROUGH THE OTHERIN sql")
	// a value past its largest size
	sql(t, db, "ALTER ROLE postgres SET appendable_bytea.max_size = '1MB'")
	defer sql(t, db, "ALTER ROLE postgres RESET appendable_bytea.max_size")
	_, limited := serve(t, c)
	status := 0
	for i := 0; i < 15 && status != 413; i++ {
		status = ask(t, "POST", limited+"/streams/a", strings.Repeat("x", 90000), text...).status
	}
	if status != 413 {
		t.Fatalf("status %d past the largest size", status)
	}
}

// Transactions that hold more rows than there are connections delay requests for these streams only.
func TestServerHeldRow(t *testing.T) {
	db, c := fresh(t)
	c.Connections = 2
	_, url := serve(t, c)
	text := []string{"Content-Type", "text/plain"}
	ask(t, "PUT", url+"/streams/held", "", text...).want(t, 201, "")
	ask(t, "PUT", url+"/streams/free", "", text...).want(t, 201, "")
	for i := 0; i < 5; i++ {
		ask(t, "PUT", fmt.Sprintf("%s/streams/held%d", url, i), "", text...).want(t, 201, "")
	}
	sql(t, db, "BEGIN; SELECT FROM streams.stream WHERE path LIKE '/streams/held%' FOR UPDATE")
	done := make(chan answer, 40)
	for i := 0; i < cap(done); i++ {
		go func() { done <- ask(t, "POST", url+"/streams/held", "x", text...) }()
	}
	others := make(chan answer, 5)
	for i := 0; i < cap(others); i++ {
		go func(i int) { others <- ask(t, "POST", fmt.Sprintf("%s/streams/held%d", url, i), "z", text...) }(i)
	}
	waiting := "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	watch := connect(t, strings.ToLower(t.Name()))
	for i := 0; value(t, watch, waiting) != "2"; i++ {
		if i > 2000 {
			t.Fatal("no append waits for a held row")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := 0; i < 50; i++ {
		ask(t, "POST", url+"/streams/free", "y", text...).want(t, 204, "")
	}
	ask(t, "PUT", url+"/streams/new", "new", text...).want(t, 201, "")
	ask(t, "GET", url+"/streams/held", "").want(t, 200, "")
	ask(t, "DELETE", url+"/streams/new", "").want(t, 204, "")
	select {
	case a := <-done:
		t.Fatalf("an append to the held row ended: %v", a)
	default:
	}
	sql(t, db, "COMMIT")
	for i := 0; i < cap(done); i++ {
		(<-done).want(t, 204, "")
	}
	for i := 0; i < cap(others); i++ {
		(<-others).want(t, 204, "")
	}
	ask(t, "GET", url+"/streams/held", "").want(t, 200, strings.Repeat("x", cap(done)))
}

func TestServerShutdown(t *testing.T) {
	db, c := fresh(t)
	s, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, 'x')")
	lines := events(t, url+"/runs/1/log?offset=-1&live=sse", token1...)
	until(t, lines, "upToDate")
	polled := make(chan answer, 1)
	go func() {
		polled <- ask(t, "GET", url+"/runs/1/log?offset=now&live=long-poll", "", token1...)
	}()
	time.Sleep(200 * time.Millisecond)
	s.hub.close()
	ended(t, lines)
	(<-polled).want(t, 204, "")
}
