// Package audit records manual actions of operators: who did what, to whom, when and why.
//
// Tables: audit_entries.
//
// Entries are only added, in the transaction of the action that they record. Each is chained to the previous one, so
// that [Verify] names any entry that was changed or removed.
//
// The package holds no secrets and no content of consultations, and makes no decisions.
package audit
