package catalog

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// entryRow is a row of competences or languages.
type entryRow struct {
	Code      string     `gorm:"column:code;primaryKey"`
	LabelEn   string     `gorm:"column:label_en"`
	LabelFr   string     `gorm:"column:label_fr"`
	Position  int        `gorm:"column:position"`
	RetiredAt *time.Time `gorm:"column:retired_at"`
}

type competenceRow entryRow

// TableName implements [schema.Tabler].
func (competenceRow) TableName() string { return "competences" }

type languageRow entryRow

// TableName implements [schema.Tabler].
func (languageRow) TableName() string { return "languages" }

func load(ctx context.Context, tx postgres.Tx) (l lists, err error) {
	competences, err := gorm.G[competenceRow](tx.Gorm(ctx)).Where("retired_at IS NULL").Order("position").Find(ctx)
	if err != nil {
		return lists{}, fmt.Errorf("read competences: %w", err)
	}
	languages, err := gorm.G[languageRow](tx.Gorm(ctx)).Where("retired_at IS NULL").Order("position").Find(ctx)
	if err != nil {
		return lists{}, fmt.Errorf("read languages: %w", err)
	}
	for _, r := range competences {
		l.competences = append(l.competences, item{r.Code, r.LabelEn, r.LabelFr})
	}
	for _, r := range languages {
		l.languages = append(l.languages, item{r.Code, r.LabelEn, r.LabelFr})
	}
	return l, nil
}
