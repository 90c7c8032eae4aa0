package main

import (
	"strconv"
	"sync"
)

// The hub knows which streams are followed.  A follower takes news() before it reads and waits for
// the channel afterwards, so a commit between the two is not missed.  Followers of one role at
// one position share a read; a wake discards reads, so that none is older than it.
type hub struct {
	mu      sync.Mutex
	entries map[string]*entry
	reads   int // made for followers
	closing chan struct{}
	once    sync.Once
}

type entry struct {
	hub   *hub
	key   string
	users int
	news  chan struct{}
	reads map[string]*flight
}

type flight struct {
	done chan struct{}
	r    *result
	err  error
}

// A shared result that is larger than this is not kept for followers that come later.
const keptBytes = 64 << 10

func newHub() *hub { return &hub{entries: map[string]*entry{}, closing: make(chan struct{})} }

// close ends all followers.
func (h *hub) close() { h.once.Do(func() { close(h.closing) }) }

func (h *hub) join(key string) *entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entries[key]
	if e == nil {
		e = &entry{hub: h, key: key, news: make(chan struct{}), reads: map[string]*flight{}}
		h.entries[key] = e
	}
	e.users++
	return e
}

func (e *entry) leave() {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	e.users--
	if e.users == 0 {
		delete(e.hub.entries, e.key)
	}
}

func (h *hub) wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.entries[key]; e != nil {
		e.wake()
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		e.wake()
	}
}

func (e *entry) wake() {
	close(e.news)
	e.news = make(chan struct{})
	e.reads = map[string]*flight{}
}

func (e *entry) changed() <-chan struct{} {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	return e.news
}

// read returns the result of read(), made once for all followers of a role at a position.
func (e *entry) read(role string, from int64, read func() (*result, error)) (*result, error) {
	key := role + "\x00" + strconv.FormatInt(from, 10)
	e.hub.mu.Lock()
	f := e.reads[key]
	if f != nil {
		e.hub.mu.Unlock()
		<-f.done
		return f.r, f.err
	}
	f = &flight{done: make(chan struct{})}
	reads := e.reads
	reads[key] = f
	e.hub.reads++
	e.hub.mu.Unlock()

	f.r, f.err = read()
	close(f.done)
	e.hub.mu.Lock()
	if (f.err != nil || len(f.r.data) > keptBytes || len(reads) > 64) && reads[key] == f {
		delete(reads, key)
	}
	e.hub.mu.Unlock()
	return f.r, f.err
}

// count returns how many reads were made for followers.
func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reads
}
