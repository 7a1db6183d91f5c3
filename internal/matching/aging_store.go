package matching

import "partnerd/internal/postgres"

// Aging is what of this package becomes older with an application. Since when a lawyer was idle is his own.
var Aging = []postgres.Aging{{Table: "offers", Of: postgres.ConsultationsOf, Instant: []string{"created_at", "ended_at", "expires_at", "returned_at"},
	Timer: "expires_at", While: "state = 'OPEN'"}}
