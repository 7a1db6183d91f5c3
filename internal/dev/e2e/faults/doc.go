// Package faults is what "make chaos" draws, compares and tells: a plan of faults from a seed, the model of a wallet
// that a history of requests is checked against, the legal orders of events, and the report. What does the damage is in
// package process.
package faults
