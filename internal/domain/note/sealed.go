package note

import "partnerd/internal/infra/reseal"

// Sealed lists the columns that the master key seals, in rows written by older releases.
func Sealed() []reseal.Column {
	table := noteRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "consultation_id", Name: "preview_sealed", Place: previewPlace, Older: true},
		{Table: table, ID: "consultation_id", Name: "digest", Place: digestPlace, Older: true},
	}
}
