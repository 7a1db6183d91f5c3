package catalog

import (
	"context"
	"fmt"

	"partnerd/internal/postgres"
)

func load(ctx context.Context, tx postgres.Tx) (lists, error) {
	var rows []struct{ Kind, Code, LabelEn, LabelFr string }
	err := tx.Gorm(ctx).Raw(`
		SELECT 'competence' AS kind, code, label_en, label_fr, position FROM competences WHERE retired_at IS NULL
		UNION ALL
		SELECT 'language', code, label_en, label_fr, position FROM languages WHERE retired_at IS NULL
		ORDER BY kind, position`).Scan(&rows).Error
	if err != nil {
		return lists{}, fmt.Errorf("read catalog: %w", err)
	}
	var l lists
	for _, r := range rows {
		it := item{r.Code, r.LabelEn, r.LabelFr}
		if r.Kind == "competence" {
			l.competences = append(l.competences, it)
		} else {
			l.languages = append(l.languages, it)
		}
	}
	return l, nil
}
