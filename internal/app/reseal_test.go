package app

import (
	"log/slog"
	"strings"
	"testing"

	"partnerd/internal/app/doctor"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/reseal"
)

// notByMaster lists the bytea columns that the master key does not seal, with the reason.
var notByMaster = map[string]string{
	"client_passkeys.credential_id":   "public",
	"staff_passkeys.credential_id":    "public",
	"ledger_checks.heads":             "digests",
	"phone_code_counts.number":        "a digest",
	"sandbox_payment_notices.body":    "of the simulated provider, as it is posted",
	"webhook_events.body":             "as it is posted",
	"client_phone_codes.code_sealed":  "by the client's key; codes live for minutes",
	"client_phone_codes.phone_sealed": "by the client's key; codes live for minutes",
	"note_drafts.note_sealed":         "by the client's key",
	"note_drafts.preview_sealed":      "by the client's key",
	"notes.note_sealed":               "for the lawyer's note key, which the program has not",
	"notes.copy_sealed":               "by the client's key",
}

// TestEverySealedColumnIsResealed checks that every bytea column is sealed by the master key and listed, or exempt: a
// digest by its name, the others here.
func TestEverySealedColumnIsResealed(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	rows, err := db.Pool().Query(t.Context(), `SELECT CASE table_schema WHEN 'public' THEN '' ELSE table_schema || '.' END || table_name || '.' || column_name
		FROM information_schema.columns WHERE table_schema IN ('public', 'vault') AND data_type = 'bytea' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	listed := map[string]bool{}
	for _, c := range SealedColumns() {
		listed[c.String()] = true
	}
	unused := map[string]bool{}
	for name := range notByMaster {
		unused[name] = true
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		_, exempt := notByMaster[name]
		delete(unused, name)
		digest := strings.HasSuffix(name, "hash") || strings.HasSuffix(name, "sha256") ||
			strings.HasSuffix(name, "fingerprint")
		if !listed[name] && !exempt && !digest {
			t.Errorf("%s holds bytes: is it sealed by the master key? List it in Sealed of its room, or "+
				"say here why not", name)
		}
		delete(listed, name)
	}
	if len(listed) > 0 || len(unused) > 0 {
		t.Errorf("there are no columns %v %v", listed, unused)
	}
}

// TestTheMasterKeyIsReplaced covers the whole procedure: extend, promote, reseal, trim. Afterwards the newest part
// alone opens what was sealed first, and derived secrets are unchanged. A key that lacks a needed part is rejected.
func TestTheMasterKeyIsReplaced(t *testing.T) {
	t.Parallel()
	cfg := ofEnvironment(t, "sandbox", dbtest.URL(t))
	open := func(key string) (*App, error) {
		c := cfg
		c.MasterKey = key
		a, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Cleanup(a.Close)
		}
		return a, err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first, err := open(cfg.MasterKey)
	must(err)
	by := operator.Act{Actor: "cli:demo", Reason: "A test"}
	c, err := first.Operator.CreateClient(t.Context(), by, account.NewClient{Email: "c@client.example",
		Password: "for the tests only, please", Name: "A Client", Phone: "+33639980002", PhoneVerified: true}, 0)
	must(err)
	extended, err := seal.ExtendKey(cfg.MasterKey)
	must(err)
	promoted, err := seal.PromoteKey(extended)
	must(err)
	trimmed, err := seal.TrimKey(promoted)
	must(err)
	if _, err := open(trimmed); err == nil || !strings.Contains(err.Error(), "lacks its part") {
		t.Errorf("a key that lacks what rows need: %v", err)
	}
	if _, err := open(extended); err != nil {
		t.Errorf("extended: %v", err)
	}
	second, err := open(promoted)
	must(err)
	if _, err := second.Reseal(t.Context(), operator.Act{Actor: "cli:demo"}, func(reseal.Progress) {}); err == nil {
		t.Error("resealed without a reason")
	}
	done, err := second.Reseal(t.Context(), by, func(reseal.Progress) {})
	must(err)
	resealed := int64(0)
	for _, p := range done {
		resealed += p.Resealed
		if p.Unopened > 0 {
			t.Errorf("%s: %d do not open", p.Column, p.Unopened)
		}
	}
	if resealed < 6 { // the client's, a signing key, four secrets
		t.Errorf("%d values are resealed: %+v", resealed, done)
	}
	sealing, uses, err := second.KeyUses(t.Context())
	must(err)
	for _, u := range uses {
		if u.Part != sealing {
			t.Errorf("still by an older part: %+v", u)
		}
	}
	third, err := open(trimmed)
	must(err)
	if string(third.cursor) != string(first.cursor) {
		t.Error("the cursors that partners keep are no longer good")
	}
	e, ok, _, err := third.Accounts.PhoneToKeep(t.Context(), third.DB.Read(), c.ID)
	if err != nil || !ok || e != "+33639980002" {
		t.Errorf("the client's phone number: %q %t %v", e, ok, err)
	}
	levels := map[string]doctor.Level{}
	for key, want := range map[string]doctor.Level{trimmed: doctor.OK, cfg.MasterKey: doctor.Fail} {
		c := cfg
		c.MasterKey = key
		for _, f := range doctor.Examine(t.Context(), c, SealedColumns(), slog.New(slog.DiscardHandler)) {
			if f.Check == "sealed rows" {
				levels[key] = f.Level
			}
		}
		if levels[key] != want {
			t.Errorf("the doctor says %q, want %q", levels[key], want)
		}
	}
}
