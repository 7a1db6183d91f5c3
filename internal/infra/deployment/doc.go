// Package deployment knows which environment a database belongs to, and its public base URL (decision H58).
//
// Tables: deployment, deployment_secrets.
//
// The table deployment has one row. The table deployment_secrets stores, sealed by the master key, secrets that must
// survive a replacement of that key. They are for page cursors, digests of phone numbers, names of rate-limit buckets
// and the built-in payments. They were first derived from the oldest part of the key.
//
// Invariants:
//   - A database belongs to one environment permanently. Opening it for another is rejected before anything is written,
//     even before a migration. Demo data and simulated money thus never mix with those of a live deployment.
//   - The first program that opens an empty database determines the environment. If several programs open it
//     concurrently, one of them determines it, and programs for the other environment are rejected.
//   - A database with data but without the row was created by an earlier release. It is a sandbox's if its
//     applications, clients and lawyers have sandbox IDs or are simulated, and live otherwise.
//   - A database with data of both kinds cannot be opened for either environment, except by [Claim.Move]: an operator
//     must check it first.
//   - The base URL is the issuer of tokens, the start of emailed links and the domain of passkeys. It therefore changes
//     only by [Claim.Move], which the caller records in the audit log.
//   - Programs without a configured base URL use the recorded one. Running programs keep theirs until they restart.
//   - A sandbox with a local base URL is a developer's machine. There the serving program determines the URL, and the
//     port can change at every start.
//
// Out of scope: rows of an earlier release that belong to the wrong environment are not removed.
package deployment
