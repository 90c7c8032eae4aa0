package main

import (
	"context"
	"fmt"
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
	line := lineOf(0, 0)
	send := func(path string) {
		if status, err := post(url+path, line, "", 0); err != nil || status != 204 {
			t.Errorf("%s: status %d, %v", path, status, err)
		}
	}
	var first, free, locked []time.Duration
	for round := 0; round <= 10; round++ {
		lock, times := round > 0 && round%2 == 0, &free
		if lock {
			times = &locked
		} else if round == 0 { // which opens connections
			times = &first
		}
		var held sync.WaitGroup
		if lock {
			sql(t, db, "BEGIN; SELECT FROM streams.stream WHERE path = '/streams/held' FOR UPDATE")
			for i := 0; i < 20; i++ {
				held.Add(1)
				go func() { defer held.Done(); send("/streams/held") }()
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
					send(fmt.Sprintf("/streams/free%d", i))
					mu.Lock()
					*times = append(*times, time.Since(begin))
					mu.Unlock()
				}
			}(i)
		}
		wait.Wait()
		if lock {
			sql(t, db, "COMMIT")
			held.Wait()
		}
	}
	var length int
	if err := db.QueryRow(context.Background(), "SELECT appendable_length(data) FROM streams.stream WHERE path = '/streams/held'").Scan(&length); err != nil || length != 5*20*200 {
		t.Errorf("%d bytes in the held stream, %v", length, err)
	}
	fmt.Println(delayHead + delayRow(fmt.Sprintf("`POST` of %d writers, no row is locked", writers), free) +
		delayRow(fmt.Sprintf("`POST` of %d writers, the row of another stream is locked", writers), locked))
	t.Logf("a locked row: %.2f times the 99th percentile of the other streams", percentile(locked, 99)/percentile(free, 99))
}
