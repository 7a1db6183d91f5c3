// Package audit keeps what operators did by hand: who, what, to whom, when and why.
//
// Tables: audit_entries.
// They are only added, in the transaction of what they report, and each is chained to the
// one before it, so that [Verify] names an entry that was changed or removed.
//
// It holds no secrets and no content of consultations, and it decides nothing.
package audit
