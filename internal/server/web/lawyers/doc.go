// Package lawyers serves the lawyers' desk: duty, offers, calls, notes and the copies that only the lawyer's key opens.
package lawyers
