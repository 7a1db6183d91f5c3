package consultation

import (
	"errors"
	"testing"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// A consultation that could never be served reserves no money, and coverage shows it.
func TestWithoutTelephonyNothingIsPromised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.online()
	with := w.Telephony
	w.deps.Telephony = telephony.New(w.DB, telephony.None{}, nil, nil)
	_, err := w.tryCreate(w.command())
	if p, ok := problem.As(err); !ok || !errors.Is(err, problem.ErrUnavailable) || p.RetryAfter <= 0 {
		t.Errorf("created: %v", err)
	}
	bad := w.command()
	bad.Competence = "MAGIC"
	if _, err := w.tryCreate(bad); !errors.Is(err, problem.ErrValidation) {
		t.Errorf("a body that is not valid: %v", err)
	}
	w.tx(func(tx postgres.Tx) error {
		b, err := w.Wallet.Balance(t.Context(), tx, w.client)
		if b.Available != 10_000 || b.Held != 0 {
			t.Errorf("%+v", b)
		}
		return err
	})
	covered := func() bool {
		t.Helper()
		c, err := w.Coverage(t.Context(), w.DB.Read(), "app", "FAMILY", "FR")
		w.do(err)
		if c.LawyersOnline != 1 || (c.EstimatedWaitSeconds != nil) != c.Available {
			t.Errorf("%+v", c)
		}
		return c.Available
	}
	if w.Served() || covered() {
		t.Error("promised")
	}
	w.deps.Telephony = with
	if !w.Served() || !covered() {
		t.Error("not promised with a provider")
	}
	w.create()
}
