package dbtest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm/schema"
)

type good struct {
	ID        string     `gorm:"column:id;primaryKey"`
	Amount    int64      `gorm:"column:amount"`
	Name      string     `gorm:"column:name;serializer:zeronull"`
	EndedAt   *time.Time `gorm:"column:ended_at"`
	CreatedAt time.Time  `gorm:"column:created_at;autoCreateTime:false"`
}

// TestAModelThatIsNotItsTableIsFound breaks a model in every possible way.
func TestAModelThatIsNotItsTableIsFound(t *testing.T) {
	t.Parallel()
	table := map[string]column{"id": {"text", false}, "amount": {"bigint", false}, "name": {"text", true},
		"ended_at": {"timestamp with time zone", true}, "created_at": {"timestamp with time zone", false}}
	for _, tt := range []struct {
		model any
		want  string
	}{
		{good{}, ""},
		{struct {
			ID string `gorm:"column:id;primaryKey"`
		}{}, "column amount is missing"},
		{struct {
			Amount  int64  `gorm:"column:amount"`
			Surplus string `gorm:"column:surplus"`
		}{}, "has no column surplus"},
		{struct {
			Amount string `gorm:"column:amount"`
		}{}, "field Amount is a string, column amount a bigint"},
		{struct {
			Name string `gorm:"column:name"`
		}{}, "field Name: string, column name: nullable true"},
		{struct {
			ID *string `gorm:"column:id"`
		}{}, "field ID: *string, column id: nullable false"},
		{struct{ Amount int64 }{}, "field Amount does not name its column"},
		{struct {
			CreatedAt time.Time `gorm:"column:created_at"`
		}{}, "set by GORM's clock"},
	} {
		s, err := schema.Parse(tt.model, &sync.Map{}, schema.NamingStrategy{})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(compare(s, table), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%+v:\n%s\nwant: %s", tt.model, got, tt.want)
		}
	}
}
