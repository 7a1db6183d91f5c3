package matching

import "partnerd/internal/infra/postgres"

// Aging lists what moves back in time when the clock of an application is advanced. An offer records both ends of a
// wait, and both move. The lawyer's idle time does not move, because it belongs to the lawyer.
var Aging = []postgres.Aging{{Table: "offers", Of: postgres.ConsultationsOf,
	Instant: []string{"created_at", "ended_at", "expires_at", "idle_since", "returned_at"},
	Timer:   "expires_at", While: "state = 'OPEN'"}}
