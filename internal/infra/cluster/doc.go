// Package cluster runs a private Postgres for a program that was given no database: it finds or downloads the server,
// initialises a folder, starts it as an account that Postgres accepts (also when the program is root), and shares it
// among all processes that use the folder. The last of them ends it; what a killed one left is adopted by the next.
//
// It owns the folder and the two roles: the owner of the tables and the role that the program works as. It knows
// neither tables nor migrations (package postgres).
package cluster
