// Package report tells operators how well clients were served and how evenly work was distributed.
//
// It has three reports:
//   - Calibration: whether estimates were accurate.
//   - Coverage: when lawyers were on duty and which consultations were served in time.
//   - Fairness: how evenly work was distributed among lawyers.
//
// It owns no tables and changes nothing. It reads the data of packages consultation, matching and lawyer one day at a
// time, so memory use does not grow with the period.
//
// Limits of the data:
//   - A lawyer's pairs (practice area and language) are the current ones, also for past days.
//   - A lawyer counts as idle while on duty with no pending offer and no consultation in hand. A consultation is in
//     hand until its note is written, but at most until one day after the call.
//   - Shifts are recorded since the release that introduced them and are kept for 13 months.
package report
