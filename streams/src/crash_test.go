package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func number(t *testing.T, name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func restart(t *testing.T, how ...string) {
	if out, err := exec.Command(os.Getenv("STREAMS_TEST_RESTART"), how...).CombinedOutput(); err != nil {
		t.Fatalf("restart: %v: %s", err, out)
	}
}

func programFile(t *testing.T) string {
	t.Helper()
	file := os.Getenv("STREAMS_TEST_PROGRAM")
	if file == "" {
		t.Fatal("STREAMS_TEST_PROGRAM is not set: run streams/test/run.sh")
	}
	return file
}

// child writes a configuration file for a server that is a separate process.
func child(t *testing.T, c *Config) string {
	t.Helper()
	c.Listen = fmt.Sprintf("127.0.0.1:%d", 20000+time.Now().UnixNano()/1000%12000)
	file := filepath.Join(t.TempDir(), "c.json")
	text, _ := json.Marshal(c)
	os.WriteFile(file, text, 0o600)
	return file
}

// answers waits until a server answers at all.
func answers(t *testing.T, url string) {
	t.Helper()
	for i := 0; ; i++ {
		if r, err := http.Get(url); err == nil {
			r.Body.Close()
			return
		} else if i > 200 {
			t.Fatal("the server does not start")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Kills of the server and immediate stops of PostgreSQL while producers retry: each acknowledged line is
// there once, complete and in order.
func TestServerKills(t *testing.T) {
	kills, stops := number(t, "STREAMS_TEST_KILLS"), number(t, "STREAMS_TEST_STOPS")
	_, c := fresh(t)
	file := child(t, c)
	var process *exec.Cmd
	start := func() {
		process = exec.Command(programFile(t), "-config", file)
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	start()
	defer func() { process.Process.Kill(); process.Wait() }()
	url := "http://" + c.Listen + "/streams/crash"
	client := &http.Client{Timeout: 5 * time.Second}
	send := func(method, body string, headers ...string) (int, error) {
		r, _ := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
		r.Header.Set("Content-Type", "text/plain")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer w.Body.Close()
		_, err = io.ReadAll(w.Body)
		return w.StatusCode, err
	}
	answers(t, url)
	if status, err := send("PUT", ""); status != 201 {
		t.Fatalf("status %d, %v", status, err)
	}

	const producers = 6
	var acknowledged [producers]int
	var retries int
	var mu sync.Mutex
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for p := 0; p < producers; p++ {
		wait.Add(1)
		go func(p int) {
			defer wait.Done()
			for k := 0; ; k++ {
				for tries := 0; ; tries++ {
					status, err := send("POST", fmt.Sprintf("%d:%d\n", p, k), "Producer-Id", strconv.Itoa(p), "Producer-Epoch", "0", "Producer-Seq", strconv.Itoa(k))
					if err == nil && (status == 200 || status == 204) {
						break
					}
					if status >= 400 && status != 503 {
						t.Errorf("producer %d, line %d: status %d", p, k, status)
						return
					}
					mu.Lock()
					retries++
					mu.Unlock()
					if tries > 2000 {
						t.Errorf("producer %d: no answer", p)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
				acknowledged[p] = k + 1
				select {
				case <-stop:
					return
				default:
				}
			}
		}(p)
	}
	// a follower that connects again where it was
	var followed bytes.Buffer
	followerEnded := make(chan string, 1)
	go func() {
		next := "-1"
		for {
			w, err := client.Get(url + "?live=long-poll&offset=" + next)
			if err != nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			data, err := io.ReadAll(w.Body)
			w.Body.Close()
			switch {
			case err != nil || w.StatusCode == 503:
				time.Sleep(20 * time.Millisecond)
			case w.StatusCode != 200 && w.StatusCode != 204:
				followerEnded <- fmt.Sprintf("the follower got status %d", w.StatusCode)
				return
			default:
				followed.Write(data)
				next = w.Header.Get("Stream-Next-Offset")
				if w.Header.Get("Stream-Closed") == "true" {
					followerEnded <- ""
					return
				}
			}
		}
	}()
	for i := 0; i < kills; i++ {
		time.Sleep(time.Duration(300+i*37%200) * time.Millisecond)
		process.Process.Kill()
		process.Wait()
		start()
	}
	for i := 0; i < stops; i++ {
		time.Sleep(time.Duration(700+i*53%300) * time.Millisecond)
		restart(t, "both")
	}
	time.Sleep(700 * time.Millisecond)
	close(stop)
	wait.Wait()
	if status, err := send("POST", "", "Stream-Closed", "true"); status != 204 {
		t.Fatalf("close: status %d, %v", status, err)
	}
	if ended := <-followerEnded; ended != "" {
		t.Fatal(ended)
	}

	var value string
	if err := connect(t, strings.ToLower(t.Name())).QueryRow(context.Background(), "SELECT convert_from(data, 'UTF8') FROM streams.stream").Scan(&value); err != nil {
		t.Fatal(err)
	}
	var seen [producers]int
	sum := 0
	for _, line := range strings.Split(strings.TrimSuffix(value, "\n"), "\n") {
		var p, k int
		if n, err := fmt.Sscanf(line, "%d:%d", &p, &k); n != 2 || err != nil || line != fmt.Sprintf("%d:%d", p, k) {
			t.Fatalf("torn line %q", line)
		}
		if seen[p] != k {
			t.Fatalf("producer %d: line %d where %d was expected (doubled, lost or out of order)", p, k, seen[p])
		}
		seen[p]++
		sum++
	}
	for p := range seen {
		if seen[p] < acknowledged[p] {
			t.Fatalf("producer %d: %d lines of %d acknowledged", p, seen[p], acknowledged[p])
		}
	}
	if followed.String() != value {
		t.Fatalf("the follower got %d bytes, which are not the %d of the stream", followed.Len(), len(value))
	}
	if kills+stops > 0 && retries == 0 {
		t.Fatal("no request was retried: the kills hit nothing")
	}
	t.Logf("%d kills of the server, %d immediate stops of PostgreSQL, %d lines, %d retries", kills, stops, sum, retries)
}
