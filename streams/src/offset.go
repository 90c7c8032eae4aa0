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
// a stream sort by position.  The start has the same token in all streams.
var tokenForm = regexp.MustCompile(`^[0-9]{16}_[0-9]{16}$`)

func token(incarnation, at int64) string {
	if at == 0 {
		incarnation = 0
	}
	return fmt.Sprintf("%016d_%016d", incarnation, at)
}

func parseToken(s string) (incarnation, at int64, ok bool) {
	if !tokenForm.MatchString(s) {
		return 0, 0, false
	}
	incarnation, _ = strconv.ParseInt(s[:16], 10, 64)
	at, _ = strconv.ParseInt(s[17:], 10, 64)
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
