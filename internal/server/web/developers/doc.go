// Package developers serves the portal in which the people of partners look after their applications: secrets,
// webhooks, logs, the sandbox, and what is missing before going live. Two tables say who may see and do what.
package developers
