package oauth

import (
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, grantRow{}, codeRow{}, refreshTokenRow{}, consentRow{}, answerRow{}, eventRow{}, signingKeyRow{})
}
