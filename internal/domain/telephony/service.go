package telephony

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/id"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres"
)

// Service stores calls and carries out commands. It is safe for concurrent use.
type Service struct {
	db      *postgres.DB
	adapter Adapter
	people  People
	log     *slog.Logger
	wake    chan struct{}
	failed  *prometheus.CounterVec // failed attempts of commands

	// Set these fields before anything runs.
	Tracer *telemetry.Tracer // traces commands; nil for none
	Queue  *postgres.DB      // connections of [postgres.DB.ByIndex] for the command queue; default: the db of New
}

// New creates the service. It uses db to carry out commands, which is never part of a caller's transaction.
func New(db *postgres.DB, adapter Adapter, people People, log *slog.Logger) *Service {
	return &Service{db: db, adapter: adapter, people: people, log: log, wake: make(chan struct{}, 1),
		failed: newFailures(), Queue: db}
}

// newFailures creates the counter with every kind at 0, so that a first failure is an increase.
func newFailures() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "partnerd_telephony_commands_failed_total",
		Help: "Tries of commands to the provider of calls that failed, by kind."}, []string{"kind"})
	for _, kind := range []commandKind{cmdPlaceLeg, cmdBridge, cmdPlay, cmdCollect, cmdHangup} {
		c.WithLabelValues(string(kind))
	}
	return c
}

// Collector exposes the number of failed commands.
func (s *Service) Collector() prometheus.Collector { return s.failed }

// Available reports whether there is a provider that can make calls.
func (s *Service) Available() bool {
	_, none := s.adapter.(None)
	return !none
}

// Place begins a call by dialling the lawyer. It returns [ErrLineBusy] if the client or the consultation already has an
// open call; the transaction stays usable.
func (s *Service) Place(ctx context.Context, tx postgres.Tx, start Start) (Call, error) {
	c := Call{ID: tx.NewID(id.Call), ConsultationID: start.ConsultationID, ClientID: start.ClientID,
		LawyerID: start.LawyerID, Attempt: start.Attempt, State: LawyerRinging, Record: start.Record,
		Language: start.Language, StartedAt: tx.Now, LastEventAt: tx.Now}
	placed, err := insertCall(ctx, tx, c)
	if err != nil {
		return Call{}, err
	}
	if !placed {
		return Call{}, ErrLineBusy
	}
	return c, s.queue(ctx, tx, c.ID, order{kind: cmdPlaceLeg, args: commandArgs{Role: Lawyer}})
}

// Get returns a call, or [ErrNoCall]. Use it before Apply, to know which consultation to lock.
func (s *Service) Get(ctx context.Context, tx postgres.Tx, callID string) (Call, error) {
	return get(ctx, tx, callID)
}

// Active returns the open call of a consultation, if there is one.
func (s *Service) Active(ctx context.Context, tx postgres.Tx, consultationID string) (Call, bool, error) {
	return active(ctx, tx, consultationID)
}

// Missed returns a lawyer's last call since the given time that they did not answer or did not confirm with 1.
func (s *Service) Missed(ctx context.Context, tx postgres.Tx, lawyerID string, since time.Time) (Call, bool, error) {
	return missed(ctx, tx, lawyerID, since)
}

// History lists the calls of a consultation in order, each with the provider's reports.
func (s *Service) History(ctx context.Context, tx postgres.Tx, consultationID string) ([]Told, error) {
	return history(ctx, tx, consultationID)
}

// Attempts counts the calls of a consultation that dialled the client without reaching them.
func (s *Service) Attempts(ctx context.Context, tx postgres.Tx, consultationID string) (int, error) {
	return attempts(ctx, tx, consultationID)
}

// Heard stores an event that does not change the call ([Event.SaysNothing]) but still shows that the provider has the
// call. It returns the lawyer. It queues no command, so the caller needs no lock. It returns [ErrNoCall] for an unknown
// call.
func (s *Service) Heard(ctx context.Context, tx postgres.Tx, e Event) (lawyerID string, err error) {
	if e.ID == "" {
		return "", errNoEventID
	}
	return hear(ctx, tx, e)
}

// Apply processes one event of the provider. It returns the call and what the event means, in order. Usually that is
// nothing or one outcome. It is two if the event implies another one that has not arrived yet. A repeated or late event
// means nothing.
//
// It returns [ErrNoCall] for an unknown call. The caller holds the consultation's row lock.
func (s *Service) Apply(ctx context.Context, tx postgres.Tx, e Event) (Call, []Outcome, error) {
	if e.ID == "" {
		return Call{}, nil, errNoEventID
	}
	c, repeated, err := lockCallFor(ctx, tx, e.CallID, e.ID)
	if err != nil || repeated {
		return c, nil, err
	}
	var marks []mark
	if triggerOf(e) == line {
		if marks, err = lineMarks(ctx, tx, c.ID); err != nil {
			return Call{}, nil, err
		}
	}
	m, fits := apply(c, e, marks, tx.Now)
	if err := insertEvent(ctx, tx, m.event, fits); err != nil {
		return c, nil, err
	}
	return m.call, m.outcomes, s.save(ctx, tx, m)
}

var errNoEventID = errors.New("the event has no id")

// End ends a call now and returns its outcome. The outcome is FINISHED, with the joined time, if both sides were
// joined. Otherwise it is NOT_REACHED or LAWYER_NOT_REACHED if reason is [Timeout], and ABORTED for any other reason.
//
// The provider is told to hang up, and its later reports are ignored. A call that has already ended keeps its outcome.
// The caller holds the consultation's row lock.
func (s *Service) End(ctx context.Context, tx postgres.Tx, callID, reason string) (Outcome, error) {
	c, err := lockCall(ctx, tx, callID)
	if err != nil {
		return Outcome{}, err
	}
	if c.State == Ended {
		return c.result(), nil
	}
	m := end(c, reason, tx.Now)
	return m.outcomes[0], s.save(ctx, tx, m)
}

// Redial makes the next attempt to restore a lost line immediately. It does nothing while a leg is ringing.
func (s *Service) Redial(ctx context.Context, tx postgres.Tx, callID string) error {
	if err := redialNow(ctx, tx, callID); err != nil {
		return err
	}
	tx.AfterCommit(s.signal)
	return nil
}

// Hangup is [Service.End] for callers that do not need the outcome.
func (s *Service) Hangup(ctx context.Context, tx postgres.Tx, callID, reason string) error {
	_, err := s.End(ctx, tx, callID, reason)
	return err
}

func (s *Service) save(ctx context.Context, tx postgres.Tx, m machine) error {
	if err := update(ctx, tx, m.call); err != nil {
		return err
	}
	if m.call.State == Ended {
		if err := dropWaiting(ctx, tx, m.call.ID); err != nil {
			return err
		}
	}
	if m.call.State == Bridged {
		if err := dropRedials(ctx, tx, m.call.ID); err != nil {
			return err
		}
	}
	return s.queue(ctx, tx, m.call.ID, m.orders...)
}

func (s *Service) queue(ctx context.Context, tx postgres.Tx, callID string, orders ...order) error {
	var due []order
	for _, o := range orders {
		if o.after > 0 { // one leg may report its failure several times
			waits, err := redialWaits(ctx, tx, callID, o.args.Role)
			if err != nil {
				return err
			}
			if waits {
				continue
			}
		}
		due = append(due, o)
	}
	if len(orders) > 0 {
		tx.AfterCommit(s.signal)
	}
	return insertCommands(ctx, tx, callID, due)
}
