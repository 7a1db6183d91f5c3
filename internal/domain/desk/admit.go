package desk

import (
	"context"
	"errors"
	"time"

	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// ErrOut means that the lawyer is suspended and has nothing to finish. Their sessions have been ended.
var ErrOut = errors.New("the lawyer is suspended")

// ErrFinishing rejects an action that a suspended lawyer does not need to finish a call or a note.
var ErrFinishing = ErrForbidden.Because("The lawyer is suspended and can only finish the current call and note.")

// Act is an action of a session at the desk.
type Act string

// finishing lists the actions with which a suspended lawyer finishes work in hand, by the operation names of the
// contract.
var finishing = map[Act]bool{"getState": true, "streamEvents": true, "goOnDuty": true, "beat": true, "endCall": true,
	"restartCall": true, "closeUseless": true, "getDraft": true, "saveDraft": true, "dropDraft": true,
	"submitNote": true}

// ownFile lists the actions with which lawyers take copies of their notes, which stay theirs even when suspended.
var ownFile = map[Act]bool{"getKey": true, "listCopies": true, "takeCopy": true}

// Employed reports whether an action requires that the lawyer is not suspended.
func (a Act) Employed() bool { return !finishing[a] && !ownFile[a] }

// Acting is a lawyer who performs an action at the desk.
type Acting struct {
	Session staff.Session
	Act     Act
}

// Premise implements [postgres.Rests]: see [staff.Session.Premise].
func (a Acting) Premise(now time.Time) (postgres.Premise, bool) {
	return a.Session.Premise(now, a.Act.Employed())
}

// Admit decides whether a lawyer's session may perform an action. All actions are allowed until the lawyer is
// suspended. Then only those for a call or a note in hand, and for the lawyer's own copies, are allowed. It returns
// [ErrOut], or [ErrFinishing] as a problem.
func (s *Service) Admit(ctx context.Context, session staff.Session, act Act) error {
	lawyerID, tx := session.Person.LawyerID, s.deps.DB.Read()
	l, err := s.deps.Lawyers.Get(ctx, tx, lawyerID)
	if err != nil || !l.Suspended || ownFile[act] {
		return err
	}
	switch finishes, err := s.deps.Consultations.Finishes(ctx, tx, lawyerID); {
	case err != nil:
		return err
	case !finishes:
		alone := postgres.Regardless(ctx) // this ends the session that performs the action
		return errors.Join(ErrOut, s.deps.DB.InTx(alone, func(tx postgres.Tx) error {
			return s.deps.Staff.EndLawyerSessions(alone, tx, lawyerID)
		}))
	case !finishing[act]:
		return ErrFinishing
	}
	return nil
}

// Out reports whether a lawyer is suspended and has nothing to finish, so that a new session would be of no use.
func (s *Service) Out(ctx context.Context, tx postgres.Tx, lawyerID string) (bool, error) {
	l, err := s.deps.Lawyers.Get(ctx, tx, lawyerID)
	if err != nil || !l.Suspended {
		return false, err
	}
	finishes, err := s.deps.Consultations.Finishes(ctx, tx, lawyerID)
	return !finishes, err
}
