package operators

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// Reads are the pages of the desk, with who may see them: see operators.md.
func (p *Pages) Reads() []Read {
	page := func(name string) string { return Path(name) }
	return []Read{
		{shell.OperatorDesk, shell.OperatorDesk, everybody, p.opsBoard},
		{page("consultations"), page("consultations"), everybody, p.opsConsultations},
		{page("consultations") + "/:id", page("consultations"), everybody, p.opsConsultation},
		{page("consultations") + "/:id/proof.json", page("consultations"), only(staff.Support, staff.Security),
			p.opsProof},
		{page("clients"), page("clients"), everybody, p.opsClients},
		{page("clients") + "/:id", page("clients"), everybody, p.opsClient},
		{page("lawyers"), page("lawyers"), only(staff.Support, staff.Security), p.opsLawyers},
		{page("lawyers") + "/:id", page("lawyers"), only(staff.Support, staff.Security), p.opsLawyer},
		{page("applications"), page("applications"), only(staff.Support, staff.Security), p.opsApplications},
		{page("applications") + "/:id", page("applications"), only(staff.Support, staff.Security), p.opsApplication},
		{page("deliveries") + "/:id", page("applications"), only(staff.Support, staff.Security), p.opsDelivery},
		{page("money"), page("money"), only(staff.Finance), p.opsMoney},
		{page("people"), page("people"), only(staff.Security), p.opsPeople},
		{page("people") + "/:id", page("people"), only(staff.Security), p.opsPerson},
		{page("audit"), page("audit"), only(staff.Security), p.opsAudit},
		{page("audit") + "/export.jsonl", page("audit"), only(staff.Security), p.opsAuditExport},
	}
}

// Acts are the acts of the desk, with who may do them: see operators.md.
func (p *Pages) Acts() []Act {
	o := p.deps.Operator
	at := func(section, act string) string { return Path(section, ":id", act) }
	one := func(do func(context.Context, operator.Act, string) error) func(context.Context, Call) (Done, error) {
		return func(ctx context.Context, c Call) (Done, error) { return Done{}, do(ctx, c.By, c.Subject) }
	}
	consultations, clients, lawyers, applications, people := backToSubject("consultations"), backToSubject("clients"),
		backToSubject("lawyers"), backToSubject("applications"), backToSubject("people")
	return []Act{
		{Name: "cancel", Path: at("consultations", "cancel"), Roles: only(staff.Support), Tells: toldByEvent,
			Danger: true, Back: consultations,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.CancelConsultation(ctx, by, id)
				return err
			})},
		{Name: "assign", Path: at("consultations", "assign"), Roles: only(staff.Support),
			Tells: "nobody: the lawyer sees the offer at the desk", Back: consultations,
			Fields: fields(forms.Field{Name: "lawyer", Label: "ops.field.lawyer",
				Hint: "ops.field.lawyer.hint", Type: "text"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				chosen := strings.TrimSpace(c.Form.Get("lawyer"))
				if !shell.Identifier.MatchString(chosen) {
					return Done{}, lawyer.ErrNotFound
				}
				return Done{}, o.AssignByHand(ctx, c.By, c.Subject, chosen)
			}},
		{Name: "close", Path: at("consultations", "close"), Roles: only(staff.Support), Tells: toldByEvent, Fresh: true,
			Danger: true, Back: consultations, Fields: fields(CloseReasons()),
			Do: func(ctx context.Context, c Call) (Done, error) {
				proposal, err := o.Close(ctx, c.By, c.Subject, consultation.Reason(c.Form.Get("why")))
				return proposed(proposal, Path("consultations", c.Subject)), err
			}},
		{Name: "refund", Path: at("consultations", "refund"), Roles: operator.Proposers(operator.Refund),
			Tells: toldByEvent, Fresh: true, Danger: true, Back: consultations, Fields: p.refundFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				cents, err := forms.Amount(c.Form, "amount", true)
				if err == nil && cents < 0 {
					err = forms.RefuseInput(forms.RuleAmount, "amount", problem.Shown(c.Form.Get("amount")))
				}
				if err != nil {
					return Done{}, err
				}
				proposal, err := o.GiveBack(ctx, c.By, c.Subject, cents)
				return proposed(proposal, Path("consultations", c.Subject)), err
			}},
		{Name: "correct", Path: at("consultations", "correct"), Roles: only(staff.Support), Tells: ToldLawyer,
			Back: consultations, Do: one(o.AskForCorrection)},
		{Name: "confirm", Path: at("proposals", "confirm"), Roles: only(staff.Finance),
			Tells: "nobody: as what was proposed; of an adjustment, the client", Fresh: true, Danger: true,
			Back: func(string) string { return shell.OperatorDesk }, Fields: p.proposalFields,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.Confirm(ctx, by, id)
				return err
			})},
		{Name: "refuse", Path: at("proposals", "refuse"), Roles: only(staff.Finance), Tells: "nobody: nothing happened",
			Back: func(string) string { return shell.OperatorDesk }, Fields: p.proposalFields,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.Refuse(ctx, by, id)
				return err
			})},

		{Name: "adjust", Path: at("clients", "adjust"), Roles: operator.Proposers(operator.Adjustment),
			Tells: ToldClient, Fresh: true, Danger: true, Back: clients,
			Fields: p.adjustFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				cents, err := forms.Amount(c.Form, "amount", false)
				if err != nil {
					return Done{}, err
				}
				proposal, err := o.Adjust(ctx, c.By, c.Subject, cents)
				return proposed(proposal, Path("clients", c.Subject)), err
			}},
		{Name: "return-money", Path: at("clients", "return"), Roles: only(staff.Finance), Tells: ToldClient,
			Fresh: true, Danger: true, Back: clients, Do: one(o.ReturnMoney)},
		{Name: "disable-client", Path: at("clients", "disable"), Roles: only(staff.Security), Tells: ToldClient,
			Fresh: true, Danger: true, Back: clients, Do: one(o.DisableClient)},
		{Name: "enable-client", Path: at("clients", "enable"), Roles: only(staff.Security), Tells: ToldClient,
			Fresh: true, Back: clients, Do: one(o.EnableClient)},
		{Name: "signout-client", Path: at("clients", "signout"), Roles: only(staff.Support, staff.Security),
			Tells: ToldClient, Danger: true, Back: clients,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SignOutClient(ctx, by, id)
				return err
			})},
		{Name: "unlink-client", Path: at("clients", "unlink"), Roles: only(staff.Support, staff.Security),
			Tells: ToldClient, Danger: true, Back: clients, Fields: p.linkFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				_, err := o.UnlinkClient(ctx, c.By, c.Subject, c.Form.Get("application"))
				return Done{}, err
			}},

		{Name: "invite-lawyer", Path: Path("lawyers", "invite"), Roles: only(operator.InvitesOthers),
			Tells: ToldInvited, Fresh: true, Secrets: theLink, Back: backToSection("lawyers"),
			Fields: p.newLawyerFields,
			Check:  func(form url.Values) error { return operator.CheckLawyer(lawyerOf(form)) }, Do: p.inviteLawyer},
		{Name: "reinvite-lawyer", Path: at("lawyers", "reinvite"), Roles: only(operator.InvitesOthers),
			Tells: ToldLawyer, Fresh: true, Danger: true, Secrets: theLink, Back: lawyers, Do: p.reinviteLawyer},
		{Name: "skills", Path: at("lawyers", "skills"), Roles: only(staff.Support, staff.Security), Tells: ToldLawyer,
			Back: lawyers, Fields: p.skillFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				err := o.SetLawyerSkills(ctx, c.By, c.Subject, lawyer.Skills{Competences: c.Form["competences"],
					Languages: c.Form["languages"]})
				return Done{}, err
			}},
		{Name: "phone", Path: at("lawyers", "phone"), Roles: only(staff.Security), Tells: ToldLawyer, Fresh: true,
			Back:   lawyers,
			Fields: fields(forms.Field{Name: "phone", Label: "ops.field.phone", Type: "tel"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.SetLawyerPhone(ctx, c.By, c.Subject, c.Form.Get("phone"))
			}},
		{Name: "duty", Path: at("lawyers", "duty"), Roles: only(staff.Support, staff.Security), Tells: ToldLawyer,
			Back: lawyers, Fields: p.dutyFields, Do: p.setDuty},
		{Name: "check", Path: at("lawyers", "check"), Roles: only(staff.Security), Tells: ToldLawyer, Back: lawyers,
			Fields: p.checkFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				day, err := forms.Dated(c.Form, "until", time.DateOnly, forms.RuleDay)
				if err != nil {
					return Done{}, err
				}
				return Done{}, o.CheckLawyer(ctx, c.By, c.Subject, lawyer.Registration{Bar: c.Form.Get("bar"),
					Number: c.Form.Get("number"), CheckedUntil: day.AddDate(0, 0, 1),
					OtherBar: c.Form.Get("otherbar") == "yes"})
			}},
		{Name: "send-home", Path: at("lawyers", "home"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: the lawyer sees it at the desk", Danger: true, Back: lawyers, Do: one(o.SendHome)},
		{Name: "suspend-lawyer", Path: at("lawyers", "suspend"), Roles: only(staff.Support, staff.Security),
			Tells: ToldLawyer, Fresh: true, Danger: true, Back: lawyers,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendLawyer(ctx, by, id)
				return err
			})},
		{Name: "resume-lawyer", Path: at("lawyers", "resume"), Roles: only(staff.Support, staff.Security),
			Tells: ToldLawyer, Fresh: true, Back: lawyers, Do: one(o.ResumeLawyer)},

		{Name: "create-application", Path: Path("applications", "new"), Roles: only(staff.Security),
			Tells: "nobody: it has no people yet", Fresh: true, Back: backToSection("applications"),
			Secrets: []string{"ops.secret.id", "ops.secret.client", "ops.secret.webhook"},
			Made:    func(secrets []string) string { return Path("applications", secrets[0]) },
			Fields:  p.newApplicationFields, Do: p.createApplication},
		{Name: "update-application", Path: at("applications", "edit"), Roles: only(staff.Security), Tells: ToldPartner,
			Fresh: true, Back: applications, Fields: p.applicationFields, Do: p.updateApplication},
		{Name: "rotate-secret", Path: at("applications", "secret"), Roles: only(staff.Security), Tells: ToldPartner,
			Fresh: true, Danger: true, Back: applications,
			Secrets: []string{"ops.secret.client"},
			Fields: func(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
				a, err := p.deps.Applications.Get(ctx, tx, c.Subject)
				return append([]forms.Field{forms.HoursField()}, forms.EndPrevious(tx.Now, a.PreviousSecretUntil)...),
					err
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				hours, err := forms.WholeNumber(c.Form, "hours", 0, int(application.MaxSecretOverlap.Hours()))
				if err != nil {
					return Done{}, err
				}
				_, _, err = o.RotateApplicationSecret(ctx, c.By, c.Subject, forms.RotationOf(c.Form, hours))
				return Done{}, err
			}},
		{Name: "suspend-application", Path: at("applications", "suspend"), Roles: only(staff.Security),
			Tells: ToldPartner, Fresh: true, Danger: true, Back: applications,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendApplication(ctx, by, id, true)
				return err
			})},
		{Name: "resume-application", Path: at("applications", "resume"), Roles: only(staff.Security),
			Tells: ToldPartner, Fresh: true, Back: applications,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendApplication(ctx, by, id, false)
				return err
			})},
		{Name: "invite-member", Path: at("applications", "invite"), Roles: only(operator.InvitesOthers),
			Tells: ToldJoining, Fresh: true, Secrets: theLink, Back: applications,
			Fields: func(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
				return []forms.Field{{Name: "email", Label: "ops.field.email", Type: "email"},
					forms.RoleField(portal.Owner),
					shell.LanguageField(c.Lang)}, nil
			},
			Do: func(ctx context.Context, c Call) (Done, error) {
				_, _, err := o.InviteMember(ctx, c.By, c.Subject, c.Form.Get("email"), portal.Role(c.Form.Get("role")),
					c.Form.Get("tongue"))
				return Done{}, err
			}},
		{Name: "webhook-url", Path: at("applications", "webhook-url"), Roles: only(staff.Security), Tells: ToldPartner,
			Fresh: true, Back: applications, Fields: p.webhookFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.SetWebhookURL(ctx, c.By, c.Subject, strings.TrimSpace(c.Form.Get("url")), true)
			}},
		{Name: "enable-webhooks", Path: at("applications", "webhooks"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: what was owed is sent", Back: applications, Do: one(o.EnableWebhooks)},
		{Name: "redeliver-one", Path: at("applications", "redeliver-one"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: what was sent is sent again", Back: applications,
			Fields: fields(forms.Field{Name: "delivery", Label: "ops.field.delivery",
				Hint: "ops.field.delivery.hint", Type: "text"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				delivery := strings.TrimSpace(c.Form.Get("delivery"))
				err := error(problem.ErrNotFound)
				if shell.Identifier.MatchString(delivery) {
					_, err = o.Redeliver(ctx, c.By, c.Subject, delivery, false)
				}
				if errors.Is(err, problem.ErrNotFound) {
					err = forms.RefuseInput(forms.RuleDelivery, "delivery", problem.Shown(delivery))
				}
				return Done{}, err
			}},
		{Name: "redeliver", Path: at("applications", "redeliver"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: what was sent is sent again", Back: applications,
			Fields: fields(forms.Field{Name: "from", Label: "ops.field.from", Hint: "ops.field.utc",
				Type: "datetime-local"}, forms.Field{Name: "to", Label: "ops.field.to", Hint: "ops.field.utc",
				Type: "datetime-local"}),
			Do: func(ctx context.Context, c Call) (Done, error) {
				from, to, err := forms.RangeOf(c.Form)
				if err != nil {
					return Done{}, err
				}
				_, _, err = o.RedeliverRange(ctx, c.By, c.Subject, webhook.RedeliveryFilter{From: from, To: to})
				return Done{}, err
			}},

		{Name: "invite", Path: Path("people", "invite"), Roles: only(operator.InvitesStaff), Tells: ToldInvited,
			Fresh: true, Secrets: theLink, Back: backToSection("people"), Fields: p.newPersonFields,
			Do: p.inviteOperator},
		{Name: "roles", Path: at("people", "roles"), Roles: only(staff.Admin), Tells: ToldPerson, Fresh: true,
			Danger: true, Back: people, Fields: p.roleFields,
			Do: func(ctx context.Context, c Call) (Done, error) {
				return Done{}, o.SetRoles(ctx, c.By, c.Subject, roles(c.Form["roles"]))
			}},
		{Name: "reinvite", Path: at("people", "reinvite"), Roles: only(operator.InvitesStaff), Tells: ToldPerson,
			Fresh: true, Danger: true, Secrets: theLink, Back: people, Fields: p.endingFields, Do: p.reinvite},
		{Name: "disable", Path: at("people", "disable"), Roles: only(staff.Admin), Tells: ToldPerson, Fresh: true,
			Danger: true, Back: people, Fields: p.endingFields, Do: one(o.DisablePerson)},
	}
}

func proposed(proposal operator.Proposal, back string) Done {
	if proposal.ID == "" {
		return Done{}
	}
	return Done{back + "?done=proposed"}
}

// fields are those of an act that knows nothing of its subject.
func fields(list ...forms.Field) func(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
	return func(context.Context, postgres.Tx, Call) ([]forms.Field, error) { return forms.OwnFields(list), nil }
}

func CloseReasons() forms.Field {
	f := forms.Field{Name: "why", Label: "ops.field.why", Type: "select"}
	for _, r := range []consultation.Reason{
		consultation.WrongPerson, consultation.TooShort, consultation.TechnicalFault, consultation.NoteMissing,
		consultation.WithdrawnFrom,
	} {
		f.Options = append(f.Options, forms.Option{Value: string(r), Text: "ops.why." + string(r), Key: true})
	}
	return f
}

func (p *Pages) refundFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	got, err := p.deps.Consultations.Peek(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	cents, err := p.deps.Consultations.ProposeRefund(ctx, tx, c.Subject)
	if cents == 0 {
		cents = got.Price
	}
	return []forms.Field{{Name: "amount", Label: "ops.field.amount", Hint: "ops.field.refund.hint", Type: "text",
		Value: AmountInput(cents, c.Lang), Optional: true}}, err
}

// proposalFields shows what is decided about, and by whom it was proposed.
func (p *Pages) proposalFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	got, err := p.deps.Operator.Proposal(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	by, err := p.deps.Staff.Get(ctx, tx, got.By)
	if err != nil {
		return nil, err
	}
	list := []forms.Field{
		{Label: "ops.col.kind", Type: "shown", Options: []forms.Option{{Text: KindKey(got)}}},
		{Label: "ops.col.subject", Type: "shown", Value: got.Subject},
		{Label: "ops.col.amount", Type: "shown", Value: got.Amount.Format(c.Lang)},
		{Label: "ops.col.by", Type: "shown", Value: by.Name},
		{Label: "ops.proposed.reason", Type: "shown", Value: got.Reason},
	}
	if got.Kind == operator.Adjustment {
		list, err = p.withAvailable(ctx, tx, list, got.Subject, c.Lang)
	}
	return list, err
}

func (p *Pages) adjustFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	list, err := p.withAvailable(ctx, tx, nil, c.Subject, c.Lang)
	return append(list, forms.Field{Name: "amount", Label: "ops.field.amount",
		Hint: "ops.field.adjust.hint", Type: "text"}), err
}

// withAvailable adds what a client's wallet has available: the most that an adjustment takes.
func (p *Pages) withAvailable(ctx context.Context, tx postgres.Tx, list []forms.Field,
	clientID, lang string,
) ([]forms.Field, error) {
	b, err := p.deps.Wallet.Balance(ctx, tx, clientID)
	return append(list, forms.Field{Label: "ops.col.available", Type: "shown", Value: b.Available.Format(lang)}), err
}

// endingFields shows the proposals that end with a person who is disabled or invited anew.
func (p *Pages) endingFields(ctx context.Context, tx postgres.Tx, c Call) (list []forms.Field, err error) {
	return p.openProposals(ctx, tx, c, "ops.field.ends")
}

// openProposals shows the open proposals of the person whom an act is about, each under a label.
func (p *Pages) openProposals(ctx context.Context, tx postgres.Tx, c Call,
	label string,
) (list []forms.Field, err error) {
	open, err := p.deps.Operator.ProposalsOf(ctx, tx, c.Subject)
	for _, o := range open {
		list = append(list, forms.Field{Label: label, Type: "shown", Options: []forms.Option{{Text: KindKey(o)}}},
			forms.Field{Label: "ops.col.amount", Type: "shown", Value: o.Amount.Format(c.Lang) + ", " + o.Subject})
	}
	return list, err
}

// KindKey is the name of what a proposal does.
func KindKey(p operator.Proposal) string {
	if p.Close != "" {
		return "ops.kind.CLOSURE"
	}
	return "ops.kind." + string(p.Kind)
}

func (p *Pages) linkFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	connections, err := p.deps.OAuth.Connections(ctx, tx, c.Subject)
	f := forms.Field{Name: "application", Label: "ops.field.application", Type: "select",
		Options: []forms.Option{{Text: "ops.field.all", Key: true}}}
	for _, link := range connections {
		f.Options = append(f.Options, forms.Option{Value: link.Application.ID, Text: link.Application.Name})
	}
	return []forms.Field{f}, err
}

var personFields = []forms.Field{{Name: "name", Label: "ops.field.name", Type: "text"},
	{Name: "email", Label: "ops.field.email", Type: "email"}}

func (p *Pages) newPersonFields(_ context.Context, _ postgres.Tx, c Call) ([]forms.Field, error) {
	return append(append([]forms.Field(nil), personFields...), shell.LanguageField(c.Lang), rolesField(nil)), nil
}

func rolesField(has []staff.Role) forms.Field {
	f := forms.Field{Name: "roles", Label: "ops.field.roles", Type: "checks"}
	for _, r := range staff.Roles() {
		chosen := false
		for _, h := range has {
			chosen = chosen || h == r
		}
		f.Options = append(f.Options, forms.Option{Value: string(r), Text: "ops.role." + string(r),
			Key: true, Chosen: chosen})
	}
	return f
}

func (p *Pages) roleFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	person, err := p.deps.Staff.Get(ctx, tx, c.Subject)
	if err == nil && person.Kind != staff.Operator {
		err = staff.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	open, err := p.openProposals(ctx, tx, c, "ops.field.ends.role")
	return append(open, rolesField(person.Roles)), err
}

func roles(sent []string) (list []staff.Role) {
	for _, r := range sent {
		list = append(list, staff.Role(r))
	}
	return list
}

// theLink is what an invitation shows in a sandbox, where no mail comes.
var theLink = []string{"ops.secret.link"}

func (p *Pages) inviteOperator(ctx context.Context, c Call) (Done, error) {
	person, _, err := p.deps.Operator.InviteOperator(ctx, c.By, staff.NewPerson{Email: c.Form.Get("email"),
		Name: c.Form.Get("name"), Language: c.Form.Get("tongue"), Roles: roles(c.Form["roles"])})
	return Done{Path("people", person.ID) + "?done=invite"}, err
}

func (p *Pages) reinvite(ctx context.Context, c Call) (Done, error) {
	_, _, err := p.deps.Operator.ReinvitePerson(ctx, c.By, c.Subject)
	return Done{}, err
}

func (p *Pages) reinviteLawyer(ctx context.Context, c Call) (Done, error) {
	_, _, err := p.deps.Operator.ReinviteLawyer(ctx, c.By, c.Subject, c.Lang)
	return Done{}, err
}

func (p *Pages) newLawyerFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	skills, err := forms.SkillChoices(ctx, tx, p.deps.Catalog, c.Lang, lawyer.Skills{})
	list := append(append([]forms.Field(nil), personFields...),
		forms.Field{Name: "phone", Label: "ops.field.phone", Type: "tel"}, shell.LanguageField(c.Lang))
	return append(list, skills...), err
}

func (p *Pages) inviteLawyer(ctx context.Context, c Call) (Done, error) {
	l, _, err := p.deps.Operator.InviteLawyer(ctx, c.By, lawyerOf(c.Form), c.Form.Get("tongue"))
	return Done{Path("lawyers", l.ID) + "?done=invite-lawyer"}, err
}

func lawyerOf(form url.Values) lawyer.NewLawyer {
	return lawyer.NewLawyer{Email: form.Get("email"), Name: form.Get("name"), Phone: form.Get("phone"),
		Competences: form["competences"], Languages: form["languages"]}
}

func (p *Pages) dutyFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	d, err := p.deps.Lawyers.Duty(ctx, tx, c.Subject)
	hours := make([]string, len(d.Hours))
	for i, h := range d.Hours {
		hours[i] = h.String()
	}
	return []forms.Field{
		{Name: "zone", Label: "ops.field.zone", Hint: "ops.field.zone.hint", Type: "text", Value: d.TimeZone},
		{Name: "hours", Label: "ops.field.dutyhours", Hint: "ops.field.dutyhours.hint", Type: "lines",
			Value: strings.Join(hours, "\n"), Optional: true},
		{Name: "oncall", Label: "ops.field.oncall", Type: "checks",
			Options: []forms.Option{{Value: "yes", Text: "ops.field.oncall.yes", Key: true, Chosen: d.OnCall}}},
	}, err
}

// checkFields are filled in with what is known; a check counts for a year unless another day is given.
func (p *Pages) checkFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	r, err := p.deps.Lawyers.Registration(ctx, tx, c.Subject)
	return []forms.Field{
		{Name: "bar", Label: "ops.field.bar", Hint: "ops.field.bar.hint", Type: "text", Value: r.Bar,
			Known: lawyer.Bars()},
		{Name: "otherbar", Label: "ops.field.otherbar", Type: "checks",
			Options: []forms.Option{{Value: "yes", Text: "ops.field.otherbar.yes", Key: true}}},
		{Name: "number", Label: "ops.field.barnumber", Type: "text", Value: r.Number},
		{Name: "until", Label: "ops.field.checked", Hint: "ops.field.checked.hint", Type: "date",
			Value: tx.Now.AddDate(1, 0, 0).Format(time.DateOnly)},
	}, err
}

func (p *Pages) setDuty(ctx context.Context, c Call) (Done, error) {
	d := lawyer.Duty{TimeZone: strings.TrimSpace(c.Form.Get("zone")), OnCall: c.Form.Get("oncall") == "yes"}
	for line := range strings.Lines(c.Form.Get("hours")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		hours, err := lawyer.ParseHours(line)
		if err != nil {
			return Done{}, err
		}
		d.Hours = append(d.Hours, hours...)
	}
	return Done{}, p.deps.Operator.SetLawyerDuty(ctx, c.By, c.Subject, d)
}

func (p *Pages) skillFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	if _, err := p.deps.Lawyers.Get(ctx, tx, c.Subject); err != nil {
		return nil, err
	}
	has, err := p.deps.Lawyers.Skills(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	return forms.SkillChoices(ctx, tx, p.deps.Catalog, c.Lang, has)
}

func (p *Pages) newApplicationFields(context.Context, postgres.Tx, Call) ([]forms.Field, error) {
	return append(settingsFields(application.Application{Scopes: application.AllScopes}),
		forms.Field{Name: "webhook", Label: "ops.field.webhook", Type: "url", Of: "url", Optional: true}), nil
}

// webhookFields show where webhooks go now: whoever may set the URL may read it, although it can hold a token.
func (p *Pages) webhookFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Subject)
	return []forms.Field{{Name: "url", Label: "ops.field.webhook", Hint: "ops.field.webhook.empty", Type: "url",
		Value: e.URL, Optional: true}}, err
}

func (p *Pages) applicationFields(ctx context.Context, tx postgres.Tx, c Call) ([]forms.Field, error) {
	a, err := p.deps.Applications.Get(ctx, tx, c.Subject)
	return settingsFields(a), err
}

func settingsFields(a application.Application) []forms.Field {
	scopes := forms.Field{Name: "scopes", Label: "ops.field.scopes", Type: "checks"}
	for _, s := range application.AllScopes {
		scopes.Options = append(scopes.Options, forms.Option{Value: string(s), Text: string(s),
			Chosen: application.Within([]application.Scope{s}, a.Scopes)})
	}
	return []forms.Field{
		{Name: "name", Label: "ops.field.appname", Type: "text", Value: a.Name},
		{Name: "redirects", Label: "ops.field.redirects", Hint: "ops.field.redirects.hint", Type: "lines",
			Of: "redirectUris", Value: strings.Join(a.RedirectURIs, "\n")},
		scopes,
		{Name: "contact", Label: "ops.field.contact", Type: "email", Of: "contactEmail", Value: a.ContactEmail,
			Optional: true},
		{Name: "rate", Label: "ops.field.rate", Hint: "ops.field.rate.hint", Type: "number",
			Value: strconv.Itoa(a.RatePerMinute), Most: application.MaxRate},
		{Name: "clientrate", Label: "ops.field.clientrate", Of: "clientRate", Hint: "ops.field.rate.hint",
			Type: "number", Value: strconv.Itoa(a.ClientRatePerMinute), Most: application.MaxRate},
	}
}

// settings reads the fields of an application.
func settings(c Call) (n application.NewApplication, err error) {
	n.Name, n.ContactEmail, n.RedirectURIs = c.Form.Get("name"), strings.TrimSpace(c.Form.Get("contact")),
		strings.Fields(c.Form.Get("redirects"))
	if n.RedirectURIs == nil {
		n.RedirectURIs = []string{} // none is refused, and does not mean "as it is"
	}
	var unscoped, rated, clients error
	for _, s := range c.Form["scopes"] {
		n.Scopes = append(n.Scopes, application.Scope(s))
	}
	if n.Scopes == nil { // the domain would take it for all
		unscoped = forms.RefuseInput(problem.RuleRequired, "scopes")
	}
	n.RatePerMinute, rated = forms.WholeNumber(c.Form, "rate", 0, application.MaxRate)
	n.ClientRatePerMinute, clients = forms.WholeNumber(c.Form, "clientrate", 0, application.MaxRate)
	return n, forms.BothRefused(unscoped, rated, clients)
}

func (p *Pages) createApplication(ctx context.Context, c Call) (Done, error) {
	n, err := settings(c)
	if err != nil {
		return Done{}, err
	}
	_, err = p.deps.Operator.RegisterApplication(ctx, c.By, n, strings.TrimSpace(c.Form.Get("webhook")))
	return Done{}, err
}

func (p *Pages) updateApplication(ctx context.Context, c Call) (Done, error) {
	n, err := settings(c)
	if err != nil {
		return Done{}, err
	}
	_, err = p.deps.Operator.UpdateApplication(ctx, c.By, c.Subject, application.Change{Name: &n.Name,
		RedirectURIs: n.RedirectURIs, Scopes: n.Scopes, ContactEmail: &n.ContactEmail, RatePerMinute: &n.RatePerMinute,
		ClientRatePerMinute: &n.ClientRatePerMinute})
	return Done{}, err
}
