// Package doctor examines a deployment: at once for the command ([Examine]), and all the time in figures that alarms go
// by ([Collectors], [Certificate]).
//
//   - It changes nothing, but that it starts a private cluster, as every command does.
//   - It acts on no setting that the program refuses, and says so.
//   - What it warns of and what alarms go by are the same limits.
package doctor
