// Package note keeps what the lawyer wrote after the call: the full note, and the preview that leaves the house
// (specification sections 1 and 2.8, decision H38).
//
// Tables: note_drafts, note_recipients, notes.
//
// Invariants:
//   - The full note is encrypted, as it comes in, to a key whose private half this program does not hold, so no part of
//     the program can show it, and that once more by the client's key (package vault), so that it opens for nobody when
//     the client is erased. The program's role in the database writes it and cannot read it.
//   - A lawyer who has told the public half of a key of his own gets a copy that only he can open, to take within
//     [CopyLifetime]; it is gone [CopyAgain] after he took it, and when the client is erased. The key is his own:
//     another lawyer finds no copy, and whoever changes the key waits until a note that is being stored is.
//   - The preview is a text that the lawyer wrote for that purpose, never a cut of the note.
//   - A consultation has one note, which its own lawyer may correct.
//
// What ends the copies:
//
//	                     copies there are            copies of notes to come    the lawyer's key
//	another key          stay, for the earlier key   for the other              replaced
//	the key removed      stay                        none                       gone
//	a correction         replaced                    –                          stays
//	client erased        gone                        –                          stays
//	lawyer suspended     stay; they may take them    of the note in hand        stays
//	person disabled      stay, out of his reach      none                       stays
//
// A draft is what its lawyer has typed so far. It must come back to him, so it is sealed by the client's key alone,
// which the program can open; it is deleted when the note is sent, when the consultation ends without one, when the
// client is erased, and after eight days.
//
// It does not know when a note may be written: that is the state machine of package consultation, which calls
// [Service.Submit] with the consultation's row locked.
package note
