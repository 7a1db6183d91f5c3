package catalog

import (
	"testing"
	"time"

	"golang.org/x/text/language"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
)

func TestCatalogIsListedInItsOrderAndLanguage(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), New()
	for _, tc := range []struct {
		lang             language.Tag
		first, last, lng string
	}{
		{language.MustParse("fr-CA"), "Droit de la famille", "Propriété intellectuelle", "Français"},
		{language.English, "Family law", "Intellectual property", "French"},
		{language.Und, "Family law", "Intellectual property", "French"},
	} {
		c, err := s.Competences(t.Context(), db.Read(), tc.lang)
		if err != nil || len(c) != 12 || c[0] != (Entry{"FAMILY", tc.first}) || c[11] != (Entry{"IP", tc.last}) {
			t.Errorf("%v: %v (%v)", tc.lang, c, err)
		}
		l, err := s.Languages(t.Context(), db.Read(), tc.lang)
		if err != nil || len(l) != 5 || l[0] != (Entry{DefaultLanguage, tc.lng}) {
			t.Errorf("%v: %v (%v)", tc.lang, l, err)
		}
	}
}

func TestRetiredCodesAreNeitherListedNorAccepted(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), New()
	unlisted := func(competence, language *string) (fields string) {
		t.Helper()
		issues, err := s.Unlisted(t.Context(), db.Read(), competence, language)
		if err != nil {
			t.Fatal(err)
		}
		for _, issue := range issues {
			fields += issue.Path + " " + issue.Code + ";"
		}
		return fields
	}
	tax := "TAX"
	if unlisted(&tax, nil) != "" {
		t.Fatal("TAX is not accepted")
	}
	if _, err := dbtest.Owner(t, db).Pool().Exec(t.Context(),
		"UPDATE competences SET retired_at = now() WHERE code = 'TAX'"); err != nil {
		t.Fatal(err)
	}
	clk.Advance(time.Second)
	if unlisted(&tax, nil) == "" {
		t.Error("a retired code is accepted a second later")
	}
	if c, err := s.Competences(t.Context(), db.Read(), language.French); err != nil || len(c) != 11 {
		t.Errorf("%d competences (%v)", len(c), err)
	}
	for _, code := range []string{"", "tax", "NOPE"} {
		if got := unlisted(&code, &code); got != "competence not_in_catalog;language not_in_catalog;" {
			t.Errorf("%q: %s", code, got)
		}
	}
	family, portuguese := "FAMILY", "PT"
	if got := unlisted(&portuguese, &family); got != "competence not_in_catalog;language not_in_catalog;" {
		t.Errorf("one for the other: %s", got)
	}
	if got := unlisted(&family, &portuguese) + unlisted(nil, nil); got != "" {
		t.Errorf("refused: %s", got)
	}
}
