// Package money holds amounts as whole cents. There is no floating point anywhere near money.
package money

import "fmt"

// Cents is an amount in hundredths of the currency.
type Cents int64

// Currency is the only currency of the service (specification section 2.2).
const Currency = "EUR"

// Format writes the amount for people, with a minus sign that is none of the keyboard's:
// "−20,00 €" in French, "−€20.00" otherwise.
func (c Cents) Format(language string) string {
	sign, v := "", int64(c)
	if v < 0 {
		sign, v = "−", -v
	}
	if language == "fr" {
		return fmt.Sprintf("%s%d,%02d\u00a0€", sign, v/100, v%100)
	}
	return fmt.Sprintf("%s€%d.%02d", sign, v/100, v%100)
}

// Worded is an amount that a message names: pages write it in the language of the reader, everything else in English.
type Worded struct{ Cents }

func (w Worded) String() string { return w.Format("en") }
