// Package requestlog records applications' API requests, so that partners can find out themselves why a request was
// refused.
//
// Tables: api_requests.
//
// Invariants:
//   - Only authenticated requests are written, each under the application that sent it. No caller can fill another
//     caller's log.
//   - No secret, token, query string, phone number or client text is written, whatever was wrong with the request. Of a
//     body only the shape is kept ([Redact]); of a response its code and issues ([RedactIssues]).
//   - A request never waits for the log and never fails because of it. If a process crashes, up to a second of
//     unwritten lines is lost. Lines that the database cannot take are dropped above [MaxPending], and counted.
//   - Lines can be read for [Retention] and are stored in one partition per week. A whole week is dropped within a week
//     after its last line became unreadable.
//   - The partitions cover all time, so every line has one, whether or not partitions were created ahead.
//
// Out of scope: what operators see (the program's own log) and what clients see of the use of their data (package
// access).
package requestlog
