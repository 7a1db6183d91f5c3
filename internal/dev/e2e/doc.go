// Package e2e holds the tests of the whole program, as partners and clients see it. The server and its workers run in
// one process, and every test has its own database. Partners and clients connect from outside over HTTP.
//
// Every response of the service and every webhook is checked against openapi/partner.yaml before the test sees it
// (transport_test.go). The tests read the operations, errors and error codes to try from the same document. The run
// fails if it never met a documented one (main_test.go).
package e2e
