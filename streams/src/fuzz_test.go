package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"
)

// What clients send and what is made of it, with any bytes (make fuzz); the unit tests take the first inputs of each.

// A token is refused, or its parts are printed as the same token; tokens sort by their positions.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "-1", "now", token(7, 0), token(7, 12), timedToken(7, 12, 3), "0000000000000007_0000000000000000", "9999999999999999_9999999999999999_9999999999"} {
		f.Add(s)
	}
	f.Fuzz(checkToken)
}

func checkToken(t *testing.T, s string) {
	from, incarnation, timeline, err := position(url.Values{"offset": {s}})
	parsed, at, ok := parseToken(s)
	if s == "-1" || s == "now" {
		if err != nil || (from == nil) != (s == "now") || ok {
			t.Fatalf("%q: %v", s, err)
		}
		return
	}
	if ok != (err == nil) {
		t.Fatalf("%q: %v, but as an offset %v", s, ok, err)
	}
	if !ok {
		return
	}
	if *from != at || incarnation != parsed || timeline != tokenTimeline(s) || at < 0 || parsed < 0 || timeline < 0 {
		t.Fatalf("%q: %d, %d, %d", s, parsed, at, timeline)
	}
	again := timedToken(parsed, at, timeline)
	if i, a, ok := parseToken(again); !ok || a != at || at > 0 && (i != parsed || tokenTimeline(again) != timeline) {
		t.Fatalf("%q is printed as %q", s, again)
	}
	if next := timedToken(parsed, at+1, timeline); at < 9e15 && len(next) == len(again) && next <= again && at > 0 {
		t.Fatalf("%q does not sort before %q", again, next)
	}
}

// A body is refused as JSON, or becomes lines that are the same messages, one each.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "[]", " [1, {\"a\": [ ]}, \"x\\ny\"] ", `{"a":1.10}`, "[[],[]]", "1 2", "\"\xff\"", "\"\u2028\"", "[1,]", "\r\n[\t\"\"]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(checkJSON)
}

func checkJSON(t *testing.T, body []byte) {
	before := append([]byte(nil), body...)
	lines, err := toLines(body, true)
	if !bytes.Equal(before, body) {
		t.Fatal("the body was changed")
	}
	if (err == nil) != (json.Valid(body) && utf8.Valid(body)) {
		t.Fatalf("%q: %v", body, err)
	}
	if err != nil {
		return
	}
	var sent any
	if err := decode(body, &sent); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	messages, isArray := sent.([]any)
	if !isArray {
		messages = []any{sent}
	}
	if n := bytes.Count(lines, []byte("\n")); n != len(messages) || len(lines) > 0 && lines[len(lines)-1] != '\n' {
		t.Fatalf("%q has %d messages, its lines are %q", body, len(messages), lines)
	}
	if _, err := toLines(body, false); (err == errEmptyArray) != (isArray && len(messages) == 0) {
		t.Fatalf("%q, an array of no message: %v", body, err)
	}
	array := toArray(lines)
	var read []any
	if err := decode(array, &read); err != nil || len(read) != len(messages) || len(read) > 0 && !reflect.DeepEqual(read, messages) {
		t.Fatalf("%q is read as %q: %v", body, array, err)
	}
	if again, err := toLines(array, true); err != nil || !bytes.Equal(again, lines) {
		t.Fatalf("%q becomes %q, and that %q", body, lines, again)
	}
}

// decode keeps numbers as they are written.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// A client that reads events as the standard says has the bytes that were appended, whatever their cuts; line ends of text become \n.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"", "aé€😀z", "a\r\nb\rc\nevent: x", "  a\n b", "\n\n", "\x80\x80\xf0", ": x\nid: 1", "data:\x00"} {
		for _, kind := range []string{"text/plain", "application/json", "application/octet-stream"} {
			f.Add([]byte(s), 1, kind)
		}
	}
	f.Fuzz(checkEvents)
}

func checkEvents(t *testing.T, data []byte, cut int, contentType string) {
	if cut < 0 || cut > len(data) {
		return
	}
	switch encoding(contentType) {
	case "json":
		lines, err := toLines(data, true)
		if err != nil {
			return
		}
		r := &result{contentType: contentType, data: lines, next: int64(len(lines))}
		frame, after := r.format()
		if got := readEvents(t, frame); after != int64(len(lines)) || len(lines) > 0 && (len(got) != 1 || got[0] != string(toArray(lines))) {
			t.Fatalf("%q is read as %q", lines, got)
		}
		return
	case "base64":
		r := &result{contentType: contentType, data: data, next: int64(len(data))}
		frame, after := r.format()
		for _, text := range readEvents(t, frame) {
			if got, err := base64.StdEncoding.DecodeString(text); err != nil || !bytes.Equal(got, data) || after != int64(len(data)) {
				t.Fatalf("%q is read as %q: %v", data, got, err)
			}
		}
		return
	}
	// text in two parts: the second begins where the first says, and has the rest as the stream is closed
	first := &result{contentType: contentType, data: data[:cut], next: int64(cut)}
	one, after := first.format()
	if after > int64(cut) || after < int64(cut)-utf8.UTFMax {
		t.Fatalf("of %d bytes %d are sent", cut, after)
	}
	last := &result{contentType: contentType, data: data[after:], begin: after, next: int64(len(data)), closed: true, upToDate: true}
	two, end := last.format()
	if end != int64(len(data)) {
		t.Fatalf("%d of %d bytes are sent", end, len(data))
	}
	if utf8.Valid(data) && !utf8.ValidString(one) {
		t.Fatalf("%q cut at %d: half a character is sent in %q", data, cut, one)
	}
	// a line end of two bytes may be cut, and is two then
	if after > 0 && after < int64(len(data)) && data[after-1] == '\r' && data[after] == '\n' {
		return
	}
	want := lineEnds.Replace(string(data))
	if got := strings.Join(append(readEvents(t, one), readEvents(t, two)...), ""); got != want {
		t.Fatalf("%q cut at %d is read as %q, not %q", data, cut, got, want)
	}
}

// readEvents reads server-sent events as https://html.spec.whatwg.org/multipage/server-sent-events.html says; all are named "data".
func readEvents(t *testing.T, frame string) (data []string) {
	var name string
	var lines []string
	for _, line := range strings.Split(lineEnds.Replace(frame), "\n") {
		if line == "" {
			if len(lines) > 0 {
				data = append(data, strings.Join(lines, "\n"))
			}
			if len(lines) > 0 && name != "data" {
				t.Fatalf("an event is named %q in %q", name, frame)
			}
			name, lines = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			lines = append(lines, value)
		default:
			t.Fatalf("a field %q in %q", field, frame)
		}
	}
	if len(lines) > 0 || name != "" {
		t.Fatalf("an event without an end in %q", frame)
	}
	return data
}

// A request is refused or served: no error of the database is unknown, so that the answer would be "Internal error", and no header of
// the answer has a line end.  With STREAMS_TEST_SOCKETS the requests reach a database, without it that is down.
func FuzzRequest(f *testing.F) {
	f.Add("PUT", "/streams/a", "text/plain", "3600", "", "", "", "x")
	f.Add("PUT", "/streams/b", "application/json", "", "2030-01-01T00:00:00Z", "/streams/a", token(7, 12), "[1]")
	f.Add("PUT", "/streams/c", "text/plain", "", "1", "/streams/a", token(0, 0), "")
	f.Add("POST", "/streams/a", "text/plain", "p", "0", "0", "", "{}")
	f.Add("POST", "/streams/b", "application/json", "", "", "", "s", "[{}, []]")
	f.Add("GET", "/streams/a?offset=now&live=sse&cursor=5", "", "", "", "", "", "")
	f.Add("GET", "/runs/1/log?offset="+timedToken(7, 12, 3), "", "", "", "", "Bearer secret", "")
	f.Add("GET", "/runs/%31%ff/events?offset=-1&live=long-poll", "", "", "", "", "Bearer secret", "")
	f.Add("PUT", "/streams/d", "text/plain", "", "0000-01-01T00:00:00Z", "", "", "x")
	f.Add("PUT", "/streams/d", "text/plain", "", "9999-12-31T23:59:60.123456789-23:59", "", "", "x")
	f.Add("PUT", "/streams/\xff", "text/\xff", "999999999999", "", "", "", "x")
	f.Add("POST", "/streams/a", "text/plain", "\xff", "9007199254740991", "0", "\xc3", "x")
	f.Add("PUT", "/streams/e", "text/plain", "", "100000000000000", "/streams/%ff\xff", token(9e15, 9e15), "")
	f.Add("HEAD", "/streams/%2e%2e/%00", "", "", "", "", "", "")
	f.Add("DELETE", "/streams/c", "", "", "", "", "", "")
	var s *server
	if os.Getenv("STREAMS_TEST_SOCKETS") == "" {
		file := filepath.Join(f.TempDir(), "c.json")
		os.WriteFile(file, []byte(`{"prefix": "/streams/", "anonymous": "web", "database": "host=/nonexistent"}`), 0o600)
		c, err := loadConfig(file)
		if err == nil {
			s, err = newServer(context.Background(), c)
		}
		if err != nil {
			f.Fatal(err)
		}
		atomic.StoreInt32(&s.d.down, 1)
	} else {
		db, c := fresh(f)
		sql(f, db, "INSERT INTO runs (id, log, events) VALUES (1, 'value', '1\n2\n')")
		c.LongPollMS, c.EventMS = 1, 1
		s, _ = serve(f, c)
	}
	log.SetOutput(io.Discard)
	f.Fuzz(func(t *testing.T, method, target, contentType, one, two, three, four, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !sendable(method) || method == "" || strings.Contains(method, " ") {
			return
		}
		r := &http.Request{Method: method, URL: u, Header: http.Header{}, Host: "x", Body: io.NopCloser(strings.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		for name, value := range map[string]string{"Content-Type": contentType, "Stream-Ttl": one, "Producer-Id": one, "Stream-Expires-At": two, "Producer-Epoch": two,
			"Stream-Forked-From": three, "Producer-Seq": three, "Stream-Fork-Offset": four, "Stream-Fork-Sub-Offset": two, "Stream-Seq": four, "Authorization": four} {
			if value != "" && sendable(value) {
				r.Header.Set(name, value)
			}
		}
		// one header excludes another, or needs one
		if method == "PUT" && r.Header.Get("Stream-Ttl") != "" {
			r.Header.Del("Stream-Expires-At")
		}
		if r.Header.Get("Stream-Forked-From") == "" {
			r.Header.Del("Stream-Fork-Offset")
			r.Header.Del("Stream-Fork-Sub-Offset")
		}
		if !strings.HasPrefix(four, "Bearer ") {
			r.Header.Del("Authorization")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		down := w.Code == 503 && s.d.isDown()
		if !down && w.Code != 401 && (w.Code < 200 || w.Code >= 500) {
			t.Fatalf("%s %s: %d", method, target, w.Code)
		}
		for name, values := range w.Header() {
			if !sendable(strings.Join(values, "")) {
				t.Fatalf("%s: %q", name, values)
			}
		}
	})
}

// sendable says whether net/http lets a method or the value of a header through.
func sendable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
