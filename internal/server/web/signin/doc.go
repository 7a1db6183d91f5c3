// Package signin serves the pages on which operators, lawyers and partners ("staff") sign in and manage their
// passwords, codes, passkeys and sessions. It also guards the pages of their desks.
package signin
