// Package status tells the public how the service is and how it did over the last 90 days.
//
// It reports which parts work now. For each day it reports the uptime, how many consultations were served in time and
// how soon events were sent.
//
// Tables: status_days.
// The table holds one row per day.
//
// Invariants:
//   - A worker counts the current minute every 30 seconds. A missing minute is one in which no worker ran or the
//     database rejected writes.
//   - The figures for a day's promises are added up once, 24 hours after the day has ended, because they are known only
//     then. After that the day never changes.
//   - Nothing is guessed. A day before the first counted minute was not measured and is reported as such.
package status
