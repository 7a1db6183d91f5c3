package consultation

import (
	"context"
	"errors"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// The following methods are for the client's own pages, whichever application started a consultation.

// GetForClient returns one of the client's consultations. Problem: NOT_FOUND.
func (s *Service) GetForClient(ctx context.Context, tx postgres.Tx,
	clientID, consultationID string,
) (Consultation, error) {
	if !storable(consultationID) {
		return Consultation{}, problem.ErrNotFound
	}
	r, err := getOwned(ctx, tx, clientID, consultationID)
	if err != nil {
		return Consultation{}, err
	}
	return s.open(r)
}

// ListForClient returns at most limit consultations of the client, newest first. It begins after the position before
// (zero for the newest); more reports whether others follow.
func (s *Service) ListForClient(ctx context.Context, tx postgres.Tx, clientID string, before Position,
	limit int,
) (items []Consultation, more bool, err error) {
	rows, err := listOwned(ctx, tx, clientID, before, limit+1)
	if err != nil {
		return nil, false, err
	}
	return s.openPage(rows, limit)
}

// Usage is how an application has used a client's account.
type Usage struct {
	Started int         // consultations
	Spent   money.Cents // on completed consultations, less refunds
}

// UsageOf returns the usage by each application that has started consultations for the client, by application ID.
func (s *Service) UsageOf(ctx context.Context, tx postgres.Tx, clientID string) (map[string]Usage, error) {
	return usageOf(ctx, tx, clientID)
}

// OpenOf counts the client's consultations that have not ended.
func (s *Service) OpenOf(ctx context.Context, tx postgres.Tx, clientID string) (int, error) {
	ids, err := openOf(ctx, tx, clientID, "")
	return len(ids), err
}

// CancelNotStarted cancels the consultations that an application has started for the client and whose call has not
// begun. It returns their number.
func (s *Service) CancelNotStarted(ctx context.Context, tx postgres.Tx, clientID, applicationID string) (int, error) {
	if !storable(applicationID) || applicationID == "" {
		return 0, nil
	}
	ids, err := openOf(ctx, tx, clientID, applicationID)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		_, err := s.CancelForClient(ctx, tx, clientID, id)
		if errors.Is(err, ErrNotCancellable) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Withdrawal is a client's declaration to withdraw from the contract for a consultation.
type Withdrawal struct {
	ConsultationID string
	DeclaredAt     time.Time
	Status         Status // of the consultation at the declaration
	Price          money.Cents
}

// Begun reports whether the call had begun. If so, part of the price may be due; an operator decides.
func (w Withdrawal) Begun() bool { return w.Status == InCall || w.Status == CallEnded }

// ErrPerformed rejects a withdrawal from a consultation that was performed completely or has ended otherwise.
var ErrPerformed = errors.New("the consultation is over")

// DeclareWithdrawal records the client's withdrawal from the contract for an open consultation. If the call has not
// begun, the consultation is cancelled and nothing is due. The declaration is stored permanently. Declaring it again
// returns the first declaration, with fresh false. Problem: NOT_FOUND. Error: [ErrPerformed] if the consultation has
// ended.
func (s *Service) DeclareWithdrawal(ctx context.Context, tx postgres.Tx,
	clientID, consultationID string,
) (w Withdrawal, fresh bool, err error) {
	if !storable(consultationID) {
		return Withdrawal{}, false, problem.ErrNotFound
	}
	r, err := lockOwned(ctx, tx, "", clientID, consultationID)
	if err != nil {
		return Withdrawal{}, false, err
	}
	c := fromRow(r.Row)
	w, found, err := findWithdrawal(ctx, tx, consultationID)
	if err != nil || found {
		return w, false, err
	}
	if c.Status.Terminal() {
		return Withdrawal{}, false, ErrPerformed
	}
	w = Withdrawal{ConsultationID: consultationID, DeclaredAt: tx.Now, Status: c.Status, Price: c.Price}
	if err := insertWithdrawal(ctx, tx, clientID, w); err != nil {
		return Withdrawal{}, false, err
	}
	if !w.Begun() {
		if _, err := s.CancelForClient(ctx, tx, clientID, consultationID); err != nil {
			return Withdrawal{}, false, err
		}
	}
	tx.AfterCommit(func() {
		s.log.Warn("withdrawal from the contract", "consultation", consultationID, "status", w.Status,
			"begun", w.Begun())
	})
	return w, true, nil
}

// Withdrawn returns the client's withdrawal from a consultation, if any.
func (s *Service) Withdrawn(ctx context.Context, tx postgres.Tx, consultationID string) (Withdrawal, bool, error) {
	return findWithdrawal(ctx, tx, consultationID)
}

// ErrOpen rejects an erasure while consultations are open.
var ErrOpen = errors.New("the client has open consultations")

// Erase destroys the texts of the client's consultations: subject, description, reference (also in events), phone
// number, note and preview. The events, the payments and the proof of the order stay. It returns [ErrOpen].
func (s *Service) Erase(ctx context.Context, tx postgres.Tx, clientID string) error {
	open, err := s.OpenOf(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if open > 0 {
		return ErrOpen
	}
	if err := eraseEstimates(ctx, tx, clientID); err != nil {
		return err
	}
	ids, err := eraseOwned(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if err := s.deps.Webhooks.Erase(ctx, tx, ids); err != nil {
		return err
	}
	return s.deps.Notes.Erase(ctx, tx, ids)
}
