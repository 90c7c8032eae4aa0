package main

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// Measurements for make bench-streams; nothing here asserts a time.

func percentiles(all []time.Duration) string {
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	at := func(p int) float64 { return float64(all[(len(all)-1)*p/100].Microseconds()) / 1000 }
	return fmt.Sprintf("%7.2f ms median, %7.2f ms 99th percentile", at(50), at(99))
}

// How long after an UPDATE in SQL was sent, and after its commit was acknowledged, the last of the followers has its bytes.
func TestBenchDelay(t *testing.T) {
	db, c := fresh(t)
	c.EventMS = 600000
	_, url := serve(t, c)
	n := number(t, "STREAMS_TEST_APPENDS") / 5
	for i, followers := range []int{1, 200} {
		sql(t, db, fmt.Sprintf("INSERT INTO runs (id, log) VALUES (%d, '')", i))
		all := crowd(t, followers, fmt.Sprintf("%s/runs/%d/log?offset=-1&live=sse", url, i), token1...)
		var sent, acknowledged []time.Duration
		for k := 0; k < n; k++ {
			line := fmt.Sprintf("append %d;", k)
			begin := time.Now()
			sql(t, db, fmt.Sprintf("UPDATE runs SET log = log || '%s' WHERE id = %d", line, i))
			committed := time.Now()
			for _, lines := range all {
				until(t, lines, line)
			}
			sent = append(sent, time.Since(begin))
			acknowledged = append(acknowledged, time.Since(committed))
			for _, lines := range all {
				until(t, lines, "upToDate")
			}
		}
		t.Logf("UPDATE to %3d followers, since it was sent:           %s (%d appends)", followers, percentiles(sent), n)
		t.Logf("UPDATE to %3d followers, since its commit was answered: %s", followers, percentiles(acknowledged))
	}
}

// Appends to other streams, alternately without and with a transaction that holds one stream's row, to which requests wait.
func TestBenchHeldRow(t *testing.T) {
	db, c := fresh(t)
	_, url := serve(t, c)
	ask(t, "PUT", url+"/streams/held", "", plain...).want(t, 201, "")
	const writers = 16
	for i := 0; i < writers; i++ {
		ask(t, "PUT", fmt.Sprintf("%s/streams/free%d", url, i), "", plain...).want(t, 201, "")
	}
	n := number(t, "STREAMS_TEST_APPENDS") / 10
	post := func(path string) error {
		w, err := http.Post(url+path, "text/plain", strings.NewReader(strings.Repeat("x", 199)+"\n"))
		if err == nil {
			w.Body.Close()
			if w.StatusCode != 204 {
				err = fmt.Errorf("status %d", w.StatusCode)
			}
		}
		return err
	}
	var times [2][]time.Duration
	for round := 0; round < 10; round++ {
		var held sync.WaitGroup
		if round%2 == 1 {
			sql(t, db, "BEGIN; SELECT FROM streams.stream WHERE path = '/streams/held' FOR UPDATE")
			for i := 0; i < 20; i++ {
				held.Add(1)
				go func() { defer held.Done(); post("/streams/held") }()
			}
		}
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := 0; i < writers; i++ {
			wait.Add(1)
			go func(i int) {
				defer wait.Done()
				for k := 0; k < n/writers+1; k++ {
					begin := time.Now()
					err := post(fmt.Sprintf("/streams/free%d", i))
					mu.Lock()
					if times[round%2] = append(times[round%2], time.Since(begin)); err != nil {
						t.Error(err)
					}
					mu.Unlock()
				}
			}(i)
		}
		wait.Wait()
		if round%2 == 1 {
			sql(t, db, "COMMIT")
			held.Wait()
		}
	}
	var length int
	if err := db.QueryRow(context.Background(), "SELECT appendable_length(data) FROM streams.stream WHERE path = '/streams/held'").Scan(&length); err != nil || length != 5*20*200 {
		t.Errorf("%d bytes in the held stream, %v", length, err)
	}
	t.Logf("POST of %d writers, no row is held:       %s (%d appends)", writers, percentiles(times[0]), len(times[0]))
	t.Logf("POST of %d writers, the row of another stream is held: %s", writers, percentiles(times[1]))
}
