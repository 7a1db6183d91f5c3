package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// locked is a buffer for lines written by several goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestAnOutageIsSaidOnceASecond checks that during an outage each message is logged once a second, with a count.
// Nothing else is suppressed.
func TestAnOutageIsSaidOnceASecond(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("look: %w", &pgconn.PgError{Code: "57P03", Message: "the database system is starting up"})
	synctest.Test(t, func(t *testing.T) {
		said := &locked{}
		log := slog.New(sparing(slog.NewTextHandler(said, nil)))
		for range 3 {
			for range 30 {
				log.Error("look", "error", away)
				log.With("worker", "b").Warn("ask", "error", away)
				log.Error("another fault", "error", errors.New("no"))
				log.Info("request", "status", 503)
			}
			<-time.After(repeatEvery + time.Millisecond)
		}
		<-time.After(2 * repeatEvery)
		log.Error("look", "error", away)
		<-time.After(2 * repeatEvery)
		count := func(text string) int { return strings.Count(said.b.String(), text) }
		for text, want := range map[string]int{
			"msg=look": 5, "msg=ask": 4, `msg="another fault"`: 90, "msg=request": 90, "times=29": 2, "times=30": 4,
			"worker=b": 4,
		} {
			if got := count(text); got != want {
				t.Errorf("%s: %d times, want %d", text, got, want)
			}
		}
	})
}
