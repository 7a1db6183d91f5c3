package process_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/poll"
)

// patientCallers create consultations that no lawyer serves. They keep each key until they get a response.
type patientCallers struct {
	token    string
	answered func(took time.Duration) // receives the time to a response, including retries; may be nil

	made                   sync.Map // key -> consultation
	acknowledged, repeated atomic.Int64
	all                    sync.WaitGroup
}

// call starts one caller, which continues until ctx ends. at returns the process to call.
func (c *patientCallers) call(ctx context.Context, t *testing.T, at func() *process) {
	c.all.Go(func() {
		for poll.Pause(ctx, 100*time.Millisecond) {
			q, begun := request{rand.Text(), "TAX", "PT"}, time.Now()
			for ctx.Err() == nil {
				x := create(ctx, at().url, c.token, q)
				if x.status == http.StatusCreated {
					c.made.Store(q.key, x.consultation(t).ID)
					c.acknowledged.Add(1)
					if c.answered != nil {
						c.answered(time.Since(begun))
					}
					break
				}
				if ctx.Err() == nil && x.status != 0 && x.status != http.StatusServiceUnavailable &&
					x.status != http.StatusConflict {
					t.Errorf("create: %d %s", x.status, x.body)
				}
				c.repeated.Add(1)
				poll.Pause(ctx, 200*time.Millisecond)
			}
		}
	})
}

// more waits until n more creations are acknowledged.
func (c *patientCallers) more(t *testing.T, n int64) {
	t.Helper()
	n += c.acknowledged.Load()
	await(t, deadline, func() bool { return c.acknowledged.Load() >= n },
		func() string { return fmt.Sprintf("%d of %d consultations are made", c.acknowledged.Load(), n) })
}

// lost compares the acknowledged creations with the database.
func (c *patientCallers) lost(t *testing.T, db *pgx.Conn) (count, lost int) {
	t.Helper()
	there := map[string]string{}
	for _, row := range query(t, db,
		"SELECT id || ' ' || external_ref FROM consultations WHERE external_ref IS NOT NULL") {
		id, key, _ := strings.Cut(row, " ")
		if was, twice := there[key]; twice {
			t.Errorf("one key made %s and %s", was, id)
		}
		there[key] = id
	}
	c.made.Range(func(key, id any) bool {
		if count++; there[key.(string)] != id {
			lost++
		}
		return true
	})
	if lost > 0 {
		t.Errorf("%d of %d acknowledged consultations are lost", lost, count)
	}
	return count, lost
}
