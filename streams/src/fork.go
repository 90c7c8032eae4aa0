package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A fork is a stream whose first bytes are those of another, up to an offset.  It points to them and has no copy.  In a
// request the position is an offset of the source, or its end, and a sub-offset: so many bytes more, or messages in JSON.
type fork struct {
	path        *string // of the source, as it is stored
	at          *int64
	incarnation *int64
	timeline    int64
	sub         int64
	subBytes    *int64 // nil: not measured

	media string // of the source, if measure() read it
}

var errForkOffset = refuse(400, "Stream-Fork-Offset is not an offset of the stream to fork")

// forkOf takes the fork from the headers of a request that creates a stream; nil: it is none.
func (s *server) forkOf(r *http.Request) (*fork, error) {
	from, offset, sub := header(r, "Stream-Forked-From"), header(r, "Stream-Fork-Offset"), header(r, "Stream-Fork-Sub-Offset")
	if from == nil {
		if offset != nil || sub != nil {
			return nil, refuse(400, "Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
		}
		return nil, nil
	}
	u, err := url.Parse(*from)
	if err != nil || u.IsAbs() || u.Host != "" || u.RawQuery != "" {
		return nil, refuse(400, "Stream-Forked-From is not a path")
	}
	if !strings.HasPrefix(u.Path, s.c.Prefix) {
		return nil, refuse(404, "The stream to fork was not found")
	}
	path := u.EscapedPath()
	f := &fork{path: &path}
	if offset != nil {
		incarnation, at, ok := parseToken(*offset)
		if !ok {
			return nil, refuse(400, "Invalid Stream-Fork-Offset")
		}
		f.at, f.incarnation, f.timeline = &at, &incarnation, tokenTimeline(*offset)
	}
	if sub != nil {
		if !subForm.MatchString(*sub) {
			return nil, refuse(400, "Invalid Stream-Fork-Sub-Offset")
		}
		f.sub, _ = strconv.ParseInt(*sub, 10, 64)
		if f.sub > 0 && f.at == nil {
			return nil, refuse(400, "Stream-Fork-Sub-Offset needs Stream-Fork-Offset")
		}
	}
	return f, nil
}

// measure finds how many bytes the sub-offset is, and the media type if it is wanted.  Bytes do not change, so both
// hold when the stream is created; whether the source is there is decided then.
func (s *server) measure(ctx context.Context, role string, f *fork, wantMedia bool) error {
	if f == nil {
		return nil
	}
	var measured int64
	if f.sub == 0 {
		f.subBytes = &measured
		if !wantMedia {
			return nil
		}
	}
	src := stored{d: s.d, path: *f.path}
	var at int64
	if f.at != nil {
		at = *f.at
	}
	got, err := src.read(ctx, role, &at, 0)
	if err != nil {
		return err
	}
	if !got.found || f.sub == 0 {
		f.media = media(got.contentType)
		return nil
	}
	if f.media = media(got.contentType); f.media != "application/json" {
		f.subBytes = &f.sub
		return nil
	}
	if at > 0 && at < got.first {
		return errForkOffset
	}
	var end *int64
	err = s.d.as(ctx, s.d.readers, role, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT streams.message_end($1, $2, $3)", *f.path, got.begin, f.sub).Scan(&end)
	})
	if err != nil {
		return err
	}
	if end == nil {
		return errForkOffset // there are not so many messages
	}
	measured = *end - at
	f.subBytes = &measured
	return nil
}
