package oauth

import "partnerd/internal/infra/reseal"

// Sealed returns the columns that are encrypted with the master key.
func Sealed() []reseal.Column {
	table := signingKeyRow{}.TableName()
	return []reseal.Column{
		{Table: table, ID: "kid", Name: "private_sealed", Place: keyPlace},
		{Table: answerRow{}.TableName(), Name: "answer_sealed"},
	}
}
