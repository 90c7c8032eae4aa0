package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Acknowledged appends per second of this program and of other servers of the protocol, with one client.  Writers have a
// stream each and send the next append of 200 bytes when the former is answered.  The servers run side by side with their
// data in one file system, and take turns; each turn has new streams.  After a turn each stream must contain exactly the
// acknowledged appends.  flush_test.go finds out whether an append is on disk before it is acknowledged.

// A contender is a server that is a separate process.
type contender struct {
	name, version string
	base          string // the URL of a stream without its name
	flushing      func(t *testing.T) []int
}

// A turn is the load of one server in one round.
type turn struct {
	appends, refused int
	rate             float64 // acknowledged appends per second
	p50, p99         float64 // milliseconds
	wrong            string  // the difference between the streams and the acknowledged appends
}

// A load is a number of writers, without or with the headers of a producer.
type load struct {
	writers  int
	producer bool
}

func (l load) String() string {
	if l.producer {
		return fmt.Sprintf("%d, producer headers", l.writers)
	}
	return strconv.Itoa(l.writers)
}

// lineOf is the k-th append of a writer: 200 bytes.
func lineOf(writer, k int) string {
	return fmt.Sprintf("%-199s\n", fmt.Sprintf("writer %d append %d ", writer, k))
}

var writersClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, DisableCompression: true}}

// post appends, and returns the status of the answer.
func post(url, body, producer string, k int) (int, error) {
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "text/plain")
	if producer != "" {
		r.Header.Set("Producer-Id", producer)
		r.Header.Set("Producer-Epoch", "0")
		r.Header.Set("Producer-Seq", strconv.Itoa(k))
	}
	w, err := writersClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer w.Body.Close()
	_, err = io.Copy(io.Discard, w.Body)
	return w.StatusCode, err
}

// newStream creates a stream for plain text.
func newStream(t *testing.T, url string) {
	t.Helper()
	ask(t, "PUT", url, "", "Content-Type", "text/plain").want(t, 201, "")
}

// content reads a stream to its end.
func content(t *testing.T, url string) string {
	t.Helper()
	var all bytes.Buffer
	for next, tries := "-1", 0; ; tries++ {
		w, err := writersClient.Get(url + "?offset=" + next)
		if err != nil {
			t.Fatal(err)
		}
		_, err = all.ReadFrom(w.Body)
		w.Body.Close()
		if err != nil || w.StatusCode != 200 || tries > 10000 {
			t.Fatalf("read: status %d, %v", w.StatusCode, err)
		}
		if w.Header.Get("Stream-Up-To-Date") == "true" {
			return all.String()
		}
		next = w.Header.Get("Stream-Next-Offset")
	}
}

// run has a server take a turn.
func (c *contender) run(t *testing.T, name string, l load, long time.Duration) turn {
	t.Helper()
	acknowledged, refused, statuses := make([]int, l.writers), make([]int, l.writers), make([]int, l.writers)
	times := make([][]time.Duration, l.writers)
	url := func(i int) string { return fmt.Sprintf("%s%s-%d", c.base, name, i) }
	for i := 0; i < l.writers; i++ {
		newStream(t, url(i))
	}
	producer := ""
	if l.producer {
		producer = "bench"
	}
	var ready, wait sync.WaitGroup
	start := make(chan struct{})
	for i := 0; i < l.writers; i++ {
		ready.Add(1)
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			next := func() bool {
				status, err := post(url(i), lineOf(i, acknowledged[i]), producer, acknowledged[i])
				switch {
				case err != nil:
					t.Errorf("%s: %v", c.name, err)
				case status == 200 || status == 204:
					acknowledged[i]++
				default: // it is sent again
					refused[i]++
					statuses[i] = status
				}
				return err == nil && status < 300
			}
			// a connection, and whatever the first append of a stream does, before the clock starts
			next()
			ready.Done()
			<-start
			for begin := time.Now(); time.Since(begin) < long; {
				if sent := time.Now(); next() {
					times[i] = append(times[i], time.Since(sent))
				}
			}
		}(i)
	}
	ready.Wait()
	begin := time.Now()
	close(start)
	wait.Wait()
	elapsed := time.Since(begin)
	var all []time.Duration
	var result turn
	for i := 0; i < l.writers; i++ {
		all = append(all, times[i]...)
		result.refused += refused[i]
		var want strings.Builder
		for k := 0; k < acknowledged[i]; k++ {
			want.WriteString(lineOf(i, k))
		}
		if got := content(t, url(i)); got != want.String() && result.wrong == "" {
			result.wrong = fmt.Sprintf("stream %d has %d bytes, and %d were acknowledged; %d refused, status %d", i, len(got), want.Len(), refused[i], statuses[i])
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s acknowledged nothing", c.name)
	}
	result.appends = len(all)
	result.rate = float64(len(all)) / elapsed.Seconds()
	result.p50, result.p99 = percentile(all, 50), percentile(all, 99)
	return result
}

// freePort returns a port of 127.0.0.1 that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// spawn starts the program of a server, which ends with the test.
func spawn(t *testing.T, url string, command ...string) *exec.Cmd {
	t.Helper()
	process := exec.Command(command[0], command[1:]...)
	process.Dir = t.TempDir() // for files that it writes unasked
	process.Env = append(os.Environ(), "XDG_DATA_HOME="+process.Dir, "XDG_CONFIG_HOME="+process.Dir)
	log, err := os.Create(filepath.Join(process.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		over := time.AfterFunc(10*time.Second, func() { process.Process.Kill() })
		process.Wait()
		over.Stop()
		log.Close()
	})
	answers(t, url)
	return process
}

// thisProgram starts the program over the test's PostgreSQL.
func thisProgram(t *testing.T) (*contender, *pgx.Conn) {
	db, c := fresh(t)
	file := child(t, c)
	spawn(t, "http://"+c.Listen+"/streams/", programFile(t), "-config", file)
	var version, settings string
	err := db.QueryRow(context.Background(), `SELECT current_setting('server_version'), string_agg(name || ' ' || setting, ', ' ORDER BY name)
		FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method')`).Scan(&version, &settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("PostgreSQL %s: %s", version, settings)
	return &contender{name: "`streams`", version: "PostgreSQL " + strings.Fields(version)[0], base: "http://" + c.Listen + "/streams/", flushing: func(t *testing.T) (pids []int) {
		rows, err := db.Query(context.Background(), "SELECT pid FROM pg_stat_activity")
		for err == nil && rows.Next() {
			var pid int
			err = rows.Scan(&pid)
			pids = append(pids, pid)
		}
		if err != nil {
			t.Fatal(err)
		}
		return pids
	}}, db
}

// nodeReference starts the reference server of the protocol, an npm package, with its store in files.
func nodeReference(t *testing.T, script string) *contender {
	port := freePort(t)
	base := fmt.Sprintf("http://127.0.0.1:%d/v1/stream/", port)
	process := spawn(t, base, "node", script, strconv.Itoa(port), dataOf(t, "node"))
	var p struct{ Version string }
	text, err := os.ReadFile(filepath.Join(filepath.Dir(script), "node_modules/@durable-streams/server/package.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	node, _ := exec.Command("node", "--version").Output()
	return &contender{name: "Node reference", version: p.Version + ", Node.js " + strings.TrimSpace(string(node)), base: base, flushing: func(*testing.T) []int { return []int{process.Process.Pid} }}
}

// caddyPlugin starts a Caddy that has the protocol's plugin, with its store in files.
func caddyPlugin(t *testing.T, program string) *contender {
	port := freePort(t)
	base := fmt.Sprintf("http://127.0.0.1:%d/v1/stream/", port)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	os.WriteFile(file, []byte(fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
}
http://127.0.0.1:%d {
	bind 127.0.0.1
	route /v1/stream/* {
		durable_streams {
			data_dir %s
		}
	}
}
`, port, dataOf(t, "caddy"))), 0o600)
	process := spawn(t, base, program, "run", "--config", file, "--adapter", "caddyfile")
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	versions := []string{}
	for _, m := range append(info.Deps, &info.Main) {
		switch {
		case m.Path == "github.com/caddyserver/caddy/v2":
			versions = append(versions, "Caddy "+m.Version)
		case strings.HasSuffix(m.Path, "/caddy-plugin"):
			versions = append(versions, m.Version)
		}
	}
	return &contender{name: "Caddy plugin", version: strings.Join(versions, ", "), base: base, flushing: func(*testing.T) []int { return []int{process.Process.Pid} }}
}

// dataOf returns an empty directory for a server's data, in the file system of PostgreSQL's.
func dataOf(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv("STREAMS_TEST_DATA"), "compare-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// flushRate returns how many writes of 200 bytes, each with fdatasync, a file takes per second.
func flushRate(t *testing.T) float64 {
	t.Helper()
	f, err := os.Create(filepath.Join(dataOf(t, "file"), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begin, n := time.Now(), 0
	for ; time.Since(begin) < time.Second; n++ {
		if _, err := f.WriteString(lineOf(0, n)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	return float64(n) / time.Since(begin).Seconds()
}

// The program alone, for a moment: each acknowledged append is on disk before the answer, and in its stream once.
func TestServerAcknowledged(t *testing.T) {
	c, _ := thisProgram(t)
	if flushed := c.flushes(t, 20); flushed != nil && flushed.appends < flushed.of {
		t.Errorf("on disk before the answer: %s", flushed)
	}
	for i, l := range []load{{1, false}, {16, false}, {1, true}} {
		result := c.run(t, fmt.Sprintf("turn%d", i), l, 200*time.Millisecond)
		if result.wrong != "" || result.refused > 0 {
			t.Errorf("writers %s: %d refused, %s", l, result.refused, result.wrong)
		}
	}
}

// Rounds of all servers, with a table of the medians.
func TestBenchCompare(t *testing.T) {
	rounds, long := number(t, "STREAMS_TEST_ROUNDS"), time.Duration(number(t, "STREAMS_TEST_MILLISECONDS"))*time.Millisecond
	program, db := thisProgram(t)
	all := []*contender{program}
	if file := os.Getenv("STREAMS_TEST_CADDY"); file != "" {
		all = append(all, caddyPlugin(t, file))
	}
	if file := os.Getenv("STREAMS_TEST_NODE"); file != "" {
		all = append(all, nodeReference(t, file))
	}
	t.Logf("a file takes %.0f writes of 200 bytes with fdatasync per second", flushRate(t))
	table := "\n| server | version | on disk before the answer | flushes an append |\n|---|---|---|---|\n"
	for _, c := range all {
		table += fmt.Sprintf("| %s | %s | %s |\n", c.name, c.version, c.flushes(t, 50))
	}
	fmt.Println(table)
	loads := []load{{1, false}, {16, false}, {64, false}, {1, true}}
	results := map[*contender]map[load][]turn{}
	for _, c := range all {
		results[c] = map[load][]turn{}
	}
	for round := 0; round < rounds; round++ {
		// the first change of a page after a checkpoint logs the page, so each round has this cost
		sql(t, db, "CHECKPOINT")
		for _, l := range loads {
			for i := range all {
				c := all[(round+i)%len(all)]
				name := fmt.Sprintf("round%d-%d", round, l.writers)
				if l.producer {
					name += "p"
				}
				result := c.run(t, name, l, long)
				results[c][l] = append(results[c][l], result)
				t.Logf("round %d, writers %s, %-14s: %8.1f appends/s, %7.2f ms median, %7.2f ms 99th percentile, %6d acknowledged, %d refused %s", round+1, l, c.name,
					result.rate, result.p50, result.p99, result.appends, result.refused, result.wrong)
				if c == program && (result.wrong != "" || result.refused > 0) {
					t.Errorf("round %d, writers %s: %d refused, %s", round+1, l, result.refused, result.wrong)
				}
			}
		}
	}
	fmt.Printf("\n| writers | server | appends/s | median | 99th percentile | refused | turns with other content | appends/s of `streams` to it |\n|---|---|--:|--:|--:|--:|--:|---|\n")
	for _, l := range loads {
		for _, c := range all {
			rates, p50, p99, ratios := []float64{}, []float64{}, []float64{}, []float64{}
			refused, wrong := 0, 0
			for i, r := range results[c][l] {
				rates, p50, p99 = append(rates, r.rate), append(p50, r.p50), append(p99, r.p99)
				ratios = append(ratios, results[program][l][i].rate/r.rate)
				refused += r.refused
				if r.wrong != "" {
					wrong++
				}
			}
			ratio := ""
			if c != program {
				low, high := interval(ratios)
				ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), low, high)
			}
			fmt.Printf("| %s | %s | %.0f | %.2f ms | %.1f ms | %d | %d | %s |\n", l, c.name, median(rates), median(p50), median(p99), refused, wrong, ratio)
		}
	}
	fmt.Println()
}
