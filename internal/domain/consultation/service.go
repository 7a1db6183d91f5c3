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

// Faults of people and machines on the lawyers' side. None of them is part of the partner contract.
var (
	ErrNotYours  = errors.New("the consultation is not in this lawyer's hands")
	ErrReason    = errors.New("the reason is not acceptable here")
	ErrTooEarly  = errors.New("the client is called again at the time that was set")
	ErrPhoneLost = errors.New("the client's phone number is not verified any more; the consultation is closed")
	errLostRace  = errors.New("the consultation changed under a lock that should have prevented it")
)

// Deps are what a [Service] works with. Logger may be nil.
type Deps struct {
	DB           *postgres.DB
	Searches     *postgres.DB // connections of [postgres.DB.ByIndex] for searches and sweeps; nil for those of DB
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
	SMS          *sms.Service      // tells lawyers who are woken; nil where no text message can be sent
	Staff        *staff.Service    // whose operators are told of alarms; nil where there are none
	Stage        Stage             // of a sandbox; nil in live, where everybody's lawyers serve everybody
	Tracer       *telemetry.Tracer // nil for none
	Logger       *slog.Logger
}

// Service is the summit of the domain. Safe for concurrent use.
type Service struct {
	deps      Deps
	keys      *vault.Keys
	log       *slog.Logger
	incidents *prometheus.CounterVec
	lateness  prometheus.Histogram
	words     chan string // whom to search for, as soon as its transaction has committed

	working atomic.Bool // the searches of this process run here
	others  *postgres.Channel
}

// wakeBuffer bounds what waits for this process to look at it. What does not fit is found by the next sweep.
const wakeBuffer = 2048

// New makes the service; nothing happens of itself until [Service.Run].
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

// apply takes a step of the table and writes everything that belongs to it: the record with its timer, the events,
// the money. The caller has locked the row and done what concerns the lawyer and the call before, because the wallet
// is locked last. Refusals wrap [ErrForbidden].
func (s *Service) apply(ctx context.Context, tx postgres.Tx, c *Consultation, t trigger) error {
	return s.applyAll(ctx, tx, t, c)
}

// applyAll is apply for consultations that are in one status: records and events of all take one statement each.
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
		if from == CallEnded { // its note is written, or will not be
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

// step begins the span of a step of the table. It is part of what causes the step, a request or a timer, and linked to
// the creation of each consultation that takes it.
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

// about begins the span of what is done for a consultation, linked to its creation.
func (s *Service) about(ctx context.Context, name string, c *Consultation) (context.Context, telemetry.Span) {
	ctx, span := s.deps.Tracer.Start(ctx, name)
	span.Set(telemetry.ConsultationID, c.ID)
	span.Set(telemetry.LawyerID, c.LawyerID)
	span.Link(c.TraceParent)
	return ctx, span
}

// engages tells whether a client who has a consultation in that status is not offered another one meanwhile.
func engages(st Status) bool { return st == Assigned || st == InCall }

// save writes what changed without a transition: dials, a lost line, reminders.
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

// report logs one line for a transition that has committed: identifiers only, never what the client wrote.
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
		// a note that is corrected after a refund says nothing of it
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

// channel tells the process that sweeps whom to search for: the first letter of a word is one of these, the rest an
// identifier.
const (
	channel    = "partnerd_searches"
	wordWork   = "w"
	wordClient = "c"
	wordLawyer = "l"
)

// wakeSearch has a lawyer sought for a consultation once tx has committed.
func (s *Service) wakeSearch(tx postgres.Tx, consultationID string) {
	tx.AfterCommit(func() { s.wake(wordWork + consultationID) })
}

// wakeClient has a lawyer sought for what else a client waits for, once tx has committed.
func (s *Service) wakeClient(tx postgres.Tx, clientID string) {
	tx.AfterCommit(func() { s.wake(wordClient + clientID) })
}

// wakeLawyer has work sought for a lawyer once tx has committed.
func (s *Service) wakeLawyer(tx postgres.Tx, lawyerID string) {
	tx.AfterCommit(func() { s.wake(wordLawyer + lawyerID) })
}

func (s *Service) wake(word string) {
	if s.working.Load() {
		s.heard(word)
		return
	}
	s.others.Send(word)
}

// heard never waits: what does not fit is found by the next sweep.
func (s *Service) heard(word string) {
	select {
	case s.words <- word:
	default:
	}
}
