package e2e

import (
	"net/http"
	"testing"

	"partnerd/gen/partner/models"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// wish is a valid body, changed by pairs of name and value; the value remove removes a field.
func wish(changes ...any) object {
	b := object{"competence": "HOUSING", "subject": "Deposit not returned", "withdrawalWaiverAcknowledged": true}
	for i := 0; i < len(changes); i += 2 {
		b[changes[i].(string)] = changes[i+1]
		if changes[i+1] == remove {
			delete(b, changes[i].(string))
		}
	}
	return b
}

type removal struct{}

var remove = removal{}

const consultations = "/api/v1/consultations"

// tryCreate sends a creation under a new key.
func (s *session) tryCreate(t testing.TB, body any) *reply {
	t.Helper()
	return s.do(t, http.MethodPost, consultations, body, "Idempotency-Key", newKey())
}

func (s *session) create(t testing.TB, changes ...any) (c models.Consultation) {
	t.Helper()
	r := s.tryCreate(t, wish(changes...))
	if r.Status != http.StatusCreated {
		t.Fatalf("create: %s", r)
	}
	r.into(t, &c)
	return c
}

func (s *session) read(t testing.TB, id string) (c models.Consultation) {
	t.Helper()
	s.get(t, consultations+"/"+id).into(t, &c)
	return c
}

func (s *session) cancel(t testing.TB, id string) *reply {
	t.Helper()
	return s.do(t, http.MethodPost, consultations+"/"+id+"/cancel", nil)
}

// wallet reads the figures, which must always be consistent (R24).
func (s *session) wallet(t testing.TB) (v models.Wallet) {
	t.Helper()
	r := s.get(t, "/api/v1/wallet")
	r.into(t, &v)
	if r.Status != http.StatusOK || v.AvailableCents != v.BalanceCents-v.HeldCents || v.Currency != "EUR" {
		t.Errorf("wallet: %s", r)
	}
	return v
}

// hasWallet asserts balance and held cents.
func (s *session) hasWallet(t testing.TB, when string, balance, held int64) {
	t.Helper()
	if v := s.wallet(t); v.BalanceCents != balance || v.HeldCents != held {
		t.Errorf("wallet %s: %+v, want balance %d and held %d", when, v, balance, held)
	}
}

// lawyer signs on a lawyer whose actions the test performs.
func (w *world) lawyer(t testing.TB, email string) string {
	t.Helper()
	l, err := w.CreateLawyer(t.Context(), lawyer.NewLawyer{Email: email + "@lawyer.example", Name: "Lawyer " + email,
		Phone: "+33639980099", Competences: []string{"HOUSING"}, Languages: []string{"FR"}})
	if err != nil {
		t.Fatalf("create lawyer: %v", err)
	}
	w.inTx(t, func(tx postgres.Tx) error {
		_, err := w.Lawyers.GoOnline(t.Context(), tx, l.ID)
		return err
	})
	w.must(t, w.Consultations.LawyerAvailable(t.Context(), l.ID))
	return l.ID
}

// lease returns the lawyer's current connection.
func (w *world) lease(t testing.TB, lawyerID string) lawyer.Lease {
	t.Helper()
	l, err := w.Lawyers.Get(t.Context(), w.DB.Read(), lawyerID)
	w.must(t, err)
	return lawyer.Lease{LawyerID: lawyerID, Epoch: l.LeaseEpoch}
}

func (w *world) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refund refunds a completed consultation, as an operator does.
func (w *world) refund(t testing.TB, consultationID string, amount money.Cents) {
	t.Helper()
	w.inTx(t, func(tx postgres.Tx) error {
		_, err := w.Consultations.Refund(t.Context(), tx, consultationID, amount)
		return err
	})
}

// assign makes the lawyer accept the offer of a consultation.
func (w *world) assign(t testing.TB, lawyerID, consultationID string) {
	t.Helper()
	var offer string
	eventually(t, "an offer of "+consultationID, func() bool {
		// A lawyer without a heartbeat for 30 s is gone.
		w.inTx(t, func(tx postgres.Tx) error { return w.Lawyers.Heartbeat(t.Context(), tx, lawyerID) })
		w.must(t, w.Consultations.Sweep(t.Context()))
		rows, err := w.DB.Pool().Query(t.Context(),
			"SELECT id FROM offers WHERE consultation_id = $1 AND lawyer_id = $2 AND state = 'OPEN'",
			consultationID, lawyerID)
		w.must(t, err)
		defer rows.Close()
		return rows.Next() && rows.Scan(&offer) == nil
	})
	w.must(t, w.Consultations.AcceptOffer(t.Context(), w.lease(t, lawyerID), offer))
}

// ring dials and brings the call to the point before both sides are connected. It returns the event that connects them.
func (w *world) ring(t testing.TB, lawyerID, consultationID string) telephony.Event {
	t.Helper()
	w.must(t, w.Consultations.StartCall(t.Context(), w.lease(t, lawyerID), consultationID))
	call, active, err := w.Telephony.Active(t.Context(), w.DB.Read(), consultationID)
	if err != nil || !active {
		t.Fatalf("no call: %v", err)
	}
	for _, e := range []telephony.Event{
		{ID: "t1", Kind: telephony.LegAnswered, Role: telephony.Lawyer},
		{ID: "t1a", Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "1"},
		{ID: "t2", Kind: telephony.LegAnswered, Role: telephony.Client},
		{ID: "t3", Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"},
	} {
		w.report(t, call.ID, e)
	}
	return telephony.Event{ID: "t4", CallID: call.ID, Kind: telephony.LegsJoined, At: w.DB.Clock().Now()}
}

func (w *world) report(t testing.TB, callID string, e telephony.Event) {
	t.Helper()
	e.CallID, e.At = callID, w.DB.Clock().Now()
	w.must(t, w.Consultations.HandleCallEvent(t.Context(), e))
}

// call brings a consultation from its assignment into the call.
func (w *world) call(t testing.TB, lawyerID, consultationID string) {
	t.Helper()
	w.must(t, w.Consultations.HandleCallEvent(t.Context(), w.ring(t, lawyerID, consultationID)))
}

const preview = "Advice on the deposit. Next step: a formal letter."

// complete takes a consultation from MATCHING to COMPLETED with a lawyer's actions.
func (w *world) complete(t testing.TB, lawyerID, consultationID string) {
	t.Helper()
	w.assign(t, lawyerID, consultationID)
	w.call(t, lawyerID, consultationID)
	w.must(t, w.Consultations.EndCall(t.Context(), w.lease(t, lawyerID), consultationID))
	w.must(t, w.Consultations.SubmitNote(t.Context(), w.lease(t, lawyerID), consultationID,
		canary+" and what was said", preview))
}
