// Package deployment knows which environment a database belongs to, and its public address (decision H58).
//
// Tables: deployment, deployment_secrets.
// The first has one row. The second keeps, sealed by the master key, secrets that outlive its parts: of page cursors,
// digests of phone numbers, names of quotas' buckets, the built-in payments. They were first derived from the oldest
// part of the key.
//
// Invariants:
//   - A database belongs to one environment for ever. Whoever opens it for another is refused before anything is
//     written, also before a migration: demo data and simulated money never meet those of a live deployment.
//   - The first program that opens an empty database says which one. Of several at once one does, and those that want
//     another are refused.
//   - A database without the row that holds something was made by an earlier release. It is a sandbox's when its
//     applications, clients and lawyers have the identifiers of one or are simulated, and live when they have not. A
//     database that holds both is opened for neither, except by [Claim.Move]: somebody has to look first.
//   - The public address is the issuer of tokens, the beginning of links in mails and the home of passkeys, so it
//     changes by [Claim.Move] only, which the caller records in the audit. Programs that are given none take the
//     recorded one. Programs that run keep theirs until they are started again.
//   - A sandbox whose address is of this machine is somebody's desk: there whoever serves says which, and a port can
//     change at every start.
//
// Does not do: rows of an earlier release that are of the wrong environment are not taken out.
package deployment
