package staff

import "partnerd/internal/infra/reseal"

// Sealed are the columns that the master key seals.
func Sealed() []reseal.Column {
	table := staffRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "totp_sealed", Place: totpPlace},
	}
}
