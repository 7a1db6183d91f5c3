package sandbox

import "partnerd/internal/infra/reseal"

// Sealed are the columns that the master key seals.
func Sealed() []reseal.Column {
	table := messageRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "sealed", Place: messagePlace},
	}
}
