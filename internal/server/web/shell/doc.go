// Package shell is what all pages share: headers, languages and texts, templates and assets, cookies and sessions, the
// token of every form, forms that act once, forms kept during a sign-in, and the counting of guesses.
//
// Owns: templates, the French and English texts (texts*.json), one stylesheet, the scripts, the browser's cookies,
// protection against forged requests, and the headers of pages.
// Invariants: every text comes from the catalogue in both languages; every form carries a token bound to this browser;
// a wrong password or code is counted before it is judged, by all processes together and for hours (guess.go), and
// strangers who guess never keep out the owner's own browser.
package shell
