package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"partnerd/internal/app/config"
)

// prefix is the prefix of this program's own settings.
const prefix = "PARTNERD_"

// variables returns the environment variables that settings are read from, sorted, including those for files that hold
// secrets.
func variables(model *kong.Application) []string {
	var names []string
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error { // the function never returns an error
		if f, ok := node.(*kong.Flag); ok {
			names = append(names, f.Envs...)
		}
		return next(nil)
	})
	for _, secret := range secretFlags {
		if secret.variable != "" {
			names = append(names, secret.variable+"_FILE")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dropEmpty unsets variables that are set to nothing, so that the settings have their defaults: manifests cannot omit a
// variable.
func dropEmpty(names []string) {
	for _, name := range names {
		if value, set := os.LookupEnv(name); set && value == "" {
			_ = os.Unsetenv(name) // fails only for names that no setting has
		}
	}
}

// checkFiles rejects a PARTNERD_NAME_FILE that nothing reads: a secret would be missing, or another one used.
func checkFiles(names, environ []string) error {
	for _, u := range unread(names, environ) {
		name, file := strings.CutSuffix(u.Name, "_FILE")
		if !file {
			continue
		}
		switch {
		case slices.Contains(names, name):
			return fmt.Errorf("%s: this setting cannot be read from a file; set %s", u.Name, name)
		case u.Meant != "":
			return fmt.Errorf("%s: no setting is read from this file; did you mean %s?", u.Name, u.Meant)
		}
		return fmt.Errorf("%s: no setting is read from this file", u.Name)
	}
	return nil
}

// unread returns the variables that are named like settings but are not, each with the most similar setting.
func unread(names, environ []string) (list []config.Unread) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(names, name) || ofKubernetes(name, value) {
			continue
		}
		u := config.Unread{Name: name}
		least := min(len(name)-len(prefix), 9)/3 + 1
		for _, known := range names {
			if d := distance(name, known); d < least {
				u.Meant, least = known, d
			}
		}
		list = append(list, u)
	}
	return list
}

var serviceLink = regexp.MustCompile(
	`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`,
)

// ofKubernetes reports whether Kubernetes sets the variable in every container, for a service named like the program.
func ofKubernetes(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// distance returns how many characters must be inserted, removed or replaced to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			here := before
			if a[i] != b[j] {
				here = min(before, row[j], row[j+1]) + 1
			}
			before, row[j+1] = row[j+1], here
		}
	}
	return row[len(b)]
}
