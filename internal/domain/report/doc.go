// Package report tells operators how well people were served: whether estimates were true (calibration), when lawyers
// were there and who was served in time (coverage), and how evenly work went to lawyers (fairness).
//
// Owns nothing and changes nothing: it reads what consultation, matching and lawyer keep, a day at a time, so that a
// long period needs no more memory than a day.
//
// What it cannot know:
//   - A lawyer's pairs are those of today, also for the past.
//   - A lawyer is idle while he is on duty and neither looks at an offer nor has a consultation in hand, with its note
//     at most until a day after the call.
//   - Shifts begin with the release that keeps them, and are kept for 13 months.
package report
