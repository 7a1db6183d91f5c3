package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheChecklistNamesWhatTheDoctorChecks checks that the checklist for production names exactly the doctor's checks.
func TestTheChecklistNamesWhatTheDoctorChecks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\be\.(?:ok|warn|fail|tries)\("([a-z ]+)"`).
			FindAllStringSubmatch(string(source), -1) {
			checks[m[1]] = true
		}
	}
	for check := range checks {
		if !strings.Contains(Checklist, "`"+check+"`") {
			t.Errorf("the checklist does not name %s", check)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^- \\[ \\] ((?:`[a-z ]+`, )*`[a-z ]+`):").
		FindAllStringSubmatch(Checklist, -1) {
		for _, name := range strings.Split(m[1], ", ") {
			if !checks[strings.Trim(name, "`")] {
				t.Errorf("the checklist names %s, which the doctor does not check", name)
			}
		}
	}
	if len(checks) < 20 {
		t.Errorf("%d checks were found: the test cannot read the files", len(checks))
	}
}
