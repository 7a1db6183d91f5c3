package catalog

import "golang.org/x/text/language"

func entries(items []item, lang language.Tag) []Entry {
	base, _ := lang.Base()
	french := base.String() == "fr"
	out := make([]Entry, len(items))
	for i, it := range items {
		out[i] = Entry{Code: it.code, Label: it.labelEN}
		if french {
			out[i].Label = it.labelFR
		}
	}
	return out
}

func has(items []item, code string) bool {
	for _, it := range items {
		if it.code == code {
			return true
		}
	}
	return false
}
