package account

import (
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, clientRow{}, sessionRow{}, linkRow{}, codeRow{}, codeCountRow{}, passkeyRow{}, challengeRow{})
}
