package sandbox

import "partnerd/internal/infra/reseal"

// Sealed returns the columns that are encrypted with the master key.
func Sealed() []reseal.Column {
	table := messageRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "sealed", Place: messagePlace},
	}
}
