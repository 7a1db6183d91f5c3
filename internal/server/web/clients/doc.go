// Package clients serves the pages of clients: sign-up and sign-in, consent, the account (wallet, consultations,
// applications, phone, security, data) and the checkout.
//
// Invariant: a redirect leaves this site only for a redirect URI that package oauth has validated.
package clients
