package payment

import "partnerd/internal/infra/postgres"

// Aging lists the columns of this package that move when an application's clock advances.
var Aging = []postgres.Aging{{Table: "topup_sessions", Of: "application_id = ?",
	Instant: []string{"created_at", "ended_at", "expires_at", "opened_at"}}}
