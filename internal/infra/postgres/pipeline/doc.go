// Package pipeline sits between GORM and pgx's pool and saves round trips, which cost more than most statements. Within
// a transaction it defers statements and sends them with one that cannot wait. BEGIN goes with the first statement.
// Writes whose outcome affects nothing go with the next statement or with COMMIT.
//
//	a store: tx.Gorm(ctx), tx.Exec …            tx.Later(check): a deferred write
//	            │                                           │
//	            ▼                                           ▼
//	          GORM ───────────▶ [Pool]                 [Deferred]
//	                              │ contexts unwatched      │ adds to
//	                              ▼                         ▼
//	                         database/sql             [Queue] of the transaction
//	                              │                         │
//	                              ▼                         │ is sent first
//	                            [Conn] ◀────────────────────┘
//	                              │ outside a transaction: the statement alone
//	                              │ inside: deferred statements, then the statement, in one batch
//	                              ▼
//	                     a connection of pgx's pool
//
// What each part is for:
//
//   - GORM reads and writes through database/sql, whose own pool would keep connections from pgx's. A [Conn] therefore
//     holds a connection only for a statement or a transaction.
//   - database/sql would watch each statement's context in a goroutine, although pgx watches it anyway: hence
//     [Unwatched].
//   - rows.go decodes rows, because pgx's own driver plans the decoding of each column of each row.
//
// Out of scope: where transactions begin and end, retries, and the premises of a transaction (package postgres).
package pipeline
