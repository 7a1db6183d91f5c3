// Package note stores what the lawyer writes after the call: the full note, and the preview for the partner
// (specification sections 1 and 2.8, decision H38).
//
// Tables: note_drafts, note_recipients, notes.
//
// Invariants:
//   - The full note is encrypted on arrival to a public key whose private key this program does not hold. No part of
//     the program can show it.
//   - The encrypted note is encrypted once more with the client's key (package vault), so that no one can open it after
//     the client's erasure.
//   - The program's database role can write the full note and cannot read it.
//   - A lawyer who has registered a public key of their own gets a copy that only they can open, available for
//     [CopyLifetime]. The copy is deleted [CopyAgain] after the lawyer first took it, and when the client is erased.
//   - The key belongs to one lawyer: other lawyers find no copy. A change of the key waits until a note that is being
//     stored is stored.
//   - The preview is a text that the lawyer wrote for that purpose, never an excerpt of the note.
//   - A consultation has at most one note, and only the lawyer who wrote it can correct it.
//
// What ends the copies:
//
//	                     existing copies          copies of later notes      the lawyer's key
//	another key          stay, for the old key    for the new key            replaced
//	the key removed      stay                     none                       deleted
//	a correction         replaced                 –                          stays
//	client erased        deleted                  –                          stays
//	lawyer suspended     stay, can be taken       only of the note in hand   stays
//	person disabled      stay, out of reach       none                       stays
//
// A draft is what the lawyer has typed so far. Because the lawyer must get it back, it is sealed only with the client's
// key, which the program can open. It is deleted when the note is sent, when the consultation ends without one, when
// the client is erased, and after eight days.
//
// Package consultation decides when a note may be written. It calls [Service.Submit] with the consultation's row
// locked.
package note
