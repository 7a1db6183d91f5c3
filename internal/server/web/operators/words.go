package operators

import (
	"context"
	"strings"
	"time"

	"golang.org/x/text/language"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
)

// ReasonCell returns the text of a reason from a lawyer or a phone line. An unknown reason is shown as it is.
func ReasonCell(reason string) forms.Cell {
	if key := "ops.reason." + reason; ReasonKeys[key] {
		return forms.Worded(key)
	}
	return forms.Code(reason)
}

// ReasonKeys are the text keys of all reasons: of a lawyer who declines or hands over, and of the end of a call.
var ReasonKeys = func() map[string]bool {
	keys := map[string]bool{}
	for _, r := range consultation.LawyersReasons() {
		keys["ops.reason."+string(r)] = true
	}
	for _, r := range telephony.Reasons() {
		keys["ops.reason."+r] = true
	}
	return keys
}()

// answerCell shows the state of an offer or a call with its reason.
func answerCell(state, reason string) forms.Cell {
	cell := forms.Coded(state)
	if reason != "" {
		cell.More = new(ReasonCell(reason))
	}
	return cell
}

// lineCell shows what happened on a phone line, and whose line it is.
func lineCell(r telephony.Report) forms.Cell {
	cell := forms.Coded(string(r.Kind))
	if r.Role != "" {
		cell.More = new(forms.Worded("ops.line.of." + string(r.Role)))
	}
	return cell
}

// leftCell shows a duration in hours and minutes, so that a day is easy to read.
func leftCell(left time.Duration, alarm bool) forms.Cell {
	key := "ops.left"
	if left < 0 {
		key, left = "ops.overdue", -left
	} else if alarm {
		key = "ops.left.alarm"
	}
	return forms.Worded(key, int(left.Hours()), int(left.Minutes())%60)
}

// dayCell is a day without a time.
func dayCell(t time.Time) forms.Cell { return forms.Cell{At: &t, Day: true} }

// words returns the labels of all codes of competences and languages.
func (p *Pages) words(ctx context.Context, tx postgres.Tx, lang string) (map[string]string, error) {
	words := map[string]string{}
	for _, list := range []func(context.Context, postgres.Tx, language.Tag) ([]catalog.Entry, error){
		p.deps.Catalog.Competences, p.deps.Catalog.Languages,
	} {
		entries, err := list(ctx, tx, language.Make(lang))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			words[e.Code] = e.Label
		}
	}
	return words, nil
}

// inWords lists codes by their labels.
func inWords(known map[string]string, codes ...string) forms.Cell {
	words := make([]string, len(codes))
	for i, c := range codes {
		if words[i] = known[c]; words[i] == "" {
			words[i] = c
		}
	}
	return forms.Plain(strings.Join(words, ", "))
}

// titleOf returns the name behind an ID as far as operators may see it, or "" if the ID suffices.
func (p *Pages) titleOf(ctx context.Context, tx postgres.Tx, subject string) (string, error) {
	switch kind, _, _ := strings.Cut(subject, "_"); kind {
	case "law":
		l, err := p.deps.Lawyers.Get(ctx, tx, subject)
		return l.Name, err
	case "app":
		a, err := p.deps.Applications.Get(ctx, tx, subject)
		return a.Name, err
	case "stf":
		person, err := p.deps.Staff.Get(ctx, tx, subject)
		return person.Name, err
	case "cli":
		c, err := p.deps.Accounts.Get(ctx, tx, subject)
		return account.MaskName(c.Name), err
	}
	return "", nil
}

// lawyerName links a lawyer by name. known caches lawyers for one page.
func (p *Pages) lawyerName(ctx context.Context, tx postgres.Tx, known map[string]lawyer.Lawyer,
	id string,
) (forms.Cell, error) {
	if id == "" {
		return forms.Cell{}, nil
	}
	if _, ok := known[id]; !ok {
		l, err := p.deps.Lawyers.Get(ctx, tx, id)
		if err != nil {
			return forms.Cell{}, err
		}
		known[id] = l
	}
	return forms.Cell{Text: known[id].Name, URL: Path("lawyers", id)}, nil
}
