package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const ownChannel = "pg_lean_streams"

// A database has the pools, and the two connections that listen and notify.
type database struct {
	readers, writers, slow, held, notifier *pgxpool.Pool // held: appends that wait for locked rows
	config                                 *pgx.ConnConfig
	roles                                  sync.Map // *pgx.Conn: the role that it has
	me                                     string
	notices                                *notices
	connects                               int64 // of the listener
	dials                                  int64 // connections that were tried, of the pools and the listener
	down                                   int32 // 1: the listener cannot connect
}

// errDown is the error of requests while the listener, which tries all the time, cannot connect.
var errDown = errors.New("no connection to the database")

func openDatabase(ctx context.Context, c *Config) (*database, error) {
	id := make([]byte, 6)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	d := &database{me: hex.EncodeToString(id), notices: newNotices()}
	pool := func(n int, settings map[string]string) (*pgxpool.Pool, error) {
		p, err := pgxpool.ParseConfig(c.Database)
		if err != nil {
			return nil, err
		}
		p.MaxConns = int32(n)
		p.MinConns = 0
		p.ConnConfig.ConnectTimeout = 5 * time.Second
		for k, v := range settings {
			p.ConnConfig.RuntimeParams[k] = v
		}
		p.ConnConfig.RuntimeParams["statement_timeout"] = formatInt(int64(c.StatementMS))
		// the functions lock rows and then look for what others have changed
		p.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed"
		if _, there := p.ConnConfig.RuntimeParams["application_name"]; !there {
			p.ConnConfig.RuntimeParams["application_name"] = "pg_lean streams"
		}
		dial := p.ConnConfig.DialFunc
		p.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			atomic.AddInt64(&d.dials, 1)
			return dial(ctx, network, address)
		}
		p.BeforeClose = func(conn *pgx.Conn) { d.roles.Delete(conn) }
		d.config = p.ConnConfig.Copy()
		return pgxpool.NewWithConfig(ctx, p)
	}
	// "streams.quiet" silences the notification in the transaction: the server notifies after the commit
	quiet := map[string]string{"streams.quiet": "on"}
	var err error
	if d.readers, err = pool(c.Connections, nil); err != nil {
		return nil, err
	}
	if d.writers, err = pool(c.Lanes+2, quiet); err != nil {
		return nil, err
	}
	if d.slow, err = pool(c.Connections, quiet); err != nil {
		return nil, err
	}
	if d.held, err = pool(c.Connections, quiet); err != nil {
		return nil, err
	}
	d.notifier, err = pool(1, map[string]string{"streams.quiet": "on", "synchronous_commit": "off"})
	return d, err
}

func (d *database) close() {
	for _, p := range []*pgxpool.Pool{d.readers, d.writers, d.slow, d.held, d.notifier} {
		p.Close()
	}
}

// usable returns errDown for a pool that would have to connect while the listener cannot: however many requests and
// followers there are, one loop finds out when the database is back.
func (d *database) usable(pool *pgxpool.Pool) error {
	if d.isDown() && pool.Stat().TotalConns() == 0 {
		return errDown
	}
	return nil
}

func (d *database) isDown() bool { return atomic.LoadInt32(&d.down) != 0 }

// as runs f on a connection that has the privileges of a role, and only those.
func (d *database) as(ctx context.Context, pool *pgxpool.Pool, role string, f func(*pgx.Conn) error) error {
	if err := d.usable(pool); err != nil {
		return err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	c := conn.Conn()
	if has, _ := d.roles.Load(c); has != role {
		if _, err := c.Exec(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize(), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		d.roles.Store(c, role)
	}
	return f(c)
}

// listen is the only place that connects again, so a failure cannot multiply attempts.
func (d *database) listen(ctx context.Context, channels []string, every time.Duration, wake func(channel, payload string), wakeAll func()) {
	for ctx.Err() == nil {
		begin := time.Now()
		atomic.AddInt64(&d.connects, 1)
		err := d.listenOnce(ctx, channels, wake, wakeAll)
		if ctx.Err() != nil {
			return
		}
		log.Printf("listener: %v", err)
		if !d.isDown() && time.Since(begin) > every {
			continue // a connection that lasted is tried again at once
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (d *database) listenOnce(ctx context.Context, channels []string, wake func(channel, payload string), wakeAll func()) error {
	conn, err := pgx.ConnectConfig(ctx, d.config.Copy())
	if err != nil {
		atomic.StoreInt32(&d.down, 1)
		return err
	}
	atomic.StoreInt32(&d.down, 0)
	defer conn.Close(context.Background())
	for _, channel := range channels {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
	}
	wakeAll() // notifications while nothing listened are lost
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		wake(n.Channel, n.Payload)
	}
}

// sqlState returns the SQLSTATE of an error, or "".
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// attempts returns how often the listener connected or tried to.
func (d *database) attempts() int { return int(atomic.LoadInt64(&d.connects)) }

// dialed returns how many connections were tried.
func (d *database) dialed() int { return int(atomic.LoadInt64(&d.dials)) }

// most returns how many connections the pools and the listener have at most.
func (d *database) most() int {
	n := 1
	for _, p := range []*pgxpool.Pool{d.readers, d.writers, d.slow, d.held, d.notifier} {
		n += int(p.Config().MaxConns)
	}
	return n
}
