package consultation

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"partnerd/openapi"
)

func readDoors(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../../openapi/spec/doors.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	rowOfTable = regexp.MustCompile(`^X\d+: `)
	aDoor      = regexp.MustCompile("`((partner|platform|desk|page|act|command|timer|sweep|call):[^`]+)`")
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// Every pair of state and event has its line: an entry point, with the row of the table it leads to, or a reason why
// there is none.
func TestEveryPairOfStateAndEventHasItsDoorOrAReason(t *testing.T) {
	t.Parallel()
	lines := map[Status]map[trigger]string{}
	for section := range strings.SplitSeq(readDoors(t), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		state := Status(strings.Trim(title, "`"))
		if title == "Before creation" {
			state = none
		} else if !slices.Contains(Statuses(), state) {
			continue
		}
		if lines[state] != nil {
			t.Errorf("%q has two sections", state)
		}
		lines[state] = map[trigger]string{}
		for line := range strings.Lines(body) {
			cells := strings.Split(strings.Trim(line, "|\n"), "|")
			if !strings.HasPrefix(line, "| `") || len(cells) != 2 {
				continue
			}
			for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
				on := trigger(m[1])
				if !slices.Contains(triggers(), on) {
					t.Errorf("%q: there is no event %s", state, on)
				}
				if _, twice := lines[state][on]; twice {
					t.Errorf("%q: %s has two lines", state, on)
				}
				lines[state][on] = strings.TrimSpace(cells[1])
			}
		}
	}
	for _, s := range append(Statuses(), none) {
		for _, on := range triggers() {
			line, allowed := lines[s][on], table[s][on]
			switch row := allowed.row; {
			case line == "":
				t.Errorf("%q: %s has no line", s, on)
			case row != "" && (!strings.HasPrefix(line, row+": ") || !aDoor.MatchString(line)):
				t.Errorf("%q: %s is %s and needs a door: %s", s, on, row, line)
			case row == "" && rowOfTable.MatchString(line):
				t.Errorf("%q: %s cannot happen: %s", s, on, line)
			}
		}
	}
}

// The document names all entry points that this package and the contracts have, and no others.
func TestDoorsAreAllThatThereAre(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	for api, source := range map[string][]byte{
		"partner": openapi.Partner, "platform": openapi.Platform, "desk": openapi.Desk,
	} {
		var contract struct {
			Paths map[string]map[string]any
		}
		if err := yaml.Unmarshal(source, &contract); err != nil {
			t.Fatal(err)
		}
		for _, item := range contract.Paths {
			for _, operation := range item {
				if fields, ok := operation.(map[string]any); ok {
					exist[api+":"+fields["operationId"].(string)] = true
				}
			}
		}
	}
	for kind, where := range map[string]struct{ file, pattern string }{
		"timer": {"rules.go", `task = "(\w+)"`},
		"sweep": {"timers.go", `\{\w+Every, s\.(\w+)\}`},
		"call":  {"../telephony/telephony.go", `OutcomeKind = "(\w+)"`},
	} {
		raw, err := os.ReadFile(where.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(where.pattern).FindAllStringSubmatch(string(raw), -1)
		if len(found) < 4 {
			t.Errorf("%d doors of kind %s are found in %s", len(found), kind, where.file)
		}
		for _, m := range found {
			exist[kind+":"+m[1]] = true
		}
	}
	named := map[string]bool{}
	for _, m := range aDoor.FindAllStringSubmatch(readDoors(t), -1) {
		if !slices.Contains([]string{"page", "act", "command"}, m[2]) { // their own packages check those
			named[m[1]] = true
		}
	}
	for door := range exist {
		if !named[door] {
			t.Errorf("doors.md does not name %s", door)
		}
	}
	for door := range named {
		if !exist[door] {
			t.Errorf("doors.md names %s, which does not exist", door)
		}
	}
}
