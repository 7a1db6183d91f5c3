// Package money holds amounts as whole cents. Money is never a floating-point number.
package money

import "fmt"

// Cents is an amount in hundredths of the currency.
type Cents int64

// Currency is the only currency of the service (specification section 2.2).
const Currency = "EUR"

// Format formats the amount for display: "−20,00 €" in French, "−€20.00" otherwise. The minus sign is U+2212, not the
// hyphen of the keyboard.
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

// Worded is an amount named in a message. Pages format it in the reader's language; everything else uses English.
type Worded struct{ Cents }

func (w Worded) String() string { return w.Format("en") }
