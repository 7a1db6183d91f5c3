package payment

import "partnerd/internal/infra/postgres"

// Aging is what of this package becomes older with an application.
var Aging = []postgres.Aging{{Table: "topup_sessions", Of: "application_id = ?",
	Instant: []string{"created_at", "ended_at", "expires_at", "opened_at"}}}
