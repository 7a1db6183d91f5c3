package note

import "partnerd/internal/infra/postgres"

// Aging lists what moves back in time when the clock of an application is advanced.
var Aging = []postgres.Aging{
	{Table: "notes", Of: postgres.ConsultationsOf, Instant: []string{"copy_taken_at", "corrected_at",
		"erased_at", "submitted_at"}},
	{Table: "note_drafts", Of: postgres.ConsultationsOf, Instant: []string{"saved_at"}},
}
