package idempotency

import "partnerd/internal/infra/postgres"

// Aging is what of this package becomes older with an application.
var Aging = []postgres.Aging{{Table: "idempotency_keys", Of: "application_id = ?",
	Instant: []string{"created_at", "expires_at"}}}
