// Package config reads the settings from flags and the environment, and opens what they configure: the keys, the
// database, the log.
//
//   - An invalid setting is rejected by name and not used. All invalid settings are reported together.
//   - [Config.Check] also reads the files that settings name, but contacts no other machine.
//   - No package below imports this one: services receive values, not the configuration.
package config
