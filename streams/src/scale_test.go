package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestUnitFollowersFitDescriptors(t *testing.T) {
	c := &Config{Followers: 20000}
	if !fitFollowers(c, 32, 1024) || c.Followers != 732 {
		t.Errorf("%d followers with 1024 open files", c.Followers)
	}
	if fitFollowers(c, 32, 1<<20) || c.Followers != 732 {
		t.Errorf("%d followers with a high limit", c.Followers)
	}
	if fitFollowers(c, 32, 10); c.Followers != 1 {
		t.Errorf("%d followers with 10 open files", c.Followers)
	}
}

// affordable returns how many of so many followers this process can have: both ends of a connection are in it.
func affordable(t *testing.T, want int) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	const others = 300
	n := want
	if limit.Cur < 1<<30 && 2*n+others > int(limit.Cur) {
		n = (int(limit.Cur) - others) / 2
	}
	if n < 100 {
		t.Skipf("the limit of %d open files is too low", limit.Cur)
	}
	if n < want {
		t.Logf("%d followers instead of %d, because of the limit of %d open files", n, want, limit.Cur)
	}
	return n
}

// crowd follows a stream n times.
func crowd(t *testing.T, n int, url string, headers ...string) []<-chan string {
	t.Helper()
	all := make([]<-chan string, n)
	for i := range all {
		all[i] = events(t, url, headers...)
	}
	for _, lines := range all {
		until(t, lines, "upToDate")
	}
	return all
}

// Followers of two servers get every append of both kinds of streams, whoever wrote it, and a server reads it once for all.
func TestServerManyFollowers(t *testing.T) {
	n := affordable(t, 2000) / 4
	db, c := fresh(t)
	c.EventMS, c.PollMS = 600000, 600000
	one, urlOne := serve(t, c)
	two, urlTwo := serve(t, c)
	text := []string{"Content-Type", "text/plain"}
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, '')")
	ask(t, "PUT", urlOne+"/streams/crowd", "", text...).want(t, 201, "")
	var streams, runs []<-chan string
	for _, url := range []string{urlOne, urlTwo} {
		streams = append(streams, crowd(t, n, url+"/streams/crowd?offset=-1&live=sse")...)
		runs = append(runs, crowd(t, n, url+"/runs/1/log?offset=-1&live=sse", token1...)...)
	}
	before := []int{one.hub.count(), two.hub.count()}
	appends := 0
	for i := 0; i < 10; i++ {
		for _, how := range []string{"one", "two", "SQL", "run"} {
			line := fmt.Sprintf("%s %d;", how, i)
			all := streams
			switch how {
			case "one":
				ask(t, "POST", urlOne+"/streams/crowd", line, text...).want(t, 204, "")
			case "two":
				ask(t, "POST", urlTwo+"/streams/crowd", line, text...).want(t, 204, "")
			case "SQL":
				sql(t, db, "UPDATE streams.stream SET data = data || '"+line+"' WHERE path = '/streams/crowd'")
			case "run":
				sql(t, db, "UPDATE runs SET log = log || '"+line+"' WHERE id = 1")
				all = runs
			}
			appends++
			for f, lines := range all {
				// the data, and then the event that follows it
				if got := until(t, lines, ""); got != line {
					t.Fatalf("follower %d got %q instead of %q", f, got, line)
				}
				until(t, lines, "upToDate")
			}
		}
	}
	for i, s := range []*server{one, two} {
		if reads := s.hub.count() - before[i]; reads != appends {
			t.Errorf("server %d made %d reads for %d appends", i+1, reads, appends)
		}
	}
	t.Logf("%d followers of 2 servers, %d appends, a read by each server for each", 4*n, appends)
}

// Followers outlive PostgreSQL: they continue where they were.  However many there are, and however many requests come in the
// meantime, one loop tries to connect, and after the return no more connections are made than the pools have.
func TestServerDatabaseDown(t *testing.T) {
	n := affordable(t, 1000)
	db, c := fresh(t)
	c.EventMS, c.PollMS = 600000, 1000
	s, url := serve(t, c)
	text := []string{"Content-Type", "text/plain"}
	sql(t, db, "INSERT INTO runs (id, log) SELECT i, 'before' FROM generate_series(1, 10) i")
	var all []<-chan string
	for i := 1; i <= 10; i++ {
		all = append(all, crowd(t, n/10, fmt.Sprintf("%s/runs/%d/log?offset=-1&live=sse", url, i), token1...)...)
	}
	ask(t, "PUT", url+"/streams/a", "", text...).want(t, 201, "")
	dials, attempts := s.d.dialed(), s.d.attempts()
	restart(t, "stop")
	begin := time.Now()
	seconds := number(t, "STREAMS_TEST_DOWN")
	requests := 0
	for time.Since(begin) < time.Duration(seconds)*time.Second {
		for i := 0; i < 4; i++ {
			ask(t, "GET", url+"/runs/1/log?offset=-1&live=sse", "", token1...).want(t, 503, "")
			ask(t, "POST", url+"/streams/a", "x", text...).want(t, 503, "")
			requests += 2
		}
		time.Sleep(100 * time.Millisecond)
	}
	restart(t, "start")
	for i := 0; s.d.isDown(); i++ {
		if i > 1000 {
			t.Fatal("the listener does not connect")
		}
		time.Sleep(10 * time.Millisecond)
	}
	down := time.Since(begin)
	db = connect(t, strings.ToLower(t.Name()))
	sql(t, db, "UPDATE runs SET log = log || 'after'")
	for f, lines := range all {
		if line := until(t, lines, ""); line != "after" {
			t.Fatalf("follower %d got %q after the return", f, line)
		}
	}
	attempts, dials = s.d.attempts()-attempts, s.d.dialed()-dials
	if most := int(down/ms(c.ReconnectMS)) + 3; attempts > most {
		t.Errorf("%d attempts of the listener in %v, expected at most %d", attempts, down, most)
	}
	// connections that the pools had are lost, and may be tried once until the listener has found out
	if most := attempts + 2*s.d.most(); dials > most {
		t.Errorf("%d connections were tried, expected at most %d", dials, most)
	}
	t.Logf("%d followers, %d other requests, %v without PostgreSQL: %d connections were tried, %d of them by the listener", len(all), requests, down.Round(time.Second), dials, attempts)
}

// A follower that takes nothing is disconnected.  Until then nothing is read or kept for it, and others get everything.
func TestServerSlowFollower(t *testing.T) {
	db, c := fresh(t)
	c.WriteMS, c.PollMS, c.EventMS = 1500, 600000, 600000
	s, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, '')")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, "GET /runs/1/log?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n")
	following := func(n int64) {
		t.Helper()
		for i := 0; atomic.LoadInt64(&s.followers) != n; i++ {
			if i > 1000 {
				t.Fatalf("%d followers instead of %d", atomic.LoadInt64(&s.followers), n)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	following(1)
	lines := events(t, url+"/runs/1/log?offset=-1&live=sse", token1...)
	until(t, lines, "upToDate")
	const pieces = 40
	line := strings.Repeat("x", 999)
	counted := make(chan int, 1)
	go func() {
		n := 0
		for l := range lines {
			if !strings.HasPrefix(l, "{") {
				n += len(l) // an event may end inside a line
			}
			if l == "the end" {
				n -= len(l)
				break
			}
		}
		counted <- n
	}()
	before := s.hub.count()
	for i := 0; i < pieces; i++ {
		sql(t, db, "UPDATE runs SET log = log || repeat('"+line+"' || chr(10), 500) WHERE id = 1")
	}
	sql(t, db, "UPDATE runs SET log = log || 'the end' WHERE id = 1")
	select {
	case n := <-counted:
		if n != pieces*500*len(line) {
			t.Errorf("%d bytes instead of %d", n, pieces*500*len(line))
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the other follower does not get everything")
	}
	following(1)
	// the buffers of the connection took some of it; after that nothing was read for the slow one
	if reads := s.hub.count() - before; reads > 3*pieces {
		t.Errorf("%d reads for %d appends", reads, pieces)
	}
}

// A commit while the listener has no connection is found when it connects again.
func TestServerListenerLost(t *testing.T) {
	db, c := fresh(t)
	c.ReconnectMS, c.PollMS = 10000, 600000
	s, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, 'before')")
	lines := events(t, url+"/runs/1/log?offset=-1&live=sse", token1...)
	until(t, lines, "upToDate")
	end := "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
	listening := func(attempts int) {
		t.Helper()
		for i := 0; s.d.attempts() < attempts || value(t, db, "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'LISTEN \"runs\"' AND datname = current_database()") != "1"; i++ {
			if i > 2000 {
				t.Fatal("the listener does not connect")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	listening(1)
	sql(t, db, end)
	for value(t, db, "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()") != "0" {
		time.Sleep(10 * time.Millisecond)
	}
	// it had not lasted, so the next attempt is seconds away
	sql(t, db, "UPDATE runs SET log = log || 'while nothing listened' WHERE id = 1")
	if n := s.d.attempts(); n != 1 {
		t.Fatalf("%d attempts: the update came too late", n)
	}
	if line := until(t, lines, ""); line != "while nothing listened" {
		t.Fatalf("%q", line)
	}
	listening(2)
	sql(t, db, "UPDATE runs SET log = log || 'and after' WHERE id = 1")
	if line := until(t, lines, "after"); line != "and after" {
		t.Fatalf("%q", line)
	}
}

// A server whose limit of open files is low refuses followers, not other requests.
func TestServerFewDescriptors(t *testing.T) {
	_, c := fresh(t)
	c.Connections = 2
	file := child(t, c)
	program := exec.Command("sh", "-c", `ulimit -n 100; exec "$0" "$@"`, programFile(t), "-config", file)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { program.Process.Kill(); program.Wait() }()
	url := "http://" + c.Listen + "/streams/a"
	answers(t, url)
	text := []string{"Content-Type", "text/plain"}
	ask(t, "PUT", url, "", text...).want(t, 201, "")
	const most = (100 - (3*2 + 4 + 1 + 1) - 16) * 3 / 4
	ctx, leave := context.WithCancel(context.Background())
	follow := func() int {
		r, _ := http.NewRequestWithContext(ctx, "GET", url+"?offset=-1&live=sse", nil)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Body.Close() })
		if w.StatusCode == 503 && w.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return w.StatusCode
	}
	for i := 0; i < most; i++ {
		if status := follow(); status != 200 {
			t.Fatalf("status %d of follower %d of %d", status, i, most)
		}
	}
	for i := 0; i < 5; i++ {
		if status := follow(); status != 503 {
			t.Fatalf("status %d of a follower too many", status)
		}
	}
	var wait sync.WaitGroup
	for i := 0; i < 10; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r, err := http.Post(url, "text/plain", strings.NewReader("x"))
			if err != nil || r.StatusCode != 204 {
				t.Errorf("%v, %v", r, err)
				return
			}
			r.Body.Close()
		}()
	}
	wait.Wait()
	ask(t, "GET", url, "").want(t, 200, strings.Repeat("x", 10))
	leave()
	ctx = context.Background()
	for i := 0; follow() != 200; i++ {
		if i > 200 {
			t.Fatal("followers that left are counted")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
