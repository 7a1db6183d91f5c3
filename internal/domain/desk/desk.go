package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Problems of the desk.
var (
	ErrForbidden = problem.Declare(problem.Forbidden, "FORBIDDEN", "The session is not a lawyer's.")
	ErrElsewhere = problem.Declare(problem.Conflict, "CONNECTED_ELSEWHERE",
		"The lawyer is connected elsewhere or was signed off. Go on duty here first.")
	ErrOfferGone = problem.Declare(problem.Conflict, "OFFER_GONE", "The offer is no longer open.")
	ErrNotNow    = problem.Declare(problem.Conflict, "NOT_NOW", "This action is not possible in the current state.")
	ErrDraft     = problem.Declare(problem.Conflict, "DRAFT_CHANGED",
		"Another text of this note was saved since. Read the draft, then send your text with its version.")
	ErrUnchecked = problem.Declare(problem.Conflict, "BAR_UNCHECKED",
		"The lawyer's bar registration is not checked, or its check has expired. An operator must check it.")
	ErrLineBusy = problem.Declare(problem.Conflict, "LINE_BUSY",
		"The client is on another call. The next attempt starts automatically.")
	ErrStale = problem.Declare(problem.Forbidden, "SIGN_IN_AGAIN",
		"This action needs a recent sign-in. Sign in again.")
	ErrPhoneLost = problem.Declare(problem.Conflict, "PHONE_LOST",
		"The client no longer has a verified phone number. The consultation is closed.")
)

// ErrConfirm refuses a note whose preview was not confirmed.
var ErrConfirm = problem.ErrValidation.With(problem.Issue{Path: "containsNothingSecret",
	Code:    problem.IssueInvalidValue,
	Message: "Must be true: the lawyer confirms that the preview contains nothing secret."})

// ErrRecipient rejects a text that is not an age public key.
var ErrRecipient = problem.ErrValidation.With(problem.Issue{Path: "recipient", Code: problem.IssueInvalidValue,
	Message: "Must be an age public key (X25519), which begins with age1. Never send the private key."})

// problems maps errors of the packages below to problems of the desk.
var problems = []struct {
	is error
	as *problem.Error
}{
	{lawyer.ErrLeaseLost, ErrElsewhere},
	{matching.ErrOfferGone, ErrOfferGone},
	{consultation.ErrNotYours, problem.ErrNotFound},
	{telephony.ErrLineBusy, ErrLineBusy},
	{consultation.ErrPhoneLost, ErrPhoneLost},
	{consultation.ErrForbidden, ErrNotNow},
	{consultation.ErrReason, ErrNotNow.Because("The reason does not fit this call.")},
	{consultation.ErrTooEarly, ErrNotNow.Because("The next attempt is scheduled. Wait for its time.")},
	{lawyer.ErrState, ErrNotNow},
	{lawyer.ErrNoPhone, ErrNotNow.Because("The lawyer has no phone number. An operator must set one.")},
	{lawyer.ErrUnchecked, ErrUnchecked},
	{lawyer.ErrSuspended, ErrNotNow.Because("The lawyer is suspended.")},
	{note.ErrDraftChanged, ErrDraft},
	{note.ErrNoCopy, problem.ErrNotFound},
	{note.ErrRecipient, ErrRecipient},
	{note.ErrOtherLawyer, ErrNotNow.Because("The note was written by another lawyer or has been erased.")},
}

// asProblem returns what a lawyer may know of err.
func asProblem(err error) error {
	if errors.Is(err, note.ErrInvalid) { // names the field and its length, never the text
		return problem.ErrValidation.Because("%s", err)
	}
	for _, f := range problems {
		if errors.Is(err, f.is) {
			return f.as
		}
	}
	return err
}

// Connection is the relation of a session to the lawyer's lease.
type Connection string

// The connections.
const (
	Here      Connection = "HERE"
	Elsewhere Connection = "ELSEWHERE" // another session has the lease
	None      Connection = "NONE"      // off duty, or lost
)

// State is everything that a lawyer's desk shows.
type State struct {
	Now        time.Time
	Version    string // digest of the rest
	Name       string
	Connection Connection
	Presence   lawyer.State
	Pausing    bool            // a pause begins after the work in hand
	InHand     bool            // whether there is work in hand, for any connection
	Missed     *telephony.Call // the call that the lawyer did not answer, which paused them
	Suspended  bool            // the lawyer can only finish the work in hand
	Left       lawyer.Left     // why the lawyer is off duty or paused, or will be after the work in hand
	// consultations waiting in the lawyer's fields while they take no work, up to [WaitingShown]
	Waiting int
	consultation.Desk

	lawyer lawyer.Lawyer
}

// State returns the state of the desk for a session.
func (s *Service) State(ctx context.Context, tx postgres.Tx, session staff.Session) (State, error) {
	lawyerID, epoch := session.Lease()
	l, err := s.deps.Lawyers.Get(ctx, tx, lawyerID)
	if err != nil {
		return State{}, fmt.Errorf("read the lawyer at the desk: %w", err)
	}
	d, err := s.deps.Consultations.Desk(ctx, tx, lawyerID)
	if err != nil {
		return State{}, err
	}
	st := State{Now: tx.Now, Name: l.Name, Connection: connection(l, epoch, tx.Now), Presence: l.State,
		Pausing: l.Pausing, InHand: d.Hand != nil || len(d.Notes) > 0, Suspended: l.Suspended, Left: l.Left, lawyer: l}
	if st.Waiting, err = s.waiting(ctx, tx, l); err != nil {
		return State{}, err
	}
	if st.Connection == Here {
		st.Desk = d
		if l.State == lawyer.Away {
			missed, found, err := s.deps.Consultations.MissedCall(ctx, tx, lawyerID, l.IdleSince)
			if err != nil {
				return State{}, err
			}
			if found {
				st.Missed = &missed
			}
		}
	}
	raw, err := json.Marshal(st.withoutClock())
	if err != nil {
		return State{}, fmt.Errorf("digest the desk: %w", err)
	}
	sum := sha256.Sum256(raw)
	st.Version = hex.EncodeToString(sum[:16])
	return st, nil
}

// withoutClock removes fields that change although nothing has happened.
func (st State) withoutClock() State {
	st.Now = time.Time{}
	if st.Hand != nil && st.Hand.Call != nil {
		hand, call := *st.Hand, *st.Hand.Call
		call.LastEventAt = time.Time{}
		hand.Call, st.Hand = &call, &hand
	}
	return st
}

func connection(l lawyer.Lawyer, epoch int64, now time.Time) Connection {
	switch {
	case l.Suspended && l.LeaseEpoch == epoch:
		return Here
	case l.Suspended:
		return Elsewhere
	case l.HeartbeatAt.IsZero():
		return None
	case l.LeaseEpoch == epoch:
		return Here
	case l.HeartbeatAt.After(now.Add(-lawyer.LeaseLost)):
		return Elsewhere
	default:
		return None
	}
}

// DialBy returns the deadline for the first call attempt of an assigned consultation; nil after the attempt.
func DialBy(c consultation.Consultation) *time.Time {
	if c.Status != consultation.Assigned || c.DialAttempts > 0 || c.AssignedAt == nil {
		return nil
	}
	by := c.AssignedAt.Add(consultation.DialDeadline)
	return &by
}

// LineGivenUpAt returns when a call with a lost line is over; nil while the line holds.
func LineGivenUpAt(c consultation.Consultation) *time.Time {
	if c.LineLostAt == nil {
		return nil
	}
	at := c.LineLostAt.Add(consultation.LineRestore)
	return &at
}
