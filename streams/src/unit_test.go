package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestUnitTokens(t *testing.T) {
	if token(7, 0) != "0000000000000000_0000000000000000" || token(7, 12) != "0000000000000007_0000000000000012" {
		t.Errorf("tokens: %s, %s", token(7, 0), token(7, 12))
	}
	if token(7, 9) >= token(7, 10) {
		t.Error("tokens do not sort by position")
	}
	if i, at, ok := parseToken(token(9e15, 1<<50)); !ok || i != 9e15 || at != 1<<50 {
		t.Error("a token is not what it was made of")
	}
	for _, bad := range []string{"", "0", "-1", "x", "0000000000000000_000000000000000", "0000000000000000_00000000000000000", "0000000000000000-0000000000000000", "000000000000000a_0000000000000000"} {
		if _, _, ok := parseToken(bad); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestUnitJSON(t *testing.T) {
	for body, want := range map[string]string{
		`{"a": 1.10}`:                  "{\"a\":1.10}\n",
		`[1, [2, 3], "x\ny"]`:          "1\n[2,3]\n\"x\\ny\"\n",
		" [ 12345678901234567890 ] ":   "12345678901234567890\n",
		"{\n\"b\" : 1,\n\"a\" : [ ] }": "{\"b\":1,\"a\":[]}\n",
		`[]`:                           "",
		"[\n[]\n]":                     "[]\n",
		"\"\u2028\"":                   "\"\u2028\"\n",
	} {
		got, err := toLines([]byte(body), true)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
	for _, bad := range []string{``, ` `, `{`, `[1,]`, `1 2`, `[1] [2]`, "\"\xff\"", `{"a"}`} {
		if got, err := toLines([]byte(bad), true); err == nil {
			t.Errorf("%q is accepted: %q", bad, got)
		}
	}
	if _, err := toLines([]byte(`[]`), false); err != errEmptyArray {
		t.Error("an empty array is appended")
	}
	for lines, want := range map[string]string{"": "[]", "1\n": "[1]", "1\n\n{}\r\n": "[1,{}]"} {
		if got := string(toArray([]byte(lines))); got != want {
			t.Errorf("%q: %s", lines, got)
		}
	}
}

func TestUnitCharacters(t *testing.T) {
	text := "aé€😀z"
	whole := map[int]bool{}
	for i := range text {
		whole[i] = true
	}
	whole[len(text)] = true
	for n := 0; n <= len(text); n++ {
		want := n
		for !whole[want] {
			want--
		}
		if got := wholeCharacters([]byte(text[:n])); got != want {
			t.Errorf("of %d bytes %d are complete, not %d", n, want, got)
		}
	}
	if wholeCharacters([]byte{0x80, 0x80, 0x80, 0x80}) != 4 {
		t.Error("bytes that are no text must not be held back")
	}
}

func TestUnitEvent(t *testing.T) {
	if got := event("data", "a\r\nb\rc\nevent: x"); got != "event: data\ndata:a\ndata:b\ndata:c\ndata:event: x\n\n" {
		t.Errorf("%q", got)
	}
	// a client removes one space after the colon, and no more
	if got := event("data", "  a\n b"); got != "event: data\ndata:   a\ndata:  b\n\n" {
		t.Errorf("%q", got)
	}
}

func TestUnitHub(t *testing.T) {
	h := newHub()
	e := h.join("k")
	news := e.changed()
	h.wake("other")
	select {
	case <-news:
		t.Fatal("woken for another stream")
	default:
	}
	// followers at one position share a read, those of another role or position do not
	begin, reads := make(chan struct{}), 0
	var wait sync.WaitGroup
	for i := 0; i < 20; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			e.read("r", 5, func() (*result, error) { <-begin; reads++; return &result{}, nil })
		}()
	}
	close(begin)
	wait.Wait()
	e.read("r", 5, func() (*result, error) { reads++; return &result{}, nil })
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
	e.read("other", 5, func() (*result, error) { reads++; return &result{}, nil })
	e.read("r", 6, func() (*result, error) { reads++; return &result{}, nil })
	if reads != 3 {
		t.Errorf("%d reads for another role and another position", reads)
	}
	// no read is older than a wake
	h.wake("k")
	<-news
	e.read("r", 5, func() (*result, error) { reads++; return &result{}, nil })
	if reads != 4 {
		t.Error("a read from before the wake was shared")
	}
	e.leave()
	if len(h.entries) != 0 {
		t.Error("an entry without followers is kept")
	}
}

func TestUnitConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	for text, good := range map[string]bool{
		`{}`: true, `{"listn": "x"}`: false, `{"listen": "nothing"}`: false, `{"prefix": "x"}`: false, `{"lanes": 0}`: false,
		`{"routes": [{"path": "/a/{id}", "table": "a", "key": "id", "column": "log", "incarnation": "0"}]}`: true,
		`{"routes": [{"path": "/a/{id}", "table": "a", "key": "id", "column": "log"}]}`:                     false,
		`{"routes": [{"path": "/a/id", "table": "a", "key": "id", "column": "log", "incarnation": "0"}]}`:   false,
		`{"routes": [{"path": "/a/{id}", "table": "a", "key": "id", "incarnation": "0"}]}`:                  false,
	} {
		os.WriteFile(file, []byte(text), 0o600)
		c, err := loadConfig(file)
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil && (c.Listen != "127.0.0.1:4437" || c.Anonymous != "" || c.Prefix != "") {
			t.Error("more than loopback, or something is accessible by default")
		}
	}
}

func TestUnitTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	sum := "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // "secret"
	os.WriteFile(file, []byte("# roles\nreader "+sum+"\n"), 0o600)
	a, err := newAuth(&Config{Tokens: file}, nil)
	if err != nil || a.file[sum] != "reader" {
		t.Errorf("%v, %v", a, err)
	}
	os.WriteFile(file, []byte("reader secret\n"), 0o600)
	if _, err := newAuth(&Config{Tokens: file}, nil); err == nil {
		t.Error("a token that is no SHA-256 is accepted")
	}
}
