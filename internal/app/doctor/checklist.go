package doctor

import _ "embed"

// Checklist is the checklist for production, in Markdown.
//
//go:embed checklist.md
var Checklist string
