package config

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"partnerd/internal/infra/postgres"
)

// Logger returns the configured logger, which writes to standard error.
func (c *Config) Logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(sparing(slog.NewJSONHandler(os.Stderr, o)))
	}
	return slog.New(sparing(slog.NewTextHandler(os.Stderr, o)))
}

const (
	repeatEvery  = time.Second
	maxRepeating = 200 // messages counted at the same time; further ones are written unthrottled
)

// sparing limits each message about an unreachable database to one line per second, with the number suppressed since
// the previous line. During an outage every poll and every request logs the same message. Other lines pass unchanged.
func sparing(to slog.Handler) slog.Handler {
	return spare{to, &repeats{since: map[string]*repeat{}}}
}

type spare struct {
	slog.Handler
	of *repeats
}

type repeats struct {
	mu    sync.Mutex
	since map[string]*repeat // by message
}

type repeat struct {
	at      time.Time // time of the last line written
	unsaid  int
	pending slog.Record // the last suppressed line
}

// Handle implements slog.Handler.
func (s spare) Handle(ctx context.Context, r slog.Record) error {
	if !aboutOutage(r) {
		return s.Handler.Handle(ctx, r)
	}
	s.of.mu.Lock()
	x, known := s.of.since[r.Message]
	switch {
	case !known && len(s.of.since) < maxRepeating:
		s.of.since[r.Message] = &repeat{at: r.Time}
		time.AfterFunc(repeatEvery, func() { s.sum(ctx, r.Message) })
	case known:
		x.unsaid++
		x.pending = r.Clone()
		s.of.mu.Unlock()
		return nil
	}
	s.of.mu.Unlock()
	return s.Handler.Handle(ctx, r)
}

// sum writes the last suppressed line with the number of suppressed lines, and repeats while there are any.
func (s spare) sum(ctx context.Context, message string) {
	s.of.mu.Lock()
	x := s.of.since[message]
	if x.unsaid == 0 {
		delete(s.of.since, message)
		s.of.mu.Unlock()
		return
	}
	r, n := x.pending, x.unsaid
	x.unsaid = 0
	s.of.mu.Unlock()
	r.AddAttrs(slog.Int("times", n))
	_ = s.Handler.Handle(context.WithoutCancel(ctx), r)
	time.AfterFunc(repeatEvery, func() { s.sum(ctx, message) })
}

// aboutOutage reports whether a line has an error that says that the database is unreachable.
func aboutOutage(r slog.Record) (is bool) {
	if r.Level < slog.LevelWarn {
		return false
	}
	r.Attrs(func(a slog.Attr) bool {
		err, isError := a.Value.Any().(error)
		is = a.Key == "error" && isError && postgres.IsAway(err)
		return !is
	})
	return is
}

// WithAttrs implements slog.Handler.
func (s spare) WithAttrs(attrs []slog.Attr) slog.Handler {
	return spare{s.Handler.WithAttrs(attrs), s.of}
}

// WithGroup implements slog.Handler.
func (s spare) WithGroup(name string) slog.Handler { return spare{s.Handler.WithGroup(name), s.of} }
