// Command streams serves growing values of PostgreSQL as Durable Streams over HTTP.
package main

import (
	"context"
	_ "embed"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed streams.sql
var setupSQL string

// mustID returns the stream of a hub key that storedKey() made.
func mustID(key string) int64 {
	id, _ := strconv.ParseInt(key[strings.IndexByte(key, 0)+1:], 10, 64)
	return id
}

func setup(ctx context.Context, c *Config) error {
	conn, err := pgx.Connect(ctx, c.Database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, setupSQL).ReadAll()
	return err
}

// newServer opens the database and looks up the tables of the routes.
func newServer(ctx context.Context, c *Config) (*server, error) {
	d, err := openDatabase(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &server{c: c, d: d, hub: newHub(), ctx: ctx}
	if s.a, err = newAuth(c, d); err != nil {
		return nil, err
	}
	channels := []string{}
	if c.Prefix != "" {
		channels = append(channels, ownChannel)
	}
	for _, r := range c.Routes {
		t, err := openTable(ctx, d, r)
		if err != nil {
			return nil, err
		}
		s.tables = append(s.tables, t)
		if r.Channel != "" {
			channels = append(channels, r.Channel)
		}
	}
	s.lanes = newLanes(ctx, d, c.Lanes, c.Queue, s.appended)
	go d.listen(ctx, channels, ms(c.ReconnectMS), s.woken, s.hub.wakeAll)
	go d.tell(ctx)
	go s.tick(ctx)
	return s, nil
}

// tick reads for followers in spite of no notification, and removes streams whose time is over.
func (s *server) tick(ctx context.Context) {
	t := time.NewTicker(ms(s.c.PollMS))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if s.d.isDown() {
			continue // the listener wakes the followers when it is back
		}
		s.hub.wakeAll()
		if s.c.Prefix != "" {
			if _, err := s.d.notifier.Exec(ctx, "SELECT streams.remove_expired()"); err != nil && sqlState(err) != "42501" && ctx.Err() == nil {
				log.Printf("expired streams: %v", err)
			}
		}
	}
}

// fitFollowers lowers the number of followers to what the limit of open files permits.  The connections to the database
// and a quarter of the rest are for other requests, so followers cannot keep a server from answering.
func fitFollowers(c *Config, connections int, files uint64) bool {
	const others = 16 // the listening socket, the log ...
	most := (int(files) - connections - others) * 3 / 4
	if most < 1 {
		most = 1
	}
	if c.Followers <= most {
		return false
	}
	c.Followers = most
	return true
}

func main() {
	file := flag.String("config", "", "configuration `file` (JSON)")
	create := flag.Bool("setup", false, "create the tables for streams that clients write, and exit")
	flag.Parse()
	log.SetFlags(log.LstdFlags | log.Lmsgprefix)
	log.SetPrefix("streams: ")
	c, err := loadConfig(*file)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if *create {
		if err := setup(ctx, c); err != nil {
			log.Fatal(err)
		}
		return
	}
	s, err := newServer(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < 1<<30 && fitFollowers(c, s.d.most(), limit.Cur) {
		log.Printf("at most %d followers, because of the limit of %d open files", c.Followers, limit.Cur)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		log.Fatal(err)
	}
	h := &http.Server{Handler: s, ConnContext: withConn, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		<-stop
		s.hub.close() // followers end with a complete answer and connect again elsewhere
		until, done := context.WithTimeout(context.Background(), 15*time.Second)
		defer done()
		h.Shutdown(until)
		close(ended)
	}()
	log.Printf("listening on %s", l.Addr())
	if err := h.Serve(l); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	<-ended
	cancel()
	s.d.close()
}
