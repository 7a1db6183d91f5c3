package conformance

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Formats of a report.
const (
	Text  = "text"
	HTML  = "html"
	JUnit = "junit"
)

// Write writes a report in one of the formats. of names the endpoint that was checked.
func (r Report) Write(w io.Writer, format, of string) error {
	switch format {
	case Text:
		_, err := io.WriteString(w, r.text(of))
		return err
	case HTML:
		return sheet.Execute(w, struct {
			Report
			Of, Verdict string
		}{r, of, r.verdict()})
	case JUnit:
		return r.junit(w, of)
	}
	return fmt.Errorf("%q is not text, html or junit", format)
}

func (r Report) verdict() string {
	advice := 0
	for _, x := range r.Results {
		if x.Advice && !x.Passed {
			advice++
		}
	}
	verdict := "PASSED"
	if !r.Passed {
		verdict = fmt.Sprintf("FAILED: %d of %d checks", len(r.Faults()), len(r.Results))
	}
	if advice > 0 {
		verdict += fmt.Sprintf("; recommendations: %d", advice)
	}
	return verdict
}

// Mark returns the label in front of a result.
func (x Result) Mark() string {
	switch {
	case x.Passed:
		return "ok"
	case x.Advice:
		return "advice"
	}
	return "FAILED"
}

func (r Report) text(of string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n\n", of, r.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	for _, x := range r.Results {
		fmt.Fprintf(&b, "%-7s %s (%d ms)\n", x.Mark(), x.Title, x.Took.Milliseconds())
		if !x.Passed {
			fmt.Fprintf(&b, "        %s\n        %s\n", x.Fault, x.Why)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.verdict())
	return b.String()
}

var sheet = template.Must(template.New("sheet").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Verdict}} – {{.Of}}</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
li { margin-block: .75rem }
.FAILED > b, .FAILED > span { color: light-dark(#a40000, #ff9c9c) }
</style>
<h1>{{.Verdict}}</h1>
<p>{{.Of}}, <time datetime="{{.At.UTC.Format "2006-01-02T15:04:05Z"}}">{{.At.UTC.Format "2006-01-02 15:04:05 UTC"}}</time></p>
<ol>
{{- range .Results}}
<li class="{{.Mark}}"><b>{{.Mark}}</b> {{.Title}} ({{.Took.Milliseconds}} ms){{if not .Passed}}<br><span>{{.Fault}}</span><br>{{.Why}}{{end}}</li>
{{- end}}
</ol>
</html>
`))

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	At       string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Seconds string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"` // failed checks that are only recommended
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r Report) junit(w io.Writer, of string) error {
	suite := junitSuite{Name: of, Tests: len(r.Results), At: r.At.UTC().Format("2006-01-02T15:04:05")}
	for _, x := range r.Results {
		c := junitCase{Class: "conformance", Name: x.Name, Seconds: fmt.Sprintf("%.3f", x.Took.Seconds())}
		switch message := &(junitMessage{x.Title + ": " + x.Fault, x.Why}); {
		case x.Passed:
		case x.Advice:
			c.Skipped, suite.Skipped = message, suite.Skipped+1
		default:
			c.Failure, suite.Failures = message, suite.Failures+1
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return e.Encode(suite)
}
