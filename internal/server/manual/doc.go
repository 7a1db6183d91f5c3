// Package manual makes the documentation from the contracts and from guides: a page a topic (guides/, in English and in
// French), and a reference with a page for each group of operations, with their fields, examples, error codes and code
// to copy. What a contract does not say, its reference does not say; it is in English, as the contract is.
//
// It renders HTML, Markdown and answers to searches, and knows neither layouts nor routes.
package manual
