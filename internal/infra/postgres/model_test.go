package postgres_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

type kindRow struct {
	ID     string                 `gorm:"column:id;primaryKey"`
	Texts  postgres.Array[string] `gorm:"column:texts"`
	Word   string                 `gorm:"column:word;serializer:zeronull"`
	Number int                    `gorm:"column:number;serializer:zeronull"`
	At     time.Time              `gorm:"column:at;serializer:zeronull"`
}

func (kindRow) TableName() string { return "kinds" }

// TestModelsKeepWhatTheyAreGiven writes and reads arrays, and zero values stored as NULL, through the builder and SQL
// text.
func TestModelsKeepWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	db := dbtest.Owner(t, dbtest.New(t))
	ctx, tx := t.Context(), db.Read()
	if _, err := tx.Exec(ctx, postgres.SQL(postgres.Backend,
		`CREATE TABLE kinds (id text PRIMARY KEY, texts text[] NOT NULL, word text, number integer, at timestamptz)`)); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 891000, time.UTC)
	texts := postgres.Array[string]{"a b", `"{},\`, "", "é"}
	for _, r := range []kindRow{{ID: "zero"}, {ID: "full", Texts: texts, Word: "w", Number: -3, At: at}} {
		if err := gorm.G[kindRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
			t.Fatal(err)
		}
	}
	var nulls int
	if err := tx.QueryRow(ctx,
		postgres.SQL(postgres.Report, `SELECT num_nulls(texts, word, number, at) FROM kinds WHERE id = $1`),
		"zero").Scan(&nulls); err != nil || nulls != 3 {
		t.Errorf("%d of texts, word, number and time are NULL, want all but texts: %v", nulls, err)
	}
	byText, err := postgres.Query[kindRow](ctx, tx, postgres.SQL(postgres.Report,
		`SELECT `+postgres.Columns[kindRow]("k")+` FROM kinds k WHERE id = ANY ($1) ORDER BY id`),
		[]string{"full", "zero"})
	if err != nil {
		t.Fatal(err)
	}
	byBuilder, err := gorm.G[kindRow](tx.Gorm(ctx)).Where("id = ANY (?)", postgres.Array[string]{"zero", "full"}).
		Order("id").Find(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]kindRow{byText, byBuilder} {
		if len(got) != 2 || !slices.Equal(got[0].Texts, texts) || got[0].Word != "w" || got[0].Number != -3 ||
			got[0].At != at || got[1].Word != "" || got[1].Number != 0 || !got[1].At.IsZero() ||
			len(got[1].Texts) != 0 {
			t.Errorf("read back: %+v", got)
		}
	}
}

// TestArraysAreForManyAtATime is for the race detector.
func TestArraysAreForManyAtATime(t *testing.T) {
	t.Parallel()
	want := postgres.Array[string]{"a", `b"\`, ""}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			text, err := want.Value()
			if err != nil {
				t.Error(err)
			}
			var got postgres.Array[string]
			if err := got.Scan(text); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	all.Wait()
}

// TestArraysAreReadAsTheServerWritesThem also covers arrays without quotes.
func TestArraysAreReadAsTheServerWritesThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"{}": {}, "{a}": {"a"}, "{a,b:c,é}": {"a", "b:c", "é"}, `{a,""}`: {"a", ""}, `{"a,b",c}`: {"a,b", "c"},
		`{"\\\"",c}`: {`\"`, "c"}, `{"NULL","{}"}`: {"NULL", "{}"}, "{xNULLx}": {"xNULLx"}, "[0:1]={a,b}": {"a", "b"},
	} {
		var got postgres.Array[string]
		if err := got.Scan(text); err != nil || got == nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v", text, got, err)
		}
	}
	for _, text := range []string{"{a,NULL}", "{a", "a}", ""} {
		if got := (postgres.Array[string]{}); got.Scan(text) == nil {
			t.Errorf("%q was read: %q", text, got)
		}
	}
}

// TestPurgeLeavesWhatIsLockedAndWhatIsTooMuch deletes in batches around a locked row.
func TestPurgeLeavesWhatIsLockedAndWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	db := dbtest.Owner(t, dbtest.New(t))
	ctx := t.Context()
	for _, sql := range []string{
		`CREATE TABLE kinds (id text PRIMARY KEY, texts text[], word text, number integer, at timestamptz)`,
		`INSERT INTO kinds (id, number) VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 9)`,
	} {
		if _, err := db.Read().Exec(ctx, postgres.SQL(postgres.Backend, sql)); err != nil {
			t.Fatal(err)
		}
	}
	err := db.InTx(ctx, func(holder postgres.Tx) error {
		if _, err := gorm.G[kindRow](holder.Gorm(ctx), postgres.ForUpdate).Where("id = 'a'").Take(ctx); err != nil {
			return err
		}
		for _, want := range []int{1, 1, 0} {
			if n, err := postgres.Purge[kindRow](ctx, db.Read(), 1, "number", "number < ?", 9); err != nil ||
				n != want {
				t.Errorf("purged %d, want %d: %v", n, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	left, err := gorm.G[kindRow](db.Read().Gorm(ctx)).Order("id").Find(ctx)
	if err != nil || len(left) != 2 || left[0].ID != "a" || left[1].ID != "d" {
		t.Errorf("left: %+v, %v", left, err)
	}
}
