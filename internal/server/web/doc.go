// Package web serves the HTML pages. It combines the pages of each audience, each with the services that it needs.
//
// Package shell holds what all pages share, and package forms describes forms and tables. Package signin signs in
// operators, lawyers and partners. Packages clients, lawyers, operators, developers and public each serve the pages of
// one audience. The tests in this package cover all pages together.
// Invariant: pages load only our own scripts, and only where they need them. Package shell documents the others.
// Does not do: business rules. The domains decide what may be requested, granted, paid or disconnected.
package web
