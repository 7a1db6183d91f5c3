package consultation

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// StartCall makes the first call of an assignment: it calls the lawyer and, when they have pressed 1, the client. Later
// attempts follow automatically, 5 and 15 minutes after the first, if the lawyer waits for them
// ([Service.ChooseRedial]). While an attempt is being set up, StartCall does nothing.
//
// Errors: [telephony.ErrLineBusy] (the client is on another call; attempts follow automatically until the dial
// deadline), [ErrTooEarly], [ErrPhoneLost], [ErrNotYours], [ErrForbidden], [lawyer.ErrLeaseLost].
func (s *Service) StartCall(ctx context.Context, lease lawyer.Lease, consultationID string) error {
	var refused error
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		refused = nil
		c, err := s.lockOf(ctx, tx, lease, consultationID, Assigned)
		if err != nil || c.Dialling() {
			return err
		}
		if c.NextDialAt != nil && tx.Now.Before(*c.NextDialAt) || outsideCallHours(c, tx.Now) {
			return ErrTooEarly
		}
		err = s.dial(ctx, tx, &c)
		if !errors.Is(err, telephony.ErrLineBusy) && !errors.Is(err, ErrPhoneLost) {
			return err
		}
		refused = err // returned after the commit, which keeps what dial wrote
		return nil
	})
	return errors.Join(err, refused)
}

// closeWithoutPhone ends a consultation whose client no longer has a verified number (X9, T40). No other number is
// called.
func (s *Service) closeWithoutPhone(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if err := s.endAssignment(ctx, tx, *c, toWork); err != nil {
		return err
	}
	c.EndReason = PhoneLost
	lawyerID := c.LawyerID
	if err := s.apply(ctx, tx, c, onPhoneLost); err != nil {
		return err
	}
	s.incident(tx, phoneLost, c.ID, lawyerID)
	return nil
}

// dial starts an attempt, after ending a leftover call on the client's line. With [telephony.ErrLineBusy] it schedules
// the attempt for [lineBusyRetry] later, and with [ErrPhoneLost] it closes the consultation. The transaction can commit
// after both errors.
func (s *Service) dial(ctx context.Context, tx postgres.Tx, c *Consultation) (err error) {
	ctx, span := s.about(ctx, "consultation dial", c)
	defer func() { span.End(err) }()
	_, ok, err := s.deps.Accounts.VerifiedPhone(ctx, tx, c.ClientID)
	if err != nil {
		return fmt.Errorf("read the client's phone: %w", err)
	}
	if !ok {
		if err := s.closeWithoutPhone(ctx, tx, c); err != nil {
			return err
		}
		return ErrPhoneLost
	}
	app, err := s.deps.Applications.Get(ctx, tx, c.ApplicationID)
	if err != nil {
		return fmt.Errorf("read application: %w", err)
	}
	start := telephony.Start{
		ConsultationID: c.ID, ClientID: c.ClientID, LawyerID: c.LawyerID, Attempt: c.Attempts() + 1,
		Record: c.RecordingConsent && app.RecordingEnabled, Language: c.Language,
	}
	_, err = s.deps.Telephony.Place(ctx, tx, start)
	if errors.Is(err, telephony.ErrLineBusy) {
		var freed bool
		if freed, err = s.freeLine(ctx, tx, *c); err != nil {
			return err
		}
		err = telephony.ErrLineBusy
		if freed {
			_, err = s.deps.Telephony.Place(ctx, tx, start)
		}
	}
	if errors.Is(err, telephony.ErrLineBusy) {
		next := tx.Now.Add(lineBusyRetry)
		c.NextDialAt = &next
		if err := s.save(ctx, tx, c); err != nil {
			return err
		}
		return telephony.ErrLineBusy
	}
	if err != nil {
		return err
	}
	now := tx.Now
	if c.FirstDialAt == nil {
		c.FirstDialAt = &now
	}
	c.DialAttempts, c.LastDialAt, c.NextDialAt, c.ChooseBy = c.DialAttempts+1, &now, nil, nil
	return s.save(ctx, tx, c)
}

// ChooseRedial records the lawyer's choice after an attempt that the client did not answer: to wait for the next
// attempt, or to leave the consultation to others at no cost. If a lawyer does not choose within [ChooseLimit], the
// consultation goes to others. A lawyer who waits may still leave.
//
// Errors: [ErrNotYours], [ErrForbidden] if no attempt is to come, [lawyer.ErrLeaseLost].
func (s *Service) ChooseRedial(ctx context.Context, lease lawyer.Lease, consultationID string, wait bool) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, Assigned)
		if err != nil {
			return err
		}
		if c.NextDialAt == nil || c.DialAttempts == 0 {
			return fmt.Errorf("%w: no attempt is to come", ErrForbidden)
		}
		if !wait {
			return s.unassign(ctx, tx, &c, toWork)
		}
		c.ChooseBy = nil
		return s.save(ctx, tx, &c)
	})
}

// attemptFailed schedules the next attempt to reach the client, or closes the consultation after the last (X9).
func (s *Service) attemptFailed(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if next, ok := nextAttempt(*c, tx.Now); ok {
		c.NextDialAt = &next
		if by := tx.Now.Add(ChooseLimit); by.Before(next) {
			c.ChooseBy = &by
		}
		return s.save(ctx, tx, c)
	}
	if err := s.endAssignment(ctx, tx, *c, toWork); err != nil {
		return err
	}
	c.EndReason = ClientNotReached
	return s.apply(ctx, tx, c, onClientUnreached)
}

// RestartCall redials the leg whose line dropped, ahead of the automatic retry. It returns [ErrForbidden] while the
// line holds, [ErrNotYours] or [lawyer.ErrLeaseLost].
func (s *Service) RestartCall(ctx context.Context, lease lawyer.Lease, consultationID string) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, InCall)
		if err != nil {
			return err
		}
		if c.LineLostAt == nil {
			return fmt.Errorf("%w: the line holds", ErrForbidden)
		}
		call, active, err := s.deps.Telephony.Active(ctx, tx, c.ID)
		if err != nil || !active {
			return err
		}
		return s.deps.Telephony.Redial(ctx, tx, call.ID)
	})
}

// EndCall ends the call at the lawyer's request (X10). Errors: [ErrNotYours], [ErrForbidden], [lawyer.ErrLeaseLost].
func (s *Service) EndCall(ctx context.Context, lease lawyer.Lease, consultationID string) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, InCall)
		if err != nil {
			return err
		}
		return s.cutCall(ctx, tx, &c, telephony.HungUp)
	})
}

// cutCall ends a call from our side, whatever the provider reports afterwards.
func (s *Service) cutCall(ctx context.Context, tx postgres.Tx, c *Consultation, reason string) (err error) {
	ctx, span := s.about(ctx, "consultation hang up", c)
	defer func() { span.End(err) }()
	duration := joinedSec(*c, tx.Now)
	call, active, err := s.deps.Telephony.Active(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if active {
		o, err := s.deps.Telephony.End(ctx, tx, call.ID, reason)
		if err != nil {
			return err
		}
		if o.Kind == telephony.Finished {
			duration = o.DurationSec
		}
	}
	return s.callOver(ctx, tx, c, duration)
}

func (s *Service) callOver(ctx context.Context, tx postgres.Tx, c *Consultation, durationSec int) error {
	durationSec = clampSec(durationSec)
	c.DurationSec = &durationSec
	if err := s.freeLawyer(ctx, tx, *c, lawyer.Busy, lawyer.On(lawyer.WrapUp)); err != nil {
		return err
	}
	return s.apply(ctx, tx, c, onCallOver)
}

// HandleCallEvent processes an event of the telephony provider. A duplicate has no further effect. Error:
// [telephony.ErrNoCall].
func (s *Service) HandleCallEvent(ctx context.Context, e telephony.Event) error {
	if e.SaysNothing() {
		tx := s.deps.DB.Read()
		lawyerID, err := s.deps.Telephony.Heard(ctx, tx, e)
		if err == nil {
			s.deps.Lawyers.Changed(tx, lawyerID)
		}
		return err
	}
	err := s.onCallEvent(ctx, e)
	if !postgres.IsUnique(err, oneCallPerClient) {
		return err
	}
	call, err := s.deps.Telephony.Get(ctx, s.deps.DB.Read(), e.CallID)
	if err != nil {
		return err
	}
	if err := s.endOtherCall(ctx, call); err != nil {
		return err
	}
	return s.onCallEvent(ctx, e)
}

func (s *Service) onCallEvent(ctx context.Context, e telephony.Event) (err error) {
	ctx, span := s.deps.Tracer.Start(ctx, "call event")
	defer func() { span.End(err) }()
	span.Set(telemetry.EventType, string(e.Kind))
	span.Set(telemetry.CallID, e.CallID)
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := lockOfCall(ctx, tx, e.CallID)
		if err != nil {
			return err
		}
		span.Set(telemetry.ConsultationID, c.ID)
		span.Link(c.TraceParent)
		call, outcomes, err := s.deps.Telephony.Apply(ctx, tx, e)
		if err != nil {
			return err
		}
		s.deps.Lawyers.Changed(tx, c.LawyerID)
		for _, o := range outcomes {
			if err := s.onOutcome(ctx, tx, &c, call, o); err != nil {
				return err
			}
		}
		return nil
	})
}

// onOutcome applies the end or change of a call to the consultation. An outcome that no longer fits the consultation's
// status is ignored. The exception is that no one may stay joined without a consultation: after a cancellation the call
// is hung up.
func (s *Service) onOutcome(ctx context.Context, tx postgres.Tx, c *Consultation, call telephony.Call,
	o telephony.Outcome,
) error {
	dialled := c.Status == Assigned && c.LawyerID == call.LawyerID
	switch o.Kind {
	case telephony.Started:
		if !dialled {
			return s.deps.Telephony.Hangup(ctx, tx, call.ID, "consultation_over")
		}
		return s.apply(ctx, tx, c, onBridge)
	case telephony.Dropped:
		if c.Status == InCall && c.LineLostAt == nil {
			now := tx.Now
			c.LineLostAt = &now
			return s.save(ctx, tx, c)
		}
	case telephony.Restored:
		if c.Status == InCall && c.LineLostAt != nil {
			limit := c.CallCapAt.Add(tx.Now.Sub(*c.LineLostAt))
			c.CallCapAt, c.LineLostAt = &limit, nil
			return s.save(ctx, tx, c)
		}
	case telephony.Finished:
		if c.Status == InCall {
			return s.callOver(ctx, tx, c, o.DurationSec)
		}
	case telephony.NotReached:
		if dialled {
			return s.attemptFailed(ctx, tx, c)
		}
	case telephony.LawyerNotReached:
		if dialled {
			return s.unassign(ctx, tx, c, lawyer.Off(lawyer.NotReached))
		}
	case telephony.Aborted:
	}
	return nil
}
