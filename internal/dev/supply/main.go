// Command supply reports the third-party modules built into the program, with their licences. With the arguments sbom
// and a version it prints a CycloneDX bill of materials. Otherwise it prints a table of licences for people.
//
// Licences are recognised by their texts. A licence that is not recognised, or not on the list, is an error: a person
// has to read it.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// allowed are the licences under which we may distribute the program in binary form, with phrases that identify them.
// The first match wins.
var allowed = []struct {
	id   string // SPDX ID
	says []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0, January 2004"}},
	{"MPL-2.0", []string{"Mozilla Public License Version 2.0"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "endorse or promote products"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms", "THIS SOFTWARE IS PROVIDED"}},
	{"MIT", []string{"Permission is hereby granted, free of charge, to any person obtaining a copy"}},
	{"ISC", []string{"Permission to use, copy, modify, and",
		"distribute this software for any purpose with or without fee"}},
	{"LicenseRef-Public-Domain", []string{"have been put into the public domain", "You can do whatever you want"}},
	{"Unlicense", []string{"This is free and unencumbered software released into the public domain"}},
}

// module is a third-party module.
type module struct{ Path, Version, Dir, Licence string }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	all, err := modules()
	if err != nil {
		return err
	}
	if len(args) == 2 && args[0] == "sbom" {
		return sbom(all, args[1])
	}
	fmt.Print(table(all))
	return nil
}

// modules returns, sorted, the modules built into the commands for at least one of the systems.
func modules() ([]module, error) {
	found := map[string]module{}
	for _, system := range []string{"linux", "darwin"} {
		list := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}",
			"partnerd/cmd/partnerd", "partnerd/cmd/partnerctl", "partnerd/cmd/democrm")
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list the modules: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
				found[f[0]] = module{Path: f[0], Version: f[1], Dir: f[2]}
			}
		}
	}
	all := make([]module, 0, len(found))
	for _, m := range found {
		licence, err := licenceOf(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		m.Licence = licence
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// licenceOf returns the licences found in a folder. If there are several texts, each must be allowed.
func licenceOf(dir string) (string, error) {
	var files []string
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "License*", "license*", "COPYING*"} {
		some, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		files = append(files, some...)
	}
	var ids []string
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.IsDir() || strings.HasSuffix(file, ".go") {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		id := recognise(raw)
		if id == "" {
			return "", fmt.Errorf("%s is none of the licences that are allowed: read it, and add it to the list or "+
				"leave the module", filepath.Base(file))
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("there is no licence")
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND "), nil
}

func recognise(text []byte) string {
	plain := bytes.Join(bytes.Fields(text), []byte(" "))
	for _, l := range allowed {
		if !slices.ContainsFunc(l.says, func(s string) bool { return !bytes.Contains(plain, []byte(s)) }) {
			return l.id
		}
	}
	return ""
}

func table(all []module) string {
	var b strings.Builder
	b.WriteString("# Licences\n\nOf the modules that are built into the commands.\n\n| module | licence |\n|---|---|\n")
	for _, m := range all {
		fmt.Fprintf(&b, "| %s | %s |\n", m.Path, m.Licence)
	}
	return b.String()
}

// sbom prints CycloneDX 1.5 without a timestamp or serial number, so the same source gives the same file.
func sbom(all []module, version string) error {
	type licence struct {
		Expression string `json:"expression"`
	}
	type component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version,omitempty"`
		PURL     string    `json:"purl"`
		Licences []licence `json:"licenses,omitempty"`
	}
	components := []component{}
	for _, m := range all {
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, component{"library", purl, m.Path, m.Version, purl, []licence{{m.Licence}}})
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	return e.Encode(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{"component": component{"application", "pkg:golang/partnerd", "partnerd", version,
			"pkg:golang/partnerd", nil}},
		"components": components})
}
