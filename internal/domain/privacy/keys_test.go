package privacy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/note"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// ciphertext is an encrypted value of the client, as a backup contains it.
type ciphertext struct {
	place  string
	sealed []byte
}

func (h *house) ciphertexts() (all []ciphertext) {
	h.Helper()
	rows, err := h.owner.Pool().Query(h.Context(), `
		SELECT 'client.phone:' || id, phone_sealed FROM clients WHERE id = $1
		UNION ALL SELECT 'client.pending-phone:' || client_id, phone_sealed FROM client_phone_codes WHERE client_id = $1
		UNION ALL SELECT 'client.phone-code:' || client_id, code_sealed FROM client_phone_codes WHERE client_id = $1
		UNION ALL SELECT 'consultation.subject:' || id, subject_sealed FROM consultations WHERE client_id = $1
		UNION ALL SELECT 'consultation.description:' || id, description_sealed FROM consultations WHERE client_id = $1
		UNION ALL SELECT 'consultation.phone:' || id, phone_sealed FROM consultations WHERE client_id = $1
		UNION ALL SELECT 'note.text:' || n.consultation_id, n.note_sealed FROM notes n JOIN consultations c ON c.id = n.consultation_id WHERE client_id = $1
		UNION ALL SELECT 'note.preview:' || n.consultation_id, n.preview_sealed FROM notes n JOIN consultations c ON c.id = n.consultation_id WHERE client_id = $1
		UNION ALL SELECT 'note.digest:' || n.consultation_id, n.digest FROM notes n JOIN consultations c ON c.id = n.consultation_id WHERE client_id = $1`, h.client.ID)
	h.must(err)
	for rows.Next() {
		var c ciphertext
		h.must(rows.Scan(&c.place, &c.sealed))
		all = append(all, c)
	}
	h.must(rows.Err())
	return all
}

// opened returns how many values can be decrypted with the master key and the stored keys.
func (h *house) opened(all []ciphertext) (n int) {
	h.Helper()
	key := h.storedKey()
	for _, c := range all {
		if _, err := key.Open(c.place, c.sealed); err == nil {
			n++
		}
	}
	return n
}

func (h *house) storedKey() vault.Key {
	h.Helper()
	var stored []byte
	h.must(h.db.Pool().QueryRow(h.Context(), `SELECT `+vault.Stored("$1"), h.client.ID).Scan(&stored))
	key, err := vault.New(h.box).Of(h.client.ID, stored)
	h.must(err)
	return key
}

func (h *house) keys(clientID string) (n int) {
	h.Helper()
	h.must(h.db.Pool().QueryRow(h.Context(), `SELECT count(*) FROM vault.client_keys WHERE client_id = $1`, clientID).
		Scan(&n))
	return n
}

// process opens the database as another process would. If seen is not nil, it traces every statement.
func (h *house) process(seen postgres.Tracer) *postgres.DB {
	h.Helper()
	db, err := postgres.Open(h.Context(), h.db.Pool().Config().ConnString(), postgres.Options{MaxConns: 4,
		Clock: h.clock, Test: true, Tracer: seen})
	h.must(err)
	h.Cleanup(db.Close)
	return db
}

// After an erasure no one can decrypt a backup of the texts with the keys that are left.
func TestABackupOfTheTextsOpensForNobodyAfterTheErasure(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.spend()
	other, accounts := h.process(nil), account.New(h.box) // has cached the key
	if _, ok, _, err := accounts.PhoneToKeep(ctx, other.Read(), h.client.ID); err != nil || !ok {
		t.Fatalf("the other process: %v %v", ok, err)
	}
	var neighbour account.Client
	h.tx(func(tx postgres.Tx) (err error) {
		neighbour, err = h.Accounts.Create(ctx, tx, account.NewClient{Email: "n@client.example",
			Password: "correct horse", Name: "Neighbour", Phone: "+33639980009", PhoneVerified: true})
		return errors.Join(err, h.Wallet.Open(ctx, tx, neighbour.ID))
	})
	backup := h.ciphertexts()
	if n := h.opened(backup); n != len(backup) || n != 12 { // two consultations, one with a note
		t.Fatalf("%d of %d open before the erasure", n, len(backup))
	}
	for _, c := range backup {
		if _, err := h.box.Open(c.place, c.sealed); err == nil {
			t.Errorf("the master key opens %s", c.place)
		}
	}
	h.must(h.erase())
	if n := h.opened(backup); n != 0 || h.keys(h.client.ID) != 0 {
		t.Errorf("%d of the backup open, %d keys", n, h.keys(h.client.ID))
	}
	if _, ok, _, err := accounts.PhoneToKeep(ctx, other.Read(), h.client.ID); ok || err != nil {
		t.Errorf("the other process has a number: %v %v", ok, err)
	}
	if _, err := vault.New(h.box).ForWriting(ctx, other.Read(), h.client.ID, nil); !errors.Is(err, vault.ErrNoKey) {
		t.Errorf("a key for an erased client: %v", err)
	}
	e, err := h.Export(ctx, h.db, neighbour.ID)
	if err != nil || e.Profile.Phone != "+33639980009" {
		t.Errorf("the neighbour's export: %+v %v", e.Profile, err)
	}
}

// Values encrypted with the master key stay readable. A client of an older release has no key of their own until
// something is written.
func TestWhatTheMasterKeySealedStaysReadable(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.tx(func(tx postgres.Tx) error { // as the older release left it
		return errors.Join(
			h.reseal(tx, `UPDATE clients SET phone_sealed = $1 WHERE id = $2`,
				h.client.ID, "client.phone:", "+33639980002"),
			h.reseal(tx, `UPDATE consultations SET subject_sealed = $1 WHERE id = $2`,
				h.done.ID, "consultation.subject:", "old subject"),
			h.reseal(tx, `UPDATE consultations SET description_sealed = $1 WHERE id = $2`,
				h.done.ID, "consultation.description:", "old description"),
			h.reseal(tx, `UPDATE notes SET digest = NULL, preview_sealed = $1 WHERE consultation_id = $2`,
				h.done.ID, "note.preview:", "old preview"),
			dbtest.Exec(ctx, tx, `DELETE FROM vault.client_keys`))
	})
	read := func(preview string) {
		t.Helper()
		c, err := h.Consultations.GetForClient(ctx, h.db.Read(), h.client.ID, h.done.ID)
		if err != nil || c.Subject != "old subject" || c.Description != "old description" {
			t.Errorf("consultation: %q %q %v", c.Subject, c.Description, err)
		}
		p, err := h.Consultations.Note(ctx, h.db.Read(), h.app.ID, h.client.ID, h.done.ID)
		if err != nil || p.Text != preview {
			t.Errorf("note: %q %v", p.Text, err)
		}
		if phone, ok, err := h.Accounts.VerifiedPhone(ctx, h.db.Read(), h.client.ID); err != nil || !ok ||
			phone != "+33639980002" {
			t.Errorf("phone: %q %v", phone, err)
		}
	}
	read("old preview")
	if h.keys(h.client.ID) != 0 {
		t.Error("reading made a key")
	}
	var lawyer string
	h.must(h.db.Pool().QueryRow(ctx, `SELECT lawyer_id FROM notes`).Scan(&lawyer))
	h.tx(func(tx postgres.Tx) error {
		_, err := h.notes.Submit(ctx, tx, h.done.ID, lawyer, "new note", "new preview", note.AnyVersion)
		return errors.Join(err, h.Accounts.SetPhone(ctx, tx, h.client.ID, "+33639980002", true))
	})
	read("new preview")
	for _, c := range h.ciphertexts() {
		_, err := h.box.Open(c.place, c.sealed)
		written := strings.HasPrefix(c.place, "note.") || strings.HasPrefix(c.place, "client.phone:")
		if written && err == nil {
			t.Errorf("%s was written again with the master key", c.place)
		}
	}
	if h.keys(h.client.ID) != 1 {
		t.Error("writing made no key")
	}
}

func (h *house) reseal(tx postgres.Tx, statement, id, place, text string) error {
	sealed, err := h.box.Seal(place+id, []byte(text))
	return errors.Join(err, dbtest.Exec(h.Context(), tx, statement, sealed, id))
}

// No key is created after an erasure: a concurrent first write waits until the erasure has committed.
func TestNoKeyIsMadeAfterAnErasure(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.spend()
	h.tx(func(tx postgres.Tx) error { return dbtest.Exec(ctx, tx, `DELETE FROM vault.client_keys`) })
	other, written := h.process(nil), make(chan error, 1)
	h.tx(func(tx postgres.Tx) error {
		if err := h.Erase(ctx, tx, h.client.ID, "correct horse", "fr"); err != nil {
			return err
		}
		go func() {
			written <- other.InTx(ctx, func(tx postgres.Tx) error {
				return h.Accounts.SetPhone(ctx, tx, h.client.ID, "+33639980004", true)
			})
		}()
		dbtest.AwaitWaiters(h, h.db, 1)
		return nil
	})
	if err := <-written; !errors.Is(err, vault.ErrNoKey) || h.keys(h.client.ID) != 0 {
		t.Errorf("the write: %v; %d keys", err, h.keys(h.client.ID))
	}
}

// Another process creates a consultation during the erasure. Either the consultation exists, can be decrypted and
// blocks the erasure, or neither its key nor its text remains.
func TestErasureAgainstACreation(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	other := h.process(nil)
	outcomes := map[bool]int{}
	for range 12 {
		h.tx(func(tx postgres.Tx) (err error) {
			h.client, err = h.Accounts.Create(ctx, tx,
				account.NewClient{Email: tx.NewSecret("x")[:12] + "@client.example", Password: "correct horse",
					Name: "Somebody", Phone: "+33639980005", PhoneVerified: true})
			return errors.Join(err, h.Wallet.Open(ctx, tx, h.client.ID),
				h.Wallet.Adjust(ctx, tx, h.client.ID, 2000, "gift"))
		})
		var c consultation.Consultation
		var refused, erased error
		var both sync.WaitGroup
		both.Go(func() {
			refused = other.InTx(ctx, func(tx postgres.Tx) (err error) {
				c, err = h.Consultations.Create(ctx, tx, h.command())
				return err
			})
		})
		both.Go(func() {
			erased = h.db.InTx(ctx, func(tx postgres.Tx) error {
				if err := h.Wallet.Adjust(ctx, tx, h.client.ID, -2000, "spent"); err != nil {
					return err
				}
				return h.Erase(ctx, tx, h.client.ID, "correct horse", "fr")
			})
		})
		both.Wait()
		outcomes[erased == nil]++
		texts := h.ciphertexts()
		switch {
		case erased != nil && refused == nil:
			if got, err := h.Consultations.GetForClient(ctx, other.Read(), h.client.ID, c.ID); err != nil ||
				got.Subject != "Canary subject" {
				t.Errorf("the consultation: %q %v", got.Subject, err)
			}
		case erased == nil && refused != nil:
			if _, ok := problem.As(refused); !ok {
				t.Errorf("the creation: %v", refused)
			}
			if len(texts) != 1 || texts[0].sealed != nil || h.keys(h.client.ID) != 0 { // the client's row
				t.Errorf("%d texts, %d keys", len(texts), h.keys(h.client.ID))
			}
		default:
			t.Errorf("creation %v, erasure %v", refused, erased)
		}
	}
	t.Logf("erased: %d, refused: %d", outcomes[true], outcomes[false])
}

// statements records the SQL of all statements.
type statements struct{ seen []string }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.seen = append(s.seen, d.SQL)
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		s.seen = append(s.seen, q.SQL)
	}
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Reading keys costs no extra statement: creating and reading fetch the key with a row that they need anyway.
func TestKeysCostNoStatement(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	var s statements
	db := h.process(&s)
	run := func(what, table string, f func(tx postgres.Tx) error) {
		t.Helper()
		s.seen = nil
		h.must(db.InTx(ctx, f))
		var asked []string
		for _, sql := range s.seen {
			if strings.Contains(sql, "vault.") {
				asked = append(asked, sql)
			}
		}
		if len(asked) != 1 || !strings.Contains(asked[0], "FROM "+table) {
			t.Errorf("%s asks for the key in %q", what, asked)
		}
		t.Logf("%s: %d statements", what, len(s.seen))
	}
	run("a creation", "clients c", func(tx postgres.Tx) error {
		_, err := h.Consultations.Create(ctx, tx, h.command())
		return err
	})
	run("a reading", "consultations c", func(tx postgres.Tx) error {
		_, err := h.Consultations.Get(ctx, tx, h.app.ID, h.client.ID, h.done.ID)
		return err
	})
	run("a page of a list", "consultations c", func(tx postgres.Tx) error {
		_, _, err := h.Consultations.List(ctx, tx, h.app.ID, h.client.ID, consultation.ListFilter{},
			consultation.Position{}, 50)
		return err
	})
}
