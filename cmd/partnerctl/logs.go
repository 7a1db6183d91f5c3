package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

type logsCmd struct {
	Tail tailCmd `cmd:"" help:"Follow the application's requests as they are logged."`
}

type tailCmd struct {
	Refused bool          `help:"Show only responses with status 400 or higher."`
	Last    int           `help:"Earlier requests to show first (0 to 100)." default:"10"`
	Every   time.Duration `help:"How often to poll for requests." default:"2s"`
}

// overlap is how far back each poll reads again, because requests that ended together are logged one after the other.
const overlap = time.Minute

// Run prints each request once, newest last.
func (c *tailCmd) Run(ctx context.Context, s *service) error {
	w := tabwriter.NewWriter(os.Stdout, 20, 0, 2, ' ', 0)
	seen, from := map[string]time.Time{}, time.Time{}
	for first := true; ; first = false {
		found, err := c.since(ctx, s, from, first)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "could not read the log, retrying:", err)
		}
		for i, r := range found {
			if _, known := seen[r.ID]; known {
				continue
			}
			seen[r.ID] = r.At
			if !first || i >= len(found)-c.Last {
				if err := c.show(w, s, r); err != nil {
					return err
				}
			}
			if at := r.At.Add(-overlap); at.After(from) {
				from = at
			}
		}
		for id, at := range seen {
			if at.Before(from) {
				delete(seen, id)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

// since are the requests since a time, newest last; the first poll reads only the last page.
func (c *tailCmd) since(ctx context.Context, s *service, from time.Time, first bool) ([]request, error) {
	start := ""
	if !from.IsZero() {
		start = from.UTC().Format(time.RFC3339Nano)
	}
	var all []request
	for cursor := ""; ; {
		var p page[request]
		err := s.read(ctx, http.MethodGet, "/requests"+query("refused",
			ifSet(c.Refused), "from", start, "cursor", cursor,
			"limit", "100"), nil, &p)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if p.NextCursor == nil || first {
			slices.Reverse(all)
			return all, nil
		}
		cursor = *p.NextCursor
	}
}

func (c *tailCmd) show(w *tabwriter.Writer, s *service, r request) error {
	if s.JSON {
		return printJSON(r)
	}
	fmt.Fprintln(w, r.row())
	return w.Flush()
}
