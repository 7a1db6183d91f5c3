package matching

import "partnerd/internal/infra/postgres"

// Aging is what of this package becomes older with an application. An offer keeps for how long its lawyer had
// waited: both of its ends move. Since when the lawyer waits is the lawyer's.
var Aging = []postgres.Aging{{Table: "offers", Of: postgres.ConsultationsOf,
	Instant: []string{"created_at", "ended_at", "expires_at", "idle_since", "returned_at"},
	Timer:   "expires_at", While: "state = 'OPEN'"}}
