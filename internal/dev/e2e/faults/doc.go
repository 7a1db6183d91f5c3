// Package faults plans, checks and reports the runs of "make chaos". It holds a plan of faults from a seed, a model of
// a wallet to check histories against, the legal orders of events, and the report. Package process injects the faults.
package faults
