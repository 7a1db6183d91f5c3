package requestlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/poll"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

const (
	// Interval is how often lines are written.
	Interval = time.Second
	// Retention is how long a line can be read. It is deleted with its week, within seven days after that.
	Retention = 30 * 24 * time.Hour
	// MaxPending is how many lines wait in memory for the database.
	MaxPending = 50_000

	// Table is the table with one partition per week.
	Table = "api_requests"

	perStatement = 2000 // lines
	maxPath      = 256  // bytes
	maxMethod    = 16   // bytes
	maxCode      = 64   // bytes
	maxBody      = 8192 // bytes of a body's shape
)

// Entry is one request.
type Entry struct {
	ID            string // X-Request-Id
	ApplicationID string
	At            time.Time // when the response was complete
	Method        string
	Path          string // escaped, hence ASCII, without the query
	Status        int
	Code          string // error code; empty on success
	Duration      time.Duration
	Keyed         bool // sent with an Idempotency-Key
	Replayed      bool // the response of an earlier request with the same key was replayed
	Refreshed     bool // exchanged a refresh token
	Issues        []problem.Issue
	// the request body as [Redact] left it; nil if there was none or it was too large
	Body map[string]any
}

// Log records requests. It is safe for concurrent use.
type Log struct {
	db      *postgres.DB
	dropped prometheus.Counter

	mu      sync.Mutex
	pending []Entry
}

// New returns a log. The caller must run [Log.Run] and call [Log.Flush] at the end.
func New(db *postgres.DB, r prometheus.Registerer) *Log {
	l := &Log{db: db, dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "partnerd_request_log_dropped_total",
		Help: "Requests that are missing in the log that partners see, because the database did not " +
			"take them in time."})}
	r.MustRegister(l.dropped)
	return l
}

// Add keeps a request in memory until the next [Log.Flush].
func (l *Log) Add(e Entry) {
	e.Method, e.Path, e.Code = cut(e.Method, maxMethod), cut(e.Path, maxPath), cut(e.Code, maxCode)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) >= MaxPending {
		l.dropped.Inc()
		return
	}
	l.pending = append(l.pending, e)
}

// cut truncates caller input, which is ASCII here.
func cut(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}

// Run writes the lines every [Interval] until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	for poll.Pause(ctx, Interval) {
		if err := l.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes the lines added so far. While the database is unavailable they wait for the next call.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	entries := l.pending
	l.pending = nil
	l.mu.Unlock()
	var errs []error
	for some := range slices.Chunk(entries, perStatement) {
		err := insert(ctx, l.db.Read(), some)
		switch {
		case err == nil:
			continue
		case postgres.IsUnavailable(err) || postgres.IsLockTimeout(err) || ctx.Err() != nil:
			l.putBack(some)
		default: // would fail again
			l.dropped.Add(float64(len(some)))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *Log) putBack(entries []Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(0, MaxPending-len(l.pending))
	if lost := len(entries) - room; lost > 0 {
		l.dropped.Add(float64(lost))
		entries = entries[:room]
	}
	l.pending = append(l.pending, entries...)
}

// Filter selects lines of an application.
type Filter struct {
	Before  string    // ID of the last line already seen; empty for the newest
	From    time.Time // inclusive; zero for the oldest available
	To      time.Time // exclusive; zero for now
	Refused bool      // only responses with status 400 or above
	Limit   int       // 1 to 100
}

// List returns an application's lines, newest first, and whether there are older ones. A line appears at most a second
// after its response.
func (l *Log) List(ctx context.Context, tx postgres.Tx, applicationID string,
	f Filter,
) (entries []Entry, more bool, err error) {
	return list(ctx, tx, applicationID, f)
}

// Get returns a line of the application, or [problem.ErrNotFound].
func (l *Log) Get(ctx context.Context, tx postgres.Tx, applicationID, requestID string) (Entry, error) {
	return get(ctx, tx, applicationID, requestID)
}

// Purge creates partitions for the coming weeks and drops the weeks in which every line is older than [Retention]. It
// returns the number of weeks dropped.
func (l *Log) Purge(ctx context.Context) (int, error) {
	return postgres.KeepPartitions(ctx, l.db, Table, Retention)
}

// maxDigits is the longest number that is kept, such as an amount or a duration. A longer one may be a phone number or
// a code.
const maxDigits = 5

// named matches names that are kept. A name with digits or other characters may be a misplaced value.
var named = regexp.MustCompile(`^[A-Za-z_-]{1,40}$`)

// Redact returns the shape of a JSON object. Objects, arrays, booleans, null and short numbers are kept. Each text and
// each longer number is replaced by its length, and so are names that [named] does not match, which no field has.
// Anything deeper than eight levels is omitted. Redact returns nil for nil.
func Redact(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	return redact(object, 8).(map[string]any)
}

// RedactIssues redacts the paths of issues in the way that [Redact] redacts field names.
func RedactIssues(issues []problem.Issue) []problem.Issue {
	issues = slices.Clone(issues)
	for i := range issues {
		steps := strings.Split(issues[i].Path, ".")
		for j, step := range steps {
			if n, err := strconv.Atoi(step); step != "" && (err != nil || n < 0 || len(step) > maxDigits) {
				steps[j] = name(step)
			}
		}
		issues[i].Path = strings.Join(steps, ".")
	}
	return issues
}

func name(s string) string {
	if named.MatchString(s) {
		return s
	}
	return shape(s)
}

func shape(s string) string { return fmt.Sprintf("(%d characters)", utf8.RuneCountInString(s)) }

func redact(value any, depth int) any {
	if depth == 0 {
		return nil
	}
	switch v := value.(type) {
	case string:
		return shape(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = redact(x, depth-1)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[name(k)] = redact(x, depth-1)
		}
		return out
	case int64:
		return redact(json.Number(strconv.FormatInt(v, 10)), depth)
	case json.Number:
		switch {
		case !json.Valid([]byte(v)): // such as 01, which is rejected later
			return nil
		case len(v) > maxDigits:
			return shape(string(v))
		}
		return v
	default:
		return v
	}
}

// Replayed reports whether an application has received a replayed response for an Idempotency-Key.
func (l *Log) Replayed(ctx context.Context, tx postgres.Tx, applicationID string) (bool, error) {
	return exists(ctx, tx, applicationID, "replayed")
}

// Refreshed reports whether an application has exchanged a refresh token.
func (l *Log) Refreshed(ctx context.Context, tx postgres.Tx, applicationID string) (bool, error) {
	return exists(ctx, tx, applicationID, "refreshed")
}
