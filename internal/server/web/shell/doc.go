// Package shell is what all pages share: headers, languages and texts, templates and assets, cookies, sessions and form
// tokens. It also runs forms once, keeps forms during a sign-in, and limits guesses.
//
// Owns: templates, the French and English texts (texts*.json), one stylesheet, the scripts, the browser's cookies,
// protection against forged requests, and the headers of pages.
// Invariants:
//   - Every text comes from the catalogue in both languages.
//   - Every form carries a token bound to this browser.
//   - A wrong password or code is counted before it is checked, across all processes and for hours (guess.go).
//   - Strangers who guess never lock out the owner's own browser.
package shell
