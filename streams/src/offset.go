package main

import (
	"fmt"
	"math/rand"
	"regexp"
	"strconv"
	"time"
)

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// An offset token is the incarnation of the stream and a byte of its value, of fixed width so that tokens of
// a stream sort by position, and the timeline of the database unless it is the first.  The start has the same token in all streams.
var tokenForm = regexp.MustCompile(`^[0-9]{16}_[0-9]{16}(_[0-9]{10})?$`)

// A standby that is promoted begins a timeline, and so does a server that is restored to a point in time.  It might not
// have the last commits of the former primary, and others write different bytes at the same offsets; therefore tokens of
// another timeline are refused.  A restart, also after a crash, keeps the timeline.  A standby has that of its last checkpoint.
const timelineSQL = `(SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())::bigint
	ELSE ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint END)`

func token(incarnation, at int64) string {
	if at == 0 {
		incarnation = 0
	}
	return fmt.Sprintf("%016d_%016d", incarnation, at)
}

// timedToken is the token of an offset on a timeline.
func timedToken(incarnation, at, timeline int64) string {
	if at == 0 || timeline == 1 {
		return token(incarnation, at)
	}
	return fmt.Sprintf("%s_%010d", token(incarnation, at), timeline)
}

// tokenTimeline returns the timeline of a token that parseToken accepts.
func tokenTimeline(s string) int64 {
	if len(s) <= 33 {
		return 1
	}
	timeline, _ := strconv.ParseInt(s[34:], 10, 64)
	return timeline
}

func parseToken(s string) (incarnation, at int64, ok bool) {
	if !tokenForm.MatchString(s) {
		return 0, 0, false
	}
	incarnation, _ = strconv.ParseInt(s[:16], 10, 64)
	at, _ = strconv.ParseInt(s[17:33], 10, 64)
	return incarnation, at, true
}

var cursorStart = time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)

// cursor numbers intervals of 20 seconds, so that caches share answers within one; a client that was in
// this interval already gets a later number and leaves the cached answer.
func cursor(given string) string {
	now := int64(time.Since(cursorStart) / (20 * time.Second))
	if n, err := strconv.ParseInt(given, 10, 64); err == nil && n >= now {
		return formatInt(n + 1 + rand.Int63n(180))
	}
	return formatInt(now)
}
