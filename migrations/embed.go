// Package migrations holds the schema as numbered goose migrations.
package migrations

import "embed"

// FS holds the migrations.
//
//go:embed 0*.sql
var FS embed.FS
