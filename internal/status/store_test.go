package status

import (
	"testing"

	"partnerd/internal/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, dayRow{})
}
