package sandbox

import "partnerd/internal/postgres"

// stepsAging is what of this package becomes older with an application.
var stepsAging = []postgres.Aging{
	{Table: "sandbox_call_steps", Of: postgres.CallsOf, Instant: []string{"done_at", "due_at"},
		Inside: "event", Timer: "due_at", While: "done_at IS NULL"},
	{Table: "sandbox_payment_notices", Of: "session_id IN (SELECT s.id FROM topup_sessions s WHERE s.application_id = ?)", Instant: []string{"delivered_at", "due_at"},
		Timer: "due_at", While: "delivered_at IS NULL"},
}
