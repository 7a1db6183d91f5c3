package catalog

import (
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, competenceRow{}, languageRow{})
}
