package consultation

import "partnerd/internal/infra/reseal"

// Sealed lists the columns that the master key seals, in rows written by older releases.
func Sealed() []reseal.Column {
	table := row{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "subject_sealed", Place: subjectPlace, Older: true},
		{Table: table, ID: "id", Name: "description_sealed", Place: descriptionPlace, Older: true},
		{Table: table, ID: "id", Name: "phone_sealed", Place: phonePlace, Older: true},
	}
}
