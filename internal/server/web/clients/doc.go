// Package clients serves the pages of clients: sign-up and sign-in, consent, the account (wallet, consultations,
// applications, phone, security, data) and the checkout.
//
// Invariant: outside this site, redirects go only to redirect URIs that package oauth has validated.
package clients
