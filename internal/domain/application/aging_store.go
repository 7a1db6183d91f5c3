package application

import "partnerd/internal/infra/postgres"

// Aging is what of this package becomes older with an application. When its settings were changed stays true.
var Aging = []postgres.Aging{{Table: "applications", Of: "id = ? AND previous_secret_until IS NOT NULL",
	Instant: []string{"previous_secret_until"}}}
