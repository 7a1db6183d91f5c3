package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	channel         = "partnerd_webhooks"
	announceSpacing = 10 * time.Millisecond
	firstReconnect  = time.Second
	lastReconnect   = 30 * time.Second
)

// tell passes wake-ups of this process on to the others, at most one every announceSpacing. It notifies outside the
// business transaction: a NOTIFY inside would serialize all commits of the database. A lost one costs a poll interval.
func (s *Service) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.announce:
		}
		if _, err := s.db.Pool().Exec(ctx, "SELECT pg_notify($1, $2)", channel, s.replica); err != nil && ctx.Err() == nil {
			s.log.Warn("other processes cannot be told of new webhook events; they will poll", "error", err)
		}
		if !pause(ctx, announceSpacing) {
			return
		}
	}
}

// listen wakes the dispatcher when another process wrote events, on a connection of its own.
func (s *Service) listen(ctx context.Context) {
	wait := firstReconnect
	for {
		listened, err := s.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if listened {
			wait = firstReconnect
		}
		s.log.Warn("webhook notifications are off; polling", "error", err)
		if !pause(ctx, wait) {
			return
		}
		wait = min(2*wait, lastReconnect)
	}
}

// listenOnce returns when the connection ends, and whether it ever listened.
func (s *Service) listenOnce(ctx context.Context) (listened bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, s.db.Pool().Config().ConnConfig)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	signal(s.wake)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, fmt.Errorf("wait for notifications: %w", err)
		}
		if n.Payload != s.replica {
			signal(s.wake)
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
