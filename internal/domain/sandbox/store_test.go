package sandbox

import (
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, stepRow{}, noticeRow{}, playRow{}, choiceRow{}, clientRow{}, messageRow{}, crewRow{})
}
