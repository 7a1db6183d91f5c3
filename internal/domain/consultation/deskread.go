package consultation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// What a lawyer sees at the desk. From the offer until the consultation leaves them, they see the client's name and
// texts, to check for a conflict of interest. They never see the client's number.

// Case is a consultation with its texts and the client's name, for the lawyer who has it on offer or in hand.
type Case struct {
	Consultation
	ClientName string
	Call       *telephony.Call // the active call; nil if none
}

// Desk is the work before a lawyer.
type Desk struct {
	Offer   *matching.Offer
	Offered *Case  // the consultation on offer
	Hand    *Case  // ASSIGNED or IN_CALL
	Notes   []Case // CALL_ENDED, oldest first
}

// Desk returns what a lawyer has on offer and in hand. An offer that has expired is left out.
func (s *Service) Desk(ctx context.Context, tx postgres.Tx, lawyerID string) (d Desk, err error) {
	o, open, err := s.deps.Matching.OpenFor(ctx, tx, lawyerID)
	if err != nil {
		return Desk{}, err
	}
	if open && tx.Now.Before(o.ExpiresAt) {
		r, err := openByID(ctx, tx, o.ConsultationID)
		if err != nil {
			return Desk{}, err
		}
		offered, err := s.caseOf(ctx, tx, r)
		if err != nil {
			return Desk{}, err
		}
		d.Offer, d.Offered = &o, &offered
	}
	rows, err := openInHands(ctx, tx, lawyerID)
	if err != nil {
		return Desk{}, err
	}
	for _, r := range rows {
		c, err := s.caseOf(ctx, tx, r)
		if err != nil {
			return Desk{}, err
		}
		if c.Status == CallEnded {
			d.Notes = append(d.Notes, c)
			continue
		}
		call, active, err := s.deps.Telephony.Active(ctx, tx, c.ID)
		if err != nil {
			return Desk{}, err
		}
		if active {
			c.Call = &call
		}
		d.Hand = &c
	}
	return d, nil
}

// MissedCall returns the last call after a given time that a lawyer did not answer, or in which they did not press 1.
func (s *Service) MissedCall(ctx context.Context, tx postgres.Tx, lawyerID string,
	since time.Time,
) (telephony.Call, bool, error) {
	return s.deps.Telephony.Missed(ctx, tx, lawyerID, since)
}

func (s *Service) caseOf(ctx context.Context, tx postgres.Tx, r openRow) (Case, error) {
	c, err := s.open(r)
	if err != nil {
		return Case{}, err
	}
	client, err := s.deps.Accounts.Get(ctx, tx, c.ClientID)
	if err != nil {
		return Case{}, fmt.Errorf("read the client's name: %w", err)
	}
	return Case{Consultation: c, ClientName: client.Name}, nil
}

// SignOn starts a new connection of a lawyer ([lawyer.Service.GoOnline]). A lawyer with a note to write that keeps them
// from other work returns to it. For any other lawyer a search for work starts. A suspended lawyer connects only to
// finish what is in hand ([Service.Finishes]).
func (s *Service) SignOn(ctx context.Context, tx postgres.Tx, lawyerID string) (lawyer.Lease, error) {
	l, err := s.deps.Lawyers.Get(ctx, tx, lawyerID)
	if err != nil {
		return lawyer.Lease{}, fmt.Errorf("read the lawyer who signs on: %w", err)
	}
	if l.Suspended {
		return s.takeOver(ctx, tx, lawyerID)
	}
	lease, err := s.deps.Lawyers.GoOnline(ctx, tx, lawyerID)
	if err != nil {
		return lawyer.Lease{}, err
	}
	writes, err := otherNotes(ctx, tx, lawyerID, "", len(noteReminders))
	if err != nil {
		return lawyer.Lease{}, fmt.Errorf("look for notes of lawyer %s: %w", lawyerID, err)
	}
	if writes {
		if err := s.deps.Lawyers.SetState(ctx, tx, lawyerID, []lawyer.State{lawyer.Available},
			lawyer.On(lawyer.WrapUp)); err != nil && !errors.Is(err, lawyer.ErrState) {
			return lawyer.Lease{}, err
		}
		return lease, nil
	}
	s.wakeLawyer(tx, lawyerID)
	return lease, nil
}

// takeOver connects a suspended lawyer who has something to finish.
func (s *Service) takeOver(ctx context.Context, tx postgres.Tx, lawyerID string) (lawyer.Lease, error) {
	finishes, err := s.Finishes(ctx, tx, lawyerID)
	if err == nil && !finishes {
		err = lawyer.ErrSuspended
	}
	if err != nil {
		return lawyer.Lease{}, err
	}
	return s.deps.Lawyers.TakeOver(ctx, tx, lawyerID)
}

// SaveDraft saves the lawyer's draft of the note, from the start of the call, over a given version of the draft, or
// over any version. Errors: [note.ErrInvalid], [note.ErrDraftChanged], [ErrNotYours], [ErrForbidden],
// [lawyer.ErrLeaseLost].
func (s *Service) SaveDraft(ctx context.Context, lease lawyer.Lease, consultationID string, d note.Draft,
	version string,
) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, InCall, CallEnded)
		if err != nil {
			return err
		}
		return s.deps.Notes.SaveDraft(ctx, tx, c.ID, c.ClientID, c.LawyerID, d, version)
	})
}

// DropDraft deletes the lawyer's draft. Errors are those of [Service.SaveDraft].
func (s *Service) DropDraft(ctx context.Context, lease lawyer.Lease, consultationID string) error {
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, err := s.lockOf(ctx, tx, lease, consultationID, InCall, CallEnded)
		if err != nil {
			return err
		}
		return s.deps.Notes.DropDraft(ctx, tx, c.ID)
	})
}

// Draft returns the lawyer's draft, empty if there is none. It returns [ErrNotYours] unless the lawyer has the
// consultation in hand.
func (s *Service) Draft(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string) (note.Draft, error) {
	if err := mustBelongToLawyer(ctx, tx, lawyerID, consultationID, Assigned, InCall, CallEnded); err != nil {
		return note.Draft{}, err
	}
	d, _, err := s.deps.Notes.Draft(ctx, tx, consultationID, lawyerID)
	return d, err
}

// TakesNote returns [ErrNotYours] unless the lawyer may send or correct the note of the consultation.
func (s *Service) TakesNote(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string) error {
	return mustBelongToLawyer(ctx, tx, lawyerID, consultationID, CallEnded, Completed)
}

func mustBelongToLawyer(ctx context.Context, tx postgres.Tx, lawyerID, consultationID string, in ...Status) error {
	if !storable(consultationID) {
		return ErrNotYours
	}
	ok, err := belongsToLawyer(ctx, tx, lawyerID, consultationID, in...)
	if err == nil && !ok {
		err = ErrNotYours
	}
	return err
}

// Callback is a promised callback that waits for a lawyer of its pair. It contains nothing about the client.
type Callback struct {
	ConsultationID string
	Pair           matching.Pair
	SearchedSince  time.Time
	DueAt          time.Time
	From, Until    time.Time // hours of the client's day in which it may be taken: the current hours or the next
	Now            bool      // whether it can be taken now
}

// callbacksShown limits the list.
const callbacksShown = 50

// Callbacks lists the waiting callbacks in a lawyer's pairs that may be offered to them, earliest due first.
func (s *Service) Callbacks(ctx context.Context, tx postgres.Tx, lawyerID string) ([]Callback, error) {
	return callbacksFor(ctx, tx, lawyerID, callbacksShown)
}

// Claim offers a waiting callback to the lawyer who asks for it, under the rules of every offer. The lawyer must be
// AVAILABLE, serve the pair and not have already refused the consultation, and the client must be free and within their
// hours. This way the lawyer sees the client's name before accepting. Errors: [matching.ErrOfferGone] if it cannot be
// offered to them, [lawyer.ErrLeaseLost].
func (s *Service) Claim(ctx context.Context, lease lawyer.Lease, consultationID string) error {
	if !storable(consultationID) {
		return matching.ErrOfferGone
	}
	return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		c, ok, err := lockWaiting(ctx, tx, consultationID)
		if err != nil {
			return err
		}
		if err := s.deps.Lawyers.Hold(ctx, tx, lease); err != nil {
			return err
		}
		if !ok || c.Status != PendingCallback {
			return matching.ErrOfferGone
		}
		found, err := s.deps.Matching.OfferTo(ctx, tx, s.workOf(tx, c), lease.LawyerID)
		if err == nil && !found {
			err = matching.ErrOfferGone
		}
		return err
	})
}

// Served is a consultation of a lawyer that has ended, without client data.
type Served struct {
	ConsultationID string
	Pair           matching.Pair
	Status         Status // COMPLETED or EXPIRED
	Reason         Reason // set if EXPIRED
	CreatedAt      time.Time
	CallStartedAt  *time.Time
	DurationSec    *int
	CompletedAt    *time.Time
	Fee            money.Cents // the lawyer's fee; 0 unless completed
}

// History lists at most limit consultations of a lawyer that have ended, newest first. It begins after the position
// before (zero for the newest); more reports whether others follow.
func (s *Service) History(ctx context.Context, tx postgres.Tx, lawyerID string, before Position,
	limit int,
) (items []Served, more bool, err error) {
	items, err = history(ctx, tx, lawyerID, before, limit+1)
	if more = len(items) > limit; more {
		items = items[:limit]
	}
	return items, more, err
}

// Earned is the total of a lawyer's completed consultations in a month.
type Earned struct {
	Month         time.Time // start of the month, UTC
	Consultations int
	Fees          money.Cents
}

// earningMonths is how many months [Service.Earnings] goes back.
const earningMonths = 13

// Earnings returns a lawyer's earnings by the month in which consultations were completed, newest first. The fee is the
// one set when the client's money was reserved. A later refund to the client does not change it.
func (s *Service) Earnings(ctx context.Context, tx postgres.Tx, lawyerID string) ([]Earned, error) {
	y, m, _ := tx.Now.UTC().Date()
	return earnings(ctx, tx, lawyerID, time.Date(y, m-earningMonths+1, 1, 0, 0, 0, 0, time.UTC))
}
