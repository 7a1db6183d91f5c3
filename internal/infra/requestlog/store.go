package requestlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// entryRow is a row of api_requests.
type entryRow struct {
	ApplicationID string          `gorm:"column:application_id;primaryKey"`
	ID            string          `gorm:"column:id;primaryKey"`
	At            time.Time       `gorm:"column:at;primaryKey"`
	Method        string          `gorm:"column:method"`
	Path          string          `gorm:"column:path"`
	Status        int             `gorm:"column:status"`
	Code          string          `gorm:"column:code;serializer:zeronull"`
	DurationUs    int64           `gorm:"column:duration_us"`
	Keyed         bool            `gorm:"column:keyed"`
	Replayed      bool            `gorm:"column:replayed"`
	Refreshed     bool            `gorm:"column:refreshed"`
	Issues        json.RawMessage `gorm:"column:issues"`
	Body          json.RawMessage `gorm:"column:body"`
}

// TableName implements [schema.Tabler].
func (entryRow) TableName() string { return "api_requests" }

func rowOf(e Entry) (r entryRow, err error) {
	r = entryRow{ApplicationID: e.ApplicationID, ID: e.ID, At: e.At, Method: e.Method, Path: e.Path, Status: e.Status,
		Code: e.Code, DurationUs: e.Duration.Microseconds(), Keyed: e.Keyed, Replayed: e.Replayed,
		Refreshed: e.Refreshed}
	if len(e.Issues) > 0 {
		if r.Issues, err = json.Marshal(e.Issues); err != nil {
			return r, fmt.Errorf("write issues: %w", err)
		}
	}
	if e.Body != nil {
		if r.Body, err = json.Marshal(e.Body); err != nil {
			return r, fmt.Errorf("write body: %w", err)
		}
		if len(r.Body) > maxBody {
			r.Body = nil
		}
	}
	return r, nil
}

func (r entryRow) entry() (e Entry, err error) {
	e = Entry{ApplicationID: r.ApplicationID, ID: r.ID, At: r.At, Method: r.Method, Path: r.Path, Status: r.Status,
		Code: r.Code, Duration: time.Duration(r.DurationUs) * time.Microsecond, Keyed: r.Keyed, Replayed: r.Replayed,
		Refreshed: r.Refreshed}
	if r.Issues != nil {
		if err := json.Unmarshal(r.Issues, &e.Issues); err != nil {
			return e, fmt.Errorf("read issues: %w", err)
		}
	}
	if r.Body != nil {
		numbers := json.NewDecoder(bytes.NewReader(r.Body))
		numbers.UseNumber() // a caller may have sent a number that fits no Go type
		if err := numbers.Decode(&e.Body); err != nil {
			return e, fmt.Errorf("read body: %w", err)
		}
	}
	return e, nil
}

// insertSQL can be repeated with the same lines if the first result was lost.
var insertSQL = postgres.SQL(postgres.Batch, `INSERT INTO api_requests (application_id, id, at, method, path, status, code, duration_us, keyed, replayed, refreshed, issues, body)
	SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[], $11::boolean[], $12::json[], $13::json[])
	ON CONFLICT DO NOTHING`)

func insert(ctx context.Context, tx postgres.Tx, entries []Entry) error {
	n := len(entries)
	applications, ids, ats, methods, paths, statuses := make([]string, n), make([]string, n), make([]time.Time, n),
		make([]string, n), make([]string, n), make([]int, n)
	codes, durations, keyed, replayed, refreshed := make([]*string, n), make([]int64, n), make([]bool, n),
		make([]bool, n), make([]bool, n)
	issues, bodies := make([]*string, n), make([]*string, n)
	for i, e := range entries {
		r, err := rowOf(e)
		if err != nil {
			return err
		}
		applications[i], ids[i], ats[i], methods[i], paths[i], statuses[i] = r.ApplicationID, r.ID, r.At, r.Method,
			r.Path, r.Status
		durations[i], keyed[i], replayed[i], refreshed[i], issues[i], bodies[i] = r.DurationUs, r.Keyed, r.Replayed,
			r.Refreshed, text(r.Issues), text(r.Body)
		if r.Code != "" {
			codes[i] = &r.Code
		}
	}
	if _, err := tx.Exec(ctx, insertSQL, applications, ids, ats, methods, paths, statuses, codes, durations, keyed,
		replayed, refreshed, issues, bodies); err != nil {
		return fmt.Errorf("write the log of requests: %w", err)
	}
	return nil
}

func text(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

// kept returns the application's lines since a time. It excludes lines older than [Retention], which exist until their
// week is dropped.
func kept(ctx context.Context, tx postgres.Tx, applicationID string, since time.Time) gorm.ChainInterface[entryRow] {
	if oldest := tx.Now.Add(-Retention); since.Before(oldest) {
		since = oldest
	}
	return gorm.G[entryRow](tx.Gorm(ctx)).Where("application_id = ? AND at >= ?", applicationID, since)
}

func list(ctx context.Context, tx postgres.Tx, applicationID string, f Filter) (entries []Entry, more bool, err error) {
	q := kept(ctx, tx, applicationID, f.From)
	if f.Before != "" {
		last, err := get(ctx, tx, applicationID, f.Before)
		if errors.Is(err, problem.ErrNotFound) { // then nothing older exists either
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		// the first condition selects the partitions
		q = q.Where("at <= ? AND (at, id) < (?, ?)", last.At, last.At, last.ID)
	}
	if !f.To.IsZero() {
		q = q.Where("at < ?", f.To)
	}
	if f.Refused {
		q = q.Where("status >= 400")
	}
	rows, err := q.Order("at DESC, id DESC").Limit(f.Limit + 1).Find(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("read the log of requests: %w", err)
	}
	if more = len(rows) > f.Limit; more {
		rows = rows[:f.Limit]
	}
	entries = make([]Entry, len(rows))
	for i, r := range rows {
		if entries[i], err = r.entry(); err != nil {
			return nil, false, err
		}
	}
	return entries, more, nil
}

func get(ctx context.Context, tx postgres.Tx, applicationID, requestID string) (Entry, error) {
	r, err := kept(ctx, tx, applicationID, time.Time{}).Where("id = ?", requestID).Take(ctx)
	if postgres.IsNotFound(err) {
		return Entry{}, problem.ErrNotFound
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read a request: %w", err)
	}
	return r.entry()
}

// exists reports whether the application has a line that meets the condition.
func exists(ctx context.Context, tx postgres.Tx, applicationID, condition string) (bool, error) {
	rows, err := kept(ctx, tx, applicationID, time.Time{}).Select("id").Where(condition).Limit(1).Find(ctx)
	if err != nil {
		return false, fmt.Errorf("look for a request: %w", err)
	}
	return len(rows) > 0, nil
}
