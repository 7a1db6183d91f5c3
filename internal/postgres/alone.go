package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"partnerd/internal/poll"
)

const (
	standBy  = time.Second     // between two looks whether the place is free
	confirm  = time.Second     // between two proofs that the place is still held
	maxSleep = 5 * time.Second // without one
)

// Alone runs f in one process of the database at a time, until ctx ends: the others that call it with the same name
// stand by, and one takes over a second later at most when that process ends, however it ends. The place is an advisory lock
// held by a session; the server ends the session of a process that is frozen or cut off, and f's context ends when the
// session is lost. For a moment two may run, so f must stay correct then: it is a way to save work, not a mutex.
func (db *DB) Alone(ctx context.Context, name string, log *slog.Logger, f func(ctx context.Context)) {
	for ctx.Err() == nil {
		if err := db.alone(ctx, name, f); err != nil && ctx.Err() == nil {
			log.Warn("not sure to be alone; asking again", "for", name, "error", err)
			poll.Pause(ctx, standBy)
		}
	}
}

func (db *DB) alone(ctx context.Context, name string, f func(ctx context.Context)) (err error) {
	conn, err := db.connect(ctx, [2]string{"idle_session_timeout", fmt.Sprint(maxSleep.Milliseconds())})
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	for held := false; !held; {
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&held); err != nil {
			return fmt.Errorf("ask for the place: %w", err)
		}
		if !held && !poll.Pause(ctx, standBy) {
			return nil
		}
	}
	ctx, stop := context.WithCancel(ctx)
	lost := make(chan error, 1)
	go func() {
		defer stop()
		for poll.Pause(ctx, confirm) {
			asking, cancel := context.WithTimeout(ctx, maxSleep)
			err := conn.Ping(asking)
			cancel()
			if err != nil && ctx.Err() == nil {
				lost <- fmt.Errorf("hold the place: %w", err)
				return
			}
		}
		lost <- nil
	}()
	defer func() { stop(); err = <-lost }()
	f(ctx)
	return nil
}
