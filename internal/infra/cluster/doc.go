// Package cluster runs a private Postgres for a program that was given no database. It finds or downloads the server,
// initialises a directory, and starts the server as an account that Postgres accepts, even if the program is root. All
// processes that use the directory share the server. The last of them stops it; the next process adopts a server left
// by a killed one.
//
// It owns the directory and two roles: the owner of the tables, and the role that the program uses. It knows neither
// tables nor migrations (package postgres).
package cluster
