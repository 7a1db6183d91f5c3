// Package crm is an example of a partner's integration that uses only the published contract. Copy what you need;
// verify.go and receiver.go have no dependencies.
//
//   - verify.go     verifies the signature of a webhook
//   - receiver.go   handles webhooks, ignores duplicates and puts events in order
//   - link.go       links a client with the authorization code flow and PKCE
//   - tokens.go     retries a lost response of the token endpoint without reusing a token
//   - browser.go    acts as the client's browser in the demonstration and the tests
package crm

// Price is the price of a consultation in cents, as in the contract.
const Price int64 = 2000
