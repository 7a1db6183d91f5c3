// Package catalog lists the competences (fields of law) and languages in which a consultation can be asked for
// (specification section 2.5, decision H33).
//
// Tables: competences, languages.
//
// Invariants: a code, once published, is never used for something else;
// a retired code is neither listed nor accepted for new consultations, and stays valid on old ones.
//
// It does not know who can serve a pair: that is package matching.
package catalog
