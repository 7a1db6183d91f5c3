package wallet

import "partnerd/internal/base/money"

// NewWithFees returns a service with another price.
func NewWithFees(lawyer, platform money.Cents) *Service { return &Service{lawyer, platform} }
