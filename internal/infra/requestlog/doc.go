// Package requestlog keeps what applications asked the APIs, so that a partner finds out by himself why a call was
// refused.
//
// Tables: api_requests.
//
// Invariants:
//   - Only requests whose caller was authenticated are written, each under the application that it came from; nobody
//     can fill the log of another.
//   - No secret, no token, no query, no number of a phone and no text of a client is written, whatever was wrong with
//     the request: of a body only its shape ([Redact]), of an answer its code and issues ([RedactIssues]).
//   - A request never waits for the log, and never fails because of it. What was not written when a process crashes (a
//     second of it) is lost, and what the database cannot take is dropped above [MaxPending] and counted.
//   - Lines are kept for [Retention], and lie in a partition for each week: what is past goes as a whole, at most a
//     week later than nobody can read it any more. The weeks cover all time, so a line has one whether or not somebody
//     made some ahead.
//
// Does not do: what operators see (the program's own log), what clients see of the use of their data (package access).
package requestlog
