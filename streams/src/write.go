package main

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const maxSafeInteger = 1<<53 - 1

var digits = regexp.MustCompile(`^[0-9]+$`)
var ttlForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)
var subForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)

func isTrue(header string) bool { return strings.EqualFold(header, "true") }

// header returns a header that may be present and empty.
func header(r *http.Request, name string) (value *string) {
	if v := r.Header.Values(name); len(v) > 0 {
		return &v[0]
	}
	return nil
}

func headerNumber(value *string, name string) (*int64, error) {
	if !digits.MatchString(*value) {
		return nil, refuse(400, "Invalid "+name)
	}
	n, err := strconv.ParseInt(*value, 10, 64)
	if err != nil || n > maxSafeInteger {
		return nil, refuse(400, "Invalid "+name)
	}
	return &n, nil
}

// put creates a stream.
func (s *server) put(w http.ResponseWriter, r *http.Request, role, path string) error {
	from, err := s.forkOf(r)
	if err != nil {
		return err
	}
	contentType := header(r, "Content-Type")
	if contentType != nil && *contentType == "" {
		contentType = nil
	}
	if contentType == nil && from == nil {
		octets := "application/octet-stream"
		contentType = &octets
	}
	var kind *string // NULL: that of the fork's source
	if contentType != nil {
		m := media(*contentType)
		if !strings.Contains(m, "/") {
			return refuse(400, "Invalid Content-Type")
		}
		kind = &m
	}
	var ttl *int64
	given, expires := header(r, "Stream-TTL"), header(r, "Stream-Expires-At")
	if given != nil && expires != nil {
		return refuse(400, "Stream-TTL and Stream-Expires-At exclude each other")
	}
	if given != nil {
		if !ttlForm.MatchString(*given) {
			return refuse(400, "Invalid Stream-TTL")
		}
		n, _ := strconv.ParseInt(*given, 10, 64)
		ttl = &n
	}
	if expires != nil {
		if _, err := time.Parse(time.RFC3339, *expires); err != nil {
			return refuse(400, "Invalid Stream-Expires-At")
		}
	}
	data, err := s.body(w, r)
	if err != nil {
		return err
	}
	if err := s.measure(r.Context(), role, from, kind == nil && len(data) > 0); err != nil {
		return err
	}
	if len(data) > 0 && (kind != nil && *kind == "application/json" || kind == nil && from.media == "application/json") {
		if data, err = toLines(data, true); err != nil {
			return refuse(400, "Invalid JSON")
		}
	}
	if data == nil {
		data = []byte{}
	}
	if from == nil {
		from = &fork{subBytes: new(int64)}
	}
	var status string
	var id, incarnation, tail *int64
	var timeline int64
	var hasType *string
	var closed *bool
	err = s.d.as(r.Context(), s.d.slow, role, func(c *pgx.Conn) error {
		return c.QueryRow(r.Context(), `SELECT status, stream_id, incarnation, tail, content_type, closed, `+timelineSQL+`
			FROM streams.create_stream($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $13 = `+timelineSQL+` THEN $10::bigint ELSE -1 END, $11, $12)`,
			path, contentType, kind, data, isTrue(r.Header.Get("Stream-Closed")), ttl, expires,
			from.path, from.at, from.incarnation, from.sub, from.subBytes, from.timeline).
			Scan(&status, &id, &incarnation, &tail, &hasType, &closed, &timeline)
	})
	if state := sqlState(err); expires != nil && (state == "22007" || state == "22008" || state == "22009") {
		return refuse(400, "Invalid Stream-Expires-At") // RFC 3339 has years and time zones that the database does not
	} else if err != nil {
		return err
	}
	switch status {
	case "differs":
		return refuse(409, "The stream exists with another configuration")
	case "blocked":
		return refuse(409, "The stream was deleted; its forks read its bytes")
	case "no source":
		return refuse(404, "The stream to fork was not found")
	case "source gone":
		return refuse(409, "The stream to fork was deleted")
	case "media":
		return refuse(409, "The stream to fork has another content type")
	case "offset":
		return errForkOffset
	case "depth":
		return refuse(409, "The stream to fork is a fork of too many others")
	}
	h := w.Header()
	h.Set("Content-Type", *hasType)
	h.Set("Stream-Next-Offset", timedToken(*incarnation, *tail, timeline))
	if *closed {
		h.Set("Stream-Closed", "true")
	}
	if status == "created" {
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		h.Set("Location", scheme+r.Host+path)
		w.WriteHeader(201)
	} else {
		w.WriteHeader(200)
	}
	return nil
}

// post appends to a stream, closes it, or both.
func (s *server) post(w http.ResponseWriter, r *http.Request, role, path string) error {
	a := &appendRequest{path: path, close: isTrue(r.Header.Get("Stream-Closed")), seq: header(r, "Stream-Seq"), producer: header(r, "Producer-Id")}
	epoch, pseq := header(r, "Producer-Epoch"), header(r, "Producer-Seq")
	if (a.producer == nil) != (epoch == nil) || (epoch == nil) != (pseq == nil) {
		return refuse(400, "Producer-Id, Producer-Epoch and Producer-Seq belong together")
	}
	var err error
	if a.producer != nil {
		if *a.producer == "" {
			return refuse(400, "Invalid Producer-Id")
		}
		if a.epoch, err = headerNumber(epoch, "Producer-Epoch"); err != nil {
			return err
		}
		if a.pseq, err = headerNumber(pseq, "Producer-Seq"); err != nil {
			return err
		}
	}
	if a.data, err = s.body(w, r); err != nil {
		return err
	}
	if len(a.data) == 0 && !a.close {
		return refuse(400, "The body is empty")
	}
	contentType := r.Header.Get("Content-Type")
	if len(a.data) > 0 && contentType == "" {
		return refuse(400, "Content-Type is required")
	}
	a.media = media(contentType)
	if len(a.data) > 0 && a.media == "application/json" {
		lines, err := toLines(a.data, false)
		if err != nil {
			return s.invalidJSON(r.Context(), role, path)
		}
		a.data = lines
	}
	v := s.lanes.append(role, a)
	if v.err != nil {
		return v.err
	}
	h := w.Header()
	next := timedToken(v.incarnation, v.tail, v.timeline)
	switch v.status {
	case "none":
		return errNotFound
	case "gone":
		return errGone
	case "closed":
		return refuse(409, "Stream is closed", "Stream-Closed", "true", "Stream-Next-Offset", next)
	case "media":
		return refuse(409, "The stream has another content type")
	case "seq":
		return refuse(409, "Stream-Seq does not increase")
	case "stale":
		return refuse(403, "A newer epoch of the producer exists", "Producer-Epoch", formatInt(v.epoch))
	case "epoch":
		return refuse(400, "A new epoch begins with sequence 0")
	case "gap":
		return refuse(409, "Producer-Seq leaves a gap", "Producer-Expected-Seq", formatInt(v.pseq), "Producer-Received-Seq", formatInt(*a.pseq))
	}
	h.Set("Stream-Next-Offset", next)
	if v.closed {
		h.Set("Stream-Closed", "true")
	}
	if a.producer != nil {
		h.Set("Producer-Epoch", formatInt(v.epoch))
		h.Set("Producer-Seq", formatInt(v.pseq))
	}
	if v.status == "ok" && a.producer != nil && len(a.data) > 0 {
		w.WriteHeader(200)
	} else {
		w.WriteHeader(204)
	}
	return nil
}

// invalidJSON finds the answer for a body that is not JSON: the state of the stream takes precedence.
func (s *server) invalidJSON(ctx context.Context, role, path string) error {
	got, err := stored{d: s.d, path: path}.read(ctx, role, nil, 0)
	switch {
	case err != nil:
		return err
	case got.check(nil) != nil:
		return got.check(nil)
	case got.closed:
		return refuse(409, "Stream is closed", "Stream-Closed", "true", "Stream-Next-Offset", got.token(got.tail))
	case media(got.contentType) != "application/json":
		return refuse(409, "The stream has another content type")
	}
	return refuse(400, "Invalid JSON")
}

func (s *server) delete(w http.ResponseWriter, r *http.Request, role, path string) error {
	var status string
	var id *int64
	err := s.d.as(r.Context(), s.d.slow, role, func(c *pgx.Conn) error {
		return c.QueryRow(r.Context(), "SELECT status, stream_id FROM streams.delete_stream($1)", path).Scan(&status, &id)
	})
	if err != nil {
		return err
	}
	if id != nil {
		s.appended(*id, false)
	}
	switch status {
	case "none":
		return errNotFound
	case "gone":
		return errGone
	}
	w.WriteHeader(204)
	return nil
}
