package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A server answers requests.  It holds nothing that must survive, so any number of them serve one database.
type server struct {
	c         *Config
	d         *database
	a         *auth
	hub       *hub
	lanes     *lanes
	tables    []*table
	ctx       context.Context // of the work that followers share
	followers int64
}

// A refusal is an answer other than success.
type refusal struct {
	status  int
	text    string
	headers map[string]string
}

func (r refusal) Error() string { return r.text }

func refuse(status int, text string, headers ...string) refusal {
	r := refusal{status, text, map[string]string{}}
	for i := 0; i+1 < len(headers); i += 2 {
		r.headers[headers[i]] = headers[i+1]
	}
	return r
}

var errNotFound = refuse(404, "Stream not found")

type connKey struct{}

// withConn makes the connection available to setDeadlines.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// An answering writer gives the client time from the beginning of each write, not of the request, which may have waited.
type answering struct {
	http.ResponseWriter
	progress func()
}

func (a answering) WriteHeader(status int) {
	a.progress()
	a.ResponseWriter.WriteHeader(status)
}

func (a answering) Write(data []byte) (int, error) {
	a.progress()
	return a.ResponseWriter.Write(data)
}

func (a answering) Flush() {
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		a.progress()
		f.Flush()
	}
}

// progress gives a client so much time to take the next bytes.
func (s *server) progress(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		c.SetWriteDeadline(time.Now().Add(ms(s.c.WriteMS)))
	}
}

func (s *server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	c, ok := r.Context().Value(connKey{}).(net.Conn)
	if ok {
		c.SetReadDeadline(time.Now().Add(ms(s.c.WriteMS)))
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.c.BodyBytes)))
	if err == nil {
		if ok {
			c.SetReadDeadline(time.Time{})
		}
		return data, nil
	}
	// the deadline stays: nothing waits for the rest of the body
	w.Header().Set("Connection", "close")
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, refuse(413, fmt.Sprintf("The body has more than %d bytes", s.c.BodyBytes))
	}
	return nil, refuse(400, "The request is incomplete")
}

var allowHeaders = "authorization, content-type, if-none-match, stream-seq, stream-ttl, stream-expires-at, stream-closed, producer-id, producer-epoch, producer-seq, " +
	"stream-forked-from, stream-fork-offset, stream-fork-sub-offset"
var exposeHeaders = "content-encoding, content-type, etag, location, producer-epoch, producer-expected-seq, producer-received-seq, producer-seq, " +
	"stream-closed, stream-cursor, stream-expires-at, stream-next-offset, stream-sse-data-encoding, stream-ttl, stream-up-to-date, vary"

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", allowHeaders)
	h.Set("Access-Control-Expose-Headers", exposeHeaders)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	s.progress(r) // of a former request on the connection, the time is over; net/http writes "100 Continue"
	w = answering{w, func() { s.progress(r) }}
	err := s.handle(w, r)
	if err == nil {
		return
	}
	var no refusal
	if !errors.As(err, &no) {
		no = databaseRefusal(err)
		if r.Context().Err() == nil && !errors.Is(err, errDown) { // the listener logs why
			log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
		}
	}
	for k, v := range no.headers {
		h.Set(k, v)
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	w.WriteHeader(no.status)
	if r.Method != "HEAD" {
		io.WriteString(w, no.text+"\n")
	}
}

// databaseRefusal is the answer for an error of the database.  Its text stays in the log.
func databaseRefusal(err error) refusal {
	state := sqlState(err)
	switch {
	case errors.Is(err, errQueueFull), state == "", state == "57014", state == "40001", state == "40P01", state == "55P03":
		return refuse(503, "The database does not answer", "Retry-After", "1")
	case strings.HasPrefix(state, "57P"), strings.HasPrefix(state, "53"), strings.HasPrefix(state, "08"):
		return refuse(503, "The database does not answer", "Retry-After", "1")
	case state == "54000":
		return refuse(413, "The stream has reached its largest size")
	case state == "42501", state == "22023", state == "42704":
		return refuse(403, "Not permitted")
	case notText(state):
		return refuse(400, "The request has characters that the database does not have")
	case state == "23514":
		return refuse(409, "Stream is closed", "Stream-Closed", "true")
	}
	return refuse(500, "Internal error")
}

// notText says whether an error is that bytes are not characters of the database's encoding.
func notText(state string) bool { return state == "22021" || state == "22P05" }

func (s *server) handle(w http.ResponseWriter, r *http.Request) error {
	if r.Method == "OPTIONS" {
		w.WriteHeader(204)
		return nil
	}
	role, err := s.a.role(r.Context(), r)
	if err != nil {
		return err
	}
	// SET ROLE "none" would be the role of the server's connection
	if role == "" || role == "none" {
		return refuse(401, "A token is required", "WWW-Authenticate", "Bearer")
	}
	for _, t := range s.tables {
		if key, ok := t.match(r.URL.Path); ok {
			if r.Method != "GET" && r.Method != "HEAD" {
				return refuse(405, "The stream is written by the application", "Allow", "GET, HEAD, OPTIONS")
			}
			return s.get(w, r, role, tableSource{s.d, t, key})
		}
	}
	if s.c.Prefix == "" || !strings.HasPrefix(r.URL.Path, s.c.Prefix) || len(r.URL.Path) == len(s.c.Prefix) {
		return errNotFound
	}
	path := r.URL.EscapedPath()
	switch r.Method {
	case "GET", "HEAD":
		return s.get(w, r, role, stored{d: s.d, path: path})
	case "PUT":
		return s.put(w, r, role, path)
	case "POST":
		return s.post(w, r, role, path)
	case "DELETE":
		return s.delete(w, r, role, path)
	}
	return refuse(405, "Method not allowed", "Allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS")
}

// appended wakes the followers of this server and, if its transaction has not notified them, of the others.
func (s *server) appended(id int64, told bool) {
	s.hub.wake(storedKey(id))
	if !told {
		s.d.notices.add(id)
	}
}

func (s *server) woken(channel, payload string) {
	if channel == ownChannel {
		if i := strings.IndexByte(payload, ':'); i >= 0 {
			if payload[:i] == s.d.me {
				return
			}
			payload = payload[i+1:]
		}
		for _, id := range strings.Split(payload, ",") {
			s.hub.wake(ownChannel + "\x00" + id)
		}
		return
	}
	s.hub.wake(channel + "\x00" + payload)
}

// follow counts followers; leave must be called unless it returns an error.
func (s *server) follow() (leave func(), err error) {
	if atomic.AddInt64(&s.followers, 1) > int64(s.c.Followers) {
		atomic.AddInt64(&s.followers, -1)
		return nil, refuse(503, "Too many followers", "Retry-After", "5")
	}
	return func() { atomic.AddInt64(&s.followers, -1) }, nil
}
