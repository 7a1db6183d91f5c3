package manual

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// sample is a call of an operation in one language, built from the first example in the contract.
type sample struct{ ID, Language, Code string }

// request is the content of a call.
type request struct {
	Method, URL string
	Headers     [][2]string // besides those of the credentials and of the body
	Bearer      bool        // with an access token
	Basic       bool        // with the credentials of the application
	Form        [][2]string // fields of a body
	Body        node        // JSON; empty if there is none
	Browser     bool        // opened in a browser
}

// request returns the first example of an operation.
func (s *spec) request(o operation, op node, parameters []node, base string) request {
	r := request{Method: o.Method, Basic: o.Basic, Bearer: !o.Open && !o.Basic}
	path, query := o.Path, url.Values{}
	for _, p := range parameters {
		p = p.resolve()
		name, value := p.text("name"), p.text("example")
		switch {
		case p.text("in") == "path":
			path = strings.ReplaceAll(path, "{"+name+"}", value)
		case p.text("required") != "true":
		case p.text("in") == "query":
			query.Set(name, value)
		default:
			r.Headers = append(r.Headers, [2]string{name, value})
		}
	}
	if r.URL = base + path; len(query) > 0 {
		r.URL += "?" + query.Encode()
	}
	for mediaType, content := range op.get("requestBody", "content").pairs() {
		for _, e := range content.get("examples").pairs() {
			value := e.resolve().get("value")
			if strings.HasSuffix(mediaType, "form-urlencoded") {
				for k, v := range value.pairs() {
					r.Form = append(r.Form, [2]string{k, v.Value})
				}
			} else {
				r.Body = value
			}
			break
		}
	}
	for _, content := range op.get("responses", "200", "content").pairs() {
		r.Browser = r.Browser || content.get("schema").text("type") == "string"
	}
	return r
}

// samples writes the call in every language. Secrets come from the environment: ACCESS_TOKEN, or CLIENT_ID and
// CLIENT_SECRET.
func samples(r request) []sample {
	if r.Browser {
		return []sample{{"browser", "Browser", r.URL}}
	}
	return []sample{{"curl", "curl", r.curl()}, {"ts", "TypeScript", r.typeScript()}, {"py", "Python", r.python()},
		{"php", "PHP", r.php()}, {"java", "Java", r.java()}, {"go", "Go", r.goCode()}}
}

func (r request) hasBody() bool { return r.Body.Node != nil }

func (r request) encodedForm() string {
	var fields []string
	for _, f := range r.Form {
		fields = append(fields, url.QueryEscape(f[0])+"="+url.QueryEscape(f[1]))
	}
	return strings.Join(fields, "&")
}

func (r request) curl() string {
	command := "curl '" + r.URL + "'"
	if r.Method != "GET" {
		command = "curl -X " + r.Method + " '" + r.URL + "'"
	}
	lines := []string{command}
	if r.Bearer {
		lines = append(lines, `-H "Authorization: Bearer $ACCESS_TOKEN"`)
	}
	if r.Basic {
		lines = append(lines, `-u "$CLIENT_ID:$CLIENT_SECRET"`)
	}
	for _, h := range r.Headers {
		lines = append(lines, "-H '"+h[0]+": "+h[1]+"'")
	}
	for _, f := range r.Form {
		lines = append(lines, "--data-urlencode '"+f[0]+"="+f[1]+"'")
	}
	if r.hasBody() {
		lines = append(lines, "-H 'Content-Type: application/json'",
			"-d '"+strings.ReplaceAll(r.Body.json(""), "'", `'\''`)+"'")
	}
	return strings.Join(lines, " \\\n  ")
}

func (r request) typeScript() string {
	var b strings.Builder
	if r.Basic {
		b.WriteString("const credentials = btoa(`${process.env.CLIENT_ID}:${process.env.CLIENT_SECRET}`)\n")
	}
	fmt.Fprintf(&b, "const response = await fetch(%s, {\n  method: %s,\n", quote(r.URL), quote(r.Method))
	var headers []string
	if r.Bearer {
		headers = append(headers, "    Authorization: `Bearer ${process.env.ACCESS_TOKEN}`")
	}
	if r.Basic {
		headers = append(headers, "    Authorization: `Basic ${credentials}`")
	}
	for _, h := range r.Headers {
		headers = append(headers, "    "+quote(h[0])+": "+quote(h[1]))
	}
	if r.hasBody() {
		headers = append(headers, `    "Content-Type": "application/json"`)
	}
	if headers != nil {
		b.WriteString("  headers: {\n" + strings.Join(headers, ",\n") + "\n  },\n")
	}
	if r.Form != nil {
		b.WriteString("  body: new URLSearchParams({\n")
		for _, f := range r.Form {
			b.WriteString("    " + f[0] + ": " + quote(f[1]) + ",\n")
		}
		b.WriteString("  }),\n")
	}
	if r.hasBody() {
		b.WriteString("  body: JSON.stringify(" + r.Body.json("  ") + "),\n")
	}
	b.WriteString("})\nconsole.log(response.status, await response.text())\n")
	return b.String()
}

func (r request) python() string {
	var b strings.Builder
	imports := []string{"urllib.error", "urllib.request"}
	var headers []string
	if r.Bearer || r.Basic {
		imports = append(imports, "os")
	}
	if r.Bearer {
		headers = append(headers, `"Authorization": "Bearer " + os.environ["ACCESS_TOKEN"]`)
	}
	if r.Basic {
		imports = append(imports, "base64")
		headers = append(headers, `"Authorization": "Basic " + base64.b64encode(credentials.encode()).decode()`)
	}
	for _, h := range r.Headers {
		headers = append(headers, quote(h[0])+": "+quote(h[1]))
	}
	var body string
	if r.Form != nil {
		imports = append(imports, "urllib.parse")
		body = "data = urllib.parse.urlencode({\n"
		for _, f := range r.Form {
			body += "    " + quote(f[0]) + ": " + quote(f[1]) + ",\n"
		}
		body += "}).encode()\n"
	}
	if r.hasBody() {
		imports = append(imports, "json")
		headers = append(headers, `"Content-Type": "application/json"`)
		body = "data = json.dumps(" + pythonValue(r.Body, "") + ").encode()\n"
	}
	b.WriteString("import " + strings.Join(slices.Sorted(slices.Values(imports)), "\nimport ") + "\n\n")
	if r.Basic {
		b.WriteString(`credentials = os.environ["CLIENT_ID"] + ":" + os.environ["CLIENT_SECRET"]` + "\n")
	}
	b.WriteString(body)
	fmt.Fprintf(&b, "request = urllib.request.Request(%s, method=%s", quote(r.URL), quote(r.Method))
	if body != "" {
		b.WriteString(", data=data")
	}
	if headers != nil {
		b.WriteString(", headers={\n    " + strings.Join(headers, ",\n    ") + ",\n}")
	}
	b.WriteString(")\ntry:\n    response = urllib.request.urlopen(request)\nexcept urllib.error.HTTPError as error:\n    response = error\nprint(response.status, response.read().decode())\n")
	return b.String()
}

// pythonValue writes a JSON value as Python.
func pythonValue(n node, indent string) string {
	return literal(n, indent, "{", "}", ": ", map[string]string{"true": "True", "false": "False", "null": "None"},
		quote)
}

// phpValue writes a JSON value as PHP.
func phpValue(n node, indent string) string {
	return literal(n, indent, "[", "]", " => ", nil, phpQuote)
}

func phpQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func literal(n node, indent, opening, closing, colon string, words map[string]string,
	quoted func(string) string,
) string {
	var parts []string
	inner := indent + "    "
	switch n.Kind {
	case yaml.MappingNode:
		for k, v := range n.pairs() {
			parts = append(parts, quoted(k)+colon+literal(v, inner, opening, closing, colon, words, quoted))
		}
	case yaml.SequenceNode:
		opening, closing = "[", "]"
		for _, v := range n.items() {
			parts = append(parts, literal(v, inner, opening, closing, colon, words, quoted))
		}
	default:
		if n.Tag == "!!str" || n.Tag == "!!timestamp" {
			return quoted(n.Value)
		}
		if word, ok := words[n.Value]; ok {
			return word
		}
		return n.Value
	}
	if len(parts) == 0 {
		return opening + closing
	}
	return opening + "\n" + inner + strings.Join(parts, ",\n"+inner) + ",\n" + indent + closing
}

func (r request) php() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<?php\n$request = curl_init(%s);\ncurl_setopt_array($request, [\n    CURLOPT_CUSTOMREQUEST => %s,\n    CURLOPT_RETURNTRANSFER => true,\n", phpQuote(r.URL), phpQuote(r.Method))
	var headers []string
	if r.Bearer {
		headers = append(headers, `'Authorization: Bearer ' . getenv('ACCESS_TOKEN')`)
	}
	if r.Basic {
		b.WriteString("    CURLOPT_USERPWD => getenv('CLIENT_ID') . ':' . getenv('CLIENT_SECRET'),\n")
	}
	for _, h := range r.Headers {
		headers = append(headers, phpQuote(h[0]+": "+h[1]))
	}
	if r.hasBody() {
		headers = append(headers, `'Content-Type: application/json'`)
	}
	if headers != nil {
		b.WriteString("    CURLOPT_HTTPHEADER => [\n        " + strings.Join(headers, ",\n        ") + ",\n    ],\n")
	}
	if r.Form != nil {
		b.WriteString("    CURLOPT_POSTFIELDS => http_build_query([\n")
		for _, f := range r.Form {
			b.WriteString("        " + phpQuote(f[0]) + " => " + phpQuote(f[1]) + ",\n")
		}
		b.WriteString("    ]),\n")
	}
	if r.hasBody() {
		value := phpValue(r.Body, "    ")
		if value == "[]" && r.Body.Kind == yaml.MappingNode {
			value = "new stdClass()"
		}
		b.WriteString("    CURLOPT_POSTFIELDS => json_encode(" + value + "),\n")
	}
	b.WriteString("]);\n$body = curl_exec($request);\necho curl_getinfo($request, CURLINFO_RESPONSE_CODE), ' ', $body, \"\\n\";\n")
	return b.String()
}

func (r request) java() string {
	var b strings.Builder
	b.WriteString("import java.net.URI;\nimport java.net.http.HttpClient;\nimport java.net.http.HttpRequest;\nimport java.net.http.HttpResponse;\n")
	if r.Basic {
		b.WriteString("import java.util.Base64;\n")
	}
	b.WriteString("\npublic class Main {\n    public static void main(String[] args) throws Exception {\n")
	body := "HttpRequest.BodyPublishers.noBody()"
	switch {
	case r.hasBody():
		text := strings.ReplaceAll(strings.ReplaceAll(r.Body.json(""), `\`, `\\`), "\n", "\n            ")
		b.WriteString("        var body = \"\"\"\n            " + text + "\"\"\";\n")
		body = "HttpRequest.BodyPublishers.ofString(body)"
	case r.Form != nil:
		b.WriteString("        var body = " + strings.ReplaceAll(strconv.Quote(r.encodedForm()), "&",
			"&\"\n            + \"") + ";\n")
		body = "HttpRequest.BodyPublishers.ofString(body)"
	}
	if r.Basic {
		b.WriteString(
			"        var credentials = System.getenv(\"CLIENT_ID\") + \":\" + System.getenv(\"CLIENT_SECRET\");\n",
		)
	}
	fmt.Fprintf(&b, "        var request = HttpRequest.newBuilder(URI.create(%s))\n", strconv.Quote(r.URL))
	if r.Bearer {
		b.WriteString("            .header(\"Authorization\", \"Bearer \" + System.getenv(\"ACCESS_TOKEN\"))\n")
	}
	if r.Basic {
		b.WriteString("            .header(\"Authorization\", \"Basic \" + Base64.getEncoder().encodeToString(credentials.getBytes()))\n")
	}
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "            .header(%s, %s)\n", strconv.Quote(h[0]), strconv.Quote(h[1]))
	}
	if r.hasBody() {
		b.WriteString("            .header(\"Content-Type\", \"application/json\")\n")
	}
	if r.Form != nil {
		b.WriteString("            .header(\"Content-Type\", \"application/x-www-form-urlencoded\")\n")
	}
	fmt.Fprintf(&b, "            .method(%s, %s)\n            .build();\n", strconv.Quote(r.Method), body)
	b.WriteString(
		"        var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());\n" +
			"        System.out.println(response.statusCode() + \" \" + response.body());\n    }\n}\n",
	)
	return b.String()
}

func (r request) goCode() string {
	imports := []string{"fmt", "io", "net/http"}
	var b strings.Builder
	body := "nil"
	switch {
	case r.hasBody():
		imports, body = append(imports, "strings"), "body"
		text := r.Body.json("\t")
		raw := "`" + text + "`"
		if strings.Contains(text, "`") {
			raw = strconv.Quote(text)
		}
		b.WriteString("\tbody := strings.NewReader(" + raw + ")\n")
	case r.Form != nil:
		imports, body = append(imports, "net/url", "strings"), "strings.NewReader(form.Encode())"
		b.WriteString("\tform := url.Values{\n")
		for _, f := range r.Form {
			fmt.Fprintf(&b, "\t\t%q: {%q},\n", f[0], f[1])
		}
		b.WriteString("\t}\n")
	}
	fmt.Fprintf(&b, "\trequest, err := http.NewRequest(%q, %q, %s)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n",
		r.Method, r.URL, body)
	if r.Bearer {
		b.WriteString("\trequest.Header.Set(\"Authorization\", \"Bearer \"+os.Getenv(\"ACCESS_TOKEN\"))\n")
	}
	if r.Basic {
		b.WriteString("\trequest.SetBasicAuth(os.Getenv(\"CLIENT_ID\"), os.Getenv(\"CLIENT_SECRET\"))\n")
	}
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "\trequest.Header.Set(%q, %q)\n", h[0], h[1])
	}
	if r.hasBody() {
		b.WriteString("\trequest.Header.Set(\"Content-Type\", \"application/json\")\n")
	}
	if r.Form != nil {
		b.WriteString("\trequest.Header.Set(\"Content-Type\", \"application/x-www-form-urlencoded\")\n")
	}
	b.WriteString("\tresponse, err := http.DefaultClient.Do(request)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tdefer response.Body.Close()\n" +
		"\ttext, err := io.ReadAll(response.Body)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tfmt.Println(response.StatusCode, string(text))\n}\n")
	if r.Bearer || r.Basic {
		imports = append(imports, "os")
	}
	return "package main\n\nimport (\n\t\"" + strings.Join(slices.Sorted(slices.Values(imports)), "\"\n\t\"") +
		"\"\n)\n\nfunc main() {\n" + b.String()
}
