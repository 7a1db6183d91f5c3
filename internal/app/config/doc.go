// Package config is what the program is told by flags and the environment, and what that leads to: the keys, the
// database, the log.
//
//   - A setting that is wrong is refused with its name, and nothing is done with it; all are refused together.
//   - [Config.Check] also reads the files that settings name, and asks no other machine.
//   - No package below imports this one: services are given values, not the configuration.
package config
