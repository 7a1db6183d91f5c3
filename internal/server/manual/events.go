package manual

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed events.json
var eventsSource []byte

// eventWords say when an event is sent and what to do then.
type eventWords struct{ When, Do string }

// knownEvents are the words for every event type, by language.
func knownEvents() (map[string]map[string]eventWords, error) {
	var all map[string]map[string]eventWords
	if err := json.Unmarshal(eventsSource, &all); err != nil {
		return nil, fmt.Errorf("read events.json: %w", err)
	}
	return all, nil
}

// webhooks are the operations of a contract that the service posts, in the order of the contract.
func (m manual) webhooks() (all []operation) {
	for _, g := range m.Groups {
		for _, o := range g.Operations {
			if o.Webhook {
				all = append(all, o)
			}
		}
	}
	return all
}

// Events is a table of the event types about consultations, in Markdown.
func (w writer) Events() (string, error) { return w.events(partnerPlace, true) }

// ClientEvents is a table of the event types about clients.
func (w writer) ClientEvents() (string, error) { return w.events(platformPlace, false) }

func (w writer) events(of place, withStatus bool) (string, error) {
	known, err := knownEvents()
	if err != nil {
		return "", err
	}
	head := map[string][]string{"en": {"Type", "When", "Status", "What to do"},
		"fr": {"Type", "Quand", "État", "Que faire"}}[w.Lang]
	row := func(cells ...string) string {
		if !withStatus {
			cells = slices.Delete(cells, 2, 3)
		}
		return "| " + strings.Join(cells, " | ") + " |\n"
	}
	var b strings.Builder
	b.WriteString(row(slices.Clone(head)...))
	b.WriteString(row("---", "---", "---", "---"))
	for _, m := range w.manuals {
		if m.place != of {
			continue
		}
		for _, o := range m.webhooks() {
			about := known[o.Path][w.Lang]
			status := "–"
			for _, r := range o.Body {
				if r.Name == "data.status" {
					status = "`" + strings.Join(r.Values, "`, `") + "`"
				}
			}
			b.WriteString(row(fmt.Sprintf("[`%s`](%s#%s)", o.Path, o.Page, o.ID), about.When, status, about.Do))
		}
	}
	return b.String(), nil
}
