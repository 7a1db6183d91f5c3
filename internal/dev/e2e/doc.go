// Package e2e holds the tests of the whole program: the server and its workers in one process, a database of its own
// for every test, partners and clients from outside over HTTP.
//
// Every answer of the service and every webhook is checked against openapi/partner.yaml on its way to the test
// (transport_test.go). The operations, faults and error codes that the tests try are read from the same document, and
// the run fails when one that is documented was never seen (main_test.go).
package e2e
