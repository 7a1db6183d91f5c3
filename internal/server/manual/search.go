package manual

import (
	"cmp"
	"maps"
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

// Search finds the headings under which all words of a query stand, whatever their case and accents; those that have
// them in their title come first, and the heading that is the query before all. A word stands for its synonyms, too.
// When a query finds nothing, words that stand nowhere are taken for the nearest ones that do.
func (s Site) Search(query string) []Hit {
	if r := []rune(query); len(r) > maxQuery {
		query = string(r[:maxQuery])
	}
	asked := wordsOf(query)
	if len(asked) == 0 {
		return nil
	}
	if hits := s.find(asked); len(hits) > 0 {
		return hits
	}
	return s.find(s.corrected(asked))
}

// What a word counts for that stands in a title, a title that is the query, and a text that has the query as it is.
const (
	inTitle  = 20
	isTitle  = 1000
	isPhrase = 100
)

func (s Site) find(asked []string) []Hit {
	type scored struct {
		Hit
		text  string
		score int
	}
	var found []scored
	phrase := strings.Join(asked, " ")
	n := 0
	for _, p := range s.Pages {
		for _, part := range p.Parts {
			title, text := s.folded[n][0], s.folded[n][1]
			n++
			score := 0
			for _, w := range asked {
				counts := standing(w, title, text)
				if counts == 0 {
					score = 0
					break
				}
				score += min(counts, 30)
			}
			if score == 0 {
				continue
			}
			if slices.Equal(wordsOf(title), asked) {
				score += isTitle
			} else if strings.Contains(text, phrase) {
				score += isPhrase
			}
			h := Hit{URL: p.Path, Page: p.Title, Title: part.Title}
			if part.ID != "" {
				h.URL += "#" + part.ID
			}
			found = append(found, scored{h, part.Text, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var hits []Hit
	for _, f := range found[:min(len(found), maxHits)] {
		f.Before, f.Match, f.After = excerpt(f.text, asked[0])
		hits = append(hits, f.Hit)
	}
	return hits
}

// standing is how much a word, or a synonym where the word is absent, counts in a part.
func standing(word, title, text string) int {
	for _, w := range append([]string{word}, synonyms[word]...) {
		n := strings.Count(text, w)
		if strings.Contains(title, w) {
			n += inTitle
		}
		if n > 0 {
			return n
		}
	}
	return 0
}

// synonyms are words of readers, folded, and what the documentation says instead.
var synonyms = func() map[string][]string {
	all := map[string][]string{}
	for _, group := range [][]string{
		{"time", "clock", "temps", "horloge"}, {"testing", "tests", "test", "sandbox", "bac a sable"},
		{"fake", "mock", "simulate", "simule", "sandbox"}, {"chargeback", "chargebacks", "dispute", "disputes",
			"litige", "litiges", "retrofacturation"}, {"refund", "refunds", "rembourse", "remboursement"},
		{"retry", "retries", "repeat", "redeliver", "reessayer", "renvoyer", "nouvelle tentative"},
		{"throttling", "quota", "quotas", "rate limit", "limits", "limites"},
		{"login", "signin", "sign-in", "authorize", "connexion"}, {"price", "cost", "prix", "cents", "centimes"},
		{"lawyer", "avocat", "lawyers", "avocats"}, {"receiver", "listener", "handler", "recepteur"},
		{"url", "endpoint", "point de reception"}, {"unlink", "disconnect", "revoke", "retirer l'acces", "revocation"},
		{"gdpr", "rgpd", "erasure", "effacement"}, {"privacy", "security", "securite", "donnees"},
		{"refresh", "renew", "actualiser", "rafraichir"}, {"rotate", "rotation", "remplacer", "remplacement"},
		{"reserved", "hold", "reserve", "reservation"}, {"cancel", "abort", "annuler", "annulation"},
		{"uptime", "downtime", "outage", "panne", "status"}, {"playground", "explorer", "explorateur", "console"},
	} {
		for _, w := range group {
			for _, other := range group {
				if other != w {
					all[w] = append(all[w], other)
				}
			}
		}
	}
	return all
}()

// wordsOf are the words of a text, folded, without the punctuation around them.
func wordsOf(text string) []string {
	var words []string
	for _, w := range strings.Fields(fold(text)) {
		if w = strings.Trim(w, ".,;:!?\"'`()«»“”…"); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// shortest is how many letters a word has that may be mistyped; one of twice as many may be so twice.
const shortest = 5

// corrected takes words that stand nowhere for the nearest ones that do.
func (s Site) corrected(asked []string) []string {
	known := map[string]bool{}
	for _, part := range s.folded {
		for _, w := range wordsOf(part[0] + " " + part[1]) {
			known[w] = true
		}
	}
	out := slices.Clone(asked)
	for i, w := range out {
		if known[w] || len(w) < shortest {
			continue
		}
		nearest := len(w)/shortest + 1
		for _, k := range slices.Sorted(maps.Keys(known)) {
			if d := distance(w, k, nearest); d < nearest {
				out[i], nearest = k, d
			}
		}
	}
	return out
}

// distance is how many letters differ, are missing, are too many or have changed places; limit when there are as many
// or more.
func distance(a, b string, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return min(row[len(b)], limit)
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
