package telephony

import "partnerd/internal/infra/postgres"

// Aging lists the columns of this package that move when an application's clock advances. The provider's reports are
// not changed.
var Aging = []postgres.Aging{
	{Table: "calls", Of: postgres.ConsultationsOf, Instant: []string{"bridged_at", "ended_at", "joined_at",
		"last_event_at", "lost_at", "started_at"}},
	{Table: "call_commands", Of: postgres.CallsOf, Instant: []string{"done_at", "due_at"}, Timer: "due_at",
		While: "done_at IS NULL"},
}
