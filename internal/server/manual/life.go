package manual

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// Step is a row of the state table of consultations.
type Step struct {
	From, To string   // statuses; From is empty at creation
	Trigger  string   // what happens
	Money    string   // HOLD, RELEASE, CAPTURE or REFUND; empty for none
	Events   []string // webhooks in the order in which they are sent
}

// happenings describes each trigger.
var happenings = map[string]map[string]string{
	"create":    {"en": "you create it", "fr": "vous la créez"},
	"authorize": {"en": "the price is reserved", "fr": "le prix est réservé"},
	"accept":    {"en": "a lawyer accepts", "fr": "un avocat accepte"},
	"search_over": {"en": "no lawyer accepts within 30 minutes",
		"fr": "aucun avocat n’accepte en 30 minutes"},
	"callback_missed": {"en": "no callback within 24 hours", "fr": "aucun rappel en 24 heures"},
	"bridge": {"en": "the lawyer and the client are connected",
		"fr": "l’avocat et le client sont en communication"},
	"lawyer_lost": {"en": "the lawyer drops out within the 30 minutes of the search",
		"fr": "l’avocat se désiste dans les 30 minutes de la recherche"},
	"lawyer_lost_late": {"en": "the lawyer drops out later", "fr": "l’avocat se désiste plus tard"},
	"client_unreached": {"en": "three attempts to reach the client fail",
		"fr": "trois tentatives de joindre le client échouent"},
	"phone_lost": {"en": "the client no longer has a verified phone number",
		"fr": "le client n’a plus de numéro vérifié"},
	"call_over": {"en": "the call ends", "fr": "l’appel se termine"},
	"submit_note": {"en": "the lawyer writes or corrects the note",
		"fr": "l’avocat rédige ou corrige la note"},
	"no_useful_call": {"en": "the call was unusable, for example with the wrong person",
		"fr": "l’appel est inutilisable, par exemple avec la mauvaise personne"},
	"note_missing": {"en": "no note within seven days of the call",
		"fr": "aucune note sept jours après l’appel"},
	"cancel": {"en": "you, the client or we cancel", "fr": "vous, le client ou nous annulons"},
	"refund": {"en": "we refund the client", "fr": "nous remboursons le client"},
}

var moneyWords = map[string]map[string]string{
	"":        {"en": "–", "fr": "–"},
	"HOLD":    {"en": "reserved", "fr": "réservé"},
	"RELEASE": {"en": "released", "fr": "libéré"},
	"CAPTURE": {"en": "charged", "fr": "débité"},
	"REFUND":  {"en": "refunded", "fr": "remboursé"},
}

// Life returns the table of all steps in Markdown, preceded by a Mermaid diagram.
func (w writer) Life() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, a := range arrows(w.Steps) {
		fmt.Fprintf(&b, "    %s --> %s\n", cmp.Or(a.from, "[*]"), a.to)
	}
	b.WriteString("```\n\n")
	head := map[string]string{"en": "| From | What happens | To | Money | Events |",
		"fr": "| De | Ce qui se passe | Vers | Argent | Événements |"}
	b.WriteString(head[w.Lang] + "\n|---|---|---|---|---|\n")
	for _, s := range w.Steps {
		from := "–"
		if s.From != "" {
			from = "`" + s.From + "`"
		}
		var events []string
		for _, e := range s.Events {
			events = append(events, "`"+e+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", from, happenings[s.Trigger][w.Lang], s.To,
			moneyWords[s.Money][w.Lang], strings.Join(events, ", "))
	}
	return b.String()
}

type arrow struct{ from, to string }

// arrows returns each change of status once. Steps that keep the status are only in the table.
func arrows(steps []Step) []arrow {
	var all []arrow
	for _, s := range steps {
		if a := (arrow{s.From, s.To}); s.From != s.To && s.From != "" && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// boxes holds the place of each status in the diagram: the centre of its box, in units of the diagram.
var boxes = map[string][2]int{
	"DRAFT": {90, 40}, "MATCHING": {90, 140}, "ASSIGNED": {320, 140}, "IN_CALL": {520, 140}, "CALL_ENDED": {720, 140},
	"COMPLETED": {720, 40}, "PENDING_CALLBACK": {90, 260}, "CANCELLED": {320, 260}, "EXPIRED": {560, 350},
}

const boxWidth, boxHeight = 160, 40

// diagram draws the states as a picture. The table after it says the same in words.
func (w writer) diagram(string) template.HTML {
	title := map[string]string{"en": "Diagram of the consultation states; the table below has the same transitions",
		"fr": "Schéma des états d’une consultation ; le tableau ci-dessous donne les mêmes transitions"}
	var b strings.Builder
	b.WriteString(`<div class="scroll" tabindex="0"><svg class="states" viewBox="0 0 820 390" role="img" aria-label="` +
		template.HTMLEscapeString(title[w.Lang]) + `">`)
	b.WriteString(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z"/></marker></defs>`)
	for _, a := range arrows(w.Steps) {
		x1, y1, x2, y2 := between(boxes[a.from], boxes[a.to], slices.Contains(arrows(w.Steps), arrow{a.to, a.from}))
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" marker-end="url(#tip)"/>`, x1, y1, x2, y2)
	}
	for _, status := range slices.Sorted(statuses(w.Steps)) {
		at, final := boxes[status], ""
		if !slices.ContainsFunc(arrows(w.Steps), func(a arrow) bool { return a.from == status }) {
			final = ` class="final"`
		}
		fmt.Fprintf(&b, `<g%s><rect x="%d" y="%d" width="%d" height="%d" rx="8"/><text x="%d" y="%d">%s</text></g>`,
			final, at[0]-boxWidth/2, at[1]-boxHeight/2, boxWidth, boxHeight, at[0], at[1]+5,
			template.HTMLEscapeString(status))
	}
	b.WriteString("</svg></div>\n")
	return template.HTML(b.String()) //nolint:gosec // of numbers, and of texts that are escaped
}

func statuses(steps []Step) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, s := range steps {
			if !seen[s.To] && !yield(s.To) {
				return
			}
			seen[s.To] = true
		}
	}
}

// between returns an arrow from the edge of one box to the edge of another. If both directions exist, the arrow is
// moved off the centre.
func between(from, to [2]int, both bool) (x1, y1, x2, y2 int) {
	aside := 0
	if both {
		aside = 9
	}
	switch {
	case from[1] == to[1] && from[0] < to[0]:
		return from[0] + boxWidth/2, from[1] - aside, to[0] - boxWidth/2, to[1] - aside
	case from[1] == to[1]:
		return from[0] - boxWidth/2, from[1] + aside, to[0] + boxWidth/2, to[1] + aside
	}
	down := 1
	if from[1] > to[1] {
		down, aside = -1, -aside
	}
	// A slanted arrow starts and ends on the side of the other box.
	near := func(a, b int) int { return a + max(-boxWidth/2+20, min(boxWidth/2-20, (b-a)/4)) }
	return near(from[0], to[0]) + aside, from[1] + down*boxHeight/2, near(to[0], from[0]) + aside,
		to[1] - down*boxHeight/2
}
