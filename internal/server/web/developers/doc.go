// Package developers serves the portal in which partners manage their applications: secrets, webhooks, logs, the
// sandbox and the checklist for going live. Two tables define who may see and do what.
package developers
