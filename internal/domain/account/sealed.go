package account

import "partnerd/internal/infra/reseal"

// Sealed lists the columns that the master key seals, in rows written by older releases.
func Sealed() []reseal.Column {
	table := clientRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "phone_sealed", Place: phonePlace, Older: true},
	}
}
