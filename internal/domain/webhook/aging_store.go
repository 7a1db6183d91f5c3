package webhook

import "partnerd/internal/infra/postgres"

// Aging is what of this package becomes older with an application. Events and the log say when something really
// happened.
var Aging = []postgres.Aging{
	{Table: "webhook_deliveries", Of: "application_id = ?", Instant: []string{"next_at"}, Timer: "next_at",
		While: "state = 'PENDING' AND NOT held AND lease_until IS NULL"},
	{Table: "webhook_endpoints", Of: "application_id = ?", Instant: []string{"failing_since", "previous_secret_until"}},
}
