package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// event formats server-sent data; a line end inside is another data line.  A client removes one space after the colon.
func event(name, data string) string {
	var b strings.Builder
	b.WriteString("event: " + name + "\n")
	for _, line := range strings.Split(lineEnds.Replace(data), "\n") {
		if strings.HasPrefix(line, " ") {
			line = " " + line
		}
		b.WriteString("data:" + line + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

func encoding(contentType string) string {
	m := media(contentType)
	switch {
	case m == "application/json":
		return "json"
	case strings.HasPrefix(m, "text/"):
		return "text"
	}
	return "base64"
}

// format makes the data event of a result, and the position after it.  All followers at a position share it.
func (r *result) format() (string, int64) {
	r.once.Do(func() {
		data := r.data
		r.after = r.next
		kind := encoding(r.contentType)
		if kind == "text" && !(r.closed && r.upToDate) {
			// the rest of a character comes with the next append
			data = data[:wholeCharacters(data)]
			r.after = r.begin + int64(len(data))
		}
		if len(data) == 0 {
			return
		}
		switch kind {
		case "json":
			data = toArray(data)
		case "base64":
			r.frame = event("data", base64.StdEncoding.EncodeToString(data))
			return
		}
		r.frame = event("data", string(data))
	})
	return r.frame, r.after
}

type control struct {
	NextOffset string `json:"streamNextOffset"`
	Closed     bool   `json:"streamClosed,omitempty"`
	Cursor     string `json:"streamCursor,omitempty"`
	UpToDate   bool   `json:"upToDate,omitempty"`
}

// events sends server-sent events until the stream or the connection ends.  It holds no snapshot and
// reads nothing while the client takes nothing.
func (s *server) events(w http.ResponseWriter, r *http.Request, role string, src source, got *result, begin int64, cur string) error {
	leave, err := s.follow()
	if err != nil {
		return err
	}
	defer leave()
	flusher, ok := w.(http.Flusher)
	if !ok {
		return refuse(500, "The connection cannot stream")
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	if encoding(got.contentType) == "base64" {
		h.Set("Stream-SSE-Data-Encoding", "base64")
	}
	w.WriteHeader(200)
	flusher.Flush()

	incarnation, timeline := got.incarnation(begin), got.timeline
	e := s.hub.join(got.key)
	defer e.leave()
	over := time.NewTimer(ms(s.c.EventMS))
	defer over.Stop()
	for first := true; ; {
		news := e.changed()
		at := begin
		got, err := e.read(role, at, func() (*result, error) { return src.read(s.ctx, role, &at, s.c.ChunkBytes) })
		if err == nil {
			if got.checkNews(begin, incarnation, timeline) != nil {
				return nil
			}
			if len(got.data) > 0 || got.closed || first {
				frame, next := got.format()
				c := control{NextOffset: got.token(next)}
				if got.closed && got.upToDate {
					c.Closed = true
				} else {
					c.Cursor, c.UpToDate = cursor(cur), got.upToDate
				}
				text, _ := json.Marshal(c)
				if next > begin || got.closed || first {
					if _, err := w.Write([]byte(frame + event("control", string(text)))); err != nil {
						return nil
					}
					flusher.Flush()
				}
				first, incarnation = false, got.incarnation(next)
				if c.Closed {
					return nil
				}
				if next > begin && !got.upToDate {
					begin = next
					continue
				}
				begin = next
			}
		} else if databaseRefusal(err).status != 503 {
			return nil // the answer has begun; the client's next request gets the error
		}
		select {
		case <-news:
		case <-over.C:
			return nil
		case <-s.hub.closing:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}
