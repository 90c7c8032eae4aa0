package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

var errEmptyArray = errors.New("an empty array has no message")

// toLines turns the body of a request into lines, a message each: the elements of an array, or the value
// itself.  Numbers and keys stay as they were written.
func toLines(body []byte, emptyAllowed bool) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8")
	}
	var messages []json.RawMessage
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := json.Unmarshal(body, &messages); err != nil {
			return nil, err
		}
		if len(messages) == 0 && !emptyAllowed {
			return nil, errEmptyArray
		}
	} else {
		messages = []json.RawMessage{body}
	}
	var out bytes.Buffer
	for _, m := range messages {
		if err := json.Compact(&out, m); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// toArray makes a JSON array of complete lines.  Empty lines, which an application may write, are no messages.
func toArray(lines []byte) []byte {
	out := make([]byte, 1, len(lines)+2)
	out[0] = '['
	for len(lines) > 0 {
		line := lines
		if end := bytes.IndexByte(lines, '\n'); end >= 0 {
			line, lines = lines[:end], lines[end+1:]
		} else {
			lines = nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, line...)
		}
	}
	return append(out, ']')
}

// wholeCharacters returns how many bytes of UTF-8 text end with a complete character.
func wholeCharacters(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if b := text[len(text)-back]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-back:]) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}
