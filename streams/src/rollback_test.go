package main

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// An append that is rolled back is never visible, in whatever way its transaction ends, and however the stream is read in the meantime.
func TestServerRolledBack(t *testing.T) {
	db, c := fresh(t)
	c.PollMS = 20 // followers read while transactions are open, too
	_, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, '')")
	ask(t, "PUT", url+"/streams/a", "", plain...).want(t, 201, "")
	for _, at := range []struct {
		url, update string
		header      []string
	}{
		{url + "/runs/1/log", "UPDATE runs SET log = log || '%s' WHERE id = 1", token1},
		{url + "/streams/a", "UPDATE streams.stream SET data = data || '%s' WHERE path = '/streams/a'", nil},
	} {
		lines := events(t, at.url+"?offset=-1&live=sse", at.header...)
		stop := make(chan struct{})
		reads, bad := int64(0), make(chan string, 1)
		go func() { // reads without a pause
			defer close(bad)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a := ask(t, "GET", at.url, "", at.header...); strings.Contains(a.body, "rolled") {
					bad <- a.body
					return
				}
				atomic.AddInt64(&reads, 1)
			}
		}()
		rng := rand.New(rand.NewSource(7))
		want := ""
		append := func(text string) string { return fmt.Sprintf(at.update, text) }
		for i := 0; i < 60; i++ {
			kept, lost := fmt.Sprintf("kept %d;", i), fmt.Sprintf("rolled back %d;", i)
			session := connect(t, strings.ToLower(t.Name()))
			seen := atomic.LoadInt64(&reads)
			open := func() { // some reads happen while the transaction is open
				for until := time.Now().Add(5 * time.Second); atomic.LoadInt64(&reads) < seen+2 && time.Now().Before(until); {
					time.Sleep(time.Millisecond)
				}
			}
			switch rng.Intn(7) {
			case 0:
				sql(t, session, append(kept))
				want += kept
			case 1:
				sql(t, session, "BEGIN; "+append(lost))
				open()
				sql(t, session, "ROLLBACK")
			case 2:
				sql(t, session, "BEGIN; "+append(kept)+"; SAVEPOINT s; "+append(lost))
				open()
				sql(t, session, "ROLLBACK TO s; COMMIT")
				want += kept
			case 3: // an error
				sql(t, session, "BEGIN; "+append(lost))
				open()
				if _, err := session.PgConn().Exec(context.Background(), "SELECT 1/0").ReadAll(); sqlState(err) != "22012" {
					t.Fatal(err)
				}
				sql(t, session, "COMMIT") // which rolls back
			case 4: // a statement that fails after the append, and one that is caught
				session.PgConn().Exec(context.Background(), append(lost)+"; SELECT 1/0").ReadAll()
				sql(t, session, "DO $do$ BEGIN BEGIN "+append(lost)+"; PERFORM 1/0; EXCEPTION WHEN division_by_zero THEN "+append(kept)+"; END; END $do$")
				want += kept
			case 5: // the session ends
				sql(t, session, "BEGIN; "+append(lost))
				open()
				sql(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d)", session.PgConn().PID()))
			case 6: // a connection that is lost
				sql(t, session, "BEGIN; "+append(lost))
				open()
				session.PgConn().Conn().Close()
			}
			session.Close(context.Background())
		}
		sql(t, db, append("the end"))
		want += "the end"
		close(stop)
		for body := range bad {
			t.Fatalf("a read got %q", body)
		}
		var got strings.Builder
		for !strings.HasSuffix(got.String(), "the end") {
			if line := until(t, lines, ""); !strings.HasPrefix(line, "{") {
				got.WriteString(line)
			}
		}
		if got.String() != want {
			t.Fatalf("a follower got %q, expected %q", got.String(), want)
		}
		ask(t, "GET", at.url, "", at.header...).want(t, 200, want)
	}
}

// A prepared transaction is visible when it is committed, not before.
func TestServerPreparedTransaction(t *testing.T) {
	db, c := fresh(t)
	c.PollMS = 20
	_, url := serve(t, c)
	var allowed int
	if err := db.QueryRow(context.Background(), "SELECT current_setting('max_prepared_transactions')::int", pgx.QueryExecModeSimpleProtocol).Scan(&allowed); err != nil || allowed == 0 {
		t.Skipf("no prepared transactions here: %v", err)
	}
	sql(t, db, "ALTER TABLE runs DISABLE TRIGGER told") // a transaction that notifies cannot be prepared
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, '')")
	lines := events(t, url+"/runs/1/log?offset=-1&live=sse", token1...)
	until(t, lines, "upToDate")
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		sql(t, db, "BEGIN; UPDATE runs SET log = log || '"+end+"' WHERE id = 1; PREPARE TRANSACTION 'p'")
		ask(t, "GET", url+"/runs/1/log", "", token1...).want(t, 200, "")
		sql(t, db, end+" PREPARED 'p'")
	}
	if line := until(t, lines, ""); line != "COMMIT" {
		t.Fatalf("%q", line)
	}
}
