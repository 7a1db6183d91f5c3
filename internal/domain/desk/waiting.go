package desk

import (
	"context"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// WaitingShown bounds the count of what waits: more than that says nothing else to a lawyer.
const WaitingShown = 20

// waiting counts what waits in the fields of a lawyer who takes no work now, be it a pause or what is in hand: one who
// comes back may be all that those clients wait for. It is 0 for anybody else.
func (s *Service) waiting(ctx context.Context, tx postgres.Tx, l lawyer.Lawyer) (int, error) {
	switch l.State {
	case lawyer.Away, lawyer.Busy, lawyer.WrapUp:
		if l.Suspended {
			return 0, nil
		}
		return s.deps.Consultations.WaitingFor(ctx, tx, l, WaitingShown)
	case lawyer.Offline, lawyer.Available, lawyer.Offered:
	}
	return 0, nil
}

// otherWaiting tells whether another number waits than st says: nobody tells a stream of work that goes to others.
func (s *Service) otherWaiting(ctx context.Context, st State) (bool, error) {
	n, err := s.waiting(ctx, s.deps.DB.Read(), st.lawyer)
	return n != st.Waiting, err
}
