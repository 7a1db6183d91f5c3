package forms

import (
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/webhook"
)

// Label is the name of a code in the catalogue; the code itself when it has none.
func Label(entries []catalog.Entry, code string) string {
	for _, e := range entries {
		if e.Code == code {
			return e.Label
		}
	}
	return code
}

// RoleCell is the name of a member's role.
func RoleCell(r portal.Role) Cell { return Worded("dev.role." + string(r)) }

// Page is a page made of blocks.
type Page struct {
	Heading string
	Name    string // whose page it is, after the heading; empty when the identifier says it all
	Code    string // identifier, after the heading
	Search  []Field
	Blocks  []Block
	Older   string
}

// Block is a part of a page: facts, a table, or text.
type Block struct {
	Title, Alert, Hint string // keys
	Args               []any  // of Alert
	Ask                bool   // the reader is told whom to write to about Alert
	Facts              []Line
	Head               []string // keys
	Rows               [][]Cell
	Pre                string // text that is shown as it is
	Table              bool   // has rows, or says that there is none
	Empty              string // key of what an empty table says; "ops.none" if it is empty
	Begin              string // key of the link that adds the first row, named by an empty table
	Links              []Action
}

// Line is a value with the key of its label.
type Line struct {
	Label string
	Cell  Cell
}

// Cell is one value: text as it is, or the wording of a key; or an instant.
type Cell struct {
	Text, Key string
	Args      []any
	URL       string
	Code      bool
	Also      string // a code after the wording
	More      *Cell  // more words after the wording
	At        *time.Time
	Exact     bool // At is told to the second
	Day       bool // At is told by its day alone
}

// Action is a link to an act.
type Action struct {
	URL, Key string
	Danger   bool
}

// Plain is text as it is.
func Plain(s string) Cell { return Cell{Text: s} }

// Code is an identifier or another code.
func Code(s string) Cell { return Cell{Text: s, Code: s != ""} }

// Linked is an identifier that leads to its page.
func Linked(url, s string) Cell {
	return Cell{Text: s, URL: url, Code: true}
}

// Coded is the wording of a code that the program keeps, "" for none, and what was said with it.
func Coded(s string, also ...string) Cell {
	if s == "" {
		return Code(strings.Join(also, " "))
	}
	return Cell{Key: "ops.code." + s, Also: strings.Join(also, " ")}
}

// RateCell is the share of deliveries that arrived; nothing when none was made.
func RateCell(h webhook.Health) Cell {
	if h.Delivered+h.Failed == 0 {
		return Cell{}
	}
	return Worded("ops.percent", h.Rate())
}

// Worded is the wording of a key.
func Worded(key string, args ...any) Cell { return Cell{Key: key, Args: args} }

// At is an instant to the minute.
func At(t time.Time) Cell { return Cell{At: &t} }

// Exactly is an instant to the second.
func Exactly(t time.Time) Cell { return Cell{At: &t, Exact: true} }

// MaybeAt is [At], or nothing for nil.
func MaybeAt(t *time.Time) Cell { return Cell{At: t} }

// HealthSpan is the span over which the success of webhooks is counted.
const HealthSpan = 24 * time.Hour

// Param is a parameter of the query without the space around it.
func Param(c echo.Context, name string) string { return strings.TrimSpace(c.QueryParam(name)) }

// Older is the address of the same list after an item.
func Older(c echo.Context, after string) string {
	q := c.Request().URL.Query()
	q.Set("after", after)
	q.Del("lang")
	q.Del("done")
	return c.Request().URL.Path + "?" + q.Encode()
}

// YesNo is the wording of key when the condition holds, else of otherwise.
func YesNo(key, otherwise string, condition bool) Cell {
	if condition {
		return Worded(key)
	}
	return Worded(otherwise)
}

// DropEmpty leaves out the facts that have no value.
func (v Page) DropEmpty() {
	for i := range v.Blocks {
		v.Blocks[i].Facts = slices.DeleteFunc(v.Blocks[i].Facts, func(f Line) bool {
			return f.Cell.Text == "" && f.Cell.Key == "" && f.Cell.At == nil
		})
	}
}

// LineOf is a value with the key of its label.
func LineOf(label string, cell Cell) Line { return Line{label, cell} }
