// Package crm is an example of a partner's integration: it uses the published contract and nothing else. Copy what you
// need; verify.go and receiver.go have no dependencies.
//
//   - verify.go     checks the signature of a webhook
//   - receiver.go   takes webhooks, ignores repeated ones and puts events in order
//   - link.go       links a client with the authorization code flow and PKCE
//   - tokens.go     asks the token endpoint again when its answer is lost, without a replay
//   - browser.go    stands for the client's browser in the demonstration and the tests
package crm

// Price is what a consultation costs, in cents, as the contract has it.
const Price int64 = 2000
