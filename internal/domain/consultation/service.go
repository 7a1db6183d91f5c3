package consultation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/seal"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/sms"
	"partnerd/internal/infra/vault"
)

// Errors on the lawyers' side, caused by people or by machines. None of them is part of the partner contract.
var (
	ErrNotYours  = errors.New("the consultation is not in this lawyer's hands")
	ErrReason    = errors.New("the reason is not acceptable here")
	ErrTooEarly  = errors.New("the client is called again at the time that was set")
	ErrPhoneLost = errors.New("the client's phone number is not verified any more; the consultation is closed")
	errLostRace  = errors.New("the consultation changed under a lock that should have prevented it")
)

// Deps are the dependencies of a [Service]. Logger may be nil.
type Deps struct {
	DB           *postgres.DB
	Searches     *postgres.DB // connections of [postgres.DB.ByIndex] for searches and sweeps; nil to use DB
	Box          *seal.Box
	Accounts     *account.Service
	Applications *application.Service
	Catalog      *catalog.Service
	Wallet       *wallet.Service
	Matching     *matching.Service
	Lawyers      *lawyer.Service
	Webhooks     *webhook.Service
	Notes        *note.Service
	Telephony    *telephony.Service
	Mail         *mail.Service
	SMS          *sms.Service      // for text messages to woken lawyers; nil where none can be sent
	Staff        *staff.Service    // whose operators are notified of alarms; nil if there are none
	Stage        Stage             // for a sandbox; nil in a live deployment, where shared lawyers serve all
	Tracer       *telemetry.Tracer // nil for none
	Logger       *slog.Logger
}

// Service moves consultations through their states. Safe for concurrent use.
type Service struct {
	deps      Deps
	keys      *vault.Keys
	log       *slog.Logger
	incidents *prometheus.CounterVec
	lateness  prometheus.Histogram
	words     chan string // searches to run, sent once their transaction has committed

	working atomic.Bool // whether this process runs its searches
	others  *postgres.Channel
}

// wakeBuffer limits the searches queued in this process. The next sweep finds those that do not fit.
const wakeBuffer = 2048

// New creates the service; nothing runs in the background until [Service.Run].
func New(d Deps) *Service {
	log := d.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if d.Searches == nil {
		d.Searches = d.DB
	}
	return &Service{deps: d, keys: vault.New(d.Box), log: log, incidents: newIncidents(), lateness: newLateness(),
		words: make(chan string, wakeBuffer), others: d.DB.Channel(channel, log)}
}

// apply takes a step of the table and writes everything that belongs to it: the record with its timer, the events, the
// money. The caller has locked the row and already updated the lawyer and the call, because the wallet is locked last.
// A step that is not allowed returns an error that wraps [ErrForbidden].
func (s *Service) apply(ctx context.Context, tx postgres.Tx, c *Consultation, t trigger) error {
	return s.applyAll(ctx, tx, t, c)
}

// applyAll is apply for several consultations in the same status. All records are written in one statement, and so are
// all events.
func (s *Service) applyAll(ctx context.Context, tx postgres.Tx, t trigger, list ...*Consultation) (err error) {
	if len(list) == 0 {
		return nil
	}
	from := list[0].Status
	ctx, span := s.step(ctx, t, list)
	defer func() { span.End(err) }()
	moved, emissions, money := make([]Consultation, len(list)), make([]webhook.Emission, len(list)), noMoney
	for i, c := range list {
		next, st, err := advance(*c, t, tx.Now)
		if err != nil {
			return err
		}
		events := eventsOf(next, st)
		emissions[i] = webhook.Emission{Subject: subjectOf(next), FirstSequence: next.EventSeq + 1, Events: events}
		next.EventSeq += int64(len(events))
		moved[i], money = next, st.money
	}
	if err := update(ctx, tx, from, moved...); err != nil {
		return err
	}
	if err := s.deps.Webhooks.EmitAll(ctx, tx, emissions...); err != nil {
		return err
	}
	for i, next := range moved {
		s.deps.Lawyers.Changed(tx, list[i].LawyerID)
		s.deps.Lawyers.Changed(tx, next.LawyerID)
		if from == CallEnded { // its note is written, or never will be
			if err := s.deps.Notes.DropDraft(ctx, tx, next.ID); err != nil {
				return err
			}
		}
		if err := s.moveMoney(ctx, tx, next, money); err != nil {
			return fmt.Errorf("%s of %s: %w", t, next.ID, err)
		}
		s.report(ctx, tx, next, from, t)
		if engages(from) && !engages(next.Status) {
			s.wakeClient(tx, next.ClientID)
		}
		*list[i] = next
	}
	return nil
}

// step starts the span of a step of the table. Its parent is the cause of the step, a request or a timer. It is linked
// to the creation of each consultation.
func (s *Service) step(ctx context.Context, t trigger, list []*Consultation) (context.Context, telemetry.Span) {
	ctx, span := s.deps.Tracer.Start(ctx, "consultation step")
	span.Set(telemetry.Trigger, string(t))
	span.Set(telemetry.From, string(list[0].Status))
	for _, c := range list {
		span.Link(c.TraceParent)
	}
	if len(list) == 1 {
		span.Set(telemetry.ConsultationID, list[0].ID)
		span.Set(telemetry.LawyerID, list[0].LawyerID)
	}
	return ctx, span
}

// about starts the span of work on a consultation, linked to its creation.
func (s *Service) about(ctx context.Context, name string, c *Consultation) (context.Context, telemetry.Span) {
	ctx, span := s.deps.Tracer.Start(ctx, name)
	span.Set(telemetry.ConsultationID, c.ID)
	span.Set(telemetry.LawyerID, c.LawyerID)
	span.Link(c.TraceParent)
	return ctx, span
}

// engages reports whether a consultation in this status keeps its client from being offered another one.
func engages(st Status) bool { return st == Assigned || st == InCall }

// save writes changes without a transition: dials, a lost line, reminders.
func (s *Service) save(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	c.UpdatedAt = tx.Now
	s.deps.Lawyers.Changed(tx, c.LawyerID)
	return update(ctx, tx, c.Status, *c)
}

func (s *Service) moveMoney(ctx context.Context, tx postgres.Tx, c Consultation, m movement) error {
	switch m {
	case holdMoney:
		return s.deps.Wallet.Hold(ctx, tx, wallet.HoldCommand{ClientID: c.ClientID, ApplicationID: c.ApplicationID,
			ConsultationID: c.ID, Amount: c.Price})
	case releaseMoney:
		return s.deps.Wallet.Release(ctx, tx, c.ID)
	case captureMoney:
		return s.deps.Wallet.Capture(ctx, tx, c.ID)
	case refundMoney:
		return s.deps.Wallet.Refund(ctx, tx, c.ID, c.Refunded)
	case noMoney:
		return nil
	}
	return nil
}

// report logs one line for a committed transition: IDs only, never what the client wrote.
func (s *Service) report(ctx context.Context, tx postgres.Tx, c Consultation, from Status, t trigger, more ...any) {
	tx.AfterCommit(func() {
		s.log.InfoContext(ctx, "consultation", append([]any{"consultation", c.ID, "application", c.ApplicationID,
			"client", c.ClientID, "from", from, "to", c.Status, "trigger", t, "lawyer", c.LawyerID, "reason",
			c.EndReason}, more...)...)
	})
}

func eventsOf(c Consultation, st step) []webhook.Event {
	events := make([]webhook.Event, len(st.events))
	for i, t := range st.events {
		events[i] = webhook.Event{Type: t, Status: string(st.to), DurationSec: c.DurationSec,
			EndReason: c.EndReason.Code()}
		if t == webhook.PendingCallback {
			events[i].CallbackDueAt = c.CallbackDueAt
		}
		// a note corrected after a refund does not mention it
		if c.RefundedAt != nil && t != webhook.NoteAvailable {
			events[i].Refunded = &c.Refunded
		}
	}
	return events
}

func subjectOf(c Consultation) webhook.Subject {
	return webhook.Subject{ApplicationID: c.ApplicationID, ConsultationID: c.ID, ClientID: c.ClientID,
		Competence: c.Competence, ExternalRef: c.ExternalRef, Price: c.Price}
}

// channel is the Postgres channel on which the leading process is told which searches to run. A payload is one of the
// prefixes below, followed by an ID.
const (
	channel    = "partnerd_searches"
	wordWork   = "w"
	wordClient = "c"
	wordLawyer = "l"
)

// wakeSearch starts a search for a consultation once tx has committed.
func (s *Service) wakeSearch(tx postgres.Tx, consultationID string) {
	tx.AfterCommit(func() { s.wake(wordWork + consultationID) })
}

// wakeClient starts a search for a client's other waiting consultations once tx has committed.
func (s *Service) wakeClient(tx postgres.Tx, clientID string) {
	tx.AfterCommit(func() { s.wake(wordClient + clientID) })
}

// wakeLawyer starts a search for work for a lawyer once tx has committed.
func (s *Service) wakeLawyer(tx postgres.Tx, lawyerID string) {
	tx.AfterCommit(func() { s.wake(wordLawyer + lawyerID) })
}

func (s *Service) wake(word string) {
	if s.working.Load() {
		s.enqueue(word)
		return
	}
	s.others.Send(word)
}

// enqueue never blocks: the next sweep finds what does not fit.
func (s *Service) enqueue(word string) {
	select {
	case s.words <- word:
	default:
	}
}
