package idempotency

import "partnerd/internal/infra/postgres"

// Aging describes how rows of this package age with an application.
var Aging = []postgres.Aging{{Table: "idempotency_keys", Of: "application_id = ?",
	Instant: []string{"created_at", "expires_at"}}}
