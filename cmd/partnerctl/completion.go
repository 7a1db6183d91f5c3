package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a completion script. No library writes the scripts: they are static, start no
// process at each key, and need no dependency.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says how to install the script.
func (c *completionCmd) Help() string {
	return `bash: partnerctl completion bash > ~/.local/share/bash-completion/completions/partnerctl
zsh:  partnerctl completion zsh > "${fpath[1]}/_partnerctl"
fish: partnerctl completion fish > ~/.config/fish/completions/partnerctl.fish`
}

// Run prints the script.
func (c *completionCmd) Run(k *kong.Kong) error {
	writeCompletion(os.Stdout, c.Shell, nodes(k.Model.Node, ""))
	return nil
}

// node is a place on the command line: the commands and flags that may follow the commands in path.
type node struct {
	path  string // commands that lead here, each preceded by a space
	words []word
}

type word struct{ text, help string }

// nodes are the program and all its commands.
func nodes(n *kong.Node, path string) []node {
	here := node{path: path}
	var below []node
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			here.words = append(here.words, word{child.Name, child.Help})
			below = append(below, nodes(child, path+" "+child.Name)...)
		}
	}
	for _, group := range n.AllFlags(true) {
		for _, flag := range group {
			here.words = append(here.words, word{"--" + flag.Name, flag.Help})
		}
	}
	for _, p := range n.Positional {
		for _, value := range p.EnumSlice() {
			if value != "" {
				here.words = append(here.words, word{value, ""})
			}
		}
	}
	return append([]node{here}, below...)
}

func writeCompletion(w io.Writer, shell string, all []node) {
	switch shell {
	case "bash":
		fmt.Fprint(w, "_partnerctl() {\n  local cur=${COMP_WORDS[COMP_CWORD]} path= words= i\n"+
			"  for ((i = 1; i < COMP_CWORD; i++)); do\n"+walk("${COMP_WORDS[i]}", all)+"  done\n  case $path in\n")
		for _, n := range all {
			fmt.Fprintf(w, "    %s) words=%s ;;\n", quoted(n.path), quoted(texts(n.words)))
		}
		fmt.Fprint(w, "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"+
			"complete -o default -F _partnerctl partnerctl\n")
	case "zsh":
		fmt.Fprint(w, "#compdef partnerctl\n_partnerctl() {\n  local path_= i\n  local -a found\n"+
			"  for ((i = 2; i < CURRENT; i++)); do\n"+
			strings.ReplaceAll(walk("${words[i]}", all), "path", "path_")+"  done\n  case $path_ in\n")
		for _, n := range all {
			fmt.Fprintf(w, "    %s) found=(", quoted(n.path))
			for _, x := range n.words {
				fmt.Fprint(w, " "+quoted(strings.ReplaceAll(x.text, ":", `\:`)+":"+x.help))
			}
			fmt.Fprint(w, " ) ;;\n")
		}
		fmt.Fprint(w, "  esac\n  _describe partnerctl found || _files\n}\n"+
			"if [ \"$funcstack[1]\" = _partnerctl ]; then _partnerctl; else compdef _partnerctl partnerctl; fi\n")
	case "fish":
		fmt.Fprint(w, "function __partnerctl_path\n  set -l path ''\n"+
			"  for word in (commandline -opc)[2..-1]\n    switch \"$path $word\"\n")
		for _, n := range all[1:] {
			fmt.Fprintf(w, "      case %s\n        set path \"$path $word\"\n", quoted(n.path))
		}
		fmt.Fprint(w, "    end\n  end\n  test \"$path\" = \"$argv\"\nend\n")
		for _, n := range all {
			for _, x := range n.words {
				option := "-f -a " + quoted(x.text)
				if name, flag := strings.CutPrefix(x.text, "--"); flag {
					option = "-l " + name
				}
				fmt.Fprintf(w, "complete -c partnerctl -n %s %s -d %s\n",
					quoted("__partnerctl_path "+quoted(n.path)), option, quoted(x.help))
			}
		}
	}
}

// walk is the loop's body that follows the commands before the cursor.
func walk(of string, all []node) string {
	var paths []string
	for _, n := range all[1:] {
		paths = append(paths, quoted(n.path))
	}
	return "    case \"$path " + of + "\" in\n      " + strings.Join(paths, " | ") +
		") path=\"$path " + of + "\" ;;\n    esac\n"
}

func texts(words []word) string {
	all := make([]string, len(words))
	for i, x := range words {
		all[i] = x.text
	}
	return strings.Join(all, " ")
}

// quoted is a text for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
