package application

import "partnerd/internal/infra/postgres"

// Aging lists what moves back in time when the clock of an application is advanced. The times at which its settings
// changed stay as they are.
var Aging = []postgres.Aging{{Table: "applications", Of: "id = ? AND previous_secret_until IS NOT NULL",
	Instant: []string{"previous_secret_until"}}}
