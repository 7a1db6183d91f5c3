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

// prefix is of the settings that are this program's own.
const prefix = "PARTNERD_"

// variables are the names of the environment that settings are read from, those of files that hold secrets among them;
// sorted.
func variables(model *kong.Application) []string {
	var names []string
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error { // what it is given returns no error
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

// dropEmpty makes a variable that is set to nothing absent, so that its setting has its default: manifests cannot leave
// one out.
func dropEmpty(names []string) {
	for _, name := range names {
		if value, set := os.LookupEnv(name); set && value == "" {
			_ = os.Unsetenv(name) // fails for names that no setting has
		}
	}
}

// checkFiles refuses a PARTNERD_NAME_FILE that nobody reads: a secret would be missing, or another one used.
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

// unread are the variables that are named like settings and are none, each with the name that is nearest.
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

// ofKubernetes tells whether a variable is one that Kubernetes gives every container for a service that is named like
// the program.
func ofKubernetes(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// distance is how many characters have to be put in, taken out or replaced to make b of a.
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
