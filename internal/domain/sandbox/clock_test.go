package sandbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/infra/postgres"
)

// stays gives the reason for every time column that does not move with an application's clock.
var stays = map[string]string{
	"api_requests":     "when a request was really answered",
	"conformance_runs": "when a receiver was really examined",
	"access_counts":    "counts by the day on which the client's data was really read",
	"audit_entries":    "evidence", "consultation_evidence": "evidence", "consultation_withdrawals": "evidence",
	"evidence_chain": "evidence", "browser_sessions": "the client's", "client_links": "the client's",
	"client_passkeys": "the client's", "client_phone_codes": "the client's", "clients": "the client's",
	"passkey_challenges": "the client's", "vault.client_keys": "the client's",
	"sms_messages": "a message that was really sent", "competences": "the catalog's", "languages": "the catalog's",
	"deployment": "the deployment's", "deployment_secrets": "the deployment's", "signing_keys": "the deployment's",
	"operator_amounts": "when an operator really moved money, by which the limit of one person is counted",
	"rate_buckets":     "the deployment's", "status_days": "the deployment's", "database_losses": "the deployment's",
	"database_marks": "the deployment's",
	"estimates":      "what was said ten minutes ago at most",
	"holds":          "the ledger's", "ledger_checks": "the ledger's", "ledger_seals": "the ledger's",
	"ledger_transactions": "the ledger's", "wallets": "the ledger's", "topup_refunds": "the ledger's",
	"payment_notices": "a notice that really came", "call_events": "what a provider told, which is not changed",
	"lawyer_pairs": "a lawyer's", "lawyer_presence": "a lawyer's", "lawyer_shifts": "a lawyer's",
	"lawyer_wakeups": "a lawyer's", "lawyers": "a lawyer's", "note_recipients": "a lawyer's",
	"staff": "a person's who works here", "staff_challenges": "a person's who works here",
	"staff_links": "a person's who works here", "staff_passkeys": "a person's who works here",
	"staff_recovery_codes": "a person's who works here", "staff_sessions": "a person's who works here",
	"operator_proposals": "a person's who works here", "application_members": "a person's of a partner",
	"portal_links": "a person's of a partner", "oauth_consents": "when the client really agreed",
	"oauth_grant_events": "evidence", "sandbox_clients": "when it was really made",
	"sandbox_lawyers":  "when it was really made",
	"sandbox_messages": "a message that was really sent",
	"twilio_legs":      "a real provider has no place in a sandbox whose clock is moved",
	"webhook_attempts": "when it was really sent", "webhook_events": "when it really happened",
	"webhook_notices": "a mail that was really sent",

	"call_commands.claimed_until": "a lease", "sandbox_call_steps.claimed_until": "a lease",
	"webhook_deliveries.lease_until": "a lease", "applications.created_at": "when it was really registered",
	"applications.suspended_at": "when it was really suspended",
	"applications.updated_at":   "when it was really changed",
	"oauth_grants.created_at":   "when the client really agreed",
	"oauth_grants.activated_at": "when it was really redeemed", "oauth_grants.last_used_at": "when it was really used",
	"oauth_grants.revoked_at":       "when it really ended",
	"webhook_deliveries.created_at": "when it really happened",
	"webhook_deliveries.ended_at":   "when it was really sent",
	"webhook_endpoints.created_at":  "when it was really set",
	"webhook_endpoints.disabled_at": "when it was really closed",
	"webhook_endpoints.updated_at":  "when it was really set",
}

// The clock waits for due work that is late, as on a busy machine. An offer is therefore not taken from a lawyer who is
// about to accept it.
func TestTheClockWaitsForWhatIsLate(t *testing.T) {
	h := open(t, clock.System{}, nil)
	h.run(2 * time.Second)
	id := h.create(h.client(1), "FR", false)
	passed, err := sandbox.NewClock(h.db, h.consultations, silent).Advance(h.ctx, h.app.ID, time.Minute)
	if err != nil || passed != time.Minute {
		t.Fatalf("%s passed: %v", passed, err)
	}
	h.firstLawyerTook(id)
}

// A search that commits late finds a lawyer who should have accepted before the clock's last poll but was not visible
// yet. The clock waits for that lawyer.
func TestTheClockWaitsForWhatComesToLightLate(t *testing.T) {
	h := open(t, clock.System{}, nil)
	h.pace.Accept = 100 * time.Millisecond
	h.start()
	h.run(3 * time.Second)
	if err := dbtest.Owner(t, h.db).InTx(h.ctx, func(tx postgres.Tx) error {
		return dbtest.Exec(h.ctx, tx, `CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END';
			CREATE TRIGGER late AFTER INSERT ON offers FOR EACH STATEMENT EXECUTE FUNCTION late()`)
	}); err != nil {
		t.Fatal(err)
	}
	id := h.create(h.client(1), "FR", false)
	time.Sleep(500 * time.Millisecond) // a lawyer is found, but not committed
	c := sandbox.NewClock(h.db, h.consultations, silent)
	c.Pace = h.pace
	passed, err := c.Advance(h.ctx, h.app.ID, time.Minute)
	if err != nil || passed != time.Minute {
		t.Fatalf("%s passed: %v", passed, err)
	}
	h.firstLawyerTook(id)
}

// firstLawyerTook fails unless the first offer of a consultation was accepted and led to its completion.
func (h *house) firstLawyerTook(id string) {
	h.Helper()
	var offers int
	if err := h.db.Pool().QueryRow(h.ctx, "SELECT count(*) FROM offers WHERE consultation_id = $1", id).
		Scan(&offers); err != nil {
		h.Fatal(err)
	}
	if offers != 1 || h.events(id) != complete {
		h.Errorf("%d offers, %s", offers, h.events(id))
	}
}

// The clock waits once for something that never happens, not at every step.
func TestTheClockGoesOnWithoutWhatNeverHappens(t *testing.T) {
	h := open(t, clock.System{}, nil)
	id := h.create(h.client(1), "FR", false) // no worker runs except the clock's own
	c := sandbox.NewClock(h.db, h.consultations, silent)
	c.Patience = 300 * time.Millisecond
	begin := time.Now()
	passed, err := c.Advance(h.ctx, h.app.ID, 2*time.Hour)
	if err != nil || passed != 2*time.Hour {
		t.Fatalf("%s passed: %v", passed, err)
	}
	t.Logf("%s, with %s", time.Since(begin), h.events(id))
	if h.standing(id).Status != string(consultation.PendingCallback) {
		t.Errorf("it is %+v with %s", h.standing(id), h.events(id))
	}
}

// However often an application's clock is advanced, its times keep four-digit years. Further advances are rejected.
func TestTheClockHasAnEnd(t *testing.T) {
	h := open(t, clock.System{}, nil)
	id := h.create(h.client(1), "FR", false)
	h.tx(func(tx postgres.Tx) error {
		return dbtest.Exec(h.ctx, tx,
			"UPDATE consultations SET timer_at = NULL, created_at = now() - interval '999 years' WHERE id = $1", id)
	})
	c := sandbox.NewClock(h.db, h.consultations, silent)
	c.Patience = 300 * time.Millisecond
	if passed, err := c.Advance(h.ctx, h.app.ID, time.Hour); err != nil || passed != time.Hour {
		t.Errorf("within the bound: %s, %v", passed, err)
	}
	for _, at := range []string{"now() - interval '1000 years 1 day'", "timestamptz '4714-11-24 12:00:00Z BC'"} {
		h.tx(func(tx postgres.Tx) error {
			return dbtest.Exec(h.ctx, tx, "UPDATE consultations SET created_at = "+at+" WHERE id = $1", id)
		})
		passed, err := c.Advance(h.ctx, h.app.ID, 24*time.Hour)
		issues := problem.IssuesOf(err)
		if passed != 0 || !errors.Is(err, problem.ErrValidation) || len(issues) != 1 || issues[0].Path != "seconds" {
			t.Errorf("%s: %s, %v", at, passed, err)
		}
		if _, err := c.Run(h.ctx, h.app.ID, id, consultation.Cancelled); !errors.Is(err, problem.ErrValidation) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// Every time column of the schema either moves with its application's clock or has a reason not to. A forgotten column
// would show another time.
func TestEveryInstantAgesOrStays(t *testing.T) {
	t.Parallel()
	rows, err := dbtest.New(t).Pool().Query(t.Context(),
		`SELECT table_schema, table_name, column_name FROM information_schema.columns
		WHERE data_type = 'timestamp with time zone' AND table_schema IN ('public', 'vault') AND table_name NOT LIKE 'river%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ages := map[string]bool{}
	for _, a := range sandbox.Aging {
		for _, column := range a.Instant {
			ages[a.Table+"."+column] = true
		}
		if a.Timer != "" && !slices.Contains(a.Instant, a.Timer) {
			t.Errorf("the timer %s of %s does not age", a.Timer, a.Table)
		}
	}
	used := map[string]bool{}
	for rows.Next() {
		var schema, table, column string
		if err := rows.Scan(&schema, &table, &column); err != nil {
			t.Fatal(err)
		}
		table = strings.TrimPrefix(schema+"."+table, "public.")
		name := table + "." + column
		key := name
		if stays[name] == "" {
			key = table
		}
		switch {
		case ages[name] && stays[key] != "":
			t.Errorf("%s ages and stays", name)
		case !ages[name] && stays[key] == "":
			t.Errorf("%s neither ages with its application nor has a reason to stay", name)
		}
		used[key] = true
		delete(ages, name)
	}
	for name := range ages {
		t.Errorf("%s ages and does not exist", name)
	}
	for key := range stays {
		if !used[key] {
			t.Errorf("%s stays and does not exist", key)
		}
	}
}
