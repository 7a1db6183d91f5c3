package reseal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// column has no rows of its own.
var column = Column{Table: "deployment_secrets", ID: "purpose", Name: "secret_sealed",
	Place: func(id string) string { return "place:" + id }}

type rotation struct {
	*testing.T
	db              *postgres.DB
	old, now, after *seal.Box // before the rotation, during it, and after the old part was removed
}

func rotate(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{T: t, db: dbtest.New(t)}
	old, err1 := seal.NewKey()
	extended, err2 := seal.ExtendKey(old)
	promoted, err3 := seal.PromoteKey(extended)
	trimmed, err4 := seal.TrimKey(promoted)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for key, box := range map[string]**seal.Box{old: &r.old, promoted: &r.now, trimmed: &r.after} {
		var err error
		if *box, err = seal.OpenBox(key); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// write seals a value of a row and replaces any previous one.
func (r *rotation) write(box *seal.Box, id, plain string) {
	r.Helper()
	sealed, err := box.Seal(column.Place(id), []byte(plain))
	if err == nil {
		err = r.db.InTx(r.Context(), func(tx postgres.Tx) error {
			return dbtest.Exec(r.Context(), tx,
				`INSERT INTO deployment_secrets (purpose, secret_sealed, created_at) VALUES ($1, $2, now())
				ON CONFLICT (purpose) DO UPDATE SET secret_sealed = $2`, id, sealed)
		})
	}
	if err != nil {
		r.Error(err)
	}
}

func (r *rotation) read(box *seal.Box, id string) string {
	r.Helper()
	var sealed []byte
	if err := r.db.Pool().QueryRow(r.Context(), `SELECT secret_sealed FROM deployment_secrets WHERE purpose = $1`, id).
		Scan(&sealed); err != nil {
		r.Fatal(err)
	}
	plain, err := box.Open(column.Place(id), sealed)
	if err != nil {
		r.Errorf("%s does not open: %v", id, err)
	}
	return string(plain)
}

func (r *rotation) uses() map[seal.Part]int64 {
	r.Helper()
	all, err := Uses(r.Context(), r.db.Read(), []Column{column})
	if err != nil {
		r.Fatal(err)
	}
	n := map[seal.Part]int64{}
	for _, u := range all {
		n[u.Part] = u.Rows
	}
	return n
}

func quiet(Progress) {}

// TestAValueThatChangedMeanwhileIsLeftAlone checks that a value written after it was read for resealing is kept. A
// deleted one stays deleted.
func TestAValueThatChangedMeanwhileIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := rotate(t)
	for _, id := range []string{"changed", "deleted", "kept"} {
		r.write(r.old, id, "before")
	}
	list, err := find(t.Context(), r.db.Read(), column, r.now.Sealing(), "")
	if err != nil || len(list) != 3 {
		t.Fatalf("%d values, %v", len(list), err)
	}
	for i, v := range list {
		if list[i].fresh, err = r.now.Seal(column.Place(v.ID), []byte("before")); err != nil {
			t.Fatal(err)
		}
	}
	r.write(r.now, "changed", "after")
	owner := dbtest.Owner(t, r.db)
	if _, err := owner.Pool().Exec(t.Context(),
		`DELETE FROM deployment_secrets WHERE purpose = 'deleted'`); err != nil {
		t.Fatal(err)
	}
	n, err := replace(t.Context(), r.db.Read(), column, list)
	if err != nil || n != 1 {
		t.Errorf("%d were replaced, %v", n, err)
	}
	if got := r.read(r.after, "changed"); got != "after" {
		t.Errorf("the newer value is lost: %q", got)
	}
	if got := r.read(r.after, "kept"); got != "before" {
		t.Errorf("kept: %q", got)
	}
	if got := r.uses(); got[r.now.Sealing()] != 2 || len(got) != 1 {
		t.Errorf("uses: %v", got)
	}
}

// TestResealingAmongWriters reseals rows that others keep writing. Each row ends with the last value written, sealed by
// the newest part.
func TestResealingAmongWriters(t *testing.T) {
	t.Parallel()
	const rows, rounds = 40, 15
	r := rotate(t)
	for i := range rows {
		r.write(r.old, fmt.Sprint("row", i), "before")
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for round := range rounds {
				for i := w; i < rows; i += 2 {
					r.write([]*seal.Box{r.old, r.now}[round%2], fmt.Sprint("row", i), fmt.Sprint(round))
				}
			}
		})
	}
	for range rounds {
		if _, err := Run(t.Context(), r.db, r.now, []Column{column}, quiet); err != nil {
			t.Fatal(err)
		}
	}
	writers.Wait()
	if _, err := Run(t.Context(), r.db, r.now, []Column{column}, quiet); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if got := r.read(r.after, fmt.Sprint("row", i)); got != fmt.Sprint(rounds-1) {
			t.Errorf("row %d is %q", i, got)
		}
	}
}

// TestResealingGoesOnWhereItWasCutOff checks that an interrupted run continues with the remaining values. A value that
// cannot be opened is reported and left.
func TestResealingGoesOnWhereItWasCutOff(t *testing.T) {
	t.Parallel()
	const rows = 2*batch + 100
	r := rotate(t)
	sealed := make([][]byte, rows)
	ids := make([]string, rows)
	for i := range rows {
		ids[i] = fmt.Sprintf("row%05d", i)
		var err error
		if sealed[i], err = r.old.Seal(column.Place(ids[i]), []byte(ids[i])); err != nil {
			t.Fatal(err)
		}
	}
	stranger := rotate(t).old
	foreign, err := stranger.Seal(column.Place("a stranger"), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	ids, sealed = append(ids, "a stranger", "by a client's key"), append(sealed, foreign, []byte{2, 1, 1, 1, 1, 1})
	if _, err := r.db.Pool().Exec(t.Context(), `INSERT INTO deployment_secrets (purpose, secret_sealed, created_at) SELECT id, sealed, now() FROM unnest($1::text[], $2::bytea[]) AS new (id, sealed)`, ids, sealed); err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancel(t.Context())
	if _, err := Run(ctx, r.db, r.now, []Column{column}, func(Progress) { cut() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("cut off: %v", err)
	}
	first, second := r.old.Sealing(), r.now.Sealing()
	done := r.uses()
	if done[second] == 0 || done[first] == 0 || done[first]+done[second] != rows {
		t.Fatalf("after a batch: %v", done)
	}
	all, err := Run(t.Context(), r.db, r.now, []Column{column}, quiet)
	if err != nil || len(all) != 1 || all[0].Resealed != done[first] || all[0].Unopened != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if got := r.uses(); got[second] != rows || got[first] != 0 || got[stranger.Sealing()] != 1 {
		t.Errorf("at the end: %v", got)
	}
	missing := MissingError{}
	if err := Check(t.Context(), r.db.Read(), r.after, []Column{column}); !errors.As(err, &missing) ||
		missing.Part != stranger.Sealing() || missing.Rows != 1 {
		t.Errorf("check: %v", err)
	}
	counted, older := column, column
	counted.Place, older.Older = nil, true
	if all, err := Run(t.Context(), r.db, r.old, []Column{counted}, quiet); err != nil || all[0].Resealed != 0 {
		t.Errorf("what runs out by itself: %+v, %v", all, err)
	}
	if err := Check(t.Context(), r.db.Read(), r.after, []Column{older}); err != nil {
		t.Errorf("check of older releases' rows: %v", err)
	}
}
