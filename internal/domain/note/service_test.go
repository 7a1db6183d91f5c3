package note

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

func TestLengthsCountCodePointsAfterTrimming(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want string
		ok   bool
	}{
		{"  x ", "x", true},
		{strings.Repeat("😀", MaxPreview), strings.Repeat("😀", MaxPreview), true},
		{" " + strings.Repeat("é", MaxPreview) + " ", strings.Repeat("é", MaxPreview), true},
		{"e\u0301", "é", true}, // NFC
		{strings.Repeat("é", MaxPreview+1), "", false},
		{" \n ", "", false},
		{"", "", false},
		{"a\x00b", "", false},
		{"a\xff", "", false},
	} {
		got, err := normalize("preview", tc.text, MaxPreview)
		if got != tc.want || (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %.20q, %v", tc.text, got, err)
		}
		if err != nil && strings.TrimSpace(tc.text) != "" && strings.Contains(err.Error(), strings.TrimSpace(tc.text)) {
			t.Errorf("the refusal repeats the text: %v", err)
		}
	}
}

// Only the preview can be read back, and only from its own consultation's row.
func TestTheNoteGoesInAndNeverOut(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	db := dbtest.NewWithClock(t, clk)
	s := newService(t)
	seed(t, db)
	submit := func(consultation, lawyer, text, preview string) (first bool, err error) {
		err = db.InTx(t.Context(), func(tx postgres.Tx) error {
			first, err = s.Submit(t.Context(), tx, consultation, lawyer, text, preview, AnyVersion)
			return err
		})
		return first, err
	}
	if _, ok, err := s.Preview(t.Context(), db.Read(), "con_1"); ok || err != nil {
		t.Errorf("preview before the note: %v %v", ok, err)
	}
	if first, err := submit("con_1", "law_1", "CANARYNOTE", " aperçu "); err != nil || !first {
		t.Fatalf("submit: %v %v", first, err)
	}
	p, ok, err := s.Preview(t.Context(), db.Read(), "con_1")
	if err != nil || !ok || p != (Preview{"con_1", "aperçu", clk.Now()}) {
		t.Errorf("%+v %v %v", p, ok, err)
	}
	var sealed []byte
	if err := dbtest.Owner(t, db).Pool().QueryRow(t.Context(), "SELECT note_sealed FROM notes").
		Scan(&sealed); err != nil || bytes.Contains(sealed, []byte("CANARY")) {
		t.Errorf("stored note: %v", err)
	}
	var stored []byte
	if err := db.Pool().QueryRow(t.Context(), "SELECT key_sealed FROM vault.client_keys WHERE client_id = 'cli_1'").
		Scan(&stored); err != nil {
		t.Fatal(err)
	}
	key, err := s.keys.Of("cli_1", stored)
	if err != nil {
		t.Fatal(err)
	}
	if inner, err := key.Open(notePlace("con_1"), sealed); err != nil || bytes.Contains(inner, []byte("CANARY")) {
		t.Errorf("the service's own keys open the note: %v", err)
	}

	if _, err := submit("con_1", "law_2", "other", "other"); !errors.Is(err, ErrOtherLawyer) {
		t.Errorf("correction by another lawyer: %v", err)
	}
	clk.Advance(time.Hour)
	if first, err := submit("con_1", "law_1", "corrected", "corrected"); err != nil || first {
		t.Errorf("correction: %v %v", first, err)
	}
	if p, _, err = s.Preview(t.Context(), db.Read(), "con_1"); err != nil ||
		p != (Preview{"con_1", "corrected", clk.Now()}) {
		t.Errorf("%+v %v", p, err)
	}

	if _, err := db.Pool().Exec(t.Context(), "UPDATE notes SET consultation_id = 'con_2'"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Preview(t.Context(), db.Read(), "con_2"); err == nil {
		t.Error("a preview moved to another consultation opens")
	}
}

func newService(t *testing.T) *Service {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := seal.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	box, err := seal.OpenBox(key)
	if err != nil {
		t.Fatal(err)
	}
	drop, err := seal.OpenDrop(public)
	if err != nil {
		t.Fatal(err)
	}
	return New(box, drop)
}

// seed inserts the rows that notes refer to, with as few columns as the schema requires.
func seed(t *testing.T, db *postgres.DB) {
	t.Helper()
	_, err := db.Pool().Exec(t.Context(), `
		INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app_1', 'CRM', '{}', '{}', '', now(), now());
		INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli_1', 'c@example.org', 'Demo Client', '', now(), now());
		INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at)
			SELECT id, id || '@example.org', 'Demo Lawyer', '', 'OFFLINE', now(), now() FROM unnest(ARRAY['law_1', 'law_2']) AS id;
		INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents,
				phone_sealed, created_at, updated_at, search_started_at)
			SELECT id, 'app_1', 'cli_1', 'MATCHING', 'TAX', 'FR', '', false, 2000, '', now(), now(), now() FROM unnest(ARRAY['con_1', 'con_2']) AS id;`)
	if err != nil {
		t.Fatal(err)
	}
}
