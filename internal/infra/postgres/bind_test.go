package postgres_test

import (
	"slices"
	"testing"
	"time"

	"partnerd/internal/infra/postgres"
)

type pairRow struct {
	ID     string `gorm:"column:id;primaryKey"`
	Number int    `gorm:"column:number"`
	Word   string `gorm:"column:word;serializer:zeronull"`
}

func (pairRow) TableName() string { return "pairs" }

// TestInsertsAreMadeFromTheModel also covers a missing column and a column that the table does not have.
func TestInsertsAreMadeFromTheModel(t *testing.T) {
	t.Parallel()
	if got := postgres.Insert[pairRow]("@",
		map[string]string{"number": "1"}); got != "INSERT INTO pairs (id, number, word) SELECT @id, 1, @word" {
		t.Error(got)
	}
	for what, make := range map[string]func(){
		"a column is forgotten": func() { postgres.Insert[pairRow]("", map[string]string{"id": "@id", "number": "1"}) },
		"there is no column":    func() { postgres.Insert[pairRow]("@", map[string]string{"nmber": "1"}) },
		"there is no parameter": func() { postgres.Bind[pairRow](postgres.SQL(postgres.Batch, "SELECT @nmber")) },
	} {
		if !panics(make) {
			t.Errorf("%s, and the statement is made", what)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestParametersAreTheFieldsThatTheStatementNames checks that parameters are found by column or field name, each once.
func TestParametersAreTheFieldsThatTheStatementNames(t *testing.T) {
	t.Parallel()
	b := postgres.Bind[pairRow](postgres.SQL(postgres.Batch, "SELECT @word, @Number, @id, @number"))
	if want := "SELECT CAST($1 AS text), CAST($2 AS bigint), CAST($3 AS text), CAST($2 AS bigint)"; b.String() != want {
		t.Errorf("%s, want %s", b, want)
	}
	for row, want := range map[pairRow][]any{{}: {nil, int64(0), ""}, {"a", 2, "w"}: {"w", int64(2), "a"}} {
		if got, err := b.Args(t.Context(), &row); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
}

// TestArraysMatchTheirColumns checks that empty texts become NULL in arrays as well, and that unsupported kinds are
// rejected.
func TestArraysMatchTheirColumns(t *testing.T) {
	t.Parallel()
	if got := postgres.Unnest[pairRow]("new", 3); got != "unnest($3::text[], $4::bigint[], $5::text[]) AS new "+
		"(id, number, word)" {
		t.Error(got)
	}
	got, err := postgres.Arrays(t.Context(), []pairRow{{"a", 1, ""}, {"b", 2, "w"}})
	if err != nil {
		t.Fatal(err)
	}
	words := got[2].([]*string)
	if !slices.Equal(got[0].([]string), []string{"a", "b"}) || !slices.Equal(got[1].([]int64), []int64{1, 2}) ||
		words[0] != nil || *words[1] != "w" {
		t.Errorf("%v", got)
	}
	if _, err := postgres.Arrays(t.Context(), []struct{ At time.Time }{{}}); err == nil {
		t.Error("an array of times was made")
	}
}
