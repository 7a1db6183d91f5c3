// Package ratelimit decides how many requests a caller may make (specification section 8, decisions H27 and H28).
//
// Owns: the generic cell rate algorithm (rules.go) and its state in this process. Does not own: who is limited by what,
// which headers say so. Each replica counts for itself, so N replicas allow up to N times the quota.
package ratelimit
