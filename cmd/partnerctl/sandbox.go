package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

type runCmd struct {
	ID string `arg:"" help:"ID of the consultation."`
	To string `arg:"" help:"Target status, like IN_CALL."`
}

// Run repeats the request until the status is reached.
func (c *runCmd) Run(ctx context.Context, s *service) error {
	var passed int64
	for {
		var v struct {
			Status          string
			Reached         bool
			AdvancedSeconds int64
		}
		if err := s.read(ctx, http.MethodPost, "/sandbox/consultations/"+url.PathEscape(c.ID)+"/run",
			map[string]string{"status": strings.ToUpper(c.To)}, &v); err != nil {
			return err
		}
		if passed += v.AdvancedSeconds; v.Reached {
			fmt.Println(v.Status+"; the clock advanced by", time.Duration(passed)*time.Second)
			return nil
		}
		fmt.Println("still", v.Status)
	}
}

type scenarioCmd struct {
	Client string `arg:"" help:"ID of the client."`
	Name   string `arg:"" help:"Scenario, like no_lawyer; completed is the normal course."`
}

func (c *scenarioCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodPut, "/sandbox/clients/"+url.PathEscape(c.Client)+"/scenario",
		map[string]string{"scenario": c.Name}, func(v struct{ Scenario string }) []string {
			return []string{"Scenario for new consultations: " + v.Scenario}
		})
}

type message struct {
	SentAt       time.Time
	Kind, To     string
	Subject      *string
	Text         string
	ID, ClientID string
}

type inboxCmd struct {
	Client  string `help:"Show only messages to this client."`
	Kind    string `help:"Show only EMAIL or TEXT_MESSAGE."`
	listing `embed:""`
}

func (c *inboxCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodGet, "/sandbox/inbox"+query("clientId", c.Client, "kind", c.Kind, "cursor", c.Cursor,
		"limit", strconv.Itoa(c.Limit)), nil, func(p page[message]) []string {
		var lines []string
		for _, m := range p.newestLast() {
			lines = append(lines, row(m.SentAt, m.Kind, m.To, m.ClientID))
			if m.Subject != nil {
				lines = append(lines, "  "+*m.Subject)
			}
			for line := range strings.Lines(m.Text) {
				lines = append(lines, "  "+strings.TrimRight(line, "\r\n"))
			}
			lines = append(lines, "")
		}
		return p.more(lines)
	})
}

type lawyersCmd struct {
	List   lawyersListCmd   `cmd:"" default:"1" help:"List the lawyers."`
	New    lawyersNewCmd    `cmd:"" help:"Add a lawyer."`
	Away   lawyersAwayCmd   `cmd:"" help:"Take a lawyer off duty."`
	Back   lawyersBackCmd   `cmd:"" help:"Put a lawyer on duty."`
	Delete lawyersDeleteCmd `cmd:"" help:"Delete a lawyer."`
}

type crewLawyer struct {
	ID, Name               string
	Competences, Languages []string
	Available              bool
}

func (l crewLawyer) row() string {
	return row(l.ID, l.Name, strings.Join(l.Competences, " "), strings.Join(l.Languages, " "),
		map[bool]string{true: "on duty", false: "off duty"}[l.Available])
}

type lawyersListCmd struct{}

func (c *lawyersListCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodGet, "/sandbox/lawyers", nil, func(p page[crewLawyer]) []string {
		lines := []string{row("LAWYER", "NAME", "COMPETENCES", "LANGUAGES", "STATE")}
		for _, l := range p.Items {
			lines = append(lines, l.row())
		}
		return lines
	})
}

type lawyersNewCmd struct {
	Name        string   `arg:"" help:"Name of the lawyer."`
	Competences []string `help:"Practice area codes from the catalogue." required:""`
	Languages   []string `help:"Language codes from the catalogue." required:""`
	Away        bool     `help:"Add the lawyer off duty."`
}

func (c *lawyersNewCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodPost, "/sandbox/lawyers", map[string]any{"name": c.Name,
		"competences": c.Competences, "languages": c.Languages, "available": !c.Away},
		func(l crewLawyer) []string { return []string{l.row()} })
}

type lawyersAwayCmd struct {
	ID string `arg:"" help:"ID of the lawyer."`
}

func (c *lawyersAwayCmd) Run(ctx context.Context, s *service) error {
	return available(ctx, s, c.ID, false)
}

type lawyersBackCmd struct {
	ID string `arg:"" help:"ID of the lawyer."`
}

func (c *lawyersBackCmd) Run(ctx context.Context, s *service) error {
	return available(ctx, s, c.ID, true)
}

func available(ctx context.Context, s *service, id string, to bool) error {
	return tell(ctx, s, http.MethodPut, "/sandbox/lawyers/"+url.PathEscape(id)+"/availability",
		map[string]bool{"available": to}, func(v struct{ Available bool }) []string {
			return []string{map[bool]string{true: "The lawyer is on duty.",
				false: "The lawyer goes off duty after their current consultation."}[v.Available]}
		})
}

type lawyersDeleteCmd struct {
	ID string `arg:"" help:"ID of the lawyer."`
}

func (c *lawyersDeleteCmd) Run(ctx context.Context, s *service) error {
	return tell(ctx, s, http.MethodDelete, "/sandbox/lawyers/"+url.PathEscape(c.ID), nil,
		func(struct{}) []string { return []string{"The lawyer was deleted."} })
}
