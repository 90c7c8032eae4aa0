package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bad input gets the protocol's responses, and changes nothing.

var plain = []string{"Content-Type", "text/plain"}

func produced(id string, epoch, seq int) []string {
	return append(append([]string{}, plain...), "Producer-Id", id, "Producer-Epoch", fmt.Sprint(epoch), "Producer-Seq", fmt.Sprint(seq))
}

func (a answer) has(t *testing.T, name, value string) {
	t.Helper()
	if got := a.header.Get(name); got != value {
		t.Fatalf("%s is %q, expected %q", name, got, value)
	}
}

func TestServerBadOffsets(t *testing.T) {
	db, c := fresh(t)
	_, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, 'value')")
	ask(t, "PUT", url+"/streams/a", "value", plain...).want(t, 201, "")
	incarnation, end, _ := parseToken(ask(t, "HEAD", url+"/streams/a", "").header.Get("Stream-Next-Offset"))
	for _, at := range []struct {
		url    string
		token  func(at int64) string
		header []string
	}{
		{url + "/streams/a", offsets(t, url+"/streams/a"), nil},
		{url + "/runs/1/log", offsets(t, url+"/runs/1/log", token1...), token1},
	} {
		for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
			for _, beyond := range []int64{end + 1, 1 << 40, 9999999999999999} {
				ask(t, "GET", at.url+"?offset="+at.token(beyond)+live, "", at.header...).want(t, 410, "")
			}
			for _, bad := range []string{"", "-2", "5", "1e3", "%00", "0000000000000000_00000000000000001", "0000000000000000_000000000000000x", "-1&offset=-1", strings.Repeat("9", 4000)} {
				ask(t, "GET", at.url+"?offset="+bad+live, "", at.header...).want(t, 400, "")
			}
		}
		// an offset before the end, and the end
		ask(t, "GET", at.url+"?offset="+at.token(3), "", at.header...).want(t, 200, "ue")
		ask(t, "GET", at.url+"?offset="+at.token(end), "", at.header...).want(t, 200, "")
	}
	ask(t, "GET", url+"/streams/a?offset="+token(incarnation+1, 3), "").want(t, 410, "")
}

func TestServerBadSequences(t *testing.T) {
	_, c := fresh(t)
	_, url := serve(t, c)
	url += "/streams/a"
	ask(t, "PUT", url, "", plain...).want(t, 201, "")
	gap := func(epoch, seq int, wanted string) {
		t.Helper()
		a := ask(t, "POST", url, "bad", produced("p", epoch, seq)...).want(t, 409, "")
		a.has(t, "Producer-Expected-Seq", wanted)
		a.has(t, "Producer-Received-Seq", fmt.Sprint(seq))
	}
	gap(0, 3, "0") // a producer that is not known begins with 0
	ask(t, "POST", url, "a", produced("p", 0, 0)...).want(t, 200, "")
	gap(0, 2, "1")
	gap(0, 1<<50, "1")
	ask(t, "POST", url, "b", produced("p", 0, 1)...).want(t, 200, "")
	// a retry is confirmed and appends nothing
	ask(t, "POST", url, "b", produced("p", 0, 1)...).want(t, 204, "").has(t, "Producer-Seq", "1")
	ask(t, "POST", url, "a", produced("p", 0, 0)...).want(t, 204, "")
	for _, bad := range [][]string{
		{"Producer-Id", "p"}, {"Producer-Id", "p", "Producer-Epoch", "0"}, {"Producer-Epoch", "0", "Producer-Seq", "2"},
		{"Producer-Id", "", "Producer-Epoch", "0", "Producer-Seq", "2"}, {"Producer-Id", "p", "Producer-Epoch", "-1", "Producer-Seq", "2"},
		{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "2.5"}, {"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "9007199254740992"},
		{"Producer-Id", "p", "Producer-Epoch", "99999999999999999999", "Producer-Seq", "0"},
	} {
		ask(t, "POST", url, "bad", append(append([]string{}, plain...), bad...)...).want(t, 400, "")
	}
	// Stream-Seq must increase, as text; an empty one never does
	ask(t, "POST", url, "bad", append(plain, "Stream-Seq", "")...).want(t, 409, "")
	ask(t, "POST", url, "c", append(plain, "Stream-Seq", "0002")...).want(t, 204, "")
	for _, seq := range []string{"0002", "0001", "", "00"} {
		ask(t, "POST", url, "bad", append(plain, "Stream-Seq", seq)...).want(t, 409, "")
	}
	ask(t, "POST", url, "d", append(plain, "Stream-Seq", "0010")...).want(t, 204, "")
	// nothing is lost: the producer continues
	ask(t, "POST", url, "e", produced("p", 0, 2)...).want(t, 200, "")
	ask(t, "GET", url, "").want(t, 200, "abcde")
}

func TestServerBadEpochs(t *testing.T) {
	_, c := fresh(t)
	_, url := serve(t, c)
	url += "/streams/a"
	ask(t, "PUT", url, "", plain...).want(t, 201, "")
	ask(t, "POST", url, "a", produced("p", 5, 0)...).want(t, 200, "")
	for _, seq := range []int{0, 1, 7} {
		ask(t, "POST", url, "bad", produced("p", 4, seq)...).want(t, 403, "").has(t, "Producer-Epoch", "5")
	}
	ask(t, "POST", url, "bad", produced("p", 6, 1)...).want(t, 400, "")
	ask(t, "POST", url, "b", produced("p", 5, 1)...).want(t, 200, "")
	ask(t, "POST", url, "c", produced("p", 6, 0)...).want(t, 200, "")
	ask(t, "POST", url, "bad", produced("p", 5, 2)...).want(t, 403, "").has(t, "Producer-Epoch", "6")
	// an old epoch does not close the stream either
	ask(t, "POST", url, "", append(produced("p", 5, 2), "Stream-Closed", "true")...).want(t, 403, "")
	ask(t, "POST", url, "d", produced("q", 0, 0)...).want(t, 200, "")
	ask(t, "POST", url, "e", produced("p", 6, 1)...).want(t, 200, "")
	ask(t, "GET", url, "").want(t, 200, "abcde")
}

// Bytes that are no characters, and times that the database does not have, are the client's fault; none of it is "Internal error".
func TestServerBadCharacters(t *testing.T) {
	db, c := fresh(t)
	_, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, log) VALUES (1, 'value')")
	for _, key := range []string{"1%ff", "%c3", "%ed%a0%80"} {
		ask(t, "GET", url+"/runs/"+key+"/log", "", token1...).want(t, 404, "")
	}
	ask(t, "PUT", url+"/streams/a", "value", plain...).want(t, 201, "")
	ask(t, "POST", url+"/streams/a", "bad", produced("\xff", 0, 0)...).want(t, 400, "")
	ask(t, "POST", url+"/streams/a", "bad", append(plain, "Stream-Seq", "\xc3")...).want(t, 400, "")
	ask(t, "PUT", url+"/streams/b", "bad", "Content-Type", "text/\xff").want(t, 400, "")
	for _, at := range []string{"0000-01-01T00:00:00Z", "2030-01-01T00:00:00-23:59"} {
		ask(t, "PUT", url+"/streams/c", "bad", append(plain, "Stream-Expires-At", at)...).want(t, 400, "")
	}
	ask(t, "GET", url+"/streams/a", "").want(t, 200, "value")
	ask(t, "GET", url+"/streams/b", "").want(t, 404, "")
}

// A stream that is deleted while it is followed ends its followers, whoever deletes it; a stream that takes its path is another.
func TestServerDeletedWhileFollowed(t *testing.T) {
	db, c := fresh(t)
	c.LongPollMS, c.PollMS = 60000, 60000
	_, url := serve(t, c)
	_, other := serve(t, c)
	for i, remove := range []func(){
		func() { ask(t, "DELETE", url+"/streams/a", "").want(t, 204, "") },
		func() { ask(t, "DELETE", other+"/streams/a", "").want(t, 204, "") },
		func() { sql(t, db, "DELETE FROM streams.stream WHERE path = '/streams/a'") },
		func() {
			sql(t, db, "BEGIN; DELETE FROM streams.stream WHERE path = '/streams/a'; INSERT INTO streams.stream (path, content_type, media, data) VALUES ('/streams/a', 'text/plain', 'text/plain', 'former and more'); COMMIT")
		},
	} {
		ask(t, "PUT", url+"/streams/a", "former", plain...).want(t, 201, "")
		lines := events(t, url+"/streams/a?offset=-1&live=sse")
		until(t, lines, "upToDate")
		next := ask(t, "HEAD", url+"/streams/a", "").header.Get("Stream-Next-Offset")
		polled := make(chan answer, 1)
		go func() { polled <- ask(t, "GET", url+"/streams/a?live=long-poll&offset="+next, "") }()
		time.Sleep(200 * time.Millisecond)
		remove()
		for line := range lines {
			t.Fatalf("a follower of the deleted stream got %q", line)
		}
		(<-polled).want(t, 404, "")
		if i < 3 {
			ask(t, "POST", url+"/streams/a", "x", plain...).want(t, 404, "")
			ask(t, "GET", url+"/streams/a?offset="+next, "").want(t, 404, "")
		} else {
			ask(t, "GET", url+"/streams/a?offset="+next, "").want(t, 410, "")
			ask(t, "GET", url+"/streams/a", "").want(t, 200, "former and more")
			ask(t, "DELETE", url+"/streams/a", "").want(t, 204, "")
		}
	}
}

// A request that ends early appends nothing, in each form of a body, and the retry of its producer appends once.
func TestServerIncompleteRequests(t *testing.T) {
	_, c := fresh(t)
	c.WriteMS = 1000
	_, url := serve(t, c)
	ask(t, "PUT", url+"/streams/a", "", plain...).want(t, 201, "")
	ask(t, "PUT", url+"/streams/j", "", "Content-Type", "application/json").want(t, 201, "")
	raw := func(request string, end bool) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		if end {
			conn.(*net.TCPConn).CloseWrite()
		}
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		reply, _ := io.ReadAll(conn)
		return string(reply)
	}
	head := "POST /streams/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nProducer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n"
	for _, request := range []string{
		head + "Content-Length: 100\r\n\r\npart of it",
		head + "Content-Length: 100\r\n\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n7\r\npart of\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n7\r\npart",
		head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\npart",
		head + "Stream-Closed: true\r\nContent-Length: 100\r\n\r\npart of it",
		"POST /streams/j HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[1, 2]",
		"PUT /streams/new HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\npart of it",
	} {
		if reply := raw(request, true); !strings.HasPrefix(reply, "HTTP/1.1 400") {
			t.Fatalf("%q got %q", request, reply)
		}
	}
	// a client that sends no more, without an end
	if reply := raw(head+"Content-Length: 100\r\n\r\npart of it", false); !strings.HasPrefix(reply, "HTTP/1.1 400") {
		t.Fatalf("a client that sends no more got %q", reply)
	}
	// a connection that was idle for longer than that, and a client that sends its body when the server wants it
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	replies := bufio.NewReader(conn)
	io.WriteString(conn, "HEAD /streams/j HTTP/1.1\r\nHost: x\r\n\r\n")
	if w, err := http.ReadResponse(replies, &http.Request{Method: "HEAD"}); err != nil || w.StatusCode != 200 {
		t.Fatalf("%v, %v", w, err)
	}
	time.Sleep(1500 * time.Millisecond)
	io.WriteString(conn, "POST /streams/j HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
	if line, err := replies.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	io.WriteString(conn, "0")
	if line, err := replies.ReadString('4'); err != nil || !strings.HasSuffix(line, "HTTP/1.1 204") {
		t.Fatalf("%q, %v", line, err)
	}
	// the answer of a request that waited longer than a client may take for it
	db2 := connect(t, strings.ToLower(t.Name()))
	sql(t, db2, "BEGIN; SELECT FROM streams.stream WHERE path = '/streams/j' FOR UPDATE")
	late := make(chan answer, 1)
	go func() { late <- ask(t, "POST", url+"/streams/j", "1", "Content-Type", "application/json") }()
	time.Sleep(1500 * time.Millisecond)
	sql(t, db2, "COMMIT")
	(<-late).want(t, 204, "")
	ask(t, "POST", url+"/streams/j", `{"a": `, "Content-Type", "application/json").want(t, 400, "")
	ask(t, "POST", url+"/streams/a", "", plain...).want(t, 400, "")
	ask(t, "GET", url+"/streams/new", "").want(t, 404, "")
	ask(t, "GET", url+"/streams/a", "").want(t, 200, "")
	ask(t, "GET", url+"/streams/j", "").want(t, 200, "[0,1]")
	ask(t, "POST", url+"/streams/a", "complete", produced("p", 0, 0)...).want(t, 200, "")
	ask(t, "GET", url+"/streams/a", "").want(t, 200, "complete")
}

// Past the size limit, an append is refused; what the stream has stays, and the streams of the same statement are not delayed or refused.
func TestServerTooLarge(t *testing.T) {
	db, c := fresh(t)
	sql(t, db, "ALTER DATABASE "+strings.ToLower(t.Name())+" SET appendable_bytea.max_size = '1MB'")
	_, url := serve(t, c)
	ask(t, "PUT", url+"/streams/full", "", plain...).want(t, 201, "")
	ask(t, "PUT", url+"/streams/other", "", plain...).want(t, 201, "")
	piece := strings.Repeat("x", 90000)
	length, seq := 0, 0
	for ; ; seq++ {
		a := ask(t, "POST", url+"/streams/full", piece, produced("p", 0, seq)...)
		if a.status == 413 {
			break
		}
		a.want(t, 200, "")
		if length += len(piece); length > 2<<20 {
			t.Fatal("no limit")
		}
	}
	// in one statement with others
	db2 := connect(t, strings.ToLower(t.Name()))
	sql(t, db2, "BEGIN; LOCK streams.stream IN SHARE ROW EXCLUSIVE MODE")
	var wait sync.WaitGroup
	statuses := make([]int, 20)
	for i := range statuses {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			path, body, header := "/streams/other", "y", plain
			if i%2 == 0 {
				path, body, header = "/streams/full", piece, produced("p", 0, seq)
			}
			r, _ := http.NewRequest("POST", url+path, strings.NewReader(body))
			for h := 0; h < len(header); h += 2 {
				r.Header.Set(header[h], header[h+1])
			}
			if w, err := http.DefaultClient.Do(r); err == nil {
				statuses[i] = w.StatusCode
				w.Body.Close()
			}
		}(i)
	}
	time.Sleep(500 * time.Millisecond)
	sql(t, db2, "COMMIT")
	wait.Wait()
	for i, status := range statuses {
		if want := []int{413, 204}[i%2]; status != want {
			t.Errorf("status %d, expected %d", status, want)
		}
	}
	ask(t, "GET", url+"/streams/other", "").want(t, 200, strings.Repeat("y", 10))
	// the producer is where it was: a smaller append of the same number fits
	ask(t, "POST", url+"/streams/full", "end", append(produced("p", 0, seq), "Stream-Closed", "true")...).want(t, 200, "")
	ask(t, "GET", url+"/streams/full", "").want(t, 200, strings.Repeat("x", length)+"end").has(t, "Stream-Closed", "true")
	// a request that is too large by itself
	ask(t, "POST", url+"/streams/other", strings.Repeat("z", c.BodyBytes+1), plain...).want(t, 413, "")
	ask(t, "PUT", url+"/streams/new", strings.Repeat("z", c.BodyBytes+1), plain...).want(t, 413, "")
	ask(t, "GET", url+"/streams/new", "").want(t, 404, "")
}

// An append may end inside a character.  A read returns the bytes; an event holds them back until the rest is there or the stream ends.
func TestServerPartsOfCharacters(t *testing.T) {
	db, c := fresh(t)
	c.Routes = append(c.Routes, Route{Path: "/bytes/{id}", Table: "runs", Key: "id", Column: "events", Incarnation: "incarnation", ContentType: "text/plain", Channel: "runs", Closed: "finished_at IS NOT NULL"})
	_, url := serve(t, c)
	sql(t, db, "INSERT INTO runs (id, events) VALUES (1, '')")
	ask(t, "PUT", url+"/streams/a", "", plain...).want(t, 201, "")
	for _, at := range []struct {
		url    string
		header []string
		append func(text string, end bool)
	}{
		{url + "/streams/a", nil, func(text string, end bool) {
			headers := plain
			if end {
				headers = append(headers, "Stream-Closed", "true")
			}
			ask(t, "POST", url+"/streams/a", text, headers...).want(t, 204, "")
		}},
		{url + "/bytes/1", token1, func(text string, end bool) {
			_, err := db.Exec(context.Background(), "UPDATE runs SET events = events || $1::bytea, finished_at = CASE WHEN $2 THEN now() END WHERE id = 1", []byte(text), end)
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		lines := events(t, at.url+"?offset=-1&live=sse", at.header...)
		until(t, lines, "upToDate")
		at.append("caf\xc3", false)
		if line := until(t, lines, ""); line != "caf" {
			t.Fatalf("%q", line)
		}
		// the offset is that before the part, so a follower that connects again gets it
		control := until(t, lines, "streamNextOffset")
		if !strings.Contains(control, "_0000000000000003") {
			t.Fatalf("%q", control)
		}
		ask(t, "GET", at.url, "", at.header...).want(t, 200, "caf\xc3")
		at.append("\xa9 \xf0\x9f", false)
		if line := until(t, lines, ""); line != "é " {
			t.Fatalf("%q", line)
		}
		until(t, lines, "streamNextOffset")
		at.append("\x98\x80\xff\xfe!", false) // no character begins with these bytes: they are not held back
		if line := until(t, lines, ""); line != "😀\xff\xfe!" {
			t.Fatalf("%q", line)
		}
		until(t, lines, "streamNextOffset")
		at.append("\xe2\x82", true)
		if line := until(t, lines, ""); line != "\xe2\x82" {
			t.Fatalf("%q", line)
		}
		until(t, lines, `"streamClosed":true`)
		ended(t, lines)
		ask(t, "GET", at.url, "", at.header...).want(t, 200, "caf\xc3\xa9 \xf0\x9f\x98\x80\xff\xfe!\xe2\x82")
	}
}
