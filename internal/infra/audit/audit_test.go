package audit_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

func record(t *testing.T, db *postgres.DB, e audit.Entry) error {
	return db.InTx(t.Context(), func(tx postgres.Tx) error { return audit.Record(t.Context(), tx, e) })
}

func entry(subject string) audit.Entry {
	return audit.Entry{Actor: "cli:demo", Action: "wallet.adjust", Subject: subject, Reason: "Goodwill",
		Details: map[string]int{"cents": 5}}
}

// TestAChangedEntryIsNamed checks that entries of concurrent transactions are numbered without gaps and chained. A
// changed or removed entry is named.
func TestAChangedEntryIsNamed(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := record(t, db, entry(fmt.Sprintf("cli_%d", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if findings, err := audit.Verify(t.Context(), db.Read()); err != nil || len(findings) > 0 {
		t.Fatalf("findings %q, %v", findings, err)
	}
	list, err := audit.List(t.Context(), db.Read(), "", 0, 50)
	if err != nil || len(list) != 20 || list[0].Actor != "cli:demo" || list[0].Seq != 20 || list[19].Seq != 1 {
		t.Fatalf("list %+v, %v", list, err)
	}
	owner := dbtest.Owner(t, db)
	for sql, want := range map[string]string{
		`UPDATE audit_entries SET reason = 'Another' WHERE seq = 7`: "number 7 does not match",
		`DELETE FROM audit_entries WHERE seq = 3`:                   "number 4 does not match",
	} {
		if _, err := owner.Pool().Exec(t.Context(), sql); !postgres.IsCheck(err, "append_only") {
			t.Errorf("%s: %v, want a refusal", sql, err)
		}
		undo := errors.New("undo")
		err := owner.InTx(t.Context(), func(tx postgres.Tx) error {
			for _, s := range []string{`ALTER TABLE audit_entries DISABLE TRIGGER USER`, sql} {
				if _, err := tx.Exec(t.Context(), postgres.SQL(postgres.Batch, s)); err != nil {
					return err
				}
			}
			findings, err := audit.Verify(t.Context(), tx)
			if err != nil || !strings.Contains(strings.Join(findings, "\n"), want) {
				t.Errorf("%s: findings %q, %v", sql, findings, err)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Error(err)
		}
	}
}

// TestAnEntryThatIsDatedBackIsNamed covers a role that may add entries. It can add an entry that fits the chain, but
// one dated in the past is named.
func TestAnEntryThatIsDatedBackIsNamed(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if err := record(t, db, entry("cli_1")); err != nil {
		t.Fatal(err)
	}
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		tx.Now = tx.Now.Add(-time.Hour)
		return audit.Record(t.Context(), tx, entry("cli_2"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if findings, err := audit.Verify(t.Context(), db.Read()); err != nil || len(findings) != 1 ||
		!strings.Contains(findings[0], "number 2 is dated before") {
		t.Errorf("findings %q, %v", findings, err)
	}
}

func TestAnEntrySaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for _, change := range []func(*audit.Entry){
		func(e *audit.Entry) { e.Actor = " " }, func(e *audit.Entry) { e.Action = "" },
		func(e *audit.Entry) { e.Reason = "\t" },
	} {
		e := entry("cli_1")
		change(&e)
		if err := record(t, db, e); !errors.Is(err, audit.ErrIncomplete) {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
