// Package application owns the partners' OAuth applications: name, redirect URIs, permitted scopes, credentials and
// rate limits. The ID of an application is its OAuth client_id.
//
// Tables: applications.
//
// Invariants:
//   - A redirect URI is stored exactly as given and compared byte for byte (specification section 5, rule 7).
//   - Secrets are generated here with 256 bits, stored as SHA-256 and shown once. After [Service.RotateSecret] the
//     previous secret works for the chosen overlap. At most two secrets work at a time.
//   - A suspended application still authenticates, so that it can be told the reason. The caller decides what it may
//     do.
//
// Not in this package: grants and tokens (package oauth), webhook endpoints (package webhook), enforcing rate limits
// (package ratelimit).
package application
