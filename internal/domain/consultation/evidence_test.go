package consultation

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/books"
	"partnerd/internal/infra/postgres"
)

// checkLink recomputes a link from the data of a proof, without the database's own function.
func checkLink(t *testing.T, p Proof) {
	t.Helper()
	if p.Link == nil {
		t.Fatalf("%s is not in the chain", p.ConsultationID)
	}
	var before []byte
	if p.Link.Previous != nil {
		before = p.Link.Previous[:]
	}
	if want := id.DigestOf(string(before) + strings.Join(p.Lines(), "\n")); want != p.Link.Hash {
		t.Errorf("%s: hash %s, the lines give %s", p.ConsultationID, p.Link.Hash, want)
	}
}

// R42: the evidence of what was acknowledged, through which application, when and in which words, is chained over all
// consultations. Any later change, removal or addition is found.
func TestEvidenceIsChained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.create()
	cmd := w.command()
	cmd.Evidence.StatedVersion, cmd.Evidence.StatedLanguage = "2026-11", "EN"
	cmd.Evidence.IdempotencyKey = "key-2"
	c, err := w.tryCreate(cmd)
	w.do(err)
	second := c.ID
	if p, err := w.ProofOf(t.Context(), w.DB.Read(), w.client, first); err != nil || p.Link != nil ||
		p.StatedVersion != "" {
		t.Errorf("before the chain: %+v, %v", p, err)
	}
	w.do(w.ChainEvidence(t.Context()))
	third := w.create()
	var all sync.WaitGroup
	for range 4 { // processes
		all.Go(func() {
			if err := w.ChainEvidence(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[int64]Proof{}
	for _, con := range []string{first, second, third} {
		p, err := w.ProofFor(t.Context(), w.DB.Read(), con)
		w.do(err)
		checkLink(t, p)
		seen[p.Link.Seq] = p
	}
	if len(seen) != 3 || seen[1].Link.Previous != nil || *seen[2].Link.Previous != seen[1].Link.Hash ||
		*seen[3].Link.Previous != seen[2].Link.Hash {
		t.Errorf("not one chain: %+v", seen)
	}
	old, err := waiverDigest("2026-11")
	w.do(err)
	if p, err := w.ProofFor(t.Context(), w.DB.Read(), second); err != nil || p.TextVersion != "2026-11" ||
		p.TextSHA256 != old || p.StatedVersion != "2026-11" || p.StatedLanguage != "EN" {
		t.Errorf("stated: %+v, %v", p, err)
	}
	other := w.newClient("other@example.com", "+33600000009", true, 2000)
	for _, con := range []string{first, "con_0", "\x00"} {
		if _, err := w.ProofOf(t.Context(), w.DB.Read(), other, con); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("another client's %q: %v", con, err)
		}
	}

	owner := dbtest.Owner(t, w.DB)
	sql := func(tx postgres.Tx, s string, args ...any) {
		if _, err := tx.Exec(t.Context(), postgres.SQL(postgres.Batch, s), args...); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for what, tc := range map[string]struct {
		do   func(tx postgres.Tx)
		want string
	}{
		"nothing": {func(postgres.Tx) {}, ""},
		"changed": {func(tx postgres.Tx) {
			sql(tx, `ALTER TABLE consultation_evidence DISABLE TRIGGER USER`)
			sql(tx, `UPDATE consultation_evidence SET stated_language = 'FR' WHERE consultation_id = $1`, second)
		}, second + ": number 2 does not match"},
		"removed": {func(tx postgres.Tx) {
			sql(tx, `ALTER TABLE consultation_evidence DISABLE TRIGGER USER`)
			sql(tx, `ALTER TABLE evidence_chain DISABLE TRIGGER USER`)
			sql(tx, `DELETE FROM evidence_chain WHERE consultation_id = $1`, third)
			sql(tx, `DELETE FROM consultation_evidence WHERE consultation_id = $1`, third)
		}, third + ": has no evidence"},
		"dated back": {func(tx postgres.Tx) {
			sql(tx, `INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent, price_cents,
					phone_sealed, created_at, updated_at, search_started_at, cancelled_at)
				SELECT 'con_back', application_id, client_id, 'CANCELLED', competence, language, '', false, 2000, '', $1, $1, $1, $1 FROM consultations LIMIT 1`, noon.Add(-2*time.Hour))
			sql(tx, `INSERT INTO consultation_evidence (consultation_id, text_version, text_sha256, acknowledged_at, application_id, client_id, request_id,
					idempotency_key_sha256, address, user_agent)
				SELECT 'con_back', text_version, text_sha256, $1, application_id, client_id, request_id, '', address, user_agent FROM consultation_evidence LIMIT 1`, noon.Add(-2*time.Hour))
		}, "con_back: not in the chain"},
		"link removed": {func(tx postgres.Tx) {
			sql(tx, `ALTER TABLE evidence_chain DISABLE TRIGGER USER`)
			sql(tx, `DELETE FROM evidence_chain WHERE consultation_id = $1`, first)
		}, second + ": number 2 is at position 1"},
	} {
		undo := errors.New("undo")
		err := owner.InTx(t.Context(), func(tx postgres.Tx) error {
			tc.do(tx)
			found, err := books.Verify(t.Context(), tx)
			if got := strings.Join(found, "\n"); err != nil || !strings.Contains(got, tc.want) ||
				tc.want == "" && got != "" {
				t.Errorf("%s: %q, %v; want %q", what, got, err, tc.want)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Error(err)
		}
	}
}

// Evidence whose transaction began before the newest link was written and commits after it is still chained.
func TestEvidenceThatCommitsLateIsChained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.newClient("other@example.com", "+33600000009", true, 2000)
	var late Consultation
	err := w.DB.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		if late, err = w.Create(t.Context(), tx, w.command()); err != nil {
			return err
		}
		w.clock.Advance(30 * time.Minute)
		cmd := w.command()
		cmd.ClientID = other
		_, err = w.tryCreate(cmd)
		return errors.Join(err, w.ChainEvidence(t.Context()))
	})
	w.do(errors.Join(err, w.ChainEvidence(t.Context())))
	p, err := w.ProofFor(t.Context(), w.DB.Read(), late.ID)
	w.do(err)
	if checkLink(t, p); p.Link.Seq != 2 {
		t.Errorf("the late one is number %d", p.Link.Seq)
	}
}

// Only published versions can be stated, because for any other version the evidence would have no text to show.
func TestAPartnerStatesAPublishedVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v := range []string{"2026-10", "2026-13", "2026-11 ", "latest", strings.Repeat("9", 60_000)} {
		cmd := w.command()
		cmd.Evidence.StatedVersion = v
		var refused *problem.Error
		_, err := w.tryCreate(cmd)
		if !errors.As(err, &refused) || len(refused.Issues) != 1 || refused.Issues[0].Path != "waiverTextVersion" ||
			refused.Issues[0].Code != problem.IssueInvalidValue || len(refused.Issues[0].Message) > 250 {
			t.Errorf("%.100q: %.300v", v, err)
		}
	}
	for i, v := range WaiverVersions {
		cmd := w.command()
		cmd.ClientID = w.newClient(fmt.Sprintf("states%d@example.com", i), fmt.Sprintf("+3360000001%d", i), true, 2000)
		cmd.Evidence.StatedVersion, cmd.Evidence.IdempotencyKey = v, "states "+v
		if _, err := w.tryCreate(cmd); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		if _, err := waiverDigest(v); err != nil {
			t.Error(err)
		}
	}
}
