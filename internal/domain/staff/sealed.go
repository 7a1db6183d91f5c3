package staff

import "partnerd/internal/infra/reseal"

// Sealed returns the columns that are encrypted with the master key.
func Sealed() []reseal.Column {
	table := staffRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "totp_sealed", Place: totpPlace},
	}
}
