package main

import (
	"context"
	"errors"
	"sort"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// An appendRequest waits for its verdict in done.
type appendRequest struct {
	path, media string
	data        []byte
	close       bool
	seq         *string
	producer    *string
	epoch, pseq *int64
	done        chan verdict
}

type verdict struct {
	status            string
	id                int64
	incarnation, tail int64
	closed            bool
	epoch, pseq       int64
	timeline          int64
	err               error
}

var errQueueFull = errors.New("too many appends are waiting")

// Lanes gather appends: what comes while the lanes are busy is one statement, whatever the streams.  A path is
// in one statement at a time, so requests of a path keep their order.  A stream whose row
// another transaction holds waits on a separate connection and does not delay the others.
type lanes struct {
	d        *database
	ctx      context.Context
	appended func(id int64, told bool)

	mu      sync.Mutex
	idle    int
	waiting int
	limit   int
	queues  map[laneKey][]*appendRequest
	order   []laneKey // queues that wait, oldest first
	busy    map[laneKey]bool
}

type laneKey struct{ role, path string }

// Limits of a statement.
const (
	batchRequests = 500
	batchBytes    = 4 << 20
)

func newLanes(ctx context.Context, d *database, n, limit int, appended func(id int64, told bool)) *lanes {
	return &lanes{d: d, ctx: ctx, appended: appended, idle: n, limit: limit, queues: map[laneKey][]*appendRequest{}, busy: map[laneKey]bool{}}
}

func (l *lanes) append(role string, r *appendRequest) verdict {
	r.done = make(chan verdict, 1)
	key := laneKey{role, r.path}
	l.mu.Lock()
	if l.waiting >= l.limit {
		l.mu.Unlock()
		return verdict{err: errQueueFull}
	}
	l.waiting++
	if len(l.queues[key]) == 0 {
		l.order = append(l.order, key)
	}
	l.queues[key] = append(l.queues[key], r)
	l.pump()
	l.mu.Unlock()
	v := <-r.done
	l.mu.Lock()
	l.waiting--
	l.mu.Unlock()
	return v
}

// pump starts statements while lanes are idle; the caller holds the mutex.  All of a statement have one role.
func (l *lanes) pump() {
	for l.idle > 0 {
		var keys, left []laneKey
		var take []*appendRequest
		bytes := 0
		for _, key := range l.order {
			if l.busy[key] || len(take) >= batchRequests || bytes >= batchBytes || len(keys) > 0 && keys[0].role != key.role {
				left = append(left, key)
				continue
			}
			queue := l.queues[key]
			n := 0
			for n < len(queue) && (n == 0 || n < batchRequests && bytes < batchBytes) {
				bytes += len(queue[n].data)
				n++
			}
			take = append(take, queue[:n]...)
			keys = append(keys, key)
			l.busy[key] = true
			if n < len(queue) {
				l.queues[key] = queue[n:]
				left = append(left, key)
			} else {
				delete(l.queues, key)
			}
		}
		l.order = left
		if len(take) == 0 {
			return
		}
		l.idle--
		go l.run(keys, take)
	}
}

func (l *lanes) run(keys []laneKey, take []*appendRequest) {
	role := keys[0].role
	sort.SliceStable(take, func(i, j int) bool { return take[i].path < take[j].path })
	locked, err := l.statement(l.d.writers, role, take, true)
	if err != nil {
		if len(take) == 1 {
			take[0].done <- verdict{err: err}
		} else { // one bad request must not spoil the others
			for _, r := range take {
				more, err := l.statement(l.d.writers, role, []*appendRequest{r}, true)
				if err != nil {
					r.done <- verdict{err: err}
				}
				locked = append(locked, more...)
			}
		}
	}
	held := map[string][]*appendRequest{}
	for _, r := range locked {
		held[r.path] = append(held[r.path], r)
	}
	l.mu.Lock()
	l.idle++
	for _, key := range keys {
		if held[key.path] == nil {
			delete(l.busy, key)
		}
	}
	l.pump()
	l.mu.Unlock()
	for path, requests := range held {
		go l.wait(laneKey{role, path}, requests)
	}
}

// wait appends to one stream when its row is released.
func (l *lanes) wait(key laneKey, requests []*appendRequest) {
	if _, err := l.statement(l.d.held, key.role, requests, false); err != nil {
		for _, r := range requests {
			r.done <- verdict{err: err}
		}
	}
	l.mu.Lock()
	delete(l.busy, key)
	l.pump()
	l.mu.Unlock()
}

// statement appends, and answers all requests except those that it returns because of a held row; with an
// error it has answered none.
func (l *lanes) statement(pool *pgxpool.Pool, role string, take []*appendRequest, skip bool) ([]*appendRequest, error) {
	n := len(take)
	paths, medias, datas, closes := make([]string, n), make([]string, n), make([][]byte, n), make([]bool, n)
	seqs, producers, epochs, pseqs := make([]*string, n), make([]*string, n), make([]*int64, n), make([]*int64, n)
	for i, r := range take {
		paths[i], medias[i], datas[i], closes[i] = r.path, r.media, r.data, r.close
		seqs[i], producers[i], epochs[i], pseqs[i] = r.seq, r.producer, r.epoch, r.pseq
		if datas[i] == nil {
			datas[i] = []byte{}
		}
	}
	// requests that do not depend on the state of their stream are one UPDATE
	var alone []int32
	for i, r := range take {
		if r.producer == nil && r.seq == nil && !r.close && len(r.data) > 0 && (i == 0 || paths[i-1] != r.path) && (i == n-1 || paths[i+1] != r.path) {
			alone = append(alone, int32(i+1))
		}
	}
	if len(alone) == 1 {
		alone = nil // the loop takes less time for one
	}
	var told *string
	var others []int64
	if skip && n <= tellStreams-carryStreams {
		var ok bool
		if others, ok = l.d.notices.carry(); ok {
			payload := l.d.payload(others)
			if len(others) > 0 {
				payload += ","
			}
			told = &payload
		}
	}
	verdicts := make([]verdict, n)
	err := l.d.as(l.ctx, pool, role, func(c *pgx.Conn) error {
		rows, err := c.Query(l.ctx, `SELECT n, status, coalesce(stream_id, 0), coalesce(incarnation, 0), coalesce(tail, 0), coalesce(closed, false),
			coalesce(epoch, 0), coalesce(pseq, 0), `+timelineSQL+` FROM streams.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			paths, medias, datas, closes, seqs, producers, epochs, pseqs, skip, alone, told)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i int
			var v verdict
			if err := rows.Scan(&i, &v.status, &v.id, &v.incarnation, &v.tail, &v.closed, &v.epoch, &v.pseq, &v.timeline); err != nil {
				return err
			}
			verdicts[i-1] = v
		}
		return rows.Err()
	})
	changed := false
	for _, v := range verdicts {
		changed = changed || v.status == "ok"
	}
	if err != nil || !changed {
		l.d.notices.add(others...) // nothing was notified
	}
	if err != nil {
		return nil, err
	}
	var locked []*appendRequest
	woken := map[int64]bool{}
	for i, r := range take {
		v := verdicts[i]
		switch {
		case v.status == "":
			v.err = errors.New("the database returned no verdict")
		case v.status == "locked":
			locked = append(locked, r)
			continue
		case v.status == "ok" && !woken[v.id]:
			woken[v.id] = true
			l.appended(v.id, told != nil)
		}
		r.done <- v
	}
	return locked, nil
}
