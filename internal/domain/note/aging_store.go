package note

import "partnerd/internal/infra/postgres"

// Aging is what of this package becomes older with an application.
var Aging = []postgres.Aging{
	{Table: "notes", Of: postgres.ConsultationsOf, Instant: []string{"copy_taken_at", "corrected_at",
		"erased_at", "submitted_at"}},
	{Table: "note_drafts", Of: postgres.ConsultationsOf, Instant: []string{"saved_at"}},
}
