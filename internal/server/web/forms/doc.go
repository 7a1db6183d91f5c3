// Package forms describes the forms and tables of the pages: inputs, fields of actions, errors with their fields, and
// blocks of facts and rows. It also reads amounts, days and choices from forms.
//
// Owns: which text is shown for which refusal of the domain (faults.go).
// Does not do: rendering. Package shell and the pages of each audience show what is described here.
package forms
