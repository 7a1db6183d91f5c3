package webhook

import "partnerd/internal/infra/reseal"

// Sealed returns the columns that are encrypted with the master key.
func Sealed() []reseal.Column {
	table := endpointRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "application_id", Name: "secret_sealed", Place: secretPlace},
		{Table: table, ID: "application_id", Name: "previous_secret_sealed", Place: secretPlace},
	}
}
