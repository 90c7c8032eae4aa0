package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestUnitNotices(t *testing.T) {
	n := newNotices()
	n.add(1, 2, 1)
	if ids, ok := n.carry(); !ok || len(ids) != 2 {
		t.Errorf("%v, %v", ids, ok)
	}
	n.carried = time.Now().Add(time.Hour)
	n.add(3)
	if ids, ok := n.carry(); ok || len(ids) != 0 {
		t.Errorf("%v soon after another notification", ids)
	}
	if n.wait() < time.Minute {
		t.Error("a notification does not wait")
	}
	// the time of a notification without an append is none of one with it
	n.carried, n.told = time.Time{}, time.Now().Add(time.Hour)
	if n.wait() < time.Minute {
		t.Error("a notification does not wait for one without an append")
	}
	if ids, ok := n.carry(); !ok || len(ids) != 1 {
		t.Errorf("%v, %v after a notification without an append", ids, ok)
	}
	for i := int64(0); i < 2*tellStreams; i++ {
		n.add(i)
	}
	if n.wait() > 0 {
		t.Error("more streams wait than an append takes")
	}
	for left := 2 * tellStreams; left > 0; {
		ids := n.tell()
		if len(ids) == 0 || len(ids) > tellStreams {
			t.Fatalf("%d streams", len(ids))
		}
		left -= len(ids)
	}
}

// The statement for all requests that have only bytes decides as the loop over requests does.
func TestServerGathered(t *testing.T) {
	db, _ := fresh(t)
	sql(t, db, "SET streams.quiet = on")
	results := map[string]string{}
	for _, alone := range []string{"NULL", "ARRAY[1, 2, 3, 4, 5, 6, 7, 8]"} {
		sql(t, db, `TRUNCATE streams.stream CASCADE;
			SELECT streams.create_stream('/' || n, m, m, 'begin;', n = 'closed', CASE WHEN n IN ('ttl', 'over') THEN 1000 END, CASE WHEN n IN ('expires', 'past') THEN '2100-01-01T00:00:00Z' END)
				FROM (VALUES ('plain'), ('closed'), ('ttl'), ('over'), ('expires'), ('past'), ('gone')) s (n), (VALUES ('text/plain')) t (m);
			SELECT streams.create_stream('/media', 'text/html', 'text/html', 'begin;', false, NULL, NULL);
			SELECT streams.create_stream('/fork', NULL, NULL, '', false, NULL, NULL, '/gone');
			SELECT streams.delete_stream('/gone');
			UPDATE streams.stream SET touched = touched - interval '100 s' WHERE path = '/ttl';
			UPDATE streams.stream SET touched = touched - interval '2000 s' WHERE path = '/over';
			UPDATE streams.stream SET expires_at = '2000-01-01' WHERE path = '/past'`)
		rows, err := db.Query(context.Background(), `SELECT format('%s %s %s %s', p, status, tail, closed)
			FROM (SELECT array_agg('/' || p ORDER BY n) paths FROM unnest(ARRAY['plain', 'closed', 'ttl', 'over', 'expires', 'past', 'gone', 'media', 'none', 'fork', 'fork']) WITH ORDINALITY s (p, n)) a,
				streams.append(a.paths, array_fill('text/plain'::text, ARRAY[11]), array_fill('more;'::bytea, ARRAY[11]), array_fill(false, ARRAY[11]), array_fill(NULL::text, ARRAY[11]),
				array_fill(NULL::text, ARRAY[11]), array_fill(NULL::bigint, ARRAY[11]), array_fill(NULL::bigint, ARRAY[11]), true, `+alone+`) r, unnest(a.paths) WITH ORDINALITY q (p, m)
			WHERE q.m = r.n ORDER BY r.n`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			results[alone] += line + "\n"
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		results[alone] += value(t, db, "SELECT string_agg(format('%s %s %s', path, encode(data, 'escape'), touched > now() - interval '50 s'), E'\\n' ORDER BY path) FROM streams.stream")
	}
	one, all := results["NULL"], results["ARRAY[1, 2, 3, 4, 5, 6, 7, 8]"]
	if one != all || !strings.Contains(one, "/plain begin;more; t") || !strings.Contains(one, "/fork ok 16 f") || !strings.Contains(one, "/media media") {
		t.Errorf("one by one:\n%s\ntogether:\n%s", one, all)
	}
}

// Two servers append to the same streams: each line is there once, and those of a writer are in order.
func TestServerTwoServersAppend(t *testing.T) {
	db, c := fresh(t)
	_, first := serve(t, c)
	_, second := serve(t, c)
	const writers, streams, lines = 12, 3, 60
	for i := 0; i < streams; i++ {
		ask(t, "PUT", fmt.Sprintf("%s/streams/%d", first, i), "", plain...).want(t, 201, "")
	}
	var wait sync.WaitGroup
	for w := 0; w < writers; w++ {
		wait.Add(1)
		go func(w int) {
			defer wait.Done()
			for k := 0; k < lines; k++ {
				url := first
				if (w+k)%2 == 0 {
					url = second
				}
				if status, err := post(fmt.Sprintf("%s/streams/%d", url, w%streams), fmt.Sprintf("%d:%d\n", w, k), "", 0); status != 204 {
					t.Errorf("status %d, %v", status, err)
				}
			}
		}(w)
	}
	wait.Wait()
	next := [writers]int{}
	for i := 0; i < streams; i++ {
		for _, line := range strings.Split(strings.TrimSpace(value(t, db, fmt.Sprintf("SELECT encode(data, 'escape') FROM streams.stream WHERE path = '/streams/%d'", i))), "\n") {
			var w, k int
			if fmt.Sscanf(line, "%d:%d", &w, &k); w%streams != i || k != next[w] {
				t.Fatalf("stream %d: line %q, and %d was expected", i, line, next[w])
			}
			next[w]++
		}
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("writer %d: %d lines", w, n)
		}
	}
}

// Every stream that changed is in a notification, of an append's transaction or of one that only notifies.
func TestServerNotices(t *testing.T) {
	db, c := fresh(t)
	s, url := serve(t, c)
	ids := map[string]bool{}
	for i := 0; i < 20; i++ {
		ask(t, "PUT", fmt.Sprintf("%s/streams/%d", url, i), "", plain...).want(t, 201, "")
	}
	ask(t, "PUT", url+"/streams/closed", "", append([]string{"Stream-Closed", "true"}, plain...)...).want(t, 201, "")
	sql(t, db, "LISTEN "+ownChannel)
	// wait until a notification has all of these
	heard := func(want ...string) {
		t.Helper()
		over, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for missing := want; len(missing) > 0; {
			notification, err := db.WaitForNotification(over)
			if err != nil {
				t.Fatalf("%v: not notified of %v", err, missing)
			}
			_, list, ok := strings.Cut(notification.Payload, ":")
			if !ok {
				continue // the table's trigger, for appends in SQL
			}
			for _, id := range strings.Split(list, ",") {
				ids[id] = true
			}
			left := []string{}
			for _, id := range missing {
				if !ids[id] {
					left = append(left, id)
				}
			}
			missing = left
		}
	}
	id := func(path string) string {
		return value(t, db, "SELECT id::text FROM streams.stream WHERE path = '"+path+"'")
	}
	all := []string{}
	for i := 0; i < 20; i++ {
		all = append(all, id(fmt.Sprintf("/streams/%d", i)))
	}
	for i := 0; i < 20; i++ {
		ask(t, "POST", fmt.Sprintf("%s/streams/%d", url, i), "x", plain...).want(t, 204, "")
	}
	heard(all...)
	ids = map[string]bool{}
	for i := 0; i < 20; i++ {
		ask(t, "POST", fmt.Sprintf("%s/streams/%d", url, i), "x", append(produced("p", 0, 0), plain...)...).want(t, 200, "")
	}
	heard(all...)
	// the same of requests that are one statement
	ids = map[string]bool{}
	sql(t, db, `SELECT streams.append(ARRAY['/streams/3', '/streams/4'], ARRAY['text/plain', 'text/plain'], ARRAY['x', 'x']::bytea[], ARRAY[false, false], ARRAY[NULL, NULL]::text[],
		ARRAY[NULL, NULL]::text[], ARRAY[NULL, NULL]::bigint[], ARRAY[NULL, NULL]::bigint[], true, ARRAY[1, 2], 'test:')`)
	heard(all[3], all[4])
	// a batch of which nothing is appended does not notify of the streams before
	s.d.notices.mu.Lock()
	s.d.notices.streams[4711] = true
	s.d.notices.carried = time.Time{}
	s.d.notices.mu.Unlock()
	ask(t, "POST", url+"/streams/closed", "x", plain...).want(t, 409, "")
	heard("4711")
	// a single append notifies in its transaction
	s.d.notices.mu.Lock()
	s.d.notices.carried = time.Time{}
	s.d.notices.streams = map[int64]bool{}
	s.d.notices.mu.Unlock()
	ids = map[string]bool{}
	s.d.notifier.Close()
	ask(t, "POST", url+"/streams/0", "x", plain...).want(t, 204, "")
	heard(all[0])
}
