package main

import (
	"context"
	"errors"
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
	if header(r, "Stream-Forked-From") != nil {
		return refuse(501, "Forks are not implemented")
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	if !strings.Contains(media(contentType), "/") {
		return refuse(400, "Invalid Content-Type")
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
	if media(contentType) == "application/json" && len(data) > 0 {
		if data, err = toLines(data, true); err != nil {
			return refuse(400, "Invalid JSON")
		}
	}
	if data == nil {
		data = []byte{}
	}
	var status, hasType string
	var id, incarnation, tail int64
	var closed bool
	err = s.d.as(r.Context(), s.d.slow, role, func(c *pgx.Conn) error {
		return c.QueryRow(r.Context(), `SELECT status, stream_id, incarnation, tail, content_type, closed
			FROM streams.create_stream($1, $2, $3, $4, $5, $6, $7)`,
			path, contentType, media(contentType), data, isTrue(r.Header.Get("Stream-Closed")), ttl, expires).
			Scan(&status, &id, &incarnation, &tail, &hasType, &closed)
	})
	if err != nil {
		return err
	}
	if status == "differs" {
		return refuse(409, "The stream exists with another configuration")
	}
	h := w.Header()
	h.Set("Content-Type", hasType)
	h.Set("Stream-Next-Offset", token(incarnation, tail))
	if closed {
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
	next := token(v.incarnation, v.tail)
	switch v.status {
	case "none":
		return errNotFound
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
	case !got.found:
		return errNotFound
	case got.closed:
		return refuse(409, "Stream is closed", "Stream-Closed", "true", "Stream-Next-Offset", token(got.incarnation, got.tail))
	case media(got.contentType) != "application/json":
		return refuse(409, "The stream has another content type")
	}
	return refuse(400, "Invalid JSON")
}

func (s *server) delete(w http.ResponseWriter, r *http.Request, role, path string) error {
	var id int64
	var expired bool
	err := s.d.as(r.Context(), s.d.slow, role, func(c *pgx.Conn) error {
		return c.QueryRow(r.Context(), "DELETE FROM streams.stream s WHERE path = $1 RETURNING id, streams.is_expired(s)", path).Scan(&id, &expired)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return errNotFound
	} else if err != nil {
		return err
	}
	s.appended(id)
	if expired {
		return errNotFound
	}
	w.WriteHeader(204)
	return nil
}
