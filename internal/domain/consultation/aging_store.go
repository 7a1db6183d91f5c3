package consultation

import "partnerd/internal/infra/postgres"

// Aging lists what moves back in time when the clock of an application is advanced. Withdrawals are evidence, so their
// times stay.
var Aging = []postgres.Aging{{Table: "consultations", Of: "application_id = ?", Timer: "timer_at",
	Instant: []string{"alarmed_at", "assigned_at", "call_cap_at", "call_ended_at", "call_started_at", "callable_from",
		"callable_until", "callback_due_at", "cancelled_at", "choose_by", "completed_at", "created_at", "erased_at",
		"estimate_told_at", "expired_at", "first_assigned_at", "first_dial_at", "last_dial_at", "line_lost_at",
		"next_dial_at", "refunded_at", "search_started_at", "timer_at", "updated_at"}}}
