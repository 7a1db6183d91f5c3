package web

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// opsReads are the pages of the desk, with who may see them: see operators.md.
func (p *Pages) opsReads() []opsRead {
	page := func(name string) string { return opsPath(name) }
	return []opsRead{
		{operatorDesk, operatorDesk, everybody, p.opsBoard},
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

// opsActs are the acts of the desk, with who may do them: see operators.md.
func (p *Pages) opsActs() []opsAct {
	o := p.deps.Operator
	at := func(section, act string) string { return opsPath(section, ":id", act) }
	one := func(do func(context.Context, operator.Act, string) error) func(context.Context, opsCall) (opsDone, error) {
		return func(ctx context.Context, c opsCall) (opsDone, error) { return opsDone{}, do(ctx, c.By, c.Subject) }
	}
	consultations, clients, lawyers, applications, people := backToSubject("consultations"), backToSubject("clients"),
		backToSubject("lawyers"), backToSubject("applications"), backToSubject("people")
	return []opsAct{
		{Name: "cancel", Path: at("consultations", "cancel"), Roles: only(staff.Support), Tells: toldByEvent,
			Danger: true, Back: consultations,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.CancelConsultation(ctx, by, id)
				return err
			})},
		{Name: "assign", Path: at("consultations", "assign"), Roles: only(staff.Support),
			Tells: "nobody: the lawyer sees the offer at the desk", Back: consultations,
			Fields: fields(opsField{Name: "lawyer", Label: "ops.field.lawyer",
				Hint: "ops.field.lawyer.hint", Type: "text"}),
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				chosen := strings.TrimSpace(c.Form.Get("lawyer"))
				if !identifier.MatchString(chosen) {
					return opsDone{}, lawyer.ErrNotFound
				}
				return opsDone{}, o.AssignByHand(ctx, c.By, c.Subject, chosen)
			}},
		{Name: "close", Path: at("consultations", "close"), Roles: only(staff.Support), Tells: toldByEvent, Fresh: true,
			Danger: true, Back: consultations, Fields: fields(closeReasons()),
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				proposal, err := o.Close(ctx, c.By, c.Subject, consultation.Reason(c.Form.Get("why")))
				return proposed(proposal, opsPath("consultations", c.Subject)), err
			}},
		{Name: "refund", Path: at("consultations", "refund"), Roles: operator.Proposers(operator.Refund),
			Tells: toldByEvent, Fresh: true, Danger: true, Back: consultations, Fields: p.refundFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				cents, err := amount(c.Form, "amount", true)
				if err == nil && cents < 0 {
					err = refuseInput(ruleAmount, "amount", problem.Shown(c.Form.Get("amount")))
				}
				if err != nil {
					return opsDone{}, err
				}
				proposal, err := o.GiveBack(ctx, c.By, c.Subject, cents)
				return proposed(proposal, opsPath("consultations", c.Subject)), err
			}},
		{Name: "correct", Path: at("consultations", "correct"), Roles: only(staff.Support), Tells: toldLawyer,
			Back: consultations, Do: one(o.AskForCorrection)},
		{Name: "confirm", Path: at("proposals", "confirm"), Roles: only(staff.Finance),
			Tells: "nobody: as what was proposed; of an adjustment, the client", Fresh: true, Danger: true,
			Back: func(string) string { return operatorDesk }, Fields: p.proposalFields,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.Confirm(ctx, by, id)
				return err
			})},
		{Name: "refuse", Path: at("proposals", "refuse"), Roles: only(staff.Finance), Tells: "nobody: nothing happened",
			Back: func(string) string { return operatorDesk }, Fields: p.proposalFields,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.Refuse(ctx, by, id)
				return err
			})},

		{Name: "adjust", Path: at("clients", "adjust"), Roles: operator.Proposers(operator.Adjustment),
			Tells: toldClient, Fresh: true, Danger: true, Back: clients,
			Fields: p.adjustFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				cents, err := amount(c.Form, "amount", false)
				if err != nil {
					return opsDone{}, err
				}
				proposal, err := o.Adjust(ctx, c.By, c.Subject, cents)
				return proposed(proposal, opsPath("clients", c.Subject)), err
			}},
		{Name: "return-money", Path: at("clients", "return"), Roles: only(staff.Finance), Tells: toldClient,
			Fresh: true, Danger: true, Back: clients, Do: one(o.ReturnMoney)},
		{Name: "disable-client", Path: at("clients", "disable"), Roles: only(staff.Security), Tells: toldClient,
			Fresh: true, Danger: true, Back: clients, Do: one(o.DisableClient)},
		{Name: "enable-client", Path: at("clients", "enable"), Roles: only(staff.Security), Tells: toldClient,
			Fresh: true, Back: clients, Do: one(o.EnableClient)},
		{Name: "signout-client", Path: at("clients", "signout"), Roles: only(staff.Support, staff.Security),
			Tells: toldClient, Danger: true, Back: clients,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SignOutClient(ctx, by, id)
				return err
			})},
		{Name: "unlink-client", Path: at("clients", "unlink"), Roles: only(staff.Support, staff.Security),
			Tells: toldClient, Danger: true, Back: clients, Fields: p.linkFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				_, err := o.UnlinkClient(ctx, c.By, c.Subject, c.Form.Get("application"))
				return opsDone{}, err
			}},

		{Name: "invite-lawyer", Path: opsPath("lawyers", "invite"), Roles: only(operator.InvitesOthers),
			Tells: toldInvited, Fresh: true, Secrets: theLink, Back: backToSection("lawyers"),
			Fields: p.newLawyerFields,
			Check:  func(form url.Values) error { return operator.CheckLawyer(lawyerOf(form)) }, Do: p.inviteLawyer},
		{Name: "reinvite-lawyer", Path: at("lawyers", "reinvite"), Roles: only(operator.InvitesOthers),
			Tells: toldLawyer, Fresh: true, Danger: true, Secrets: theLink, Back: lawyers, Do: p.reinviteLawyer},
		{Name: "skills", Path: at("lawyers", "skills"), Roles: only(staff.Support, staff.Security), Tells: toldLawyer,
			Back: lawyers, Fields: p.skillFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				err := o.SetLawyerSkills(ctx, c.By, c.Subject, lawyer.Skills{Competences: c.Form["competences"],
					Languages: c.Form["languages"]})
				return opsDone{}, err
			}},
		{Name: "phone", Path: at("lawyers", "phone"), Roles: only(staff.Security), Tells: toldLawyer, Fresh: true,
			Back:   lawyers,
			Fields: fields(opsField{Name: "phone", Label: "ops.field.phone", Type: "tel"}),
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				return opsDone{}, o.SetLawyerPhone(ctx, c.By, c.Subject, c.Form.Get("phone"))
			}},
		{Name: "duty", Path: at("lawyers", "duty"), Roles: only(staff.Support, staff.Security), Tells: toldLawyer,
			Back: lawyers, Fields: p.dutyFields, Do: p.setDuty},
		{Name: "check", Path: at("lawyers", "check"), Roles: only(staff.Security), Tells: toldLawyer, Back: lawyers,
			Fields: p.checkFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				day, err := dated(c.Form, "until", time.DateOnly, ruleDay)
				if err != nil {
					return opsDone{}, err
				}
				return opsDone{}, o.CheckLawyer(ctx, c.By, c.Subject, lawyer.Registration{Bar: c.Form.Get("bar"),
					Number: c.Form.Get("number"), CheckedUntil: day.AddDate(0, 0, 1),
					OtherBar: c.Form.Get("otherbar") == "yes"})
			}},
		{Name: "send-home", Path: at("lawyers", "home"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: the lawyer sees it at the desk", Danger: true, Back: lawyers, Do: one(o.SendHome)},
		{Name: "suspend-lawyer", Path: at("lawyers", "suspend"), Roles: only(staff.Support, staff.Security),
			Tells: toldLawyer, Fresh: true, Danger: true, Back: lawyers,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendLawyer(ctx, by, id)
				return err
			})},
		{Name: "resume-lawyer", Path: at("lawyers", "resume"), Roles: only(staff.Support, staff.Security),
			Tells: toldLawyer, Fresh: true, Back: lawyers, Do: one(o.ResumeLawyer)},

		{Name: "create-application", Path: opsPath("applications", "new"), Roles: only(staff.Security),
			Tells: "nobody: it has no people yet", Fresh: true, Back: backToSection("applications"),
			Secrets: []string{"ops.secret.id", "ops.secret.client", "ops.secret.webhook"},
			Made:    func(secrets []string) string { return opsPath("applications", secrets[0]) },
			Fields:  p.newApplicationFields, Do: p.createApplication},
		{Name: "update-application", Path: at("applications", "edit"), Roles: only(staff.Security), Tells: toldPartner,
			Fresh: true, Back: applications, Fields: p.applicationFields, Do: p.updateApplication},
		{Name: "rotate-secret", Path: at("applications", "secret"), Roles: only(staff.Security), Tells: toldPartner,
			Fresh: true, Danger: true, Back: applications,
			Secrets: []string{"ops.secret.client"},
			Fields: func(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
				a, err := p.deps.Applications.Get(ctx, tx, c.Subject)
				return append([]opsField{hoursField()}, endPrevious(tx.Now, a.PreviousSecretUntil)...), err
			},
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				hours, err := wholeNumber(c.Form, "hours", 0, int(application.MaxSecretOverlap.Hours()))
				if err != nil {
					return opsDone{}, err
				}
				_, _, err = o.RotateApplicationSecret(ctx, c.By, c.Subject, rotationOf(c.Form, hours))
				return opsDone{}, err
			}},
		{Name: "suspend-application", Path: at("applications", "suspend"), Roles: only(staff.Security),
			Tells: toldPartner, Fresh: true, Danger: true, Back: applications,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendApplication(ctx, by, id, true)
				return err
			})},
		{Name: "resume-application", Path: at("applications", "resume"), Roles: only(staff.Security),
			Tells: toldPartner, Fresh: true, Back: applications,
			Do: one(func(ctx context.Context, by operator.Act, id string) error {
				_, err := o.SuspendApplication(ctx, by, id, false)
				return err
			})},
		{Name: "invite-member", Path: at("applications", "invite"), Roles: only(operator.InvitesOthers),
			Tells: toldJoining, Fresh: true, Secrets: theLink, Back: applications,
			Fields: func(_ context.Context, _ postgres.Tx, c opsCall) ([]opsField, error) {
				return []opsField{{Name: "email", Label: "ops.field.email", Type: "email"}, roleField(portal.Owner),
					languageField(c.Lang)}, nil
			},
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				_, _, err := o.InviteMember(ctx, c.By, c.Subject, c.Form.Get("email"), portal.Role(c.Form.Get("role")),
					c.Form.Get("tongue"))
				return opsDone{}, err
			}},
		{Name: "webhook-url", Path: at("applications", "webhook-url"), Roles: only(staff.Security), Tells: toldPartner,
			Fresh: true, Back: applications, Fields: p.webhookFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				return opsDone{}, o.SetWebhookURL(ctx, c.By, c.Subject, strings.TrimSpace(c.Form.Get("url")), true)
			}},
		{Name: "enable-webhooks", Path: at("applications", "webhooks"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: what was owed is sent", Back: applications, Do: one(o.EnableWebhooks)},
		{Name: "redeliver-one", Path: at("applications", "redeliver-one"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: what was sent is sent again", Back: applications,
			Fields: fields(opsField{Name: "delivery", Label: "ops.field.delivery",
				Hint: "ops.field.delivery.hint", Type: "text"}),
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				delivery := strings.TrimSpace(c.Form.Get("delivery"))
				err := error(problem.ErrNotFound)
				if identifier.MatchString(delivery) {
					_, err = o.Redeliver(ctx, c.By, c.Subject, delivery, false)
				}
				if errors.Is(err, problem.ErrNotFound) {
					err = refuseInput(ruleDelivery, "delivery", problem.Shown(delivery))
				}
				return opsDone{}, err
			}},
		{Name: "redeliver", Path: at("applications", "redeliver"), Roles: only(staff.Support, staff.Security),
			Tells: "nobody: what was sent is sent again", Back: applications,
			Fields: fields(opsField{Name: "from", Label: "ops.field.from", Hint: "ops.field.utc",
				Type: "datetime-local"}, opsField{Name: "to", Label: "ops.field.to", Hint: "ops.field.utc",
				Type: "datetime-local"}),
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				from, to, err := rangeOf(c.Form)
				if err != nil {
					return opsDone{}, err
				}
				_, _, err = o.RedeliverRange(ctx, c.By, c.Subject, webhook.RedeliveryFilter{From: from, To: to})
				return opsDone{}, err
			}},

		{Name: "invite", Path: opsPath("people", "invite"), Roles: only(operator.InvitesStaff), Tells: toldInvited,
			Fresh: true, Secrets: theLink, Back: backToSection("people"), Fields: p.newPersonFields,
			Do: p.inviteOperator},
		{Name: "roles", Path: at("people", "roles"), Roles: only(staff.Admin), Tells: toldPerson, Fresh: true,
			Danger: true, Back: people, Fields: p.roleFields,
			Do: func(ctx context.Context, c opsCall) (opsDone, error) {
				return opsDone{}, o.SetRoles(ctx, c.By, c.Subject, roles(c.Form["roles"]))
			}},
		{Name: "reinvite", Path: at("people", "reinvite"), Roles: only(operator.InvitesStaff), Tells: toldPerson,
			Fresh: true, Danger: true, Secrets: theLink, Back: people, Fields: p.endingFields, Do: p.reinvite},
		{Name: "disable", Path: at("people", "disable"), Roles: only(staff.Admin), Tells: toldPerson, Fresh: true,
			Danger: true, Back: people, Fields: p.endingFields, Do: one(o.DisablePerson)},
	}
}

func proposed(proposal operator.Proposal, back string) opsDone {
	if proposal.ID == "" {
		return opsDone{}
	}
	return opsDone{back + "?done=proposed"}
}

// fields are those of an act that knows nothing of its subject.
func fields(list ...opsField) func(context.Context, postgres.Tx, opsCall) ([]opsField, error) {
	return func(context.Context, postgres.Tx, opsCall) ([]opsField, error) {
		own := make([]opsField, len(list))
		for i, f := range list {
			own[i] = f
			own[i].Options = append([]opsOption(nil), f.Options...)
		}
		return own, nil
	}
}

func closeReasons() opsField {
	f := opsField{Name: "why", Label: "ops.field.why", Type: "select"}
	for _, r := range []consultation.Reason{
		consultation.WrongPerson, consultation.TooShort, consultation.TechnicalFault, consultation.NoteMissing,
		consultation.WithdrawnFrom,
	} {
		f.Options = append(f.Options, opsOption{Value: string(r), Text: "ops.why." + string(r), Key: true})
	}
	return f
}

func (p *Pages) refundFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	got, err := p.deps.Consultations.Peek(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	cents, err := p.deps.Consultations.ProposeRefund(ctx, tx, c.Subject)
	if cents == 0 {
		cents = got.Price
	}
	return []opsField{{Name: "amount", Label: "ops.field.amount", Hint: "ops.field.refund.hint", Type: "text",
		Value: amountInput(cents, c.Lang), Optional: true}}, err
}

// proposalFields shows what is decided about, and by whom it was proposed.
func (p *Pages) proposalFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	got, err := p.deps.Operator.Proposal(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	by, err := p.deps.Staff.Get(ctx, tx, got.By)
	if err != nil {
		return nil, err
	}
	list := []opsField{
		{Label: "ops.col.kind", Type: "shown", Options: []opsOption{{Text: kindKey(got)}}},
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

func (p *Pages) adjustFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	list, err := p.withAvailable(ctx, tx, nil, c.Subject, c.Lang)
	return append(list, opsField{Name: "amount", Label: "ops.field.amount",
		Hint: "ops.field.adjust.hint", Type: "text"}), err
}

// withAvailable adds what a client's wallet has available: the most that an adjustment takes.
func (p *Pages) withAvailable(ctx context.Context, tx postgres.Tx, list []opsField,
	clientID, lang string,
) ([]opsField, error) {
	b, err := p.deps.Wallet.Balance(ctx, tx, clientID)
	return append(list, opsField{Label: "ops.col.available", Type: "shown", Value: b.Available.Format(lang)}), err
}

// endingFields shows the proposals that end with a person who is disabled or invited anew.
func (p *Pages) endingFields(ctx context.Context, tx postgres.Tx, c opsCall) (list []opsField, err error) {
	return p.openProposals(ctx, tx, c, "ops.field.ends")
}

// openProposals shows the open proposals of the person whom an act is about, each under a label.
func (p *Pages) openProposals(ctx context.Context, tx postgres.Tx, c opsCall,
	label string,
) (list []opsField, err error) {
	open, err := p.deps.Operator.ProposalsOf(ctx, tx, c.Subject)
	for _, o := range open {
		list = append(list, opsField{Label: label, Type: "shown", Options: []opsOption{{Text: kindKey(o)}}},
			opsField{Label: "ops.col.amount", Type: "shown", Value: o.Amount.Format(c.Lang) + ", " + o.Subject})
	}
	return list, err
}

// kindKey is the name of what a proposal does.
func kindKey(p operator.Proposal) string {
	if p.Close != "" {
		return "ops.kind.CLOSURE"
	}
	return "ops.kind." + string(p.Kind)
}

func (p *Pages) linkFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	connections, err := p.deps.OAuth.Connections(ctx, tx, c.Subject)
	f := opsField{Name: "application", Label: "ops.field.application", Type: "select",
		Options: []opsOption{{Text: "ops.field.all", Key: true}}}
	for _, link := range connections {
		f.Options = append(f.Options, opsOption{Value: link.Application.ID, Text: link.Application.Name})
	}
	return []opsField{f}, err
}

func languageField(lang string) opsField {
	f := opsField{Name: "tongue", Label: "ops.field.tongue", Type: "select", Of: "language"}
	for _, l := range text.Languages {
		f.Options = append(f.Options, opsOption{Value: l, Text: languageNames[l], Chosen: l == lang})
	}
	return f
}

var personFields = []opsField{{Name: "name", Label: "ops.field.name", Type: "text"},
	{Name: "email", Label: "ops.field.email", Type: "email"}}

func (p *Pages) newPersonFields(_ context.Context, _ postgres.Tx, c opsCall) ([]opsField, error) {
	return append(append([]opsField(nil), personFields...), languageField(c.Lang), rolesField(nil)), nil
}

func rolesField(has []staff.Role) opsField {
	f := opsField{Name: "roles", Label: "ops.field.roles", Type: "checks"}
	for _, r := range staff.Roles() {
		chosen := false
		for _, h := range has {
			chosen = chosen || h == r
		}
		f.Options = append(f.Options, opsOption{Value: string(r), Text: "ops.role." + string(r),
			Key: true, Chosen: chosen})
	}
	return f
}

func (p *Pages) roleFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
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

func (p *Pages) inviteOperator(ctx context.Context, c opsCall) (opsDone, error) {
	person, _, err := p.deps.Operator.InviteOperator(ctx, c.By, staff.NewPerson{Email: c.Form.Get("email"),
		Name: c.Form.Get("name"), Language: c.Form.Get("tongue"), Roles: roles(c.Form["roles"])})
	return opsDone{opsPath("people", person.ID) + "?done=invite"}, err
}

func (p *Pages) reinvite(ctx context.Context, c opsCall) (opsDone, error) {
	_, _, err := p.deps.Operator.ReinvitePerson(ctx, c.By, c.Subject)
	return opsDone{}, err
}

func (p *Pages) reinviteLawyer(ctx context.Context, c opsCall) (opsDone, error) {
	_, _, err := p.deps.Operator.ReinviteLawyer(ctx, c.By, c.Subject, c.Lang)
	return opsDone{}, err
}

func (p *Pages) newLawyerFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	skills, err := p.skillChoices(ctx, tx, c.Lang, lawyer.Skills{})
	list := append(append([]opsField(nil), personFields...),
		opsField{Name: "phone", Label: "ops.field.phone", Type: "tel"}, languageField(c.Lang))
	return append(list, skills...), err
}

func (p *Pages) inviteLawyer(ctx context.Context, c opsCall) (opsDone, error) {
	l, _, err := p.deps.Operator.InviteLawyer(ctx, c.By, lawyerOf(c.Form), c.Form.Get("tongue"))
	return opsDone{opsPath("lawyers", l.ID) + "?done=invite-lawyer"}, err
}

func lawyerOf(form url.Values) lawyer.NewLawyer {
	return lawyer.NewLawyer{Email: form.Get("email"), Name: form.Get("name"), Phone: form.Get("phone"),
		Competences: form["competences"], Languages: form["languages"]}
}

func (p *Pages) dutyFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	d, err := p.deps.Lawyers.Duty(ctx, tx, c.Subject)
	hours := make([]string, len(d.Hours))
	for i, h := range d.Hours {
		hours[i] = h.String()
	}
	return []opsField{
		{Name: "zone", Label: "ops.field.zone", Hint: "ops.field.zone.hint", Type: "text", Value: d.TimeZone},
		{Name: "hours", Label: "ops.field.dutyhours", Hint: "ops.field.dutyhours.hint", Type: "lines",
			Value: strings.Join(hours, "\n"), Optional: true},
		{Name: "oncall", Label: "ops.field.oncall", Type: "checks",
			Options: []opsOption{{Value: "yes", Text: "ops.field.oncall.yes", Key: true, Chosen: d.OnCall}}},
	}, err
}

// checkFields are filled in with what is known; a check counts for a year unless another day is given.
func (p *Pages) checkFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	r, err := p.deps.Lawyers.Registration(ctx, tx, c.Subject)
	return []opsField{
		{Name: "bar", Label: "ops.field.bar", Hint: "ops.field.bar.hint", Type: "text", Value: r.Bar,
			Known: lawyer.Bars()},
		{Name: "otherbar", Label: "ops.field.otherbar", Type: "checks",
			Options: []opsOption{{Value: "yes", Text: "ops.field.otherbar.yes", Key: true}}},
		{Name: "number", Label: "ops.field.barnumber", Type: "text", Value: r.Number},
		{Name: "until", Label: "ops.field.checked", Hint: "ops.field.checked.hint", Type: "date",
			Value: tx.Now.AddDate(1, 0, 0).Format(time.DateOnly)},
	}, err
}

func (p *Pages) setDuty(ctx context.Context, c opsCall) (opsDone, error) {
	d := lawyer.Duty{TimeZone: strings.TrimSpace(c.Form.Get("zone")), OnCall: c.Form.Get("oncall") == "yes"}
	for line := range strings.Lines(c.Form.Get("hours")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		hours, err := lawyer.ParseHours(line)
		if err != nil {
			return opsDone{}, err
		}
		d.Hours = append(d.Hours, hours...)
	}
	return opsDone{}, p.deps.Operator.SetLawyerDuty(ctx, c.By, c.Subject, d)
}

func (p *Pages) skillFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	if _, err := p.deps.Lawyers.Get(ctx, tx, c.Subject); err != nil {
		return nil, err
	}
	has, err := p.deps.Lawyers.Skills(ctx, tx, c.Subject)
	if err != nil {
		return nil, err
	}
	return p.skillChoices(ctx, tx, c.Lang, has)
}

func (p *Pages) skillChoices(ctx context.Context, tx postgres.Tx, lang string, has lawyer.Skills) ([]opsField, error) {
	competences, err := p.deps.Catalog.Competences(ctx, tx, language.Make(lang))
	if err != nil {
		return nil, err
	}
	tongues, err := p.deps.Catalog.Languages(ctx, tx, language.Make(lang))
	choices := func(name, label string, all []catalog.Entry, has []string) opsField {
		f := opsField{Name: name, Label: label, Type: "checks"}
		for _, e := range all {
			o := opsOption{Value: e.Code, Text: e.Label}
			for _, h := range has {
				o.Chosen = o.Chosen || h == e.Code
			}
			f.Options = append(f.Options, o)
		}
		return f
	}
	return []opsField{choices("competences", "ops.field.competences", competences, has.Competences),
		choices("languages", "ops.field.languages", tongues, has.Languages)}, err
}

func (p *Pages) newApplicationFields(context.Context, postgres.Tx, opsCall) ([]opsField, error) {
	return append(settingsFields(application.Application{Scopes: application.AllScopes}),
		opsField{Name: "webhook", Label: "ops.field.webhook", Type: "url", Of: "url", Optional: true}), nil
}

// webhookFields show where webhooks go now: whoever may set the URL may read it, although it can hold a token.
func (p *Pages) webhookFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	e, err := p.deps.Webhooks.Endpoint(ctx, tx, c.Subject)
	return []opsField{{Name: "url", Label: "ops.field.webhook", Hint: "ops.field.webhook.empty", Type: "url",
		Value: e.URL, Optional: true}}, err
}

func (p *Pages) applicationFields(ctx context.Context, tx postgres.Tx, c opsCall) ([]opsField, error) {
	a, err := p.deps.Applications.Get(ctx, tx, c.Subject)
	return settingsFields(a), err
}

func settingsFields(a application.Application) []opsField {
	scopes := opsField{Name: "scopes", Label: "ops.field.scopes", Type: "checks"}
	for _, s := range application.AllScopes {
		scopes.Options = append(scopes.Options, opsOption{Value: string(s), Text: string(s),
			Chosen: application.Within([]application.Scope{s}, a.Scopes)})
	}
	return []opsField{
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
func settings(c opsCall) (n application.NewApplication, err error) {
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
		unscoped = refuseInput(problem.RuleRequired, "scopes")
	}
	n.RatePerMinute, rated = wholeNumber(c.Form, "rate", 0, application.MaxRate)
	n.ClientRatePerMinute, clients = wholeNumber(c.Form, "clientrate", 0, application.MaxRate)
	return n, bothRefused(unscoped, rated, clients)
}

func (p *Pages) createApplication(ctx context.Context, c opsCall) (opsDone, error) {
	n, err := settings(c)
	if err != nil {
		return opsDone{}, err
	}
	_, err = p.deps.Operator.RegisterApplication(ctx, c.By, n, strings.TrimSpace(c.Form.Get("webhook")))
	return opsDone{}, err
}

func (p *Pages) updateApplication(ctx context.Context, c opsCall) (opsDone, error) {
	n, err := settings(c)
	if err != nil {
		return opsDone{}, err
	}
	_, err = p.deps.Operator.UpdateApplication(ctx, c.By, c.Subject, application.Change{Name: &n.Name,
		RedirectURIs: n.RedirectURIs, Scopes: n.Scopes, ContactEmail: &n.ContactEmail, RatePerMinute: &n.RatePerMinute,
		ClientRatePerMinute: &n.ClientRatePerMinute})
	return opsDone{}, err
}
