package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Measurements for make bench-streams; nothing here asserts a time.

// A table of delays, which the documents show (lab/pg_lean/docs.py).
const delayHead = "\n| delay | appends | median | 99th percentile |\n|---|--:|--:|--:|\n"

func delayRow(what string, all []time.Duration) string {
	return fmt.Sprintf("| %s | %d | %.2f ms | %.2f ms |\n", what, len(all), percentile(all, 50), percentile(all, 99))
}

// How long after an UPDATE in SQL was sent, and after its commit was acknowledged, the last of the followers has its bytes.
func TestBenchDelay(t *testing.T) {
	db, c := fresh(t)
	c.EventMS = 600000
	_, url := serve(t, c)
	n := number(t, "STREAMS_TEST_APPENDS") / 5
	table := delayHead
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
		table += delayRow(fmt.Sprintf("from an `UPDATE` to the last of its followers (%d)", followers), sent)
		table += delayRow(fmt.Sprintf("from its answer to the last of its followers (%d)", followers), acknowledged)
	}
	fmt.Println(table)
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
	fmt.Println(delayHead + delayRow(fmt.Sprintf("`POST` of %d writers, no row is locked", writers), times[0]) +
		delayRow(fmt.Sprintf("`POST` of %d writers, the row of another stream is locked", writers), times[1]))
	t.Logf("a locked row: %.2f times the 99th percentile of the other streams", percentile(times[1], 99)/percentile(times[0], 99))
}
