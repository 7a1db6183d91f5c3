package matching

import "partnerd/internal/infra/postgres"

// Aging lists what moves back in time when the clock of an application is advanced. Both ends of the wait that an offer
// records move. The idle time of the lawyer belongs to the lawyer.
var Aging = []postgres.Aging{{Table: "offers", Of: postgres.ConsultationsOf,
	Instant: []string{"created_at", "ended_at", "expires_at", "idle_since", "returned_at"},
	Timer:   "expires_at", While: "state = 'OPEN'"}}
