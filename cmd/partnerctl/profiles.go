package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// settingsFile holds settings that are always used, and named profiles.
const settingsFile = "~/.config/partnerctl.json"

// profiles reads the settings file: flags by name, and with "profiles" sets of them by name. A profile overrides the
// environment, so that a variable left in a shell never directs a command to another application. The environment
// overrides the settings outside the profiles.
func profiles(r io.Reader) (kong.Resolver, error) {
	file := map[string]any{}
	if err := json.NewDecoder(r).Decode(&file); err != nil {
		return nil, err
	}
	named, ok := file["profiles"].(map[string]any)
	if _, given := file["profiles"]; given && !ok {
		return nil, fmt.Errorf("profiles is not an object of profiles by name")
	}
	return kong.ResolverFunc(func(c *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		name := profileOf(c, file)
		if name != "" {
			chosen, ok := named[name].(map[string]any)
			if !ok {
				return nil, noProfile(name, slices.Sorted(maps.Keys(named)))
			}
			if value, ok := chosen[flag.Name]; ok {
				return value, nil
			}
		}
		for _, variable := range flag.Envs {
			if _, set := os.LookupEnv(variable); set {
				return nil, nil
			}
		}
		return file[flag.Name], nil
	}), nil
}

// profileOf is the name of the profile to use: of the command line, the environment or the file.
func profileOf(c *kong.Context, file map[string]any) string {
	for _, flag := range c.Model.Flags {
		if flag.Name != "profile" {
			continue
		}
		if name, _ := c.FlagValue(flag).(string); name != "" {
			return name
		}
	}
	name, _ := file["profile"].(string)
	return name
}

func noProfile(name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("%s has no profile %q; add it under \"profiles\"", settingsFile, name)
	}
	return fmt.Errorf("%s has no profile %q; it has %s", settingsFile, name, strings.Join(known, ", "))
}
