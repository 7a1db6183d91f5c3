// Package web serves the HTML pages: it puts the pages of each audience together, each with the services that it needs.
//
// The shell is what all pages share; forms describes forms and tables; signin lets in those who work here; clients,
// lawyers, operators, developers and public are the pages of one audience each. Its tests look at all pages together.
// Invariants: no script but our own, on the pages that need it; the rest are those of package shell.
// Does not do: rules of its own. What may be asked, granted, paid or disconnected is decided by the domains.
package web
