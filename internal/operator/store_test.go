package operator

import (
	"testing"

	"partnerd/internal/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, proposalRow{}, amountRow{})
}
