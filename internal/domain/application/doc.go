// Package application owns the partners' OAuth applications: name, redirect URIs, the scopes they may ask for,
// credentials and quotas. The identifier of an application is its OAuth client_id.
//
// Tables: applications.
//
// Invariants:
//   - A redirect URI is kept exactly as it was given and is compared byte for byte (specification section 5, rule 7).
//   - Secrets are made here, have 256 bits, are stored as SHA-256 and shown once. After [Service.RotateSecret] the
//     previous one is honoured for the overlap chosen then; never are there more than two.
//   - A suspended application still authenticates, so that it is told the truth; whoever asks decides what it may do.
//
// Does not do: grants and tokens (package oauth), webhook endpoints (package webhook), quotas at work (ratelimit).
package application
