package note

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// Only the lawyer's own key opens a copy, and nothing that the program has. A copy can be taken for a day after it was
// first taken. It is deleted when a correction replaces it, when its time is over, and when the client is erased.
func TestACopyIsForItsLawyerAlone(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	db := dbtest.NewWithClock(t, clk)
	s := newService(t)
	seed(t, db)
	do := func(f func(tx postgres.Tx) error) {
		t.Helper()
		if err := db.InTx(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(text string) {
		t.Helper()
		do(func(tx postgres.Tx) error {
			_, err := s.Submit(t.Context(), tx, "con_1", "law_1", text, "preview", AnyVersion)
			return err
		})
	}
	take := func(lawyer string) (sealed []byte, err error) {
		err = db.InTx(t.Context(), func(tx postgres.Tx) error {
			sealed, err = s.TakeCopy(t.Context(), tx, lawyer, "con_1")
			return err
		})
		return sealed, err
	}
	own, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	open := func(sealed []byte) string {
		t.Helper()
		r, err := age.Decrypt(armor.NewReader(bytes.NewReader(sealed)), own)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	submit("without a key")
	if _, err := take("law_1"); !errors.Is(err, ErrNoCopy) {
		t.Errorf("without a key: %v", err)
	}
	for _, bad := range []string{"", "age1", own.String(), own.Recipient().String() + "q", "ssh-ed25519 AAAA", "\x00"} {
		if _, err := s.SetRecipient(t.Context(), db.Read(), "law_1", bad); !errors.Is(err, ErrRecipient) {
			t.Errorf("key %.12q: %v", bad, err)
		}
	}
	set := func(key string, want bool) {
		t.Helper()
		do(func(tx postgres.Tx) error {
			changed, err := s.SetRecipient(t.Context(), tx, "law_1", key)
			if changed != want {
				t.Errorf("changed %v", changed)
			}
			return err
		})
	}
	since := clk.Now()
	set("  "+own.Recipient().String()+"\n", true)
	clk.Advance(time.Minute)
	set(own.Recipient().String(), false)
	if r, found, err := s.Recipient(t.Context(), db.Read(), "law_1"); err != nil || !found ||
		r.Key != own.Recipient().String() || !r.SetAt.Equal(since) {
		t.Errorf("recipient %+v %v %v", r, found, err)
	}
	submit("CANARYNOTE é")
	var stored []byte
	if err := db.Pool().QueryRow(t.Context(), "SELECT copy_sealed FROM notes").Scan(&stored); err != nil ||
		bytes.Contains(stored, []byte("CANARY")) || bytes.Contains(stored, []byte("age-encryption")) {
		t.Errorf("stored copy: %v", err)
	}
	if _, err := take("law_2"); !errors.Is(err, ErrNoCopy) {
		t.Errorf("another lawyer: %v", err)
	}
	sealed, err := take("law_1")
	if err != nil || !strings.HasPrefix(string(sealed), "-----BEGIN AGE ENCRYPTED FILE-----") ||
		open(sealed) != "CANARYNOTE é" {
		t.Errorf("copy %.40q, %v", sealed, err)
	}
	drop := func(want int) {
		t.Helper()
		if n, err := s.DropCopies(t.Context(), db.Read()); err != nil || n != want {
			t.Errorf("dropped %d, %v; want %d", n, err, want)
		}
	}
	clk.Advance(CopyAgain - time.Second)
	drop(0)
	if _, err := take("law_1"); err != nil {
		t.Errorf("again: %v", err)
	}
	clk.Advance(time.Second)
	over := func(when string) {
		t.Helper()
		if _, err := take("law_1"); !errors.Is(err, ErrNoCopy) {
			t.Errorf("%s: %v", when, err)
		}
		if list, err := s.Copies(t.Context(), db.Read(), "law_1", 10); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", when, list, err)
		}
	}
	over("not dropped yet")
	drop(1)
	if _, err := take("law_1"); !errors.Is(err, ErrNoCopy) {
		t.Errorf("a day later: %v", err)
	}

	submit("corrected")
	if list, err := s.Copies(t.Context(), db.Read(), "law_1", 10); err != nil || len(list) != 1 ||
		list[0].ConsultationID != "con_1" || list[0].TakenAt != nil ||
		!list[0].GoneAt().Equal(clk.Now().Add(CopyLifetime)) {
		t.Errorf("copies %+v, %v", list, err)
	}
	clk.Advance(CopyLifetime - time.Second)
	drop(0)
	if sealed, err := take("law_1"); err != nil || open(sealed) != "corrected" {
		t.Errorf("corrected: %v", err)
	}
	remove := func(want bool) {
		t.Helper()
		if had, err := s.RemoveRecipient(t.Context(), db.Read(), "law_1"); err != nil || had != want {
			t.Errorf("removed %v, %v", had, err)
		}
	}
	remove(true)
	remove(false)
	submit("corrected without a key")
	if _, err := take("law_1"); !errors.Is(err, ErrNoCopy) {
		t.Errorf("the copy of what was corrected: %v", err)
	}
	set(own.Recipient().String(), true)
	submit("last")
	clk.Advance(CopyLifetime)
	over("never taken")
	drop(1)
	submit("very last")
	do(func(tx postgres.Tx) error { return s.Erase(t.Context(), tx, []string{"con_1"}) })
	if _, err := take("law_1"); !errors.Is(err, ErrNoCopy) {
		t.Errorf("after the erasure: %v", err)
	}
}

// A change of the key waits for a note that is being stored: no note stored after the change is copied to the old key.
// A correction waits for a copy that is being taken, and creates a new copy that counts as not taken.
func TestACopyAndItsKeyDoNotChangeUnderneath(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), newService(t)
	seed(t, db)
	submit := func(text string) func(postgres.Tx) error {
		return func(tx postgres.Tx) error {
			_, err := s.Submit(t.Context(), tx, "con_1", "law_1", text, "preview", AnyVersion)
			return err
		}
	}
	take := func(tx postgres.Tx) error { _, _, err := takeCopy(t.Context(), tx, "law_1", "con_1"); return err }
	set := func(tx postgres.Tx) error {
		own, err := age.GenerateX25519Identity()
		if err == nil {
			_, err = s.SetRecipient(t.Context(), tx, "law_1", own.Recipient().String())
		}
		return err
	}
	remove := func(tx postgres.Tx) error { _, err := s.RemoveRecipient(t.Context(), tx, "law_1"); return err }
	for _, c := range []struct {
		name         string
		first, waits func(postgres.Tx) error
	}{{"replaced", submit("one"), set}, {"corrected", take, submit("two")}, {"removed", submit("three"), remove}} {
		if err := db.InTx(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		err := db.InTx(t.Context(), func(tx postgres.Tx) error {
			if err := c.first(tx); err != nil {
				return err
			}
			go func() { done <- db.InTx(t.Context(), c.waits) }()
			dbtest.AwaitWaiters(t, db, 1)
			return nil
		})
		if err := errors.Join(err, <-done); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name != "corrected" {
			continue
		}
		if list, err := s.Copies(t.Context(), db.Read(), "law_1", 10); err != nil || len(list) != 1 ||
			list[0].TakenAt != nil {
			t.Errorf("the correction's copy: %+v, %v", list, err)
		}
	}
}
