package vault

import "partnerd/internal/infra/reseal"

// Sealed returns the columns that the master key seals.
func Sealed() []reseal.Column {
	table := keyRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "client_id", Name: "key_sealed", Place: place},
	}
}
