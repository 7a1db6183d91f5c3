// Package manual makes the documentation of a contract from the contract: chapters, operations with their fields,
// examples and commands to try, webhooks with code that checks a signature, error codes. What the contract does not say,
// the manual does not say.
//
// It renders HTML and knows neither pages nor routes.
package manual
