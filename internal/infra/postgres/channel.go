package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/poll"
)

const (
	tellSpacing    = 10 * time.Millisecond
	firstReconnect = time.Second
	lastReconnect  = 30 * time.Second
	maxWords       = 1024
	maxPayload     = 7000 // below the limit of 8000 bytes that Postgres sets
)

// Channel carries words between the processes that use a database, so that one reacts immediately to what another has
// committed. Delivery is not guaranteed. If a word is lost, listeners must still find the same work by polling, only
// later.
type Channel struct {
	db            *DB
	name, replica string
	log           *slog.Logger
	ring          chan struct{}
	mu            sync.Mutex
	words         map[string]struct{} // waiting to be sent
}

// Channel returns a channel. Processes that use the same name receive each other's words.
func (db *DB) Channel(name string, log *slog.Logger) *Channel {
	return &Channel{db: db, name: name, replica: rand.Text(), log: log, ring: make(chan struct{}, 1),
		words: map[string]struct{}{}}
}

// Send queues word, which must not contain a space, for the other processes. It never blocks. The word is sent only
// while [Channel.Tell] runs.
//
// Call it after the commit, not within the transaction: a NOTIFY inside would serialize all commits of the database.
func (c *Channel) Send(word string) {
	c.mu.Lock()
	if len(c.words) < maxWords {
		c.words[word] = struct{}{}
	}
	c.mu.Unlock()
	c.wake()
}

func (c *Channel) wake() {
	select {
	case c.ring <- struct{}{}:
	default:
	}
}

// Tell sends the queued words, at most once every 10 ms, until ctx ends.
func (c *Channel) Tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.ring:
		}
		payload, more := c.take()
		if _, err := c.db.pool.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)",
			c.name, payload); err != nil && ctx.Err() == nil {
			c.log.Warn("other processes cannot be told of new work; they will poll", "channel", c.name, "error", err)
		}
		if more {
			c.wake()
		}
		if !poll.Pause(ctx, tellSpacing) {
			return
		}
	}
}

// take returns a payload, the sender followed by its words, and whether more words are waiting.
func (c *Channel) take() (payload string, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString(c.replica)
	for w := range c.words {
		if b.Len()+len(w) > maxPayload {
			return b.String(), true
		}
		delete(c.words, w)
		b.WriteString(" " + w)
	}
	return b.String(), false
}

// Listen calls heard for every word of another process until ctx ends. It uses its own connection. Whenever it starts
// or reconnects it calls heard with an empty word, because words may have been lost.
func (c *Channel) Listen(ctx context.Context, heard func(word string)) {
	wait := firstReconnect
	for {
		listened, err := c.listenOnce(ctx, heard)
		if ctx.Err() != nil {
			return
		}
		if listened {
			wait = firstReconnect
		}
		c.log.Warn("notifications are off; polling", "channel", c.name, "error", err)
		if !poll.Pause(ctx, wait) {
			return
		}
		wait = min(2*wait, lastReconnect)
	}
}

// listenOnce returns when the connection ends. listened reports whether it ever listened.
func (c *Channel) listenOnce(ctx context.Context, heard func(word string)) (listened bool, err error) {
	conn, err := c.db.connect(ctx)
	if err != nil {
		return false, err
	}
	defer hangUp(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{c.name}.Sanitize()); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	heard("")
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, fmt.Errorf("wait for notifications: %w", err)
		}
		words := strings.Split(n.Payload, " ")
		if words[0] == c.replica {
			continue
		}
		for _, w := range words[1:] {
			heard(w)
		}
	}
}

// connect opens an untraced connection outside the pool, for long-lived use.
func (db *DB) connect(ctx context.Context, params ...[2]string) (*pgx.Conn, error) {
	cfg := db.sessions.Config().ConnConfig
	cfg.Tracer = nil
	for _, p := range params {
		cfg.RuntimeParams[p[0]] = p[1]
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", plainly(err))
	}
	return conn, nil
}

func hangUp(ctx context.Context, conn *pgx.Conn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn.Close(closing)
}
