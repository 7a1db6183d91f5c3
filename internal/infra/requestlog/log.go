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

	// Table is the one that lies by the week.
	Table = "api_requests"

	perStatement = 2000 // lines
	maxPath      = 256  // bytes
	maxMethod    = 16   // bytes
	maxCode      = 64   // bytes
	maxBody      = 8192 // bytes of the shape of a body
)

// Entry is one request.
type Entry struct {
	ID            string // X-Request-Id
	ApplicationID string
	At            time.Time // when the answer was complete
	Method        string
	Path          string // escaped, so in ASCII, without the query
	Status        int
	Code          string // of the error; empty for a success
	Duration      time.Duration
	Keyed         bool // an Idempotency-Key came with it
	Replayed      bool // the answer is that of an earlier request with the same key
	Refreshed     bool // a refresh token was exchanged
	Issues        []problem.Issue
	// of the request: what [Redact] left of it; nil when there was none or it was too large
	Body map[string]any
}

// Log keeps requests. Safe for concurrent use.
type Log struct {
	db      *postgres.DB
	dropped prometheus.Counter

	mu      sync.Mutex
	pending []Entry
}

// New makes a log; somebody has to let [Log.Run] run and call [Log.Flush] at the end.
func New(db *postgres.DB, r prometheus.Registerer) *Log {
	l := &Log{db: db, dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "partnerd_request_log_dropped_total",
		Help: "Requests that are missing in the log that partners see, because the database did not " +
			"take them in time."})}
	r.MustRegister(l.dropped)
	return l
}

// Add remembers a request until the next [Log.Flush].
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

// cut shortens what a caller sent, which is ASCII here.
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

// Flush writes what was added until now. While the database is away they wait for the next time.
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

// Filter chooses lines of an application.
type Filter struct {
	Before  string    // identifier of the last line already seen; empty for the newest
	From    time.Time // inclusive, zero for the oldest that is kept
	To      time.Time // exclusive, zero for now
	Refused bool      // only those that were answered with 400 or more
	Limit   int       // 1 to 100
}

// List returns an application's lines, the newest first, and whether there are older ones. A line is there a second
// after its answer, at the latest.
func (l *Log) List(ctx context.Context, tx postgres.Tx, applicationID string,
	f Filter,
) (entries []Entry, more bool, err error) {
	return list(ctx, tx, applicationID, f)
}

// Get returns a line of the application, or [problem.ErrNotFound].
func (l *Log) Get(ctx context.Context, tx postgres.Tx, applicationID, requestID string) (Entry, error) {
	return get(ctx, tx, applicationID, requestID)
}

// Purge makes room for the coming weeks, drops the weeks whose every line is older than [Retention], and returns how
// many weeks it dropped.
func (l *Log) Purge(ctx context.Context) (int, error) {
	return postgres.KeepPartitions(ctx, l.db, Table, Retention)
}

// maxDigits is how long a number is that is kept: an amount, a duration. A longer one may be a phone number or a code.
const maxDigits = 5

// named is a name that is kept. What has digits, or other characters, may be a value that came to the wrong place.
var named = regexp.MustCompile(`^[A-Za-z_-]{1,40}$`)

// Redact returns the shape of a JSON object: objects, arrays, truth values, null and short numbers as they are, each
// text and each other number replaced by how long it is. So are names of anything but letters, which no field has. What
// would be deeper than eight levels is left out. Of nil it returns nil.
func Redact(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	return redact(object, 8).(map[string]any)
}

// RedactIssues returns issues whose paths are as [Redact] keeps the names of fields.
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
		case !json.Valid([]byte(v)): // such as 01, which is refused further on
			return nil
		case len(v) > maxDigits:
			return shape(string(v))
		}
		return v
	default:
		return v
	}
}

// Replayed tells whether an application was answered a second time for one Idempotency-Key.
func (l *Log) Replayed(ctx context.Context, tx postgres.Tx, applicationID string) (bool, error) {
	return exists(ctx, tx, applicationID, "replayed")
}

// Refreshed tells whether an application exchanged a refresh token.
func (l *Log) Refreshed(ctx context.Context, tx postgres.Tx, applicationID string) (bool, error) {
	return exists(ctx, tx, applicationID, "refreshed")
}
