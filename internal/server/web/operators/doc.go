// Package operators serves the operators' desk: consultations, clients, lawyers, applications, money, people and the
// audit log. Two tables define who may see and do what (acts.go).
package operators
