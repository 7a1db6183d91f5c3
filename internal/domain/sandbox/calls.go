package sandbox

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"partnerd/internal/base/poll"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Calls is the telephony provider of a sandbox. When a command arrives, it stores as steps what the people and the line
// will do. A restart therefore continues where it stopped, and a repeated command adds nothing.
type Calls struct {
	db     *postgres.DB
	script func(callID string) Script
	log    *slog.Logger
	wake   chan struct{}

	// connections of [postgres.DB.ByIndex] for the step queue; default: the db of NewCalls. Set it before Run
	Queue *postgres.DB
}

var _ telephony.Adapter = (*Calls)(nil)

// NewCalls creates the provider. script chooses how a call goes; if it is nil, the scenario of the call's consultation
// does.
func NewCalls(db *postgres.DB, script func(callID string) Script, log *slog.Logger) *Calls {
	return &Calls{db: db, script: script, log: log, wake: make(chan struct{}, 1), Queue: db}
}

// PlaceLeg implements [telephony.Adapter]. No one is dialled, and the number is not stored.
func (c *Calls) PlaceLeg(ctx context.Context, cmd telephony.PlaceLeg) error {
	return c.plan(ctx, cmd.Command, func(s Script, past history) []planned {
		return s.legPlan(cmd.Role, cmd.Timeout, past.Joined)
	})
}

// Bridge implements [telephony.Adapter]. The lawyer waits for the client, unless both have been joined already.
func (c *Calls) Bridge(ctx context.Context, cmd telephony.Bridge) error {
	return c.plan(ctx, cmd.Command, func(s Script, past history) []planned {
		if cmd.Role == telephony.Lawyer && !past.Joined {
			return nil
		}
		return s.bridgePlan(cmd.MaxDuration, past.Parted)
	})
}

// Play implements [telephony.Adapter]. Simulated people ignore prompts.
func (c *Calls) Play(context.Context, telephony.Play) error { return nil }

// Collect implements [telephony.Adapter].
func (c *Calls) Collect(ctx context.Context, cmd telephony.Collect) error {
	return c.plan(ctx, cmd.Command, func(s Script, _ history) []planned { return s.collectPlan(cmd.Role, cmd.Timeout) })
}

// Hangup implements [telephony.Adapter]. It drops everything that has not happened yet.
func (c *Calls) Hangup(ctx context.Context, cmd telephony.Hangup) error {
	if err := dropSteps(ctx, c.db.Read(), cmd.CallID, c.db.Clock().Now()); err != nil {
		return err
	}
	return c.plan(ctx, cmd.Command,
		func(Script, history) []planned { return []planned{{event: telephony.Event{Kind: telephony.CallOver}}} })
}

// Report implements [telephony.Adapter].
func (c *Calls) Report(ctx context.Context, callID string) ([]telephony.Event, error) {
	return pastEvents(ctx, c.db.Read(), callID)
}

// plan stores the steps that a command causes, unless the command was already handled. It is a single statement, which
// does nothing if a concurrent duplicate of the command came first.
func (c *Calls) plan(ctx context.Context, cmd telephony.Command, f func(Script, history) []planned) error {
	tx := c.Queue.Read()
	past, err := historyOf(ctx, tx, cmd)
	if err != nil || past.Repeated {
		return err
	}
	script := c.scriptOf(cmd.CallID, past)
	plan := f(script, past)
	delays := script.delays(plan)
	var steps []stepRow
	for i, p := range plan {
		e := p.event
		e.ID, e.CallID, e.At = cmd.CommandID+":"+strconv.Itoa(i), cmd.CallID, tx.Now.Add(p.after)
		ids := []string{e.ID}
		if script.Duplicate {
			ids = append(ids, e.ID+":again")
		}
		for _, id := range ids {
			steps = append(steps, stepRow{ID: id, CallID: e.CallID, Event: e, DueAt: tx.Now.Add(delays[i])})
		}
	}
	if err := insertSteps(ctx, tx, steps); err != nil {
		return err
	}
	c.signal()
	return nil
}

func (c *Calls) scriptOf(callID string, past history) Script {
	if c.script != nil {
		return c.script(callID)
	}
	script := DefaultScript(callID)
	if way, _ := scenarioOf(past.Scenario); way.call != nil {
		way.call(&script, past.First, past.Attempt)
	}
	return script
}

func (c *Calls) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// longestNap is the longest pause between two polls, which find the steps of other replicas.
const longestNap = 500 * time.Millisecond

// Run delivers events as they happen, until ctx ends. A rejected event is delivered again.
func (c *Calls) Run(ctx context.Context, deliver telephony.Deliver) error {
	return poll.Loop{Name: "simulated calls", Every: longestNap, Wake: c.wake, Log: c.log}.RunTimed(ctx,
		func(ctx context.Context) (time.Duration, error) {
			soonest := poll.Soonest()
			n, next, err := c.deliver(ctx, deliver)
			if n < stepBatch {
				poll.Await(ctx, soonest)
			}
			switch {
			case err != nil || n == stepBatch:
				return 0, err
			case next == nil:
				return longestNap, nil
			}
			return next.Sub(c.db.Clock().Now()), nil
		})
}

// Deliver delivers the due events and returns how many there were. Events of one call are delivered in order, those of
// different calls concurrently. A rejected event is delivered again later and does not fail Deliver.
func (c *Calls) Deliver(ctx context.Context, deliver telephony.Deliver) (int, error) {
	n, _, err := c.deliver(ctx, deliver)
	return n, err
}

// deliver also returns when the next unclaimed event is due, or nil if there is none.
func (c *Calls) deliver(ctx context.Context, deliver telephony.Deliver) (n int, next *time.Time, err error) {
	due, next, err := claimSteps(ctx, c.Queue.Read())
	if err != nil || len(due) == 0 {
		return 0, next, err
	}
	slices.SortFunc(due, func(a, b stepRow) int { return a.DueAt.Compare(b.DueAt) })
	calls := map[string][]int{}
	for i, s := range due {
		calls[s.Event.CallID] = append(calls[s.Event.CallID], i)
	}
	results := make([]settlement, len(due))
	var g errgroup.Group
	g.SetLimit(8)
	for _, steps := range calls {
		g.Go(func() error {
			for _, i := range steps {
				results[i] = c.report(ctx, due[i], deliver)
			}
			return nil
		})
	}
	_ = g.Wait() // never returns an error
	if ctx.Err() != nil {
		return len(due), next, nil // the events are delivered again when their claims end
	}
	return len(due), next, settleSteps(ctx, c.Queue.Read(), results)
}

// maxTries is the number of rejections after which the provider drops an event.
const maxTries = 100

func (c *Calls) report(ctx context.Context, s stepRow, deliver telephony.Deliver) settlement {
	err := deliver(ctx, s.Event)
	if err == nil && s.Event.Kind == telephony.CallOver {
		err = dropSteps(ctx, c.db.Read(), s.Event.CallID, s.Event.At)
	}
	if err == nil {
		return settlement{ID: s.ID, Done: true}
	}
	quit := s.Tries >= maxTries
	if ctx.Err() == nil {
		c.log.WarnContext(ctx, "simulated call event refused", "call", s.Event.CallID, "event", s.Event.ID,
			"kind", s.Event.Kind, "try", s.Tries, "given_up", quit, "error", err)
	}
	return settlement{ID: s.ID, Done: quit, After: min(time.Duration(s.Tries)*200*time.Millisecond, 5*time.Second).
		Seconds()}
}

// settlement is the result of delivering a step.
type settlement struct {
	ID    string  `json:"id"`
	Done  bool    `json:"done"`  // no further attempt
	After float64 `json:"after"` // seconds until the next attempt
}
