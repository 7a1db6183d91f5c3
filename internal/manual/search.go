package manual

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Hit is where a search leads: a page or a heading of it.
type Hit struct {
	URL, Page, Title     string
	Before, Match, After string // a piece of the text around what was found
}

// What bounds a search: hits that are told, characters of a query that are read and of the text around a hit.
const (
	maxHits  = 30
	maxQuery = 100
	beside   = 80
)

// Search finds the headings under which all words of a query stand, whatever their case and accents; those that have them in
// their title come first.
func (s Site) Search(query string) []Hit {
	if r := []rune(query); len(r) > maxQuery {
		query = string(r[:maxQuery])
	}
	words := strings.Fields(fold(query))
	if len(words) == 0 {
		return nil
	}
	type scored struct {
		Hit
		score int
	}
	var found []scored
	for _, p := range s.Pages {
		for _, part := range p.Parts {
			title, text := fold(part.Title), fold(part.Text)
			score := 0
			for _, w := range words {
				n := strings.Count(text, w)
				if strings.Contains(title, w) {
					n += 20
				}
				if n == 0 {
					score = 0
					break
				}
				score += min(n, 30)
			}
			if score == 0 {
				continue
			}
			h := Hit{URL: p.Path, Page: p.Title, Title: part.Title}
			if part.ID != "" {
				h.URL += "#" + part.ID
			}
			h.Before, h.Match, h.After = excerpt(part.Text, words[0])
			found = append(found, scored{h, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var hits []Hit
	for _, f := range found[:min(len(found), maxHits)] {
		hits = append(hits, f.Hit)
	}
	return hits
}

// excerpt is the text around the first place of a word; the beginning when it is not there.
func excerpt(text, word string) (before, match, after string) {
	letters := []rune(text)
	at, size := -1, 0
	for i := range letters {
		for n := 1; at < 0 && n <= len([]rune(word))+2 && i+n <= len(letters); n++ {
			if fold(string(letters[i:i+n])) == word {
				at, size = i, n
			}
		}
		if at >= 0 {
			break
		}
	}
	if at < 0 {
		if len(letters) > 2*beside {
			return "", "", string(letters[:2*beside]) + "…"
		}
		return "", "", text
	}
	from, to := max(0, at-beside), min(len(letters), at+size+beside)
	before, after = string(letters[from:at]), string(letters[at+size:to])
	if from > 0 {
		before = "…" + before
	}
	if to < len(letters) {
		after += "…"
	}
	return before, string(letters[at : at+size]), after
}

// fold is a text in small letters without accents.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(strings.ReplaceAll(s, "’", "'")))
}
