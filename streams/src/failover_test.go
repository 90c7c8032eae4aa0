package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// eventually waits until a query returns true.
func eventually(t *testing.T, db *pgx.Conn, query string) {
	t.Helper()
	for i := 0; ; i++ {
		var is bool
		if err := db.QueryRow(context.Background(), query).Scan(&is); err == nil && is {
			return
		} else if i > 600 {
			t.Fatalf("%s: %v, %v", query, is, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A standby is promoted that did not get the last appends, and others are written to the same offsets: who has an offset of
// the lost bytes gets an error, and never the bytes that are there now.
func TestServerFailover(t *testing.T) {
	standby := func(how string) {
		t.Helper()
		if out, err := exec.Command(os.Getenv("STREAMS_TEST_STANDBY"), how).CombinedOutput(); err != nil {
			t.Fatalf("standby %s: %v: %s", how, err, out)
		}
	}
	db, c := fresh(t)
	sockets, name := os.Getenv("STREAMS_TEST_SOCKETS"), strings.ToLower(t.Name())
	c.Database = "host=" + sockets + "," + sockets + " port=5432,5433 user=postgres dbname=" + name + " target_session_attrs=read-write"
	c.LongPollMS, c.EventMS, c.PollMS = 60000, 60000, 1000
	_, url := serve(t, c)
	paths := []string{"/streams/a", "/runs/1/log"}
	// a connection that PostgreSQL left gives 503, and the request is sent again
	again := func(method, url, body string, headers ...string) answer {
		t.Helper()
		for i := 0; ; i++ {
			if a := ask(t, method, url, body, headers...); a.status != 503 || i > 600 {
				return a
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	ask(t, "PUT", url+paths[0], "one\n", plain...).want(t, 201, "")
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, E'one\\n'); GRANT USAGE ON SCHEMA streams TO reader; GRANT SELECT ON streams.stream TO reader")
	end := func(path string) string {
		t.Helper()
		return again("HEAD", url+path, "", token1...).want(t, 200, "").header.Get("Stream-Next-Offset")
	}

	standby("start")
	defer standby("stop")
	second, err := pgx.Connect(context.Background(), "host="+sockets+" port=5433 user=postgres dbname="+name)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	eventually(t, second, "SELECT count(*) = 1 FROM runs")
	kept := map[string]string{}
	for _, path := range paths {
		kept[path] = end(path)
	}
	sql(t, second, "ALTER SYSTEM SET primary_conninfo = ''")
	sql(t, second, "SELECT pg_reload_conf()")
	eventually(t, second, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")

	ask(t, "POST", url+paths[0], "lost\n", plain...).want(t, 204, "")
	sql(t, db, "UPDATE runs SET log = log || E'lost\\n'")
	// a crash loses nothing, and its tokens stay valid
	restart(t, "both")
	lost, tags := map[string]string{}, map[string]string{}
	polls, lines := map[string]chan int{}, map[string]<-chan string{}
	for _, path := range paths {
		path := path
		lost[path] = again("GET", url+path+"?offset="+kept[path], "", token1...).want(t, 200, "lost\n").header.Get("Stream-Next-Offset")
		again("GET", url+path+"?offset="+lost[path], "", token1...).want(t, 200, "")
		tags[path] = again("GET", url+path+"?offset=-1", "", token1...).want(t, 200, "one\nlost\n").header.Get("ETag")
		// followers that wait at the end
		lines[path] = events(t, url+path+"?live=sse&offset="+lost[path], token1...)
		until(t, lines[path], "upToDate")
		polls[path] = make(chan int, 1)
		go func() {
			r, _ := http.NewRequest("GET", url+path+"?live=long-poll&offset="+lost[path], nil)
			r.Header.Set(token1[0], token1[1])
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				polls[path] <- 0
				return
			}
			w.Body.Close()
			polls[path] <- w.StatusCode
		}()
	}
	time.Sleep(300 * time.Millisecond)

	restart(t, "stop")
	defer restart(t, "start")
	sql(t, second, "SELECT pg_promote()")
	eventually(t, second, "SELECT NOT pg_is_in_recovery()")
	again("POST", url+paths[0], "best\n", plain...).want(t, 204, "")
	sql(t, second, "UPDATE runs SET log = log || E'best\\n'")
	for _, path := range paths { // bytes that are as many as the lost ones
		again("GET", url+path+"?offset=-1", "", append([]string{"If-None-Match", tags[path]}, token1...)...).want(t, 200, "one\nbest\n")
		again("GET", url+path+"?offset="+lost[path], "", token1...).want(t, 410, "")
	}
	again("POST", url+paths[0], "other line\n", plain...).want(t, 204, "")
	sql(t, second, "UPDATE runs SET log = log || E'other line\\n'")

	for _, path := range paths {
		for line := range lines[path] {
			if strings.Contains(line, "line") || strings.Contains(line, "best") {
				t.Errorf("%s: the follower got %q", path, line)
			}
		}
		if status := <-polls[path]; status != 410 {
			t.Errorf("%s: status %d of a long poll", path, status)
		}
		for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
			again("GET", url+path+"?offset="+lost[path]+live, "", token1...).want(t, 410, "")
		}
		a := again("GET", url+path+"?offset=-1", "", token1...).want(t, 200, "one\nbest\nother line\n")
		if next := a.header.Get("Stream-Next-Offset"); next != end(path) || tokenTimeline(next) != 2 {
			t.Errorf("%s: offset %s", path, next)
		}
		again("GET", url+path+"?offset="+end(path), "", token1...).want(t, 200, "")
	}
	again("PUT", url+"/streams/f", "", append([]string{"Stream-Forked-From", paths[0], "Stream-Fork-Offset", lost[paths[0]]}, plain...)...).want(t, 400, "")
	again("PUT", url+"/streams/f", "", append([]string{"Stream-Forked-From", paths[0], "Stream-Fork-Offset", end(paths[0])}, plain...)...).want(t, 201, "")
}
