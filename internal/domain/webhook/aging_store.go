package webhook

import "partnerd/internal/infra/postgres"

// Aging lists the columns of this package that move when an application's clock advances. Events and the delivery log
// keep real times.
var Aging = []postgres.Aging{
	{Table: "webhook_deliveries", Of: "application_id = ?", Instant: []string{"next_at"}, Timer: "next_at",
		While: "state = 'PENDING' AND NOT held AND lease_until IS NULL"},
	{Table: "webhook_endpoints", Of: "application_id = ?", Instant: []string{"failing_since", "previous_secret_until"}},
}
