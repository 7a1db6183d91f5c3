package idempotency

import "partnerd/internal/infra/reseal"

// Sealed returns the columns that the master key seals.
func Sealed() []reseal.Column {
	return []reseal.Column{{Table: keyRow{}.TableName(), Name: "body"}}
}
