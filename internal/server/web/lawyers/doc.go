// Package lawyers serves the lawyers' desk: duty, offers, calls, notes, and copies of notes that only the lawyer's own
// key decrypts.
package lawyers
