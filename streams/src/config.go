package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// A Route maps a path to a column of the application's table.
type Route struct {
	Path        string `json:"path"`         // "/runs/{id}/log"; the part in braces is the key
	Table       string `json:"table"`        // "runs" or "public.runs"
	Key         string `json:"key"`          // column with the key
	Column      string `json:"column"`       // column of type appendable_text or appendable_bytea
	Incarnation string `json:"incarnation"`  // SQL expression on the row: another value if a row is deleted and its key is used again
	Begin       string `json:"begin"`        // SQL expression on the row: bytes that were dropped at the front
	Closed      string `json:"closed"`       // SQL condition on the row: the stream has ended
	Channel     string `json:"channel"`      // channel of the table's appendable_notify() trigger
	ContentType string `json:"content_type"` // with application/json, a line is a message
}

// Config is the configuration file.  The zero value listens on loopback and serves nothing.
type Config struct {
	Listen    string  `json:"listen"`
	Database  string  `json:"database"`  // connection string; empty: the environment (PGHOST ...)
	Tokens    string  `json:"tokens"`    // file with lines "ROLE SHA256-OF-TOKEN"
	TokenSQL  string  `json:"token_sql"` // query with $1, the token, that returns the name of its role
	Anonymous string  `json:"anonymous"` // role of requests without a token; empty: they are refused
	Routes    []Route `json:"routes"`
	Prefix    string  `json:"prefix"` // path below which clients create streams; empty: they cannot

	Connections  int `json:"connections"`    // for reads
	Lanes        int `json:"lanes"`          // connections that append
	ChunkBytes   int `json:"chunk_bytes"`    // largest answer
	BodyBytes    int `json:"body_bytes"`     // largest request
	Queue        int `json:"queue"`          // appends that wait; more are refused with 503
	Followers    int `json:"followers"`      // long polls and event streams; more are refused with 503
	LongPollMS   int `json:"long_poll_ms"`   // answer of a long poll without news
	EventMS      int `json:"event_ms"`       // life of an event stream; clients connect again
	PollMS       int `json:"poll_ms"`        // reads in spite of no notification
	WriteMS      int `json:"write_ms"`       // a client that takes nothing for so long is disconnected
	StatementMS  int `json:"statement_ms"`   // statement_timeout
	ReconnectMS  int `json:"reconnect_ms"`   // between attempts to connect the listener
	TokenCacheMS int `json:"token_cache_ms"` // how long a token's role is remembered
}

func loadConfig(file string) (*Config, error) {
	c := &Config{Listen: "127.0.0.1:4437", Connections: 8, Lanes: 2, ChunkBytes: 1 << 20, BodyBytes: 16 << 20, Queue: 20000, Followers: 20000,
		LongPollMS: 20000, EventMS: 60000, PollMS: 15000, WriteMS: 30000, StatementMS: 30000, ReconnectMS: 500, TokenCacheMS: 10000}
	if file == "" {
		return nil, errors.New("a configuration file is required: -config FILE")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, c.check()
}

func (c *Config) check() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if c.Prefix != "" && (!strings.HasPrefix(c.Prefix, "/") || !strings.HasSuffix(c.Prefix, "/")) {
		return errors.New("prefix must begin and end with a slash")
	}
	for _, n := range []int{c.Connections, c.Lanes, c.ChunkBytes, c.BodyBytes, c.Queue, c.Followers, c.LongPollMS, c.EventMS, c.PollMS, c.WriteMS, c.StatementMS, c.ReconnectMS} {
		if n <= 0 {
			return errors.New("sizes, counts and times must be positive")
		}
	}
	for _, r := range c.Routes {
		if strings.Count(r.Path, "{") != 1 || !strings.HasPrefix(r.Path, "/") {
			return fmt.Errorf("route %q: the path begins with a slash and has one key in braces", r.Path)
		}
		if r.Table == "" || r.Key == "" || r.Column == "" {
			return fmt.Errorf("route %q: table, key and column are required", r.Path)
		}
		if r.Incarnation == "" {
			return fmt.Errorf("route %q: incarnation is required: an expression with another value in a row that gets the key of a deleted row; \"0\" if that cannot happen", r.Path)
		}
	}
	return nil
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
