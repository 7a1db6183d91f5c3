package internal

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlarmsAndDashboardFitTheMetrics checks .deploy. Its alarms and dashboard name existing metrics, and the dashboard
// shows all of them. Every alarm has its section in the runbook and its test. internal/dev/e2e checks the table of
// metrics against the program.
func TestAlarmsAndDashboardFitTheMetrics(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	found := func(text, pattern string) (all []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	documented := found(read("app/README.md"), "(?m)^\\| `(partnerd_[a-z_]+)")
	alarms, dashboard, tests := read("../.deploy/alerts.yaml"), read("../.deploy/dashboard.json"),
		read("../.deploy/alerts_test.yaml")
	for file, text := range map[string]string{
		"alerts.yaml": alarms, "dashboard.json": dashboard, "alerts_test.yaml": tests,
	} {
		for _, name := range found(text, `\b(partnerd_[a-z_]+)`) {
			if !slices.Contains(documented, name) && !slices.Contains(documented, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("%s names %s, which is not a metric", file, name)
			}
		}
	}
	for _, name := range documented {
		if !regexp.MustCompile(`\b` + name + `(_bucket)?\b`).MatchString(dashboard) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	names := found(alarms, `- alert: (\w+)`)
	if sections := found(read("../.deploy/runbook.md"), `(?m)^## (\w+)`); !slices.Equal(names, sections) {
		t.Errorf("the runbook has %v, the alarms are %v", sections, names)
	}
	for _, name := range names {
		if !strings.Contains(alarms,
			"runbook_url: https://runbooks.partners.example/runbook.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s does not lead to its section of the runbook", name)
		}
		if !strings.Contains(tests, "        alertname: "+name+"\n        exp_alerts:\n") {
			t.Errorf("%s has no test", name)
		}
	}
	if len(names) == 0 || len(documented) == 0 {
		t.Error("nothing was found: the test cannot read the files")
	}
}

// The manifests set what the program reads, and lists of theirs are not torn at commas that belong to a value.
func TestTheManifestsFitTheProgram(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile("../.deploy/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(PARTNERD|OTEL)_[A-Z_]+[A-Z]\b`)
	for _, file := range []string{"compose.yaml", "kubernetes.yaml"} {
		raw, err := os.ReadFile("../.deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := named.FindAllString(string(raw), -1)
		for _, name := range names {
			if !strings.Contains(string(settings), "`"+strings.TrimSuffix(name, "_FILE")+"`") {
				t.Errorf("%s sets %s, which is not a setting", file, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s sets nothing: the test cannot read it", file)
		}
	}
	raw, err := os.ReadFile("../.deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var composed struct {
		Services map[string]struct {
			Tmpfs       []string
			Command     []string
			NetworkMode string `yaml:"network_mode"`
			Environment map[string]string
			Volumes     []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(raw, &composed); err != nil {
		t.Fatal(err)
	}
	for name, s := range composed.Services {
		for _, mount := range s.Tmpfs {
			if !strings.HasPrefix(mount, "/") {
				t.Errorf("%s mounts %q", name, mount)
			}
		}
		for _, mount := range s.Volumes {
			volume, _, _ := strings.Cut(mount, ":")
			if _, ok := composed.Volumes[volume]; !ok && !strings.HasPrefix(volume, "./") {
				t.Errorf("%s mounts %q, which is not a volume", name, mount)
			}
		}
		if !slices.Equal(s.Command, []string{"work"}) {
			continue
		}
		// It sends the mail, and to a server on its own loopback alone without TLS.
		beside := composed.Services[strings.TrimPrefix(s.NetworkMode, "service:")]
		_, port, _ := strings.Cut(beside.Environment["MP_SMTP_BIND_ADDR"], ":")
		if port == "" || s.Environment["PARTNERD_MAIL_SERVER"] != "smtp://localhost:"+port ||
			beside.Environment["MP_SMTP_BIND_ADDR"] != "127.0.0.1:"+port {
			t.Errorf("%s sends its email to %q, and its neighbour in %q is %+v",
				name, s.Environment["PARTNERD_MAIL_SERVER"], s.NetworkMode, beside)
		}
	}
	if len(composed.Services["serve"].Tmpfs) == 0 {
		t.Error("no mount was found: the test cannot read the file")
	}
}

// Nothing in the manifests runs with more than it needs: secrets are files, processes tell that they are ready, logs
// have an end.
func TestTheManifestsAreCareful(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../.deploy/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type probe map[string]any
	type manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			TTL      int `yaml:"ttlSecondsAfterFinished"`
			Deadline int `yaml:"activeDeadlineSeconds"`
			Template struct {
				Spec struct {
					ServiceAccountName string           `yaml:"serviceAccountName"`
					Spread             []map[string]any `yaml:"topologySpreadConstraints"`
					Containers         []struct {
						Readiness probe `yaml:"readinessProbe"`
						Liveness  probe `yaml:"livenessProbe"`
					}
				}
			}
		}
	}
	kinds := map[string]int{}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		var m manifest
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatal(err)
		}
		kinds[m.Kind]++
		pod := m.Spec.Template.Spec
		if len(pod.Containers) > 0 && pod.ServiceAccountName == "" {
			t.Errorf("%s %s has the service account of the namespace", m.Kind, m.Metadata.Name)
		}
		if m.Kind == "Job" && (m.Spec.TTL == 0 || m.Spec.Deadline == 0) {
			t.Errorf("%s has no end", m.Metadata.Name)
		}
		if m.Kind == "Deployment" && (len(pod.Spread) != 2 || pod.Containers[0].Readiness == nil ||
			pod.Containers[0].Liveness == nil) {
			t.Errorf("%s is not spread, or not probed", m.Metadata.Name)
		}
	}
	for _, kind := range []string{
		"Deployment", "Job", "ServiceAccount", "NetworkPolicy", "PodMonitor", "Ingress", "PodDisruptionBudget",
	} {
		if kinds[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	if strings.Contains(string(raw), "secretKeyRef") || !strings.Contains(string(raw), "GOMEMLIMIT") ||
		strings.Contains(string(raw), "emptyDir: {}") {
		t.Error("secrets are in the environment, Go does not know its limit of memory, or a folder has none")
	}
	if raw, err = os.ReadFile("../.deploy/compose.yaml"); err != nil {
		t.Fatal(err)
	}
	var composed struct {
		Services map[string]struct {
			Image, Command any
			CapDrop        []string `yaml:"cap_drop"`
			Logging        map[string]any
			Healthcheck    map[string]any
		}
	}
	if err := yaml.Unmarshal(raw, &composed); err != nil {
		t.Fatal(err)
	}
	for name, s := range composed.Services {
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || s.Logging == nil {
			t.Errorf("%s keeps capabilities, or its log has no end", name)
		}
		if strings.HasPrefix(name, "serve") || name == "work" {
			if s.Healthcheck == nil {
				t.Errorf("%s has no health check", name)
			}
		}
	}
}
