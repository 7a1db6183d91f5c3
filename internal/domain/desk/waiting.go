package desk

import (
	"context"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// WaitingShown limits the count of waiting consultations: a larger number tells a lawyer nothing more.
const WaitingShown = 20

// waiting counts the consultations waiting in the fields of a lawyer who takes no work now, because of a pause or of
// work in hand. Coming back may be all that those clients wait for. It is 0 for lawyers in other states.
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

// otherWaiting reports whether the count of waiting consultations differs from st. No notification reaches a stream
// about work that goes to others.
func (s *Service) otherWaiting(ctx context.Context, st State) (bool, error) {
	n, err := s.waiting(ctx, s.deps.DB.Read(), st.lawyer)
	return n != st.Waiting, err
}
