// Package process tests the program as an operator runs it. It takes the built command, its processes, its data folder
// and its private database through starts, kills and restarts.
package process
