// Package web serves the HTML pages: what this is, sign-up and sign-in, consent, the client's account (wallet,
// consultations, applications, phone, security, data), the sandbox checkout and the partner's documentation.
//
// Owns: templates, the French and English texts (texts.json, texts_account.json), one stylesheet, the browser's
// cookies, protection against forged requests, throttling of what people enter, and the headers of pages.
// Invariants: no script but the one that asks the browser for a passkey, on the pages that need it; every text comes
// from the catalogue in both languages; a redirect leaves this site only for a redirect URI that package oauth has
// validated; every form carries a token bound to this browser; a wrong password for an account (there or not), from a
// browser that the account knows, for the change of a password or an address, or for the operators' page is counted
// before it is judged, by all processes together and for hours (guess.go), and strangers who guess never keep out the
// owner's own browser.
// Does not do: rules of its own. What may be asked, granted, paid or disconnected is decided by the domains.
package web
