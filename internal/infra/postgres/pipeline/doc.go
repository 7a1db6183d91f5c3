// Package pipeline stands between GORM and pgx's pool, and sends what can wait in a transaction to the database
// together with the statement that cannot: BEGIN with the first, and writes whose outcome decides nothing with the
// next, or with COMMIT. A round trip costs more than most statements.
//
//	a store: tx.Gorm(ctx), tx.Exec …            tx.Later(check): a write that waits
//	            │                                           │
//	            ▼                                           ▼
//	          GORM ───────────▶ [Pool]                 [Deferred]
//	                              │ contexts unwatched      │ adds to
//	                              ▼                         ▼
//	                         database/sql             [Queue] of the transaction
//	                              │                         │
//	                              ▼                         │ goes first
//	                            [Conn] ◀────────────────────┘
//	                              │ outside a transaction: the statement alone
//	                              │ in one: all that waits, then the statement, in one batch
//	                              ▼
//	                     a connection of pgx's pool
//
// What each part is for: GORM reads and writes through database/sql, whose own pool would keep connections from pgx's,
// so a [Conn] holds one only for a statement or a transaction. database/sql would watch the context of each statement
// in a goroutine, as pgx does anyway: hence [Unwatched]. Rows are decoded here (rows.go), because pgx's own driver
// makes a plan for each column of each row.
//
// Does not do: the beginning and the end of transactions, retries, what a transaction rests on (package postgres).
package pipeline
