package sandbox

import (
	"context"
	"fmt"
	"slices"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

var (
	everything = []string{"FAMILY", "LABOUR", "HOUSING", "CONSUMER", "CRIMINAL", "BUSINESS", "TAX", "IMMIGRATION",
		"ADMINISTRATIVE", "ROAD", "INSURANCE", "IP"}
	general = []string{"FAMILY", "LABOUR", "HOUSING", "CONSUMER", "CRIMINAL", "BUSINESS", "IMMIGRATION",
		"ADMINISTRATIVE", "ROAD", "INSURANCE"}
)

// seedLawyers are the shared lawyers of a sandbox: French and English for everything, Spanish for most, Arabic and
// Portuguese for a few. No one serves tax law or intellectual property in Arabic or Portuguese, so that waiting can be
// tested there.
var seedLawyers = []struct {
	count                  int
	competences, languages []string
}{
	{14, everything, []string{"FR", "EN"}},
	{6, general, []string{"FR", "EN", "ES"}},
	{2, []string{"FAMILY", "LABOUR", "HOUSING", "IMMIGRATION"}, []string{"FR", "AR"}},
	{2, []string{"FAMILY", "CONSUMER", "IMMIGRATION"}, []string{"FR", "EN", "PT"}},
}

// Seed creates the simulated lawyers that do not exist yet. [Lawyers.Run] brings them to work. Their numbers are
// reserved for fiction (+33 1 99 00), and no one can sign in as them.
func (l *Lawyers) Seed(ctx context.Context, tx postgres.Tx) error {
	if err := tx.Lock(ctx, "sandbox lawyers"); err != nil { // two processes may start together
		return err
	}
	there, err := simulatedEmails(ctx, tx)
	if err != nil {
		return err
	}
	n := 0
	for _, group := range seedLawyers {
		for range group.count {
			n++
			email := fmt.Sprintf("lawyer%02d@lawyers.sandbox.example", n)
			if slices.Contains(there, email) {
				continue
			}
			_, err := l.lawyers.Create(ctx, tx, lawyer.NewLawyer{
				Email: email, Name: fmt.Sprintf("Sandbox Lawyer %02d", n), Phone: fmt.Sprintf("+331990000%02d", n),
				Competences: group.competences, Languages: group.languages, Simulated: true,
			})
			if err != nil {
				return fmt.Errorf("create simulated lawyer %s: %w", email, err)
			}
		}
	}
	return nil
}
