package operators

import (
	"context"
	"slices"

	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/shell"
)

// Reads lists the pages of the desk and who may see them: see operators.md.
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

// Acts lists the actions of the desk and who may do them: see operators.md.
func (p *Pages) Acts() []Act {
	return slices.Concat(p.consultationActs(), p.clientActs(), p.lawyerActs(), p.applicationActs(), p.personActs())
}

// on returns the path of an action on an item of a section.
func on(section, act string) string { return Path(section, ":id", act) }

// one creates an action that needs only its subject.
func one(do func(context.Context, operator.Act, string) error) func(context.Context, Call) (Done, error) {
	return func(ctx context.Context, c Call) (Done, error) { return Done{}, do(ctx, c.By, c.Subject) }
}

func proposed(proposal operator.Proposal, back string) Done {
	if proposal.ID == "" {
		return Done{}
	}
	return Done{back + "?done=proposed"}
}
