package oauth

import "partnerd/internal/infra/reseal"

// Sealed are the columns that the master key seals.
func Sealed() []reseal.Column {
	table := signingKeyRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "kid", Name: "private_sealed", Place: keyPlace},
		{Table: answerRow{}.TableName(), Name: "answer_sealed"},
	}
}
