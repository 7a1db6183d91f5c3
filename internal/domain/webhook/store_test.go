package webhook

import (
	"testing"

	"partnerd/internal/dev/dbtest"
)

func TestModelsAreTheTables(t *testing.T) {
	t.Parallel()
	dbtest.Models(t, endpointRow{}, eventRow{}, deliveryRow{}, attemptRow{}, noticeRow{}, clientRow{})
}
