package main

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A fork is a stream whose first bytes are those of another, up to an offset.  It points to them and has no copy.  In a
// request the position is an offset of the source, or its end, and a sub-offset: so many bytes more, or messages in JSON.
type fork struct {
	path        *string // of the source, as it is stored
	at          *int64
	incarnation *int64
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
		f.at, f.incarnation = &at, &incarnation
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
	for left, pos := f.sub, at; left > 0; {
		if got, err = src.read(ctx, role, &pos, s.c.ChunkBytes); err != nil {
			return err
		}
		if len(got.data) == 0 {
			return errForkOffset // there are not so many messages
		}
		for rest := got.data; left > 0; left-- {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			rest = rest[end+1:]
			measured += int64(end + 1)
		}
		pos = got.next
	}
	f.subBytes = &measured
	return nil
}
