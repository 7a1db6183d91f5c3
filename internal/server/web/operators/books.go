package operators

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
)

type moneyView struct {
	Check     books.Check
	Examined  bool
	Stale     bool
	Sound     bool
	Threshold money.Cents
	Near      struct{ Outstanding, Volume bool }
	Incidents []payment.Incident
	Refunds   []payment.RefundState
	FourEyes  money.Cents
}

// opsMoney shows the result of the last ledger check, payments to review and refunds.
func (p *Pages) opsMoney(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	v := moneyView{Threshold: books.EMoneyThreshold, FourEyes: operator.FourEyes}
	var err error
	if v.Check, v.Examined, err = p.deps.Books.LastCheck(ctx, tx); err != nil {
		return err
	}
	v.Stale = v.Examined && tx.Now.Sub(v.Check.StartedAt) > opsStale
	v.Sound = v.Examined && len(v.Check.Findings) == 0
	v.Near.Outstanding, v.Near.Volume = books.NearThreshold(v.Check.Outstanding), books.NearThreshold(v.Check.Volume)
	if v.Incidents, err = p.deps.Payments.Incidents(ctx, tx, opsRows); err != nil {
		return err
	}
	if v.Refunds, err = p.deps.Payments.OpenRefunds(ctx, tx, opsRows); err != nil {
		return err
	}
	return p.showOps(c, http.StatusOK, s, "opsmoney", "ops.section.money", v)
}

func (p *Pages) auditBlock(ctx context.Context, tx postgres.Tx, subject string, before int64) (forms.Block, error) {
	b := forms.Block{Title: "ops.audit", Head: []string{"ops.col.number", "ops.col.when", "ops.col.by", "ops.col.what",
		"ops.col.subject", "ops.col.reason"}, Table: true}
	entries, err := audit.List(ctx, tx, subject, before, opsRows)
	if err != nil {
		return b, err
	}
	known := map[string]string{}
	for _, e := range entries {
		name, err := p.nameOf(ctx, tx, known, e.Actor)
		if err != nil {
			return b, err
		}
		b.Rows = append(b.Rows, []forms.Cell{forms.Plain(strconv.FormatInt(e.Seq, 10)), forms.At(e.CreatedAt),
			forms.Plain(name),
			forms.Code(e.Action), subjectCell(e.Subject), forms.Plain(e.Reason)})
	}
	return b, nil
}

func (p *Pages) opsAudit(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	before, _ := strconv.ParseInt(forms.Param(c, "after"), 10, 64)
	b, err := p.auditBlock(ctx, tx, forms.Param(c, "subject"), max(before, 0))
	if err != nil {
		return err
	}
	chain, err := p.chainBlock(ctx, tx, forms.Param(c, "follow") != "")
	if err != nil {
		return err
	}
	v := forms.Page{Heading: "ops.section.audit", Search: []forms.Field{{Name: "subject", Label: "ops.search.audit",
		Type: "search", Value: forms.Param(c, "subject")}}, Blocks: []forms.Block{chain, b}}
	if len(b.Rows) == opsRows {
		v.Older = forms.Older(c, b.Rows[opsRows-1][0].Text)
	}
	return p.ops(c, s, v)
}

// chainBlock says when the chain was last verified, which every ledger check does. With now, it verifies all entries
// immediately.
func (p *Pages) chainBlock(ctx context.Context, tx postgres.Tx, now bool) (forms.Block, error) {
	b := forms.Block{Title: "ops.chain", Links: []forms.Action{{URL: Path("audit", "export.jsonl"),
		Key: "ops.audit.export"}}}
	if !now {
		check, examined, err := p.deps.Books.LastCheck(ctx, tx)
		if examined {
			b.Facts = []forms.Line{forms.LineOf("ops.chain.last", forms.At(check.StartedAt))}
		}
		b.Hint, b.Links = "ops.chain.nightly", append(b.Links, forms.Action{URL: Path("audit") + "?follow=yes",
			Key: "ops.chain.follow"})
		return b, err
	}
	findings, err := audit.Verify(ctx, tx)
	if len(findings) == 0 {
		b.Hint = "ops.chain.whole"
		return b, err
	}
	b.Alert, b.Args, b.Head, b.Table = "ops.chain.broken", []any{len(findings)}, []string{"ops.col.fault"}, true
	for _, f := range findings {
		b.Rows = append(b.Rows, []forms.Cell{forms.Plain(f)})
	}
	return b, err
}

const exported = 1000 // entries per query of the export

// opsAuditExport writes each entry as a line of JSON with its place in the chain, so that the chain can be verified
// without this program. sha256 is the SHA-256 of two parts: the bytes of the previous line's sha256 (none for the first
// line) and those of hashed.
func (p *Pages) opsAuditExport(c echo.Context, _ staff.Session) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	h := c.Response().Header()
	h.Set("Content-Type", "application/jsonl; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	out := json.NewEncoder(c.Response())
	out.SetEscapeHTML(false)
	for after := int64(0); ; {
		list, err := audit.Links(ctx, tx, after, exported)
		if err != nil {
			return err
		}
		for _, l := range list {
			if err := out.Encode(struct {
				Number int64  `json:"number"`
				Hashed string `json:"hashed"`
				SHA256 string `json:"sha256"`
			}{l.Seq, l.Hashed, hex.EncodeToString(l.Hash)}); err != nil {
				return err
			}
			after = l.Seq
		}
		if len(list) < exported {
			return nil
		}
	}
}
