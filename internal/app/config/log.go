package config

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"partnerd/internal/infra/postgres"
)

// Logger makes the logger that the configuration asks for, on standard error.
func (c *Config) Logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(sparing(slog.NewJSONHandler(os.Stderr, o)))
	}
	return slog.New(sparing(slog.NewTextHandler(os.Stderr, o)))
}

const (
	repeatEvery  = time.Second
	maxRepeating = 200 // messages that are counted at the same time; further ones are written
)

// sparing writes each message about a database that cannot be reached once a second, with how often it came since the
// line before: whatever looks again and again, and every request, says the same thing until the database is back. Other
// lines pass.
func sparing(to slog.Handler) slog.Handler {
	return spare{to, &repeats{since: map[string]*repeat{}}}
}

type spare struct {
	slog.Handler
	of *repeats
}

type repeats struct {
	mu    sync.Mutex
	since map[string]*repeat // of a message
}

type repeat struct {
	at      time.Time // of the line that was written
	unsaid  int
	pending slog.Record // the last that was not written
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

// sum writes the last line that was held back, with how many there were, and looks again as long as there are some.
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

// aboutOutage tells whether a line has an error that says that the database cannot be reached.
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
