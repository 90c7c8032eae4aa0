package main

import (
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// position finds where a read begins: an offset, or nil for the end.
func position(q url.Values) (from *int64, incarnation, timeline int64, err error) {
	offsets := q["offset"]
	if len(offsets) > 1 {
		return nil, 0, 0, refuse(400, "More than one offset")
	}
	zero := int64(0)
	if len(offsets) == 0 || offsets[0] == "-1" {
		return &zero, 0, 0, nil
	}
	if offsets[0] == "now" {
		return nil, 0, 0, nil
	}
	incarnation, at, ok := parseToken(offsets[0])
	if !ok {
		return nil, 0, 0, refuse(400, "Invalid offset")
	}
	return &at, incarnation, tokenTimeline(offsets[0]), nil
}

var errGone = refuse(410, "The stream was deleted; its forks read its bytes")

// check refuses a stream that is not there, and an offset beyond its end.
func (r *result) check(from *int64) error {
	if r.gone {
		return errGone
	} else if !r.found {
		return errNotFound
	}
	if from != nil && *from > r.tail {
		return errOffset
	}
	if from != nil && *from < r.first && *from > 0 { // at 0, what is kept is the beginning
		return errDropped
	}
	return nil
}

// checkNews is check for a follower that waits at an offset of an earlier read: on another timeline, or in a row that has taken the
// place of the one that it followed, that might be an offset of other bytes.
func (r *result) checkNews(begin, incarnation, timeline int64) error {
	if err := r.check(&begin); err != nil {
		return err
	}
	if begin > 0 && (r.incarnation(begin) != incarnation || r.timeline != timeline) {
		return errOffset
	}
	return nil
}

var errOffset = refuse(410, "The offset is of a former value of the stream; begin again at offset -1")

var errDropped = refuse(410, "The bytes at the offset are no longer kept; begin again at offset -1")

func (r *result) etag(from, next int64) string {
	h := fnv.New64a()
	h.Write([]byte(r.id + "\x00" + formatInt(r.timeline)))
	mark := ""
	if r.closed && r.upToDate {
		mark = ":c"
	}
	return fmt.Sprintf(`"%016x:%d:%d%s"`, h.Sum64(), from, next, mark)
}

func (s *server) get(w http.ResponseWriter, r *http.Request, role string, src source) error {
	h := w.Header()
	if r.Method == "HEAD" {
		got, err := src.read(r.Context(), role, nil, 0)
		if err != nil {
			return err
		}
		if err := got.check(nil); err != nil {
			return err
		}
		h.Set("Content-Type", got.contentType)
		h.Set("Stream-Next-Offset", got.token(got.tail))
		h.Set("Cache-Control", "no-store")
		h.Set("ETag", got.etag(-1, got.tail))
		if got.closed {
			h.Set("Stream-Closed", "true")
		}
		if got.ttl != nil {
			h.Set("Stream-TTL", formatInt(*got.ttl))
		}
		if got.expires != nil {
			h.Set("Stream-Expires-At", *got.expires)
		}
		w.WriteHeader(200)
		return nil
	}

	q := r.URL.Query()
	live := q.Get("live")
	if _, there := q["live"]; there && live != "long-poll" && live != "sse" {
		return refuse(400, "Invalid live mode")
	}
	if live != "" && len(q["offset"]) == 0 {
		return refuse(400, "A live read needs an offset")
	}
	from, incarnation, timeline, err := position(q)
	if err != nil {
		return err
	}
	max := s.c.ChunkBytes
	if live == "sse" {
		max = 0
	}
	got, err := src.read(r.Context(), role, from, max)
	if err != nil {
		return err
	}
	if err := got.check(from); err != nil {
		return err
	}
	if from != nil && (incarnation != got.incarnation(*from) || *from > 0 && timeline != got.timeline) { // the offset names bytes that this stream does not have
		return errOffset
	}
	if got.touch != 0 {
		if err := s.d.touch(r.Context(), role, got.touch); err != nil && sqlState(err) != "42501" {
			return err
		}
	}
	begin := got.begin
	if in, ok := src.(stored); ok { // followers stay with this stream if another takes its path
		in.id = mustID(got.key)
		src = in
	}
	if live == "sse" {
		return s.events(w, r, role, src, got, begin, q.Get("cursor"))
	}
	if live == "long-poll" {
		if len(got.data) == 0 && !got.closed {
			if got, err = s.poll(r, role, src, got, begin); err != nil {
				return err
			}
		}
		h.Set("Stream-Cursor", cursor(q.Get("cursor")))
		if len(got.data) == 0 {
			h.Set("Stream-Next-Offset", got.token(got.next))
			h.Set("Stream-Up-To-Date", "true")
			if got.closed {
				h.Set("Stream-Closed", "true")
			}
			w.WriteHeader(204)
			return nil
		}
	}
	return s.answer(w, r, role, got, begin, from == nil)
}

// answer sends a part of a stream.
func (s *server) answer(w http.ResponseWriter, r *http.Request, role string, got *result, begin int64, now bool) error {
	h := w.Header()
	h.Set("Content-Type", got.contentType)
	h.Set("Stream-Next-Offset", got.token(got.next))
	if got.upToDate {
		h.Set("Stream-Up-To-Date", "true")
		if got.closed {
			h.Set("Stream-Closed", "true")
		}
	}
	if now {
		h.Set("Cache-Control", "no-store")
	} else {
		// a shared cache must not give one role's bytes to another
		scope := "private"
		if role == s.c.Anonymous {
			scope = "public"
		}
		h.Set("Cache-Control", scope+", max-age=60, stale-while-revalidate=300")
		tag := got.etag(begin, got.next)
		h.Set("ETag", tag)
		h.Set("Vary", "Authorization")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(304)
			return nil
		}
	}
	data := got.data
	if media(got.contentType) == "application/json" {
		data = toArray(data)
	}
	if len(data) >= 1024 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Vary", "Authorization, Accept-Encoding")
		w.WriteHeader(200)
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		z.Write(data)
		z.Close()
		return nil
	}
	h.Set("Content-Length", formatInt(int64(len(data))))
	w.WriteHeader(200)
	w.Write(data)
	return nil
}

// poll waits until a stream has more than a position, has ended, or the time is over.
func (s *server) poll(r *http.Request, role string, src source, got *result, begin int64) (*result, error) {
	leave, err := s.follow()
	if err != nil {
		return nil, err
	}
	defer leave()
	incarnation, timeline := got.incarnation(begin), got.timeline
	e := s.hub.join(got.key)
	defer e.leave()
	over := time.NewTimer(ms(s.c.LongPollMS))
	defer over.Stop()
	for {
		news := e.changed()
		got, err = e.read(role, begin, func() (*result, error) { return src.read(s.ctx, role, &begin, s.c.ChunkBytes) })
		if err == nil {
			if err := got.checkNews(begin, incarnation, timeline); err != nil {
				return nil, err
			}
			if len(got.data) > 0 || got.closed {
				return got, nil
			}
		} else if databaseRefusal(err).status != 503 {
			return nil, err
		}
		select {
		case <-news:
			continue
		case <-over.C:
		case <-s.hub.closing:
		case <-r.Context().Done():
		}
		return got, err
	}
}
