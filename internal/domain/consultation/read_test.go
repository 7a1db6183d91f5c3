package consultation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// Another client's consultation and a missing one look the same, for every operation (R47, R96).
func TestOthersSeeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.completed(w.online())
	otherApp, otherClient := w.newApplication("other"), w.newClient("other@example.org", "+33612345673", true, 0)
	for _, who := range []struct{ app, client, id string }{
		{otherApp, w.client, id}, {w.application, otherClient, id}, {otherApp, otherClient, id},
		{w.application, w.client, "con_missing"}, {w.application, w.client, "nul\x00"},
		{w.application, w.client, "bad\xff"}, {"", w.client, id},
	} {
		tx := w.DB.Read()
		if _, err := w.Get(t.Context(), tx, who.app, who.client, who.id); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("get as %v: %v", who, err)
		}
		if _, err := w.Note(t.Context(), tx, who.app, who.client, who.id); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("note as %v: %v", who, err)
		}
		err := w.DB.InTx(t.Context(), func(tx postgres.Tx) error {
			_, err := w.Cancel(t.Context(), tx, who.app, who.client, who.id)
			return err
		})
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("cancel as %v: %v", who, err)
		}
		if items, more, err := w.List(t.Context(), tx, who.app, who.client, ListFilter{}, Position{}, 50); err != nil ||
			more || who.app+who.client != w.application+w.client && len(items) != 0 {
			t.Errorf("list as %v: %d items, %v", who, len(items), err)
		}
	}
}

// This also holds while new consultations arrive, and for equal times (R49, T28).
func TestPagesNeitherRepeatNorSkip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.newClient("list@example.org", "+33612345674", true, 200_000)
	want := map[string]bool{}
	for i := range 45 {
		if i%3 == 0 {
			w.clock.Advance(time.Second)
		}
		want[w.create()] = true
	}
	var before Position
	var sizes []int
	last := Position{CreatedAt: noon.AddDate(1, 0, 0)}
	for more := true; more; {
		items, m, err := w.List(t.Context(), w.DB.Read(), w.application, w.client, ListFilter{}, before, 20)
		w.do(err)
		more, sizes = m, append(sizes, len(items))
		for _, c := range items {
			if !want[c.ID] {
				t.Fatalf("%s is repeated or unexpected", c.ID)
			}
			delete(want, c.ID)
			if c.CreatedAt.After(last.CreatedAt) || c.CreatedAt.Equal(last.CreatedAt) && c.ID >= last.ID {
				t.Errorf("%s is out of order", c.ID)
			}
			last = Position{c.CreatedAt, c.ID}
			if c.Subject != "Séparation" {
				t.Errorf("subject %q", c.Subject)
			}
		}
		before = last
		w.clock.Advance(time.Second)
		w.create()
	}
	if len(want) != 0 || fmt.Sprint(sizes) != "[20 20 5]" {
		t.Errorf("pages %v, %d missing", sizes, len(want))
	}
}

func TestListByStatus(t *testing.T) { // R52
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	done := w.completed(l)
	held := w.create()
	gone := w.create()
	if _, err := w.cancelIt(gone); err != nil {
		t.Fatal(err)
	}
	for status, want := range map[Status]string{Matching: held, Completed: done, Cancelled: gone, Assigned: ""} {
		items, _, err := w.List(t.Context(), w.DB.Read(), w.application, w.client, ListFilter{Status: status},
			Position{}, 50)
		w.do(err)
		got := ""
		for _, c := range items {
			got += c.ID
		}
		if got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}

// R42
func TestEvidenceIsKeptAndCannotBeChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.create()
	digest, err := waiverDigest(WaiverVersion)
	w.do(err)
	var version, app, client, request, address, agent string
	var sha, key []byte
	var at time.Time
	err = w.DB.Pool().QueryRow(t.Context(),
		`SELECT text_version, text_sha256, acknowledged_at, application_id, client_id, request_id,
		idempotency_key_sha256, address, user_agent FROM consultation_evidence WHERE consultation_id = $1`, made).
		Scan(&version, &sha, &at, &app, &client, &request, &key, &address, &agent)
	w.do(err)
	if version != WaiverVersion || string(sha) != string(digest[:]) || !at.Equal(noon) || app != w.application ||
		client != w.client || request != "req_1" || id.DigestOf("key-1") != [32]byte(key) || address != "192.0.2.1" ||
		agent != "crm/1" {
		t.Errorf("evidence %s %x %v %s %s %s %s %s %s", version, sha, at, app, client, request, key, address, agent)
	}
	for _, sql := range []string{
		"UPDATE consultation_evidence SET text_version = 'x'", "DELETE FROM consultation_evidence",
	} {
		if _, err := dbtest.Owner(t, w.DB).Pool().Exec(t.Context(), sql); !postgres.IsCheck(err, "append_only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestNothingPrivateIsReadable searches for planted texts in the log and in every text and byte column of every table:
// the note, the preview, the client's texts, and the phone number (R16, R17).
func TestNothingPrivateIsReadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var logged bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := w.online()
	cmd := w.command()
	cmd.Subject, cmd.Description = "CANARYSUBJECT", "CANARYDESCRIPTION"
	c, err := w.tryCreate(cmd)
	w.do(err)
	w.sweep()
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.confirmed(l, c.ID)
	w.do(w.provider(c.ID, telephony.Event{Kind: telephony.LegsJoined}))
	w.clock.Advance(time.Minute)
	w.do(w.EndCall(t.Context(), w.lease(l), c.ID))
	w.do(w.SubmitNote(t.Context(), w.lease(l), c.ID, "CANARYNOTE", "CANARYPREVIEW"))

	marks := []string{"CANARYSUBJECT", "CANARYDESCRIPTION", "CANARYNOTE", "CANARYPREVIEW", "33612345678", "case-7"}
	if n := strings.Count(logged.String(), "consultation="+c.ID); n != 5 {
		t.Errorf("%d lines for 5 moves in the log:\n%s", n, &logged)
	}
	for _, m := range marks {
		if strings.Contains(logged.String(), m) {
			t.Errorf("%s is in the log", m)
		}
	}
	found, owner := map[string]int{}, dbtest.Owner(t, w.DB)
	for _, col := range columnsOf(w, owner) {
		var dump string
		err := owner.Pool().QueryRow(t.Context(),
			"SELECT coalesce(string_agg("+col.value+", ' '), '') FROM "+col.table).Scan(&dump)
		w.do(err)
		for _, m := range marks {
			if strings.Contains(dump, m) {
				found[m]++
				if m != "case-7" {
					t.Errorf("%s is readable in %s", m, col.table+"."+col.name)
				}
			}
		}
	}
	if found["case-7"] < 2 { // the record and the events contain it, so the search does find what is there
		t.Errorf("the partner's reference was found %d times", found["case-7"])
	}
}

type column struct{ table, name, value string }

// columnsOf lists all columns with their values as text; of bytes it keeps the readable part.
func columnsOf(w *world, owner *postgres.DB) (out []column) {
	rows, err := owner.Pool().Query(w.Context(),
		`SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type IN ('text', 'bytea', 'jsonb', 'ARRAY')`)
	w.do(err)
	defer rows.Close()
	for rows.Next() {
		var c column
		var kind string
		w.do(rows.Scan(&c.table, &c.name, &kind))
		c.value = c.name + "::text"
		if kind == "bytea" {
			c.value = "encode(" + c.name + ", 'escape')"
		}
		out = append(out, c)
	}
	return out
}

func TestRecordingNeedsConsentAndApplication(t *testing.T) { // R40
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	cmd := w.command()
	cmd.RecordingConsent = true
	c, err := w.tryCreate(cmd)
	w.do(err)
	w.sweep()
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	w.do(w.StartCall(t.Context(), w.lease(l), c.ID))
	if call, _, err := w.Telephony.Active(t.Context(), w.DB.Read(), c.ID); err != nil || call.Record {
		t.Errorf("recorded though the application has no recording (%v)", err)
	}
	if !w.read(c.ID).RecordingConsent {
		t.Error("consent is not on the record")
	}
}

func TestCoverageFollowsTheLawyers(t *testing.T) { // R31 to R34
	t.Parallel()
	w := newWorld(t)
	cover := func() (bool, int, string) {
		c, err := w.Coverage(t.Context(), w.DB.Read(), "app", "FAMILY", "FR")
		w.do(err)
		wait := "null"
		if c.EstimatedWaitSeconds != nil {
			wait = fmt.Sprint(*c.EstimatedWaitSeconds)
		}
		return c.Available, c.LawyersOnline, wait
	}
	expect := func(available bool, online int, wait string) {
		t.Helper()
		if a, n, e := cover(); a != available || n != online || e != wait {
			t.Errorf("available %v, %d online, %s s; want %v, %d, %s", a, n, e, available, online, wait)
		}
	}
	expect(false, 0, "null")
	l := w.online()
	expect(true, 1, "15") // no data yet: the default
	id := w.create()
	w.sweep()
	w.clock.Advance(12 * time.Second)
	w.do(w.AcceptOffer(t.Context(), w.lease(l), w.offerOf(l).ID))
	expect(true, 1, "1365") // busy: one and a half turns of 15 minutes
	second := w.create()
	w.pass(20 * time.Second)
	expect(true, 1, "1800") // another is ahead
	if _, err := w.cancelIt(second); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cancelIt(id); err != nil {
		t.Fatal(err)
	}
	expect(true, 1, "15")
	w.clock.Advance(time.Minute)
	expect(false, 0, "null")
}

// Whatever the filters, a page reads by index only what the application started for the client, even if many partners
// use the same reference.
func TestAFilteredListReadsOnlyWhatIsTheClients(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t)
	others := w.newClient("others@example.org", "+33612345675", true, 0)
	const mine, theirs = 60, 6000
	owner := dbtest.Owner(t, w.DB)
	t.Cleanup(func() { // the ledger does not have them
		if _, err := owner.Pool().Exec(context.WithoutCancel(t.Context()), "DELETE FROM consultations"); err != nil {
			t.Error(err)
		}
	})
	for client, n := range map[string]int{w.client: mine, others: theirs} {
		if _, err := w.DB.Pool().Exec(t.Context(),
			`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed,
				recording_consent, external_ref, price_cents, phone_sealed, created_at, updated_at, search_started_at, completed_at)
			SELECT 'con_' || $2 || n, $1, $2, 'MATCHING', 'FAMILY', 'FR', '\x00', false, 'case-' || n % 3, 2000, '\x00', $4::timestamptz + n * interval '1 minute', $4, $4, NULL FROM generate_series(1, $3::int) n`,
			w.application, client, n, noon); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := owner.Pool().Exec(t.Context(), "ANALYZE consultations"); err != nil {
		t.Fatal(err)
	}
	from, to := noon.Add(10*time.Minute), noon.Add(40*time.Minute)
	for _, f := range []ListFilter{
		{}, {Status: Matching}, {Status: Expired}, {ExternalRef: "case-1"}, {ExternalRef: "none"}, {CreatedAfter: from},
		{CreatedBefore: to},
		{Status: Matching, ExternalRef: "case-1", CreatedAfter: from, CreatedBefore: to},
	} {
		w.tx(func(tx postgres.Tx) error {
			count := func() (whole, rows int) {
				if err := tx.QueryRow(t.Context(), consultationReadsSQL).Scan(&whole, &rows); err != nil {
					t.Fatal(err)
				}
				return whole, rows
			}
			whole, rows := count()
			list, err := list(t.Context(), tx, w.application, w.client, f, Position{}, 20)
			if err != nil {
				return err
			}
			if (f.Status == Expired || f.ExternalRef == "none") != (len(list) == 0) {
				t.Errorf("%+v: %d rows", f, len(list))
			}
			afterWhole, after := count()
			if afterWhole > whole || after-rows > mine {
				t.Errorf("%+v read %d rows by index and %d without, of %d that the client has",
					f, after-rows, afterWhole-whole, mine)
			}
			return nil
		})
	}
}

// A page of ended consultations reads only what it shows, however many the client has and however many ended
// differently.
func TestAPageOfOneStatusReadsOnlyItself(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	w := newWorld(t)
	lawyer, many := w.online(), w.newClient("many@example.org", "+33612345675", true, 0)
	owner := dbtest.Owner(t, w.DB)
	t.Cleanup(func() { // the ledger does not have them
		if _, err := owner.Pool().Exec(context.WithoutCancel(t.Context()), "DELETE FROM consultations"); err != nil {
			t.Error(err)
		}
	})
	// Most clients have a few consultations, as a generic plan assumes.
	w.exec(`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		SELECT 'cli_few_' || n, n || '@few.example', 'Demo Client', '', now(), now() FROM generate_series(1, 1000) n`)
	for client, rule := range map[string]string{
		w.client: "CASE WHEN n % 3000 = 0 THEN 'COMPLETED' ELSE 'EXPIRED' END",
		many:     "'COMPLETED'", "cli_few_": "CASE WHEN n % 4 = 0 THEN 'CANCELLED' ELSE 'COMPLETED' END",
	} {
		w.exec(`INSERT INTO consultations (id, application_id, client_id, status, competence, language, erased_at, recording_consent, price_cents,
				created_at, updated_at, search_started_at, lawyer_id, call_started_at, completed_at, cancelled_at, expired_at)
			SELECT 'con_' || $2 || n, $1, CASE WHEN $2 = 'cli_few_' THEN $2 || n % 1000 + 1 ELSE $2 END, status, 'FAMILY', 'FR', t, false, 2000,
				t, t, t, CASE WHEN status = 'COMPLETED' THEN $4 END, CASE WHEN status = 'COMPLETED' THEN t END, CASE WHEN status = 'COMPLETED' THEN t END, CASE WHEN status = 'CANCELLED' THEN t END, CASE WHEN status = 'EXPIRED' THEN t END
			FROM (SELECT n, `+rule+
			` AS status, $3::timestamptz + n * interval '1 minute' AS t FROM generate_series(1, 3000) n) rows`,
			w.application, client, noon, lawyer)
	}
	if _, err := owner.Pool().Exec(t.Context(), "ANALYZE consultations"); err != nil {
		t.Fatal(err)
	}
	const page = 20
	for _, x := range []struct {
		client string
		status Status
		want   int
	}{{w.client, Completed, 1}, {w.client, Expired, page}, {w.client, Cancelled, 0}, {many, Completed, page},
		{many, Expired, 0}} {
		w.tx(func(tx postgres.Tx) error {
			for range 10 { // until the plan is generic
				var before, after, byIndexBefore, byIndex int
				if err := tx.QueryRow(t.Context(), consultationReadsSQL).Scan(&before, &byIndexBefore); err != nil {
					return err
				}
				found, err := list(t.Context(), tx, w.application, x.client, ListFilter{Status: x.status},
					Position{}, page)
				if err != nil {
					return err
				}
				if err := tx.QueryRow(t.Context(), consultationReadsSQL).Scan(&after, &byIndex); err != nil {
					return err
				}
				if read := byIndex - byIndexBefore; len(found) != x.want || after > before || read > x.want {
					t.Errorf("%s of %s: %d rows were read by index and %d without for %d consultations",
						x.status, x.client, read, after-before, len(found))
				}
			}
			return nil
		})
	}
}

var consultationReadsSQL = postgres.SQL(postgres.Backend, `SELECT coalesce(sum(seq_tup_read), 0), coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_xact_user_tables WHERE relname = 'consultations'`)
