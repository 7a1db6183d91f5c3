package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/app/doctor"
	"partnerd/internal/dev/dbtest"
)

// TestWhatIsLateIsTold checks that for each kind of due work the metrics show how long the oldest has waited, whichever
// process works. The doctor reports it. Work in progress, work that waits for something else, and work due later is not
// late.
func TestWhatIsLateIsTold(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	do := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := a.DB.Pool().Exec(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	late := func() string {
		t.Helper()
		families, err := a.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() != "partnerd_oldest_due_seconds" {
					continue
				}
				minutes := "no"
				switch s := m.GetGauge().GetValue(); {
				case s >= 90*60:
					minutes = "90"
				case s >= 10*60:
					minutes = "10"
				case s > 0:
					minutes = "less"
				}
				list = append(list, m.GetLabel()[0].GetValue()+" "+minutes)
			}
		}
		slices.Sort(list)
		return strings.Join(list, ", ")
	}
	const nothing = "calls no, jobs no, refunds no, timers no"
	if got := late(); got != nothing {
		t.Errorf("of nothing: %s", got)
	}
	do(`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app_test_1', 'CRM', '{}', '{}', 'x', now(), now())`,
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_test_1', 'c@example.com', 'Demo Client', 'x', now(), now())`,
		`INSERT INTO wallets (client_id, last_entry_at) VALUES ('cli_test_1', now())`,
		`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law_test_1', 'l@example.com', 'L', 'x', 'BUSY', now(), now())`,
		`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents, phone_sealed, created_at,
			updated_at, search_started_at, timer_at)
			VALUES ('con_1', 'app_test_1', 'cli_test_1', 'MATCHING', 'FAMILY', 'FR', 'x', false, 2000, 'x', now(), now(), now(), now() + interval '1 hour')`,
		`INSERT INTO calls (id, consultation_id, client_id, lawyer_id, attempt, language, record, state, started_at, last_event_at)
			VALUES ('cal_1', 'con_1', 'cli_test_1', 'law_test_1', 1, 'FR', false, 'LAWYER_RINGING', now(), now())`,
		`INSERT INTO call_commands (id, call_id, kind, args, due_at, claimed_until) VALUES
			('cmd_1', 'cal_1', 'PLACE_LEG', '{}', now() - interval '20 minutes', now() + interval '1 hour'), ('cmd_2', 'cal_1', 'PLAY', '{}', now() - interval '2 hours', NULL)`,
		`INSERT INTO topup_sessions (id, client_id, amount_cents, status, provider, return_url, checkout_url, created_at, expires_at, ended_at, payment_ref)
			VALUES ('top_1', 'cli_test_1', 2000, 'PAID', 'sandbox', '', '', now(), now(), now(), 'p')`,
		`INSERT INTO topup_refunds (id, topup_id, client_id, amount_cents, state, reason, next_at, created_at) VALUES ('ref_1', 'top_1', 'cli_test_1', 1, 'PENDING', 'r', now() + interval '1 hour', now())`,
		`INSERT INTO river.river_job (state, attempt, max_attempts, args, kind, queue, scheduled_at) VALUES
			('scheduled', 0, 1, '{}', 'test', 'default', now() + interval '1 hour'), ('running', 1, 1, '{}', 'test', 'default', now() - interval '3 hours')`)
	if got := late(); got != nothing {
		t.Errorf("of nothing that waits: %s", got)
	}
	found := func() doctor.Finding {
		t.Helper()
		all := doctor.Examine(t.Context(), cfg, SealedColumns(), slog.New(slog.DiscardHandler))
		i := slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == "jobs" })
		if i < 0 {
			t.Fatalf("%+v", all)
		}
		return all[i]
	}
	if f := found(); f.Level != doctor.OK {
		t.Errorf("%+v", f)
	}
	do(`INSERT INTO river.river_job (state, attempt, max_attempts, args, kind, queue, scheduled_at) VALUES
			('retryable', 3, 25, '{"name": "mail"}', 'test', 'default', now() + interval '1 hour')`)
	if f := found(); f.Level != doctor.Warn || !strings.Contains(f.Found, `1 jobs of "mail" failed`) {
		t.Errorf("what failed and is due later: %+v", f)
	}
	do(`UPDATE call_commands SET claimed_until = now() - interval '1 minute'`,
		`UPDATE consultations SET timer_at = now() - interval '20 minutes'`,
		`UPDATE topup_refunds SET next_at = now() - interval '20 minutes'`,
		`INSERT INTO river.river_job (state, attempt, max_attempts, args, kind, queue, scheduled_at) VALUES
			('available', 0, 1, '{}', 'test', 'default', now() - interval '20 minutes'), ('retryable', 1, 2, '{}', 'test', 'default', now() - interval '2 hours')`)
	if got := late(); got != "calls 10, jobs 90, refunds 10, timers 10" {
		t.Errorf("late: %s", got)
	}
	if f := found(); f.Level != doctor.Fail || !strings.Contains(f.Found, "job (email") ||
		!strings.Contains(f.Found, "timer of a consultation") || f.Do == "" {
		t.Errorf("%+v", f)
	}
}

// value returns the value of a metric's series with a label, or of its only series.
func value(t *testing.T, a *App, metric, label string) float64 {
	t.Helper()
	families, err := a.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == metric && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %q", metric, label)
	return 0
}

// TestRefundsAndCopiesAreMeasured checks that stalled refunds are measured, whoever sends them, and how far the
// database's standbys and archive keep up.
func TestRefundsAndCopiesAreMeasured(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), ofEnvironment(t, "sandbox", dbtest.URL(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	for _, s := range []string{
		`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_test_1', 'c@example.com', 'Demo Client', 'x', now(), now())`,
		`INSERT INTO wallets (client_id, last_entry_at) VALUES ('cli_test_1', now())`,
		`INSERT INTO topup_sessions (id, client_id, amount_cents, status, provider, return_url, checkout_url, created_at, expires_at, ended_at, payment_ref)
			VALUES ('top_1', 'cli_test_1', 2000, 'PAID', 'sandbox', '', '', now(), now(), now(), 'p')`,
		`INSERT INTO topup_refunds (id, topup_id, client_id, amount_cents, state, reason, next_at, created_at, last_error, ended_at) VALUES
			('ref_1', 'top_1', 'cli_test_1', 1, 'PENDING', 'r', now(), now(), '', NULL), ('ref_2', 'top_1', 'cli_test_1', 1, 'PENDING', 'r', now(), now(), 'away', NULL),
			('ref_3', 'top_1', 'cli_test_1', 1, 'FAILED', 'r', now(), now(), 'refused', now())`,
	} {
		if _, err := a.DB.Pool().Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	for of, want := range map[[2]string]float64{
		{"partnerd_topup_refunds", "retrying"}: 1, {"partnerd_topup_refunds", "failed"}: 1,
		{"partnerd_database_standbys", ""}: 0, {"partnerd_database_standby_lag_seconds", ""}: 0,
		{"partnerd_database_archive_failing", ""}: 0,
	} {
		if got := value(t, a, of[0], of[1]); got != want {
			t.Errorf("%v is %v, want %v", of, got, want)
		}
	}
}
