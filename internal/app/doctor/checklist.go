package doctor

import _ "embed"

// Checklist is what to look at before production, in Markdown.
//
//go:embed checklist.md
var Checklist string
