package manual

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Hit is a search result: a page or a heading on it.
type Hit struct {
	URL, Page, Title     string
	Before, Match, After string // the text around the match
}

// Limits of a search: number of hits, characters read of a query, and characters of text around a hit.
const (
	maxHits  = 30
	maxQuery = 100
	beside   = 80
)

// Search finds the headings whose text contains all words of a query, ignoring case and accents. Headings with the
// words in their title come first. The heading that equals the query comes before all others. Synonyms of a word match
// too. If a query finds nothing, unknown words are replaced by the nearest known ones.
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

// Weights of a word in a title, a title that equals the query, and a text that contains the whole query.
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

// standing returns the weight of a word in a part, or of a synonym if the word is absent.
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

// synonyms maps words of readers, folded, to the words of the documentation.
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
		{"gdpr", "rgpd", "erasure", "effacement", "suppression"}, {"privacy", "security", "securite", "donnees"},
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

// wordsOf splits a text into folded words without the punctuation around them.
func wordsOf(text string) []string {
	var words []string
	for _, w := range strings.Fields(fold(text)) {
		if w = strings.Trim(w, ".,;:!?\"'`()«»“”…"); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// shortest is the length from which a word may contain one typing error. A word of twice that length may contain two.
const shortest = 5

// corrected replaces unknown words by the nearest known ones.
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

// distance counts letters that differ, are missing, are superfluous or are swapped. It returns limit if there are at
// least that many.
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

// excerpt returns the text around the first occurrence of a word, or its beginning if the word is absent.
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

// fold returns a text in lowercase without accents.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(strings.ReplaceAll(s, "’", "'")))
}
