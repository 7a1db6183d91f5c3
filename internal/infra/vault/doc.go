// Package vault keeps one key per client, which seals what is written about the client and is destroyed when the client
// is erased.
//
// Tables: vault.client_keys.
//
// A data key is sealed by the master key for its client.
//
// Sealed by the client's key:
//   - the phone number, verified or waiting for its code, and that code
//   - subject, description and phone number of consultations
//   - the preview and the digest of a note
//   - a second envelope around the full note and its copy
//
// Sealed by the master key:
//   - data that belongs to no client: signing keys, webhook secrets, lawyers' phone numbers
//   - a browser's cookie
//   - data that is deleted within about a day: stored responses (24 hours, deleted by erasure), the stored response of
//     an exchange (minutes), emails and text messages in the queue
//
// Invariants:
//   - The first byte of a ciphertext identifies its key: [version] for a client's key. Anything else (Tink begins with
//     0 or 1) is the master key, which releases before this package used.
//   - Ciphertexts of those releases open as long as the master key has that part; package reseal seals them again. Data
//     that is rewritten gets the client's key.
//   - A key is created with its client. For a client of an older release it is created in the transaction of the first
//     write that needs one ([Keys.ForWriting]).
//   - A key never changes. Its envelope changes when the master key is replaced.
//   - An erased client gets no key. Creating one waits for an erasure in progress, which has locked the client's row,
//     and then sees the erasure.
//   - A key is read by the statement that reads the row it opens ([Stored]), and is never cached. Once an erasure has
//     committed, no process can use the key, whichever process erased.
//
// Backups. Erasure destroys the texts and the key.
//   - A backup of the tables alone: texts of a client who was erased later can no longer be opened, once no copy of the
//     key is left. The same holds for deleted rows that remain in the database's files or WAL.
//   - A backup that includes this schema: whoever has the master key can open everything, even texts of clients erased
//     after the backup.
//   - Back up this schema separately (pg_dump --schema=vault) and often. Keep those copies only as long as a loss may
//     go unnoticed, for example a week. Exclude the schema from long-term backups (pg_dump --exclude-schema=vault).
//   - Back up the keys after the rest, so that every text has its key.
//   - A copy of the whole server or its WAL (a snapshot, pg_basebackup, a lagging replica) contains both: keep it only
//     as long as the keys.
//   - After a restore, erase again every client who was erased since the copy.
//   - Without this schema every text of every client is lost.
//
// The package does not protect against someone who has the master key and the running database. It does not cover plain
// text: names, email addresses, the browsers of sessions. Erasure blanks those in place; backups keep them until the
// backups are deleted.
package vault
