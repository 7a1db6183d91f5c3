// Package forms describes the forms and tables of the pages: inputs, the fields of acts, what is wrong with what was
// sent and at which field, blocks of facts and rows, and the amounts, days and choices that forms are read from.
//
// Owns: which refusal of the domain has which words (faults.go).
// Does not do: rendering. Package shell and the pages of each audience show what is described here.
package forms
