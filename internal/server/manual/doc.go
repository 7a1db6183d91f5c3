// Package manual creates the documentation from the contracts and the guides. The guides (guides/) have one page per
// topic, in English and in French. The reference has one page per group of operations, with fields, examples, error
// codes and code samples. The reference contains only what the contract contains and, like the contract, is in English
// only.
//
// The package renders HTML, Markdown and search results. It depends on neither layouts nor routes.
package manual
