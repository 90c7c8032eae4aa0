package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// auth maps the token of a request to a role of the database.
type auth struct {
	anonymous string
	file      map[string]string // SHA-256 of a token: role
	query     string
	d         *database
	keep      time.Duration

	mu    sync.Mutex
	cache map[string]cached
}

type cached struct {
	role  string
	until time.Time
}

func newAuth(c *Config, d *database) (*auth, error) {
	a := &auth{anonymous: c.Anonymous, query: c.TokenSQL, d: d, keep: ms(c.TokenCacheMS), file: map[string]string{}, cache: map[string]cached{}}
	if c.Tokens == "" {
		return a, nil
	}
	f, err := os.Open(c.Tokens)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if sum, err := hex.DecodeString(fields[len(fields)-1]); len(fields) != 2 || err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%s:%d: expected a role and the SHA-256 of its token", c.Tokens, n)
		}
		a.file[strings.ToLower(fields[1])] = fields[0]
	}
	return a, lines.Err()
}

// role returns the role of a request; "" if it has none.
func (a *auth) role(ctx context.Context, r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return a.anonymous, nil
	}
	if len(header) < 7 || !strings.EqualFold(header[:7], "Bearer ") {
		return "", nil
	}
	given := strings.TrimSpace(header[7:])
	sum := sha256.Sum256([]byte(given))
	key := hex.EncodeToString(sum[:])
	if role, ok := a.file[key]; ok {
		return role, nil
	}
	if a.query == "" {
		return "", nil
	}
	a.mu.Lock()
	known, ok := a.cache[key]
	a.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.role, nil
	}
	if err := a.d.usable(a.d.notifier); err != nil {
		return "", err
	}
	var role *string
	err := a.d.notifier.QueryRow(ctx, a.query, given).Scan(&role)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	if role == nil {
		role = new(string)
	}
	a.mu.Lock()
	if len(a.cache) > 10000 {
		a.cache = map[string]cached{}
	}
	a.cache[key] = cached{*role, time.Now().Add(a.keep)}
	a.mu.Unlock()
	return *role, nil
}
