package crm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/html"
)

// Browser acts as a person with a browser without scripts: it keeps cookies, follows redirects and submits forms.
type Browser struct {
	client *http.Client
	stop   string // redirects to URLs with this prefix are not followed
}

// NewBrowser returns a browser that stops at redirects to URLs with the prefix stop: there the partner takes over.
func NewBrowser(stop string) *Browser {
	jar, _ := cookiejar.New(nil) // never fails without options
	b := &Browser{stop: stop}
	b.client = &http.Client{Jar: jar, Timeout: 20 * time.Second,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if b.stop != "" && strings.HasPrefix(r.URL.String(), b.stop) || len(via) > 10 {
				return http.ErrUseLastResponse
			}
			return nil
		}}
	return b
}

// Through makes the browser send its requests through t, and returns it.
func (b *Browser) Through(t http.RoundTripper) *Browser {
	b.client.Transport = t
	return b
}

// Page is the page that the browser shows.
type Page struct {
	Status   int
	URL      *url.URL
	Location string // redirect target, if the browser did not follow it
	Text     string // visible text, with single spaces
	Forms    []Form
	Links    []string
	Header   http.Header
	Raw      []byte
}

// Form is a form with its current values.
type Form struct {
	Action  string
	Method  string
	Values  url.Values
	Buttons []Button
}

// Button is a button that submits a form.
type Button struct{ Name, Value, Text string }

// Open loads the page at an address.
func (b *Browser) Open(ctx context.Context, address string) (*Page, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return b.load(r)
}

// Send fills fields into a form and submits it with the button of that value ("" for the only one).
func (b *Browser) Send(ctx context.Context, p *Page, f Form, fields map[string]string, button string) (*Page, error) {
	values := url.Values{}
	for k, v := range f.Values {
		values[k] = v
	}
	for k, v := range fields {
		values.Set(k, v)
	}
	for _, x := range f.Buttons {
		if x.Name != "" && x.Value == button {
			values.Set(x.Name, x.Value)
		}
	}
	action, err := p.URL.Parse(f.Action)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, strings.ToUpper(f.Method), action.String(),
		strings.NewReader(values.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", p.URL.Scheme+"://"+p.URL.Host)
	return b.load(r)
}

// Form returns the first form with a field or button of that name.
func (p *Page) Form(name string) (Form, error) {
	for _, f := range p.Forms {
		if f.Values.Has(name) {
			return f, nil
		}
		for _, x := range f.Buttons {
			if x.Name == name {
				return f, nil
			}
		}
	}
	return Form{}, fmt.Errorf("no form with %q on %s (status %d): %.300s", name, p.URL, p.Status, p.Text)
}

func (b *Browser) load(r *http.Request) (*Page, error) {
	r.Header.Set("Accept-Language", "en")
	resp, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	p := &Page{Status: resp.StatusCode, URL: resp.Request.URL, Location: resp.Header.Get("Location"),
		Header: resp.Header, Raw: raw}
	doc, err := html.Parse(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	p.walk(doc, nil)
	p.Text = strings.Join(strings.Fields(p.Text), " ")
	return p, nil
}

func (p *Page) walk(n *html.Node, form *Form) {
	if n.Type == html.TextNode {
		p.Text += n.Data + " "
	}
	if n.Type == html.ElementNode {
		switch n.Data {
		case "style", "script":
			return
		case "form":
			p.Forms = append(p.Forms, Form{Action: attr(n, "action"), Method: attr(n, "method"), Values: url.Values{}})
			form = &p.Forms[len(p.Forms)-1]
		case "a":
			p.Links = append(p.Links, attr(n, "href"))
		case "input", "button":
			if form != nil {
				form.add(n)
			}
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c, form)
	}
}

func (f *Form) add(n *html.Node) {
	name, value, kind := attr(n, "name"), attr(n, "value"), attr(n, "type")
	switch {
	case n.Data == "button" || kind == "submit":
		f.Buttons = append(f.Buttons, Button{name, value, ""})
	case kind == "checkbox" || kind == "radio":
		if has(n, "checked") && !has(n, "disabled") {
			f.Values.Add(name, value)
		}
	case name != "":
		f.Values.Add(name, value)
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}
