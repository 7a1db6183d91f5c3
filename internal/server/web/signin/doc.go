// Package signin serves the pages on which the people who work here (operators, lawyers, partners) sign in and look
// after their passwords, codes, passkeys and sessions, and guards the pages of their desks.
package signin
