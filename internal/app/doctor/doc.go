// Package doctor checks a deployment: once for the command ([Examine]), and continuously in metrics that alerts use
// ([Collectors], [Certificate]).
//
//   - It changes nothing, except that it starts a private cluster, as every command does.
//   - It does not act on a setting that the program rejects, and reports that.
//   - Its warnings and the alerts use the same limits.
package doctor
