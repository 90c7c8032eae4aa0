package main

import (
	"context"
	"log"
	"strings"
	"sync"
	"time"
)

// Other servers are notified of the streams that changed by a notification for all of them.  A transaction that
// notifies commits alone, and one that only notifies writes a commit record to the WAL, so there are few of them: an append
// notifies in its transaction, also of the streams that changed before, if the last append that did so is carryAfter ago.  If no such
// append comes, a transaction notifies when the last notification is tellAfter ago.  Appends that are further apart than carryAfter all are of the first kind.
const (
	carryAfter = 10 * time.Millisecond
	tellAfter  = 20 * time.Millisecond

	// A payload is shorter than 8,000 bytes, and an ID is at most 19 digits.
	tellStreams  = 350
	carryStreams = 150
	waitStreams  = 65536
)

type notices struct {
	mu      sync.Mutex
	streams map[int64]bool // they changed, and no notification has them
	carried time.Time      // when an append notified
	told    time.Time      // when a transaction only notified
	some    chan struct{}
}

func newNotices() *notices {
	return &notices{streams: map[int64]bool{}, some: make(chan struct{}, 1)}
}

// add remembers streams for the next notification.
func (n *notices) add(ids ...int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if len(n.streams) < waitStreams { // the other servers' next poll makes up for more
			n.streams[id] = true
		}
	}
	if len(n.streams) > 0 {
		select {
		case n.some <- struct{}{}:
		default:
		}
	}
}

// carry returns streams for the notification of an append, if it is time for one.
func (n *notices) carry() (ids []int64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.carried) < carryAfter {
		return nil, false
	}
	n.carried = time.Now()
	return n.take(carryStreams), true
}

// tell returns streams for a notification without an append.
func (n *notices) tell() []int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.streams) > 0 {
		n.told = time.Now()
	}
	return n.take(tellStreams)
}

// take returns at most so many streams; the caller holds the mutex.
func (n *notices) take(most int) (ids []int64) {
	for id := range n.streams {
		if len(ids) == most {
			break
		}
		ids = append(ids, id)
		delete(n.streams, id)
	}
	return ids
}

// wait returns how long it is until the time of a notification without an append.  More streams than an append takes do not wait.
func (n *notices) wait() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.streams) > carryStreams {
		return 0
	}
	last := n.carried
	if n.told.After(last) {
		last = n.told
	}
	return tellAfter - time.Since(last)
}

// payload is the text of a notification: the server that sends it, and streams.
func (d *database) payload(ids []int64) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = formatInt(id)
	}
	return d.me + ":" + strings.Join(list, ",")
}

// tell notifies the other servers of appends that no append's transaction has notified them of.
func (d *database) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.notices.some:
		}
		for wait := d.notices.wait(); wait > 0; wait = d.notices.wait() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
		ids := d.notices.tell()
		if len(ids) == 0 {
			continue
		}
		d.notices.add() // there may be more
		if d.usable(d.notifier) != nil {
			continue // the other servers' followers read when their listeners are back
		}
		if _, err := d.notifier.Exec(ctx, "SELECT pg_notify($1, $2)", ownChannel, d.payload(ids)); err != nil && ctx.Err() == nil {
			log.Printf("notify: %v", err) // the other servers' next poll makes up for it
		}
	}
}
