// Package catalog lists the competences (practice areas) and languages in which a consultation can be requested
// (specification section 2.5, decision H33).
//
// Tables: competences, languages.
//
// Invariants:
//   - A published code is never reused for something else.
//   - A retired code is neither listed nor accepted for new consultations. It stays valid on existing ones.
//
// Package matching knows who can serve a pair of competence and language.
package catalog
