package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/poll"
)

const (
	standBy  = time.Second     // interval between two attempts to take the lock
	confirm  = time.Second     // interval between two checks that the lock is still held
	maxSleep = 5 * time.Second // longest time without such a check
)

// Alone runs f in one process of the database at a time until ctx ends. It saves duplicate work and is not a mutex: two
// processes may run f for a moment, and f must be correct even then.
//
//   - Processes that call Alone with the same name stand by. When the lock is free, one of them takes over within a
//     second.
//   - The lock is a session-level advisory lock, so it is released however the process ends.
//   - The server ends the session of a frozen or disconnected process after five seconds.
//   - f's context ends when the session is lost.
//   - A process that is told to stop releases the lock immediately. It finishes its current work alongside its
//     successor.
func (db *DB) Alone(ctx context.Context, name string, log *slog.Logger, f func(ctx context.Context)) {
	for ctx.Err() == nil {
		if err := db.alone(ctx, name, f); err != nil && ctx.Err() == nil {
			log.Warn("not sure to be alone; asking again", "for", name, "error", err)
			poll.Pause(ctx, standBy)
		}
	}
}

func (db *DB) alone(ctx context.Context, name string, f func(ctx context.Context)) error {
	place, err := db.place(ctx, name)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan error, 1)
	go func() {
		err := hold(ctx, place)
		stop()
		hangUp(ctx, place)
		lost <- err
	}()
	f(ctx)
	stop()
	return <-lost
}

// place waits until the lock is free and returns the session that holds it.
func (db *DB) place(ctx context.Context, name string) (*pgx.Conn, error) {
	conn, err := db.connect(ctx, [2]string{"idle_session_timeout", fmt.Sprint(maxSleep.Milliseconds())})
	if err != nil {
		return nil, err
	}
	for {
		var held bool
		err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&held)
		if held {
			return conn, nil
		}
		if err == nil && poll.Pause(ctx, standBy) {
			continue
		}
		hangUp(ctx, conn)
		return nil, fmt.Errorf("ask for the place: %w", errors.Join(err, ctx.Err()))
	}
}

// hold returns when ctx ends or when the session may be lost.
func hold(ctx context.Context, place *pgx.Conn) error {
	for poll.Pause(ctx, confirm) {
		asking, cancel := context.WithTimeout(ctx, maxSleep)
		err := place.Ping(asking)
		cancel()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("hold the place: %w", err)
		}
	}
	return nil
}
