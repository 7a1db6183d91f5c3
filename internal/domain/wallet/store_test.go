package wallet

import (
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, walletRow{}, transactionRow{}, postingRow{}, holdRow{}, sealRow{})
}
