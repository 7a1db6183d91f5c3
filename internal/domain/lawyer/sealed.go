package lawyer

import "partnerd/internal/infra/reseal"

// Sealed lists the columns that the master key seals.
func Sealed() []reseal.Column {
	table := lawyerRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "id", Name: "phone_sealed", Place: phonePlace},
	}
}
