package main

import (
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

// Appends to other streams, in turns that change places: without another transaction; with one that has an identifier, so
// that no dead row is removed; and with one that holds a stream's row, for which requests wait.
func TestBenchHeldRow(t *testing.T) {
	rounds, long := number(t, "STREAMS_TEST_ROUNDS"), time.Duration(number(t, "STREAMS_TEST_MILLISECONDS"))*time.Millisecond
	c, db := thisProgram(t)
	newStream(t, c.base+"held")
	const waiting = 20
	kinds := []struct{ what, begin string }{
		{"no transaction is open", ""},
		{"a transaction is open", "BEGIN; SELECT pg_current_xact_id()"},
		{"the row of another stream is locked", "BEGIN; SELECT FROM streams.stream WHERE path = '/streams/held' FOR UPDATE"},
	}
	const locked = 2
	results := make([][]turn, len(kinds))
	for round := 0; round < rounds; round++ {
		for i := range kinds {
			kind := (round + i) % len(kinds)
			var held sync.WaitGroup
			if kinds[kind].begin != "" {
				sql(t, db, kinds[kind].begin)
			}
			if kind == locked {
				for k := 0; k < waiting; k++ {
					held.Add(1)
					go func() {
						defer held.Done()
						if status, err := post(c.base+"held", lineOf(0, 0), "", 0); err != nil || status != 204 {
							t.Errorf("status %d, %v", status, err)
						}
					}()
				}
				time.Sleep(200 * time.Millisecond)
			}
			result := c.run(t, fmt.Sprintf("free%d-%d", round, kind), load{16, false}, long)
			if kinds[kind].begin != "" {
				sql(t, db, "COMMIT")
			}
			held.Wait()
			if result.wrong != "" || result.refused > 0 {
				t.Errorf("round %d: %d refused, %s", round+1, result.refused, result.wrong)
			}
			results[kind] = append(results[kind], result)
			t.Logf("round %d, %s: %.2f ms median, %.2f ms 99th percentile, %d appends", round+1, kinds[kind].what, result.p50, result.p99, result.appends)
		}
	}
	if got, want := len(content(t, c.base+"held")), rounds*waiting*200; got != want {
		t.Errorf("%d bytes in the held stream, expected %d", got, want)
	}
	fmt.Printf("\n| `POST` of 16 writers | appends | median | 99th percentile | times the 99th percentile |\n|---|--:|--:|--:|---|\n")
	for kind := range kinds {
		appends, p50, p99, ratios := 0, []float64{}, []float64{}, []float64{}
		for round, r := range results[kind] {
			appends += r.appends
			p50, p99 = append(p50, r.p50), append(p99, r.p99)
			ratios = append(ratios, r.p99/results[0][round].p99)
		}
		ratio := ""
		if kind > 0 {
			low, high := interval(ratios)
			ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), low, high)
		}
		fmt.Printf("| %s | %d | %.2f ms | %.2f ms | %s |\n", kinds[kind].what, appends, median(p50), median(p99), ratio)
	}
	fmt.Println()
}
