// Package status tells the public how the service is and how it did: which parts work now, and of each of the last
// ninety days how long it worked, whom it served in time and how soon events went out.
//
// Owns: a row for each day. Once in half a minute a worker counts the minute, so a minute that is missing is one in
// which no worker ran or the database took nothing. What was promised is summed up when a day has been over for 24
// hours, because only then it is known; after that the day never changes.
// Does not do: guesses. A day before the first counted minute was not measured, and is told as such.
//
// Tables: status_days.
package status
