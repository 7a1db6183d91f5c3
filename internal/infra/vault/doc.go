// Package vault keeps one key for each client, which seals what is written about the client and is destroyed when the
// client is erased.
//
// Tables: vault.client_keys.
// A data key is sealed by the master key for its client.
//
// Sealed by the client's key: the phone number, verified or waiting for its code, and that code; subject, description
// and phone number of consultations; the preview and the digest of a note, and a second envelope around the full note
// and its copy.
//
// Sealed by the master key: what belongs to no client (signing keys, webhook secrets, lawyers' phone numbers), a
// browser's cookie, and what lives for a day or so and is deleted by then at the latest: stored responses (24 hours,
// and erasure deletes them), an exchange's stored answer (minutes), mails and text messages in the queue.
//
// Invariants:
//   - The first byte of a ciphertext tells its key: [version] for a client's, anything else (Tink begins with 0 or 1)
//     for the master key, with which releases before this package sealed. Those open as long as the master key has that
//     part (package reseal seals them anew); what is written again gets the client's key.
//   - A key is made with its client, or for a client of an older release in the transaction of the first write that
//     needs one ([Keys.ForWriting]), and is never changed; its envelope is, when the master key is replaced. An erased
//     client gets none: the making waits for an erasure that is under way, because that has the client's row locked,
//     and finds it done.
//   - A key is read by the statement that reads the row it opens ([Stored]), and is kept nowhere: no process can use a
//     key after its erasure has been committed, whichever process that was.
//
// Backups. Erasure destroys the texts and the key. In a backup of the tables alone the texts of a client who was erased
// later do not open any more, once no copy of the key is left; nor do deleted rows that are still in the files of the
// database or in its log. Of a backup that holds this schema too, whoever has the master key opens everything, also of
// a client who was erased since. So back up this schema apart (pg_dump --schema=vault) and often, keep those copies for
// as long as a loss may stay unnoticed (a week, say) and not longer, and leave it out of what is kept for long (pg_dump
// --exclude-schema=vault); take the keys after the rest, so that no text is without its key. A copy of the whole server
// or its log (a snapshot, pg_basebackup, a replica that lags) holds both: keep it as short as the keys. After a
// restore, erase again who was erased since the copy. Without this schema every text of every client is lost.
//
// It does not protect from somebody who has the master key and the running database, and does not cover what is in
// clear: names, e-mail addresses, the browsers of sessions. Erasure blanks those in place; backups keep them for as
// long as they are kept.
package vault
